//! `paddock-bench policy`: tokens sampled a second and seconds a GRPO step, beside PyTorch on
//! the same weights, sizes and number of threads, in one run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use paddock_policy::model::{Model, ModelConfig};
use paddock_policy::train::Trainer;
use paddock_policy::{
    ModelCard, Policy, SampleKey, SampleRequest, TrainTrajectory, UpdateSettings,
};
use paddock_types::id::Phase;
use paddock_types::job::LossAggMode;
use paddock_types::trajectory::Tokens;
use serde::Deserialize;

/// What is measured, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A Python with torch and numpy (`pip install torch numpy`).
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Threads of each side.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Sequences of a step.
    #[arg(long, default_value_t = 256)]
    sequences: usize,
    /// Runs of each measurement, after one that does not count; the fastest is shown, which
    /// other work on the machine disturbs least.
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Prompt and completion lengths to measure, as `5+3`.
    #[arg(long, value_delimiter = ',', value_parser = case, default_value = "5+3,5+27,5+59")]
    cases: Vec<(usize, usize)>,
    /// Leaves PyTorch out.
    #[arg(long)]
    alone: bool,
}

/// Fastest runs of one side for one case, in seconds.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Seconds {
    sample: f64,
    step: f64,
}

/// Runs the measurements and prints them.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads)
        .build_global()?;
    let folder = tempfile::tempdir()?;
    let model = Model::initial(ModelConfig::base(272), 1)?;
    model.save(folder.path(), &ModelCard::default())?;
    let parameters = model.parameter_count();
    println_line(&format!(
        "{parameters} parameters, {} sequences, {} threads, fastest of {} runs",
        options.sequences, options.threads, options.runs
    ));
    let torch = if options.alone {
        BTreeMap::new()
    } else {
        torch(options, folder.path())?
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    println_line("| prompt + completion | what | Paddock | PyTorch | ratio |");
    println_line("| --- | --- | --- | --- | --- |");
    for &(prompt, completion) in &options.cases {
        let ours = runtime.block_on(measure(options, folder.path(), prompt, completion))?;
        let theirs = torch.get(&format!("{prompt}+{completion}")).copied();
        let tokens = (options.sequences * completion) as f64;
        let case = format!("{prompt} + {completion}");
        let ratio = |get: fn(&Seconds) -> f64| match &theirs {
            Some(theirs) => format!("{:.2}", get(theirs) / get(&ours)),
            None => "-".into(),
        };
        let shown = |theirs: Option<String>| theirs.unwrap_or_else(|| "-".into());
        println_line(&format!(
            "| {case} | sampled tokens/s | {:.0} | {} | {} |",
            tokens / ours.sample,
            shown(theirs.map(|t| format!("{:.0}", tokens / t.sample))),
            ratio(|s| s.sample),
        ));
        println_line(&format!(
            "| {case} | seconds a GRPO step | {:.3} | {} | {} |",
            ours.step,
            shown(theirs.map(|t| format!("{:.3}", t.step))),
            ratio(|s| s.step),
        ));
    }
    Ok(())
}

#[expect(
    clippy::print_stdout,
    reason = "a benchmark's result goes to the terminal"
)]
fn println_line(text: &str) {
    println!("{text}");
}

/// PyTorch's numbers, by case.
fn torch(options: &Options, model: &Path) -> anyhow::Result<BTreeMap<String, Seconds>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("policy_torch.py");
    let cases = options
        .cases
        .iter()
        .map(|(prompt, completion)| format!("{prompt}+{completion}"));
    let output = Command::new(&options.python)
        .arg(script)
        .arg(model)
        .args(["--threads", &options.threads.to_string()])
        .args(["--sequences", &options.sequences.to_string()])
        .args(["--runs", &options.runs.to_string()])
        .args(cases)
        // Settings that hold the peer's libraries back.
        .env_remove("OPENBLAS_CORETYPE")
        .env_remove("OPENBLAS_L2_SIZE")
        .output()
        .with_context(|| format!("cannot start \"{}\"", options.python.display()))?;
    ensure!(
        output.status.success(),
        "\"{}\" failed (it needs torch and numpy; --python names another one): {}",
        options.python.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

async fn measure(
    options: &Options,
    model: &Path,
    prompt: usize,
    completion: usize,
) -> anyhow::Result<Seconds> {
    let (mut samples, mut steps) = (Vec::new(), Vec::new());
    for run in 0..=options.runs {
        let (model, card) = Model::load(model)?;
        let policy = Policy::start(Trainer::new(model, card)?)?;
        let begin = Instant::now();
        let trajectories = sample(&policy, options.sequences, prompt, completion).await?;
        let sampled = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        policy.update(trajectories, settings(completion)).await?;
        if run > 0 {
            samples.push(sampled);
            steps.push(begin.elapsed().as_secs_f64());
        }
    }
    Ok(Seconds {
        sample: fastest(&samples),
        step: fastest(&steps),
    })
}

async fn sample(
    policy: &Policy,
    sequences: usize,
    prompt: usize,
    completion: usize,
) -> anyhow::Result<Vec<TrainTrajectory>> {
    let mut turns = Vec::new();
    for sample in 0..sequences as u32 {
        let ids: Vec<u32> = (0..prompt as u32)
            .map(|t| (sample * 31 + t * 7) % 256)
            .collect();
        let request = SampleRequest {
            prompt: ids.clone(),
            stop: Vec::new(),
            max_new_tokens: completion as u32,
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            key: SampleKey {
                seed: 0,
                phase: Phase::Train,
                step: 1,
                sample,
                generation: 0,
                turn: 0,
            },
        };
        let policy = policy.clone();
        turns.push((
            ids,
            tokio::spawn(async move { policy.sample(request).await }),
        ));
    }
    let mut trajectories = Vec::new();
    for (i, (ids, turn)) in turns.into_iter().enumerate() {
        let sampled = turn.await??;
        let mask = [vec![false; prompt], vec![true; completion]].concat();
        let logprobs = [vec![0.0; prompt], sampled.logprobs].concat();
        let ids = [ids, sampled.tokens].concat();
        trajectories.push(TrainTrajectory {
            tokens: Tokens {
                ids,
                mask,
                logprobs,
            },
            advantage: i as f64 % 3.0 - 1.0,
            truncated: false,
        });
    }
    Ok(trajectories)
}

fn settings(completion: usize) -> UpdateSettings {
    UpdateSettings {
        step: 1,
        lr: 1e-4,
        warmup: 0,
        kl_coefficient: 0.001,
        clip_low: 0.2,
        clip_high: 0.2,
        loss_agg_mode: LossAggMode::SeqMeanTokenMean,
        mask_truncated: false,
        max_new_tokens: completion as u32,
        temperature: 1.0,
        iterations: 1,
    }
}

fn fastest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Reads `5+3`.
fn case(text: &str) -> Result<(usize, usize), String> {
    let parts = text
        .split_once('+')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts
        .filter(|(prompt, completion)| *prompt > 0 && *completion > 0)
        .ok_or_else(|| format!("\"{text}\" is not prompt+completion, as in \"5+3\""))
}
