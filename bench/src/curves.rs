//! How held-out accuracy moves over a job: the arithmetic example over three seeds, and beside it
//! the control whose rewards are shuffled. Runs the real executable, job after job.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Which jobs, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seeds to run each job with
    #[arg(long, value_delimiter = ',', default_value = "0,1,2")]
    seeds: Vec<u64>,
    /// Job files, and the validation number that counts: a grader's name
    #[arg(long, value_delimiter = ',', default_values = [
        "examples/arithmetic/job.yaml=exact",
        "examples/arithmetic/control.yaml=exact",
        "examples/higher_lower/job.yaml=found_soon",
        "examples/calculator/job.yaml=answer",
    ])]
    jobs: Vec<String>,
    /// Steps of each job; left out, the job's own
    #[arg(long)]
    steps: Option<u32>,
    /// The executable
    #[arg(long, default_value = "target/release/paddock")]
    paddock: PathBuf,
}

/// Runs the jobs and prints a table a job: a row a validation, a column a seed.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.paddock.exists() {
        bail!(
            "there is no \"{}\": build it with `cargo build --release`",
            options.paddock.display()
        );
    }
    for job in &options.jobs {
        let (file, grader) = job.split_once('=').context("a job is FILE=GRADER")?;
        let mut columns = vec![];
        for &seed in &options.seeds {
            eprintln!("{file}, seed {seed}");
            columns.push(curve(options, file, grader, seed)?);
        }
        print(file, grader, &options.seeds, &columns);
    }
    Ok(())
}

/// The job's validations: `(after step, mean reward of the grader)`, and how long it took.
struct Curve {
    points: Vec<(u64, f64)>,
    seconds: f64,
}

fn curve(options: &Options, file: &str, grader: &str, seed: u64) -> Result<Curve> {
    let data = tempfile::tempdir()?;
    let mut command = Command::new(&options.paddock);
    command.args(["run", file, "--json", "--seed", &seed.to_string()]);
    if let Some(steps) = options.steps {
        command.args(["--steps", &steps.to_string()]);
    }
    let summary = last_object(&mut command, data.path())?;
    if summary["state"] != "completed" {
        bail!(
            "{file} with seed {seed} ended {}: {}",
            summary["state"],
            summary["fault"]
        );
    }
    let mut command = Command::new(&options.paddock);
    let record = last_object(command.args(["steps", "latest", "--json"]), data.path())?;
    let validations = record["validations"].as_array().context("no validations")?;
    let point = |v: &Value| Some((v["step"].as_u64()?, v["rewards"][grader].as_f64()?));
    let points: Vec<_> = validations.iter().filter_map(point).collect();
    if points.len() != validations.len() {
        bail!("a validation of {file} has no grader \"{grader}\"");
    }
    Ok(Curve {
        points,
        seconds: summary["seconds"].as_f64().unwrap_or_default(),
    })
}

fn last_object(command: &mut Command, data: &Path) -> Result<Value> {
    let output = command
        .arg("--data-dir")
        .arg(data)
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text
        .trim_end()
        .lines()
        .last()
        .context("the command printed nothing")?;
    serde_json::from_str(last).with_context(|| format!("not JSON: {last}"))
}

#[expect(clippy::print_stdout, reason = "the table is what the command is for")]
fn print(file: &str, grader: &str, seeds: &[u64], columns: &[Curve]) {
    println!("\n{file}: `{grader}` on the validation set\n");
    let names: Vec<String> = seeds.iter().map(|seed| format!("seed {seed}")).collect();
    println!("| after step | {} |", names.join(" | "));
    println!("| --- |{}", " --- |".repeat(seeds.len()));
    let rows = columns.first().map_or(0, |curve| curve.points.len());
    for row in 0..rows {
        let numbers: Vec<String> = columns
            .iter()
            .map(|curve| {
                curve
                    .points
                    .get(row)
                    .map_or("-".into(), |p| format!("{:.3}", p.1))
            })
            .collect();
        println!("| {} | {} |", columns[0].points[row].0, numbers.join(" | "));
    }
    let seconds: Vec<String> = columns
        .iter()
        .map(|c| format!("{:.0}", c.seconds))
        .collect();
    println!("| seconds | {} |", seconds.join(" | "));
}
