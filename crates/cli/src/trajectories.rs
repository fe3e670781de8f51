//! `paddock trajectories`: what rollouts left behind, and one of them whole.

use std::process::ExitCode;

use paddock_store::{LogFilter, PageRequest, Store, StoredLine, TrajectoryFilter};
use paddock_types::id::Phase;
use paddock_types::log::LogLine;
use paddock_types::trajectory::{TrajectoryRecord, TrajectoryStatus};
use paddock_types::{CallRecord, TrajectoryId};
use serde::Serialize;

use crate::failure::{Done, Failure};
use crate::output::{Out, facts, number, table, text};
use crate::places::DataDir;
use crate::{logs, reader, time};

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List trajectories, in the order of training
    #[command(
        after_help = "Examples:\n  paddock trajectories list --step 3\n  paddock trajectories list latest --status discard --json\n  paddock trajectories list --phase test --max-reward 0"
    )]
    List(Box<List>),
    /// Show one trajectory: messages, rewards, calls, log lines
    #[command(
        after_help = "Example:\n  paddock trajectories show trj_01k2m3n4p5q6r_train_000012_0003_05"
    )]
    Show(Show),
}

/// `trajectories list`.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// The job's id, the beginning of it, or "latest"
    #[arg(default_value = "latest")]
    job: String,
    /// Only of this step
    #[arg(long, value_name = "N")]
    step: Option<u32>,
    /// Only of training or of validation
    #[arg(long, value_parser = phase, value_name = "train|test")]
    phase: Option<Phase>,
    /// Only of this sample of its step
    #[arg(long, value_name = "N")]
    sample: Option<u32>,
    /// Only with this status
    #[arg(long, value_parser = status, value_name = "running|success|failed|discard")]
    status: Option<TrajectoryStatus>,
    /// Only with at least this reward
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    min_reward: Option<f64>,
    /// Only with at most this reward
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    max_reward: Option<f64>,
    /// Only with this text at the beginning of the last message
    #[arg(long)]
    text: Option<String>,
    /// Trajectories at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u64,
    /// Print a JSON list
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataDir,
}

/// `trajectories show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The trajectory's id
    trajectory: TrajectoryId,
    /// Print one JSON object: the trajectory with its `calls` and `logs`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataDir,
}

fn phase(text: &str) -> Result<Phase, String> {
    match text {
        "train" => Ok(Phase::Train),
        "test" => Ok(Phase::Test),
        _ => Err("allowed: train, test".into()),
    }
}

fn status(text: &str) -> Result<TrajectoryStatus, String> {
    use TrajectoryStatus::{Discard, Failed, Running, Success};
    let found = [Running, Success, Failed, Discard]
        .into_iter()
        .find(|s| s.as_str() == text);
    found.ok_or_else(|| "allowed: running, success, failed, discard".into())
}

/// Does what is asked.
pub(crate) fn run(command: Command) -> Done {
    reader::block_on(async {
        match command {
            Command::List(args) => list(&args).await,
            Command::Show(args) => show(&args).await,
        }
    })?
}

