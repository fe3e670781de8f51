//! `paddock call`: calls of one plugin function on the function runtime, each with its verdict.
//!
//! No static check comes first: what is wrong with the function is shown as the runtime finds it.

mod request;
mod shown;
mod wrap;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use paddock_runtime::{Call, CallClock, LogSink, Plugin, PluginSpec, environment};
use paddock_types::job::ContentFormat;
use paddock_types::log::LogLine;
use paddock_types::plugin::{PluginKind, RuntimeOverrides};
use paddock_types::{CallId, Fault, FaultKind, Outcome, SubKind, Verdict, job_file};

use self::request::Request;
use crate::failure::{Done, Failure, INTERRUPTED};
use crate::fence::{FenceArgs, NetworkArgs};
use crate::output::{Out, harmless};
use crate::places::{self, CacheDir};
use crate::{attempts, logs, reader};

const EXAMPLES: &str = "\
A request is an object with \"sample\", and \"trajectories\" or \"trajectory\" for a grader; \"context\" may be \
left out. A list of requests is spread over the calls. A single grader is called once for each trajectory.

Exits with 4 if a call failed. A call that ended in `retry` or `discard` didn't fail.

Examples:
  paddock call plugins.reward:exact --request request.json
  paddock call plugins.reward:exact --calls 16 --json \\
      --request '{\"sample\": {\"messages\": []}, \"trajectories\": [{\"messages\": []}]}'
  paddock call plugins.agent:play --request rows.json --model http://127.0.0.1:8000/v1";

/// `call`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The function
    #[arg(value_name = "MODULE:FUNCTION", value_parser = function)]
    function: String,
    /// The folder that has it; a `job.yaml` isn't needed
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
    /// The request: JSON, or a file that has it
    #[arg(long, value_name = "FILE|JSON")]
    request: String,
    /// Calls, made at once [default: one for each request]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    calls: Option<u32>,
    /// A variable that the plugin sees
    #[arg(long = "env", value_name = "K=V", value_parser = variable)]
    envs: Vec<(String, String)>,
    /// Another function of the same file, called once afterwards on the same instances; repeat it for
    /// more, one after the other
    #[arg(long, value_name = "FUNCTION")]
    then: Vec<String>,
    /// Tries after the first, for a call that fails
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// Seconds for one call, up to 900
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=900))]
    timeout: Option<u32>,
    /// An OpenAI-compatible service that answers the requests of a rollout
    #[arg(long, value_name = "URL")]
    model: Option<String>,
    /// Print one JSON object a line and a call
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    fence: FenceArgs,
    #[command(flatten)]
    cache: CacheDir,
}

fn function(text: &str) -> Result<String, String> {
    match job_file::is_function(text) {
        true => Ok(text.to_owned()),
        false => Err("write module.path:function, such as plugins.reward:exact".into()),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".into()),
    }
}

/// A call that is over.
struct Ended {
    call: CallId,
    attempt: u32,
    verdict: Verdict,
    logs: Vec<LogLine>,
}

/// What the command is at, for those who wait.
type Doing = tokio::sync::watch::Sender<String>;

/// The lines of calls that run, until their verdict takes them.
type Lines = Arc<Mutex<BTreeMap<(u64, u32), Vec<LogLine>>>>;

/// Does what is asked.
pub(crate) fn run(args: Args) -> Done {
    reader::block_on(async {
        let doing = Doing::new(String::new());
        let mut told = doing.subscribe();
        let progress = async {
            // What is quick needs no word.
            tokio::time::sleep(Duration::from_secs(1)).await;
            loop {
                eprintln!("{} …", harmless(&told.borrow_and_update()));
                if told.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            done = call(&args, &doing) => done,
            () = progress => Ok(ExitCode::SUCCESS),
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(INTERRUPTED)),
        }
    })?
}

async fn call(args: &Args, doing: &Doing) -> Done {
    let requests = request::read(&args.request)?;
    let count = args.calls.map_or(requests.len(), |n| n as usize);
    let lines = Lines::default();
    let mut out = Out::new();
    let mut failed = false;
    let mut tell = |ended: Ended| {
        failed |= ended.verdict.outcome == Outcome::Failure;
        shown::print(&mut out, &ended, args.json)
    };
    match start(args, &lines, doing).await {
        Ok(plugin) => {
            doing.send_replace(format!("calling {}", args.function));
            let told = all(args, &plugin, &requests, count, &lines, &mut tell).await;
            plugin.close().await;
            told?;
        }
        // An instance that can't be made is what came of every call.
        Err(Failure::Fault(fault)) if fault.sub_kind == Some(SubKind::Create) => {
            for _ in 0..count {
                tell(Ended {
                    call: CallId::new(),
                    attempt: 1,
                    verdict: not_created(&fault),
                    logs: Vec::new(),
                })?;
            }
        }
        Err(other) => return Err(other),
    }
    Ok(match failed {
        true => ExitCode::from(FaultKind::CallPlugin.exit_code()),
        false => ExitCode::SUCCESS,
    })
}

