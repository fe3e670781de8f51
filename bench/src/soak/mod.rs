//! `paddock-bench soak`: many calls of a grader that now and then hangs, crashes, raises or answers
//! `nan`. Every call must have exactly one verdict, the right one; nothing may be left at the end.

mod act;
mod left;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use futures::future::try_join_all;
use paddock_runtime::Plugin;
use paddock_types::plugin::RuntimeOverrides;

use self::act::Act;
use self::left::Before;
use crate::plugins;

/// Uncharged attempts that a call may have: each means that it died with somebody else.
const UNCHARGED_MOST: u32 = 5;

/// How many, and how many at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Calls.
    #[arg(long, default_value_t = 200_000)]
    calls: usize,
    /// Calls in flight.
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Where environments are kept.
    #[arg(long, default_value = "target/bench-cache")]
    cache: PathBuf,
}

/// What came of it all.
#[derive(Debug, Default)]
struct Tally {
    by_act: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
    uncharged: u32,
    /// When each tenth of the calls was done.
    tenths: Vec<Instant>,
}

/// Runs the soak and prints what came of it; fails if anything isn't as it must be.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    ensure!(
        options.calls >= 10 && options.in_flight > 0,
        "--calls must be 10 or more, --in-flight 1 or more"
    );
    // What is made once a process, such as the pipe for signals, is no leak.
    on_a_runtime_of_its_own(start_and_close(options))?;
    let before = Before::look()?;
    let start = Instant::now();
    let tally = on_a_runtime_of_its_own(soak(options))?;
    report(options, &tally, start);
    let left = before.what_is_left();
    if !left.is_empty() {
        bail!("left behind: {}", left.join("; "));
    }
    if !tally.wrong.is_empty() {
        let first: Vec<_> = tally.wrong.iter().take(5).cloned().collect();
        bail!(
            "{} verdicts are wrong, such as: {}",
            tally.wrong.len(),
            first.join("; ")
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs it to its end, and ends the runtime with all its tasks.
fn on_a_runtime_of_its_own<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Runtime::new()?.block_on(work)
}

async fn start_and_close(options: &Options) -> Result<()> {
    start(options).await?.close().await;
    Ok(())
}

async fn start(options: &Options) -> Result<Plugin> {
    let environment = plugins::bare_environment(&options.cache).await?;
    let limits = RuntimeOverrides {
        timeout: Some(1),
        ..RuntimeOverrides::default()
    };
    plugins::start(plugins::project(), "soak:act", &environment, limits).await
}

async fn soak(options: &Options) -> Result<Tally> {
    let plugin = start(options).await?;
    let next = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicUsize::new(0));
    let callers = (0..options.in_flight).map(|_| {
        let task = tokio::spawn(caller(
            plugin.clone(),
            options.calls,
            next.clone(),
            done.clone(),
        ));
        async { task.await? }
    });
    let mut whole = Tally::default();
    for part in try_join_all(callers).await? {
        whole.uncharged += part.uncharged;
        whole.wrong.extend(part.wrong);
        whole.tenths.extend(part.tenths);
        for (act, count) in part.by_act {
            *whole.by_act.entry(act).or_default() += count;
        }
    }
    whole.tenths.sort();
    plugin.close().await;
    Ok(whole)
}

async fn caller(
    plugin: Plugin,
    calls: usize,
    next: Arc<AtomicUsize>,
    done: Arc<AtomicUsize>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= calls {
            return Ok(tally);
        }
        let act = Act::of(number);
        let mut call = plugins::grade(&act.row(number));
        let mut verdict = plugin.call(call.clone()).await;
        while verdict.platform && call.attempt <= UNCHARGED_MOST {
            tally.uncharged += 1;
            call.attempt += 1;
            verdict = plugin.call(call.clone()).await;
        }
        if !act.is_right(number, &verdict) {
            tally
                .wrong
                .push(format!("call {number} ({}): {verdict:?}", act.name()));
        }
        *tally.by_act.entry(act.name()).or_default() += 1;
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(calls / 10) {
            tally.tenths.push(Instant::now());
        }
    }
}

#[expect(clippy::print_stdout, reason = "the report is what the command is for")]
fn report(options: &Options, tally: &Tally, start: Instant) {
    println!(
        "{} calls, {} in flight, {:.1} s",
        options.calls,
        options.in_flight,
        start.elapsed().as_secs_f64()
    );
    for (act, count) in &tally.by_act {
        println!("  {act:<8}{count:>8}");
    }
    println!("  {:<8}{:>8}", "wrong", tally.wrong.len());
    println!("  uncharged attempts, made again: {}", tally.uncharged);
    let tenth = (options.calls / 10) as f64;
    let rate = |pair: &[Instant]| tenth / (pair[1] - pair[0]).as_secs_f64();
    let rates: Vec<f64> = tally.tenths.windows(2).map(rate).collect();
    if let (Some(first), Some(last)) = (rates.first(), rates.last()) {
        println!(
            "  calls a second: {first:.0} in the second tenth, {last:.0} in the last, {:.2}x",
            last / first
        );
    }
}
