//! `paddock run`: one job, from its file to a trained policy.

mod progress;
mod services;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;

use paddock_engine::{JobEvent, JobOptions};
use paddock_types::Fault;
use paddock_types::job::{JobState, JobSummary};
use tokio::sync::mpsc::UnboundedSender;

use crate::failure::{Done, INTERRUPTED};
use crate::fence::FenceArgs;
use crate::output::Out;
use crate::places::{CacheDir, DataDir, absolute};
use crate::{fault, reader};

const EXAMPLES: &str = "\
A project is a folder with a job.yaml. Everything is checked before anything is spent: the job file, every row \
of the data, the plugins' functions. `paddock explain hyperparameters` has all names for --set.

Examples:
  paddock run examples/arithmetic
  paddock run my_project/job.yaml --steps 3 --set lr=1e-4 --seed 1
  paddock run my_project --json | tail -n 1 | jq .reward";

/// `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A project folder, or a job file
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Print one JSON object as the last line, and no progress bar
    #[arg(long)]
    json: bool,
    /// Sets the seed of everything random
    #[arg(long, value_name = "N")]
    seed: Option<String>,
    /// Sets the number of steps
    #[arg(long, value_name = "N")]
    steps: Option<String>,
    /// Sets a hyperparameter over the job file's
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    data: DataDir,
    #[command(flatten)]
    fence: FenceArgs,
    #[command(flatten)]
    cache: CacheDir,
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, such as lr=1e-4".into()),
    }
}

impl Args {
    fn options(&self) -> JobOptions {
        let named = [("seed", &self.seed), ("num_steps", &self.steps)];
        let named = named
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
        JobOptions {
            path: self.path.clone(),
            data_dir: absolute(&self.data.data_dir),
            fence: self.fence.fence(),
            cache_dir: absolute(&self.cache.path()),
            overrides: self.set.iter().cloned().chain(named).collect(),
        }
    }
}

/// How a job ended.
enum Ended {
    /// It began; whatever came of it is in the summary.
    Summary(Box<JobSummary>),
    /// It could not begin.
    Fault(Box<Fault>),
    /// It was interrupted before it began.
    Interrupted,
}

/// Does what is asked.
pub(crate) fn run(args: Args) -> Done {
    reader::block_on(async {
        let (events, heard) = tokio::sync::mpsc::unbounded_channel();
        let watcher = tokio::spawn(progress::watch(heard, args.json));
        let ended = job(args.options(), events).await;
        // The senders are gone: the watcher ends by itself, after the last event.
        let _ = watcher.await;
        finish(&ended, args.json)
    })?
}

async fn job(options: JobOptions, events: UnboundedSender<JobEvent>) -> Ended {
    let stopped = services::interrupted();
    tokio::pin!(stopped);
    let prepared = tokio::select! {
        prepared = paddock_engine::prepare(options.clone(), &events) => prepared,
        () = &mut stopped => return Ended::Interrupted,
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(fault) => return Ended::Fault(Box::new(fault)),
    };
    let running = match services::Running::start(&options.data_dir).await {
        Ok(running) => running,
        Err(fault) => return Ended::Fault(fault),
    };
    let summary = paddock_engine::run(prepared, running.services(), events, stopped).await;
    running.close().await;
    Ended::Summary(Box::new(summary))
}

fn finish(ended: &Ended, json: bool) -> Done {
    let (summary, why) = match ended {
        Ended::Summary(summary) => (Some(&**summary), summary.fault.as_ref()),
        Ended::Fault(fault) => (None, Some(&**fault)),
        Ended::Interrupted => (None, None),
    };
    let mut out = Out::new();
    match summary {
        Some(summary) if json => out.json(summary)?,
        Some(summary) => out.line(summary::text(summary))?,
        None if json => out.json(&summary::without_job(why))?,
        None => {}
    }
    out.flush()?;
    if let Some(why) = why {
        eprint!("{}", fault::report(why));
        return Ok(ExitCode::from(why.kind.exit_code()));
    }
    Ok(match summary {
        Some(summary) if summary.state == JobState::Completed => ExitCode::SUCCESS,
        _ => ExitCode::from(INTERRUPTED),
    })
}
