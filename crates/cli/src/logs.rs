//! `paddock logs`: what plugins and the job itself said.

use std::process::ExitCode;
use std::time::Duration;

use paddock_store::{Cursor, LogFilter, LogOrder, PageRequest, SqliteStore, Store, StoredLine};
use paddock_types::log::{Level, LogLine};
use paddock_types::{CallId, JobId, TrajectoryId};

use crate::failure::{Done, Failure};
use crate::output::Out;
use crate::places::DataDir;
use crate::{reader, time};

/// Between two looks at a log that is followed.
const PACE: Duration = Duration::from_millis(300);

/// `logs`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  paddock logs\n  paddock logs latest --plugin reward --level warning\n  paddock logs --call call_01k2m3n4p5q6r\n  paddock logs --since 10m --text timeout --json\n  paddock logs --follow"
)]
pub(crate) struct Args {
    /// The job's id, the beginning of it, or "latest"
    #[arg(default_value = "latest")]
    job: String,
    /// Only of this plugin ("" for the job's own lines)
    #[arg(long)]
    plugin: Option<String>,
    /// Only of this instance
    #[arg(long)]
    instance: Option<String>,
    /// Only of this call
    #[arg(long)]
    call: Option<CallId>,
    /// Only of the calls of this trajectory
    #[arg(long)]
    trajectory: Option<TrajectoryId>,
    /// Only of at least this level
    #[arg(long, value_parser = level, value_name = "debug|info|warning|error")]
    level: Option<Level>,
    /// Only lines with this text
    #[arg(long)]
    text: Option<String>,
    /// Only from this time on: "10m" ago, or "2026-11-30T18:00:00Z"
    #[arg(long, value_parser = time::parse, value_name = "TIME")]
    since: Option<i64>,
    /// Only before this time
    #[arg(long, value_parser = time::parse, value_name = "TIME")]
    until: Option<i64>,
    /// The last so many lines; all of them with --follow
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u64,
    /// Go on until the job has ended
    #[arg(long, short)]
    follow: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataDir,
}

fn level(text: &str) -> Result<Level, String> {
    Level::parse(text).ok_or_else(|| "allowed: debug, info, warning, error".into())
}

/// Does what is asked.
pub(crate) fn run(args: &Args) -> Done {
    reader::block_on(show(args))?
}

async fn show(args: &Args) -> Done {
    let store = reader::open(&args.data.data_dir).await?;
    let job = match args.trajectory {
        // A trajectory's id names its job.
        Some(trajectory) if args.job == "latest" => trajectory.sample.job,
        _ => reader::job(&store, &args.job).await?.summary.job,
    };
    let filter = |order| LogFilter {
        plugin: args.plugin.clone(),
        instance: args.instance.clone(),
        call: args.call,
        trajectory: args.trajectory,
        level: args.level,
        text: args.text.clone(),
        since: args.since,
        until: args.until,
        order,
    };
    let mut out = Out::new();
    if args.follow {
        follow(args, &store, job, &filter(LogOrder::Arrival), &mut out).await?;
    } else {
        let wanted = filter(LogOrder::Latest);
        let latest = reader::rows(args.limit, |page| {
            let (store, wanted) = (&store, &wanted);
            async move { store.logs(job, wanted, &page).await }
        })
        .await?;
        for stored in latest.iter().rev() {
            print(&mut out, stored, args.json)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn follow(
    args: &Args,
    store: &SqliteStore,
    job: JobId,
    filter: &LogFilter,
    out: &mut Out,
) -> Result<(), Failure> {
    let mut after: Option<Cursor> = None;
    // A job is given up between two looks: its process lets go of it just before its last word.
    let mut abandoned = 0;
    loop {
        // Asked before the lines are read: whatever a job wrote before its end is then seen.
        let record = store.job(job).await?;
        let left = |job| reader::left_behind(&args.data.data_dir, job);
        abandoned = if record.as_ref().is_some_and(left) {
            abandoned + 1
        } else {
            0
        };
        let over = record.is_none_or(|job| job.summary.state.is_final()) || abandoned > 1;
        loop {
            let request = PageRequest {
                limit: paddock_store::MAX_PAGE,
                after: after.clone(),
            };
            let page = store.logs(job, filter, &request).await?;
            for stored in &page.items {
                print(out, stored, args.json)?;
            }
            if let Some(last) = page.items.last() {
                after = Some(last.cursor(LogOrder::Arrival));
            }
            if page.next.is_none() {
                break;
            }
        }
        out.flush()?;
        if over {
            return Ok(());
        }
        tokio::time::sleep(PACE).await;
    }
}

fn print(out: &mut Out, stored: &StoredLine, json: bool) -> Result<(), Failure> {
    match json {
        true => out.json(&stored.line),
        false => out.line(shown(&stored.line)),
    }
}

/// A line as a terminal shows it.
pub(crate) fn shown(line: &LogLine) -> String {
    let from = if line.plugin.is_empty() {
        "job"
    } else {
        &line.plugin
    };
    let call = line.call.map(|call| format!(" {call}")).unwrap_or_default();
    let (clock, level) = (time::clock(line.time_ms), line.level.as_str());
    format!(
        "{clock} {level:<7} {from}{call} {}: {}",
        line.logger, line.text
    )
}
