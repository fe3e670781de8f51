//! `paddock grade`: graders over recorded trajectories, through the function runtime, without a model.

mod calls;
mod recorded;
mod report;
mod shown;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use paddock_runtime::{LogSink, Plugin, PluginSpec, environment};
use paddock_types::job::ContentFormat;
use paddock_types::log::Level;
use paddock_types::plugin::{PluginKind, RuntimeOverrides};
use paddock_types::{Fault, FaultKind, JobId, Location, Verdict, job_file};
use tokio::sync::Semaphore;

use self::calls::{Graded, Grader, Grading};
use self::recorded::{Recorded, Recording};
use self::report::{Fields, Report};
use crate::failure::{Done, Failure, INTERRUPTED};
use crate::fence::{FenceArgs, NetworkArgs};
use crate::output::{Out, harmless};
use crate::places::{self, CacheDir};
use crate::{logs, reader};

const EXAMPLES: &str = "\
The recorded file has one JSON object a line: {\"sample\": {...}, \"trajectories\": [{...}]}, or \"trajectory\" \
where there is one. A trajectory has \"messages\"; \"finish_reason\", \"usage\" and \"extra\" may be left out. \
A reward of 1 counts as correct.

Examples:
  paddock grade --grader plugins.gsm8k:answer_matches --recorded recorded.jsonl
  paddock grade --grader plugins.reward:exact=0.8 --grader plugins.reward:brief=0.2 \\
      --recorded recorded.jsonl --project my_project --out graded.jsonl";

/// `grade`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A grader, with the weight of its reward if it isn't 1
    #[arg(long = "grader", required = true, value_name = "MODULE:FUNCTION[=WEIGHT]", value_parser = grader)]
    graders: Vec<(String, f64)>,
    /// The recorded trajectories
    #[arg(long, value_name = "FILE")]
    recorded: PathBuf,
    /// The project that has the graders
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
    /// Groups the report by this field of a trajectory
    #[arg(long, value_name = "FIELD", default_value = "extra.model")]
    by: String,
    /// Compares rewards with the marks in this field of a trajectory
    #[arg(long, value_name = "FIELD", default_value = "extra.is_correct")]
    agree_with: String,
    /// Calls in flight at most [default: two for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    concurrency: Option<u32>,
    /// Tries after the first, for a call that fails
    #[arg(long, value_name = "N", default_value_t = paddock_types::retry::PLUGIN_RETRIES)]
    retries: u32,
    /// Seconds for one call, up to 900
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=900))]
    timeout: Option<u32>,
    /// Write every line with its rewards to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    fence: FenceArgs,
    #[command(flatten)]
    cache: CacheDir,
}

fn grader(text: &str) -> Result<(String, f64), String> {
    let (function, weight) = match text.split_once('=') {
        Some((function, weight)) => (function, weight.parse::<f64>().ok()),
        None => (text, Some(1.0)),
    };
    let weight = weight.filter(|w| w.is_finite());
    match weight {
        Some(weight) if job_file::is_function(function) => Ok((function.to_owned(), weight)),
        Some(_) => Err("write module.path:function, such as plugins.reward:exact".into()),
        None => Err("the weight after `=` is no number".into()),
    }
}

/// Does what is asked.
pub(crate) fn run(args: Args) -> Done {
    reader::block_on(async {
        tokio::select! {
            done = grade(&args) => done,
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(INTERRUPTED)),
        }
    })?
}

async fn grade(args: &Args) -> Done {
    let recording = recorded::open(&args.recorded)?;
    let project = places::project(&args.project)?;
    let bar = Bar::new(args, &recording);
    let begun = Instant::now();
    let graders = start(args, &project, &bar).await?;
    let concurrency = args.concurrency.unwrap_or_else(default_concurrency);
    let grading = Grading {
        job: JobId::new(),
        graders,
        places: Semaphore::new(concurrency as usize),
        retries: args.retries,
    };
    let ended = all(args, &recording, &grading, concurrency as usize, &bar).await;
    for grader in grading.graders {
        grader.plugin.close().await;
    }
    bar.0.finish_and_clear();
    let mut report = ended?;
    report.seconds = begun.elapsed().as_secs_f64();
    let mut out = Out::new();
    match args.json {
        true => out.json(&report)?,
        false => report.print(&mut out)?,
    }
    out.flush()?;
    report.print_fault(&args.recorded.display().to_string());
    Ok(match report.has_failures() {
        true => ExitCode::from(FaultKind::CallPlugin.exit_code()),
        false => ExitCode::SUCCESS,
    })
}

fn default_concurrency() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores * 2).unwrap_or(2)
}

