//! `paddock-bench kill`: how long after a call's deadline its verdict is there, for each way of
//! not ending.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use paddock_runtime::Environment;
use paddock_types::SubKind;
use paddock_types::plugin::{Concurrency, RuntimeOverrides};
use serde_json::json;

use crate::plugins;

/// Seconds until the deadline: the contract's least.
const TIMEOUT: u32 = 1;

/// How often.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Calls of each kind, one after the other.
    #[arg(long, default_value_t = 10)]
    calls: usize,
    /// Where environments are kept.
    #[arg(long, default_value = "target/bench-cache")]
    cache: PathBuf,
}

/// What doesn't end: its name here, the function, and how it runs.
const KINDS: [(&str, &str, Concurrency); 7] = [
    ("def, sleeps", "sleeps", Concurrency::Process),
    (
        "def, C code holds the interpreter",
        "holds_the_interpreter",
        Concurrency::Process,
    ),
    ("def in a thread, sleeps", "sleeps", Concurrency::Thread),
    (
        "def in a thread, C code holds the interpreter",
        "holds_the_interpreter",
        Concurrency::Thread,
    ),
    ("async, waits", "waits", Concurrency::Process),
    (
        "async, blocks the event loop",
        "blocks_the_loop",
        Concurrency::Process,
    ),
    (
        "async, swallows the cancellation",
        "swallows_cancellation",
        Concurrency::Process,
    ),
];

/// Runs the measurement and prints it.
pub(crate) fn run(options: &Options) -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(run_all(options))
}

#[expect(clippy::print_stdout, reason = "the table is what the command is for")]
async fn run_all(options: &Options) -> Result<()> {
    ensure!(options.calls > 0, "--calls is \"0\": allowed is 1 or more");
    let environment = plugins::bare_environment(&options.cache).await?;
    println!(
        "milliseconds from the deadline ({TIMEOUT} s) to the verdict, {} calls each\n",
        options.calls
    );
    println!("{:<48}{:>8}{:>8}", "", "median", "most");
    for (name, function, concurrency) in KINDS {
        let mut late = measure(options.calls, &environment, function, concurrency).await?;
        late.sort_by(f64::total_cmp);
        let most = late.last().copied().unwrap_or(f64::NAN);
        println!("{name:<48}{:>8.0}{most:>8.0}", late[late.len() / 2]);
    }
    Ok(())
}

/// Milliseconds past the deadline of each call.
async fn measure(
    calls: usize,
    environment: &Environment,
    function: &str,
    concurrency: Concurrency,
) -> Result<Vec<f64>> {
    let limits = RuntimeOverrides {
        timeout: Some(TIMEOUT),
        concurrency: Some(concurrency),
        max_replicas: Some(1),
        ..RuntimeOverrides::default()
    };
    let function = format!("deadlines:{function}");
    let plugin = plugins::start(plugins::project(), &function, environment, limits).await?;
    let mut late = Vec::new();
    while late.len() < calls {
        let verdict = plugin.call(plugins::grade(&json!({}))).await;
        ensure!(
            verdict.sub_kind == Some(SubKind::Timeout) || verdict.platform,
            "{function} came to {verdict:?}"
        );
        late.push(verdict.run_ms - f64::from(TIMEOUT) * 1e3);
    }
    plugin.close().await;
    Ok(late)
}
