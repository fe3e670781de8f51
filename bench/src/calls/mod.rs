//! `paddock-bench calls`: one trivial grader with 8 KB bodies, through the bare wire and through
//! the runtime, beside FastAPI, a Ray actor and a process pool, in one run.

mod http;
mod plugin;
mod python;
mod wire;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use paddock_runtime::{Environment, environment};
use serde_json::json;

/// What is measured, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Calls in flight at once.
    #[arg(long, value_delimiter = ',', default_value = "64,2048")]
    in_flight: Vec<usize>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Bytes of a request's body, roughly.
    #[arg(long, default_value_t = 8192)]
    body: usize,
    /// Leaves the peers out.
    #[arg(long)]
    alone: bool,
    /// Where environments are kept.
    #[arg(long, default_value = "target/bench-cache")]
    cache: PathBuf,
}

/// What every measurement is given.
struct Bench {
    environment: Environment,
    project: PathBuf,
    body: Bytes,
    body_file: PathBuf,
    span: Duration,
}

/// The ways a call can go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    WireProcess,
    WireLoop,
    Runtime,
    RuntimeAsync,
    FastApiAsync,
    FastApiDef,
    Ray,
    Pool,
}

impl Way {
    const OURS: [Self; 4] = [
        Self::WireProcess,
        Self::WireLoop,
        Self::Runtime,
        Self::RuntimeAsync,
    ];
    const PEERS: [Self; 4] = [Self::FastApiAsync, Self::FastApiDef, Self::Ray, Self::Pool];

    const fn name(self) -> &'static str {
        match self {
            Self::WireProcess => "bare wire, def, 1 process",
            Self::WireLoop => "bare wire, async, 1 process",
            Self::Runtime => "runtime, def, verdicts kept",
            Self::RuntimeAsync => "runtime, async, verdicts kept",
            Self::FastApiAsync => "FastAPI + uvicorn, async",
            Self::FastApiDef => "FastAPI + uvicorn, def",
            Self::Ray => "Ray actor",
            Self::Pool => "ProcessPoolExecutor(2)",
        }
    }

    /// Calls answered in a second.
    async fn measure(self, bench: &Bench, in_flight: usize) -> anyhow::Result<f64> {
        match self {
            Self::WireProcess => wire::measure(bench, "process", "grade", in_flight).await,
            Self::WireLoop => wire::measure(bench, "loop", "grade_async", in_flight).await,
            Self::Runtime => plugin::measure(bench, "grade", in_flight).await,
            Self::RuntimeAsync => plugin::measure(bench, "grade_async", in_flight).await,
            Self::FastApiAsync => http::measure(bench, "/async", in_flight).await,
            Self::FastApiDef => http::measure(bench, "/def", in_flight).await,
            Self::Ray => python::measure(bench, "ray", in_flight).await,
            Self::Pool => python::measure(bench, "pool", in_flight).await,
        }
    }
}

/// Runs the measurements and prints them.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    tokio::runtime::Runtime::new()?.block_on(run_all(options))
}

async fn run_all(options: &Options) -> anyhow::Result<()> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let environment = prepare(options, &project).await?;
    let folder = tempfile::tempdir()?;
    let body = body(options.body);
    let body_file = folder.path().join("body.json");
    std::fs::write(&body_file, &body)?;
    let bench = Bench {
        environment,
        project,
        body,
        body_file,
        span: Duration::from_secs_f64(options.seconds),
    };
    let ways = Way::OURS
        .into_iter()
        .chain(Way::PEERS.into_iter().filter(|_| !options.alone));
    let cores = std::thread::available_parallelism()?;
    say(&format!(
        "calls a second, bodies of {} bytes, {} s each, {cores} cores\n",
        bench.body.len(),
        options.seconds
    ))?;
    let mut rows = Vec::new();
    for way in ways {
        let mut rates = Vec::new();
        for &in_flight in &options.in_flight {
            let rate = way
                .measure(&bench, in_flight)
                .await
                .with_context(|| format!("{} with {in_flight} in flight", way.name()))?;
            say(&format!(
                "  {}, {in_flight} in flight: {rate:.0}",
                way.name()
            ))?;
            rates.push(rate);
        }
        rows.push((way, rates));
    }
    table(options, &rows)
}

async fn prepare(options: &Options, project: &Path) -> anyhow::Result<Environment> {
    let tell = |text: &str| {
        // Progress that can't be shown is no reason to stop.
        let _ = say(text);
    };
    // The installer works in another folder.
    let cache = std::path::absolute(&options.cache)?;
    let prepared = if options.alone {
        let folder = tempfile::tempdir()?;
        environment::prepare(folder.path(), &cache, tell).await
    } else {
        environment::prepare(project, &cache, tell).await
    };
    let mut found = prepared.map_err(|fault| anyhow!("{fault:#?}"))?;
    // They are used from other working directories.
    found.python = std::path::absolute(&found.python)?;
    found.sdk = std::path::absolute(&found.sdk)?;
    Ok(found)
}

/// A request of about so many bytes, most of it the conversation.
fn body(bytes: usize) -> Bytes {
    let text = |n: usize| "the quick brown fox jumps over the lazy dog ".repeat(n / 44 + 1);
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    // The prompt stands in the sample and in the trajectory.
    let third = bytes.saturating_sub(500) / 3;
    let prompt = message("user", &text(third));
    let turn = message("assistant", &text(third));
    let request = json!({
        "context": {"phase": "train", "step": 12, "sample_id": "s", "trajectory_id": "t", "attempt": 1},
        "sample": {"messages": [prompt], "extra": {"answer": "42"}},
        "trajectory": {
            "messages": [prompt, turn, message("user", "and?"), message("assistant", "42")],
            "finish_reason": "stop",
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            "extra": {},
        },
    });
    request.to_string().into()
}

fn table(options: &Options, rows: &[(Way, Vec<f64>)]) -> anyhow::Result<()> {
    let best = |column: usize| {
        rows.iter()
            .filter(|(way, _)| matches!(way, Way::FastApiAsync | Way::FastApiDef))
            .map(|(_, rates)| rates[column])
            .fold(f64::NAN, f64::max)
    };
    say("")?;
    let mut head = format!("{:<32}", "");
    for in_flight in &options.in_flight {
        let title = format!("{in_flight} in flight");
        head += &format!("{title:>16}{:>10}", "× FastAPI");
    }
    say(&head)?;
    for (way, rates) in rows {
        let mut line = format!("{:<32}", way.name());
        for (column, rate) in rates.iter().enumerate() {
            let ratio = rate / best(column);
            let ratio = if ratio.is_finite() {
                format!("{ratio:.1}")
            } else {
                "-".to_owned()
            };
            line += &format!("{rate:>16.0}{ratio:>10}");
        }
        say(&line)?;
    }
    Ok(())
}

fn say(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}
