//! `paddock jobs`: which jobs there are, and how one of them stands.

use std::path::Path;
use std::process::ExitCode;

use paddock_store::{JobFilter, Store};
use paddock_types::job::{JobRecord, JobState, ModelReference};

use crate::failure::Done;
use crate::output::{Out, change, counted, facts, table, text};
use crate::places::DataDir;
use crate::{fault, reader, time};

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List jobs, newest first
    #[command(
        after_help = "Examples:\n  paddock jobs list\n  paddock jobs list --state failed --json"
    )]
    List(List),
    /// Show one job: how it stands, what was asked for, why it failed
    #[command(
        after_help = "Examples:\n  paddock jobs get latest\n  paddock jobs get job_01kb5 --json"
    )]
    Get(Get),
}

/// `jobs list`.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only jobs in this state
    #[arg(long, value_parser = state)]
    state: Option<JobState>,
    /// Only jobs with this name
    #[arg(long)]
    name: Option<String>,
    /// Jobs at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,
    /// Print a JSON list
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataDir,
}

/// `jobs get`.
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// The job's id, the beginning of it, or "latest"
    #[arg(default_value = "latest")]
    job: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataDir,
}

fn state(text: &str) -> Result<JobState, String> {
    const ALL: [JobState; 8] = [
        JobState::Queued,
        JobState::Preparing,
        JobState::Running,
        JobState::Waiting,
        JobState::Paused,
        JobState::Completed,
        JobState::Failed,
        JobState::Stopped,
    ];
    let names = ALL.map(JobState::as_str).join(", ");
    ALL.into_iter()
        .find(|s| s.as_str() == text)
        .ok_or(format!("allowed: {names}"))
}

/// Does what is asked.
pub(crate) fn run(command: Command) -> Done {
    reader::block_on(async {
        match command {
            Command::List(args) => list(&args).await,
            Command::Get(args) => get(&args).await,
        }
    })?
}

async fn list(args: &List) -> Done {
    let store = reader::open(&args.data.data_dir).await?;
    let filter = JobFilter {
        state: args.state,
        name: args.name.clone(),
    };
    let jobs = reader::rows(args.limit, |page| {
        let (store, filter) = (&store, &filter);
        async move { store.jobs(filter, &page).await }
    })
    .await?;
    let mut out = Out::new();
    if args.json {
        let data_dir = &args.data.data_dir;
        let shown: Vec<_> = jobs
            .iter()
            .map(|job| reader::shown(data_dir, job))
            .collect();
        out.json_list(&shown)?;
    } else if jobs.is_empty() {
        out.line("no jobs")?;
    } else {
        let mut rows = table(&[
            "job",
            "name",
            "state",
            "#steps",
            "reward",
            "validation",
            "made (UTC)",
        ]);
        for job in &jobs {
            let summary = &job.summary;
            rows.add_row([
                summary.job.to_string(),
                summary.name.clone(),
                reader::state(&args.data.data_dir, job),
                format!("{}/{}", summary.steps, job.config.hyperparameters.num_steps),
                change(summary.reward.first, summary.reward.last),
                change(summary.validation.before, summary.validation.after),
                time::moment(job.created_ms),
            ]);
        }
        out.line(text(&mut rows))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn get(args: &Get) -> Done {
    let store = reader::open(&args.data.data_dir).await?;
    let job = reader::job(&store, &args.job).await?;
    let mut out = Out::new();
    if args.json {
        out.json(&reader::shown(&args.data.data_dir, &job))?;
    } else {
        out.line(shown(&args.data.data_dir, &job))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn shown(data_dir: &Path, job: &JobRecord) -> String {
    let summary = &job.summary;
    let mut rows = facts();
    let mut fact = |name: &str, value: String| {
        rows.add_row([name.to_owned(), value]);
    };
    fact("job", summary.job.to_string());
    fact("name", summary.name.clone());
    fact("state", reader::state(data_dir, job));
    fact("project", job.project_dir.clone());
    fact(
        "model",
        match &job.config.model {
            ModelReference::Foundation { name, version } => {
                format!("{name} {version}").trim_end().to_owned()
            }
            ModelReference::Custom(path) => path.clone(),
        },
    );
    fact("made (UTC)", time::moment(job.created_ms));
    fact(
        "steps",
        format!(
            "{} of {}",
            summary.steps, job.config.hyperparameters.num_steps
        ),
    );
    fact("reward", change(summary.reward.first, summary.reward.last));
    fact(
        "validation",
        change(summary.validation.before, summary.validation.after),
    );
    fact("samples", summary.samples.drawn.to_string());
    fact("dropped", counted(&summary.samples.dropped));
    fact("calls", summary.calls.made.to_string());
    fact("failed calls", counted(&summary.calls.failed));
    for (plugin, state) in &job.plugins {
        fact(
            "plugin",
            format!("{plugin} ({})", format!("{state:?}").to_lowercase()),
        );
    }
    fact("took", time::span(summary.seconds));
    fact(
        "checkpoint",
        summary.checkpoint.clone().unwrap_or_else(|| "-".into()),
    );
    let mut shown = text(&mut rows);
    if let Some(why) = &summary.fault {
        shown.push_str("\n\n");
        shown.push_str(fault::report(why).trim_end());
    }
    shown
}
