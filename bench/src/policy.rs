//! `paddock-bench policy`: tokens sampled a second and seconds a GRPO step, beside PyTorch on
//! the same weights, sizes and number of threads, in one run.

mod torch;

use std::path::{Path, PathBuf};
use std::time::Instant;

use paddock_policy::model::{Model, ModelConfig};
use paddock_policy::train::Trainer;
use paddock_policy::{
    ModelCard, Policy, SampleKey, SampleRequest, TrainTrajectory, UpdateSettings,
};
use paddock_types::id::Phase;
use paddock_types::job::LossAggMode;
use paddock_types::trajectory::Tokens;
use serde::Deserialize;

use self::torch::Torch;

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
    /// Runs of each measurement, after one that does not count; the two sides take turns, and
    /// the fastest of each is shown, which other work on the machine disturbs least.
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Prompt and completion lengths to measure, as `5+3`.
    #[arg(long, value_delimiter = ',', value_parser = case, default_value = "5+3,5+27,5+59")]
    cases: Vec<(usize, usize)>,
    /// Leaves PyTorch out.
    #[arg(long)]
    alone: bool,
}

/// What one side took for one case, in seconds.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Seconds {
    sample: f64,
    step: f64,
}

impl Seconds {
    const NEVER: Self = Self {
        sample: f64::INFINITY,
        step: f64::INFINITY,
    };

    /// The lesser of each.
    fn or(self, other: Self) -> Self {
        Self {
            sample: self.sample.min(other.sample),
            step: self.step.min(other.step),
        }
    }
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
    let mut torch = if options.alone {
        None
    } else {
        Some(Torch::start(options, folder.path())?)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    println_line("| prompt + completion | what | Paddock | PyTorch | ratio |");
    println_line("| --- | --- | --- | --- | --- |");
    for &(prompt, completion) in &options.cases {
        let mut ours = Seconds::NEVER;
        let mut theirs = torch.as_ref().map(|_| Seconds::NEVER);
        for run in 0..=options.runs {
            let one = runtime.block_on(measure(options, folder.path(), prompt, completion))?;
            if run > 0 {
                ours = ours.or(one);
            }
            if let (Some(torch), Some(fastest)) = (&mut torch, &mut theirs) {
                let one = torch.measure(prompt, completion)?;
                if run > 0 {
                    *fastest = fastest.or(one);
                }
            }
        }
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

/// One run of sampling and a step on fresh weights.
async fn measure(
    options: &Options,
    model: &Path,
    prompt: usize,
    completion: usize,
) -> anyhow::Result<Seconds> {
    let (model, card) = Model::load(model)?;
    let policy = Policy::start(Trainer::new(model, card)?)?;
    let begin = Instant::now();
    let trajectories = sample(&policy, options.sequences, prompt, completion).await?;
    let sample = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    policy.update(trajectories, settings(completion)).await?;
    let step = begin.elapsed().as_secs_f64();
    Ok(Seconds { sample, step })
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

/// Reads `5+3`.
fn case(text: &str) -> Result<(usize, usize), String> {
    let parts = text
        .split_once('+')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts
        .filter(|(prompt, completion)| *prompt > 0 && *completion > 0)
        .ok_or_else(|| format!("\"{text}\" is not prompt+completion, as in \"5+3\""))
}
