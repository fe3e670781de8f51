//! `paddock steps`: the curve of a job, step by step, with its validations.

use std::collections::BTreeMap;
use std::process::ExitCode;

use paddock_store::Store;

use crate::failure::Done;
use crate::output::{Out, counted, number, table, text};
use crate::places::DataDir;
use crate::reader;

/// `steps`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  paddock steps\n  paddock steps latest --json | jq '.steps[].reward.mean'"
)]
pub(crate) struct Args {
    /// The job's id, the beginning of it, or "latest"
    #[arg(default_value = "latest")]
    job: String,
    /// Print one JSON object with `steps` and `validations`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataDir,
}

/// Does what is asked.
pub(crate) fn run(args: &Args) -> Done {
    reader::block_on(show(args))?
}

async fn show(args: &Args) -> Done {
    let store = reader::open(&args.data.data_dir).await?;
    let job = reader::job(&store, &args.job).await?.summary.job;
    let steps = store.steps(job).await?;
    let validations = store.validations(job).await?;
    let mut out = Out::new();
    if args.json {
        let both = serde_json::json!({"job": job, "steps": steps, "validations": validations});
        out.json(&both)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let measured: BTreeMap<u32, f64> = validations
        .iter()
        .filter_map(|v| Some((v.step, v.reward?.mean)))
        .collect();
    let mut rows = table(&[
        "#step",
        "#reward",
        "#std",
        "#loss",
        "#kl",
        "#grad norm",
        "#no spread",
        "#tokens",
        "#seconds",
        "dropped",
        "#validation",
    ]);
    if let Some(before) = measured.get(&0) {
        let mut row = vec!["0".to_owned()];
        row.resize(10, String::new());
        row.push(number(Some(*before)));
        rows.add_row(row);
    }
    for step in &steps {
        let update = &step.update;
        rows.add_row([
            step.step.to_string(),
            number(Some(step.reward.mean)),
            number(Some(step.reward.std)),
            format!("{:.4}", update.loss),
            format!("{:.4}", update.kl),
            number(Some(update.grad_norm)),
            format!("{:.0}%", step.frac_zero_spread * 100.0),
            format!("{:.1}", step.completion_tokens),
            format!("{:.1}", step.rollout_seconds + step.update_seconds),
            counted(&step.dropped),
            measured
                .get(&step.step)
                .map_or_else(String::new, |v| number(Some(*v))),
        ]);
    }
    match steps.is_empty() && measured.is_empty() {
        true => out.line("no steps yet")?,
        false => out.line(text(&mut rows))?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