/// The environment, the check of the functions, the plugins.
async fn start(args: &Args, project: &Path, bar: &Bar) -> Result<Vec<Grader>, Failure> {
    let cache = args.cache.path();
    bar.says("environment");
    let made = environment::prepare(project, &cache, |line| bar.says(line)).await?;
    const GRADERS: &[PluginKind] = &[PluginKind::SingleGrader, PluginKind::GroupGrader];
    let functions: Vec<_> = args
        .graders
        .iter()
        .map(|(function, _)| ("--grader".to_owned(), function.clone(), GRADERS))
        .collect();
    paddock_runtime::check_functions(&made, project, &functions)
        .await
        .map_err(first)?;
    bar.says("starting the graders");
    let mut graders: Vec<Grader> = Vec::new();
    for (i, (function, weight)) in args.graders.iter().enumerate() {
        let short = function.split(':').next_back().unwrap_or(function);
        let taken = args.graders[..i]
            .iter()
            .any(|(f, _)| f.ends_with(&format!(":{short}")));
        let spec = PluginSpec {
            name: if taken {
                function.clone()
            } else {
                short.to_owned()
            },
            function: function.clone(),
            project: project.to_owned(),
            envs: Default::default(),
            limits: RuntimeOverrides {
                timeout: args.timeout,
                ..RuntimeOverrides::default()
            },
            content_format: ContentFormat::default(),
            environment: made.clone(),
            fence: args.network.of(args.fence.fence(), None),
            kind: None,
        };
        match Plugin::start(spec, bar.log_sink()).await {
            Ok(plugin) => graders.push(Grader {
                plugin,
                weight: *weight,
            }),
            Err(fault) => {
                for grader in graders {
                    grader.plugin.close().await;
                }
                return Err(fault.into());
            }
        }
    }
    Ok(graders)
}

fn first(faults: Vec<Fault>) -> Failure {
    let mut faults = faults.into_iter();
    match faults.next() {
        Some(mut first) => {
            first
                .also
                .extend(faults.map(|f| format!("{}: {f}", f.location)));
            first.into()
        }
        None => Fault::internal("a check failed without naming a problem").into(),
    }
}

/// Grades every line, a few at once, and takes them in their order.
async fn all(
    args: &Args,
    recording: &Recording,
    grading: &Grading,
    ahead: usize,
    bar: &Bar,
) -> Result<Report, Failure> {
    let mut file = match &args.out {
        Some(path) => Some(std::io::BufWriter::new(
            std::fs::File::create(path).map_err(|e| {
                Failure::usage(format!("\"{}\" can't be written: {e}", path.display()))
            })?,
        )),
        None => None,
    };
    let fields = Fields {
        by: args.by.clone(),
        agree_with: args.agree_with.clone(),
    };
    let mut report = Report::new(fields);
    let calls = recording.lines()?.map(|line| async move {
        match line {
            Ok(recorded) => {
                let graded = grading.grade(&recorded).await;
                Ok((recorded, graded))
            }
            Err(fault) => Err(Failure::Fault(fault)),
        }
    });
    let mut done = futures::stream::iter(calls).buffered(ahead);
    while let Some(line) = done.next().await {
        let (recorded, graded) = line?;
        if let Some(file) = &mut file {
            writeln!(file, "{}", with_rewards(&recorded, &graded))?;
        }
        bar.0.inc(recorded.trajectories.len() as u64);
        report.add(&recorded, graded);
    }
    if let Some(mut file) = file {
        file.flush()?;
    }
    Ok(report)
}

/// A line as it came, with what came of it.
fn with_rewards(recorded: &Recorded, graded: &Graded) -> serde_json::Value {
    let trajectories =
        recorded
            .trajectories
            .iter()
            .zip(&graded.grades)
            .map(|(trajectory, grade)| {
                let mut out = trajectory.clone();
                out.insert("reward".into(), grade.reward.into());
                out.insert("rewards".into(), serde_json::json!(grade.rewards));
                if !grade.metrics.is_empty() {
                    out.insert("metrics".into(), grade.metrics.clone().into());
                }
                if let Some(why) = &grade.failed {
                    out.insert("failed".into(), why.as_str().into());
                    out.insert("message".into(), grade.message.as_str().into());
                }
                serde_json::Value::Object(out)
            });
    serde_json::json!({"sample": recorded.sample, "trajectories": trajectories.collect::<Vec<_>>()})
}

/// The fault of a call that was given up.
fn given_up(plugin: &str, file: &str, line: u64, verdict: &Verdict) -> Option<Fault> {
    let kind = verdict.sub_kind?;
    let message = match verdict.message.is_empty() {
        true => verdict.error.clone(),
        false => verdict.message.clone(),
    };
    let mut fault = Fault::call_plugin(
        kind,
        message,
        "the evidence names the place; the other lines were graded all the same",
    );
    fault.location = Location {
        plugin: Some(plugin.to_owned()),
        ..Location::line(file, line)
    };
    fault.evidence = verdict.evidence.clone();
    Some(fault)
}

/// The progress of a recording; nothing where nobody looks.
struct Bar(ProgressBar);

impl Bar {
    fn new(args: &Args, recording: &Recording) -> Self {
        let bar = ProgressBar::new(recording.trajectories);
        if args.json || !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = "{spinner} {bar:30} {pos}/{len} graded, {per_sec}, {eta} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    fn says(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }

    /// Warnings and errors of the graders go above the bar; the rest would only be noise.
    fn log_sink(&self) -> LogSink {
        let bar = self.0.clone();
        Arc::new(move |line| {
            if line.level >= Level::Warning {
                bar.suspend(|| eprintln!("{}", harmless(&logs::shown(&line))));
            }
        })
    }
}