fn not_created(fault: &Fault) -> Verdict {
    let traceback = fault.evidence.get("traceback");
    Verdict {
        outcome: Outcome::Failure,
        sub_kind: fault.sub_kind,
        message: fault.message.clone(),
        error: traceback.and_then(|t| t.as_str()).unwrap_or("").to_owned(),
        evidence: fault.evidence.clone(),
        ..Verdict::default()
    }
}

async fn start(args: &Args, lines: &Lines, doing: &Doing) -> Result<Plugin, Failure> {
    let project = places::project(&args.project)?;
    doing.send_replace("looking for the project's environment".to_owned());
    let progress = |what: &str| drop(doing.send_replace(what.to_owned()));
    let made = environment::prepare(&project, &args.cache.path(), progress).await?;
    doing.send_replace(format!("importing {}", args.function));
    let name = args.function.rsplit(':').next().unwrap_or(&args.function);
    let spec = PluginSpec {
        name: name.to_owned(),
        function: args.function.clone(),
        project,
        envs: args.envs.iter().cloned().collect(),
        limits: RuntimeOverrides {
            timeout: args.timeout,
            ..RuntimeOverrides::default()
        },
        content_format: ContentFormat::default(),
        environment: made,
        fence: args.network.of(args.fence.fence(), args.model.as_deref()),
        kind: None,
    };
    Ok(Plugin::start(spec, sink(lines.clone())).await?)
}

/// Keeps the lines of calls for their verdicts; what belongs to no call goes to standard error.
fn sink(lines: Lines) -> LogSink {
    Arc::new(move |line| match line.call {
        Some(call) => {
            // A panic can't leave the map half written.
            let mut lines = lines.lock().unwrap_or_else(|e| e.into_inner());
            let key = (call.to_u64(), line.attempt);
            lines.entry(key).or_default().push(line);
        }
        None => eprintln!("{}", harmless(&logs::shown(&line))),
    })
}

/// Makes all calls at once, tells their verdicts in their order, then makes those afterwards.
async fn all(
    args: &Args,
    plugin: &Plugin,
    requests: &[Request],
    count: usize,
    lines: &Lines,
    tell: &mut impl FnMut(Ended) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let single = plugin.kind() == PluginKind::SingleGrader;
    let wanted = (0..count).map(|i| &requests[i % requests.len()]);
    let each: Vec<Request> = wanted.flat_map(|request| request.split(single)).collect();
    let ahead = each.len();
    let calls = each.into_iter().map(|r| one(args, plugin, r, None, lines));
    let mut done = futures::stream::iter(calls).buffered(ahead.max(1));
    while let Some(ended) = done.next().await {
        tell(ended)?;
    }
    for then in &args.then {
        let request = requests[0].clone();
        tell(one(args, plugin, request, Some(then), lines).await)?;
    }
    Ok(())
}

/// One call with its retries.
async fn one(
    args: &Args,
    plugin: &Plugin,
    request: Request,
    other: Option<&str>,
    lines: &Lines,
) -> Ended {
    let id = CallId::new();
    let trajectories = match plugin.kind() {
        PluginKind::Rollout => 0,
        _ => request.trajectories(),
    };
    // Of the last attempt: what earlier ones printed goes with them.
    let mut logs = Vec::new();
    let make = async |attempt| {
        let body = request.body(attempt, other, args.model.as_deref()).into();
        let call = Call {
            id,
            attempt,
            body,
            trajectories,
            clock: CallClock::default(),
        };
        let verdict = plugin.call(call).await;
        let mut lines = lines.lock().unwrap_or_else(|e| e.into_inner());
        logs = lines.remove(&(id.to_u64(), attempt)).unwrap_or_default();
        verdict
    };
    let (attempt, verdict) = attempts::until_decided(id, args.retries, make).await;
    Ended {
        call: id,
        attempt,
        verdict,
        logs,
    }
}
