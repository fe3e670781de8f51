//! `paddock explain`: the built-in pages on faults, and the tables of settings.

use std::process::ExitCode;

use paddock_types::explain::{self, Described, PAGES, TABLES};

use crate::failure::{Done, Failure};
use crate::output::{Out, table, text};

/// `explain`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  paddock explain\n  paddock explain \"Invalid value\"\n  paddock explain Timeout\n  paddock explain hyperparameters"
)]
pub(crate) struct Args {
    /// A kind of fault, a sub-kind, or a table: hyperparameters, runtime, settings
    topic: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Does what is asked.
pub(crate) fn run(args: &Args) -> Done {
    let topic = args.topic.join(" ");
    let mut out = Out::new();
    if topic.trim().is_empty() {
        topics(&mut out, args.json)?;
    } else if let Some(rows) = explain::table(&topic) {
        settings(&mut out, &rows, args.json)?;
    } else if let Some(page) = explain::page(&topic) {
        match args.json {
            true => out.json(&serde_json::json!({"topic": page.name, "text": page.markdown}))?,
            false => out.line(page.markdown.trim_end())?,
        }
    } else {
        let hint = paddock_types::suggest::hint(explain::nearest(&topic));
        return Err(Failure::usage(format!(
            "nothing is known about \"{topic}\"{hint} (`paddock explain` lists the topics)"
        )));
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn topics(out: &mut Out, json: bool) -> Result<(), Failure> {
    if json {
        let names = PAGES.iter().map(|page| page.name).chain(TABLES);
        return out.json(&names.collect::<Vec<_>>());
    }
    let mut rows = table(&["topic", "in short"]);
    for page in &PAGES {
        rows.add_row([page.name, page.summary()]);
    }
    rows.add_row([
        "hyperparameters",
        "Every hyperparameter: default, range, meaning.",
    ]);
    rows.add_row([
        "runtime",
        "The limits of a plugin: `runtime:` in a job file.",
    ]);
    rows.add_row(["settings", "The other settings of a job file."]);
    out.line(text(&mut rows))
}

fn settings(out: &mut Out, described: &[Described], json: bool) -> Result<(), Failure> {
    if json {
        return out.json_list(described);
    }
    let mut rows = table(&["name", "default", "allowed", "meaning"]);
    for row in described {
        rows.add_row([
            row.name,
            row.default.as_str(),
            row.allowed.as_str(),
            row.meaning,
        ]);
    }
    out.line(text(&mut rows))
}