async fn list(args: &List) -> Done {
    let store = reader::open(&args.data.data_dir).await?;
    let job = reader::job(&store, &args.job).await?.summary.job;
    let filter = TrajectoryFilter {
        job: Some(job),
        step: args.step,
        phase: args.phase,
        sample: args.sample,
        status: args.status,
        min_reward: args.min_reward,
        max_reward: args.max_reward,
        text: args.text.clone(),
    };
    let found = reader::rows(args.limit, |page| {
        let (store, filter) = (&store, &filter);
        async move { store.trajectories(filter, &page).await }
    })
    .await?;
    let mut out = Out::new();
    if args.json {
        out.json_list(&found)?;
    } else if found.is_empty() {
        out.line("no trajectories")?;
    } else {
        let mut rows = table(&[
            "trajectory",
            "status",
            "#reward",
            "#turns",
            "#tokens",
            "end",
            "last message",
        ]);
        for one in &found {
            let said = if one.reason.is_empty() {
                &one.excerpt
            } else {
                &one.reason
            };
            rows.add_row([
                one.id.to_string(),
                one.status.as_str().to_owned(),
                number(one.reward),
                one.turns.to_string(),
                one.usage.completion_tokens.to_string(),
                one.finish_reason.clone(),
                short(said),
            ]);
        }
        out.line(text(&mut rows))?;
        if found.len() as u64 == args.limit {
            out.line(format!("the first {}; more with --limit", args.limit))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// One line of at most sixty characters.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    trajectory: &'a TrajectoryRecord,
    calls: &'a [CallRecord],
    logs: Vec<&'a LogLine>,
}

async fn show(args: &Show) -> Done {
    let store = reader::open(&args.data.data_dir).await?;
    let id = args.trajectory;
    let Some(trajectory) = store.trajectory(id).await? else {
        return Err(Failure::usage(format!(
            "there is no trajectory \"{id}\" here"
        )));
    };
    let calls = store.trajectory_calls(id).await?;
    let lines = log_lines(&store, id).await?;
    let mut out = Out::new();
    if args.json {
        let logs = lines.iter().map(|stored| &stored.line).collect();
        out.json(&Whole {
            trajectory: &trajectory,
            calls: &calls,
            logs,
        })?;
    } else {
        print(&mut out, &trajectory, &calls, &lines)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn log_lines(store: &dyn Store, id: TrajectoryId) -> Result<Vec<StoredLine>, Failure> {
    let filter = LogFilter {
        trajectory: Some(id),
        ..LogFilter::default()
    };
    let page = PageRequest::first(paddock_store::MAX_PAGE);
    Ok(store.logs(id.sample.job, &filter, &page).await?.items)
}

fn print(
    out: &mut Out,
    trajectory: &TrajectoryRecord,
    calls: &[CallRecord],
    lines: &[StoredLine],
) -> Result<(), Failure> {
    let mut rows = facts();
    rows.add_row(["trajectory".to_owned(), trajectory.id.to_string()]);
    rows.add_row(["status".to_owned(), trajectory.status.as_str().to_owned()]);
    if !trajectory.reason.is_empty() {
        rows.add_row(["reason".to_owned(), trajectory.reason.clone()]);
    }
    rows.add_row(["row".to_owned(), trajectory.source.clone()]);
    rows.add_row(["reward".to_owned(), number(trajectory.reward)]);
    for (grader, reward) in &trajectory.rewards {
        rows.add_row([format!("  {grader}"), number(Some(*reward))]);
    }
    for (name, value) in &trajectory.metrics {
        rows.add_row([format!("  {name}"), format!("{value}")]);
    }
    let talk = &trajectory.conversation;
    let trained = talk.tokens.mask.iter().filter(|&&on| on).count();
    rows.add_row([
        "tokens".to_owned(),
        format!(
            "{} sampled, {trained} trained on",
            talk.usage.completion_tokens
        ),
    ]);
    if !trajectory.extra.is_null() {
        rows.add_row(["extra".to_owned(), trajectory.extra.to_string()]);
    }
    out.line(text(&mut rows))?;
    out.line("")?;
    for message in &talk.messages {
        said(out, message)?;
    }
    for (title, messages) in std::iter::once(("dropped from the history", &talk.dropped))
        .chain(talk.side.iter().map(|side| ("a side conversation", side)))
    {
        if !messages.is_empty() {
            out.line(format!("({title}:)"))?;
        }
        for message in messages {
            said(out, message)?;
        }
    }
    if !calls.is_empty() {
        out.line("")?;
        out.line(text(&mut call_table(calls)))?;
    }
    for stored in lines {
        out.line(logs::shown(&stored.line))?;
    }
    Ok(())
}

fn said(out: &mut Out, message: &paddock_types::chat::Message) -> Result<(), Failure> {
    if let Some(thought) = message
        .0
        .get("reasoning_content")
        .and_then(serde_json::Value::as_str)
    {
        out.line(format!("{}: (thinks) {thought}", message.role()))?;
    }
    let content = message.content();
    let calls = message
        .0
        .get("tool_calls")
        .and_then(serde_json::Value::as_array);
    if !content.is_empty() || calls.is_none() {
        out.line(format!("{}: {content}", message.role()))?;
    }
    for call in calls.into_iter().flatten() {
        let function = &call["function"];
        let arguments = match &function["arguments"] {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let name = function["name"].as_str().unwrap_or_default();
        out.line(format!("{}: (calls) {name}({arguments})", message.role()))?;
    }
    Ok(())
}

fn call_table(calls: &[CallRecord]) -> comfy_table::Table {
    let mut rows = table(&[
        "call",
        "#try",
        "plugin",
        "outcome",
        "#queued",
        "#ran",
        "#model",
        "made (UTC)",
        "message",
    ]);
    for call in calls {
        let verdict = &call.verdict;
        let outcome = match verdict.sub_kind {
            Some(kind) => format!("{} ({kind})", verdict.outcome.as_str()),
            None => verdict.outcome.as_str().to_owned(),
        };
        let ms = |x: f64| format!("{x:.0} ms");
        rows.add_row([
            call.call.to_string(),
            call.attempt.to_string(),
            call.plugin.clone(),
            outcome,
            ms(verdict.queue_ms),
            ms(verdict.run_ms),
            ms(verdict.model_ms),
            time::clock(call.started_ms),
            short(&verdict.message),
        ]);
    }
    rows
}
