//! Making the base model that ships: supervised steps on generated lessons.
//!
//! The first lessons are clean, so that the tasks are learned; the last have mistakes on purpose
//! (wrong sums, sloppy answers, aimless guesses, broken tool calls), in known shares: the model
//! then samples a spread of good and bad turns, which is what reinforcement learning needs. They hold none of the prompts that the
//! examples train or validate on ([`held_out`]). Everything is drawn from one seed: the same
//! options give the same weights on the same machine. `docs/design/base-model.md` has the numbers.

pub mod arithmetic;
pub mod calculator;
pub mod chat;
mod dice;
pub mod echo;
pub mod higher_lower;
mod lesson;

use std::path::PathBuf;
use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::model::{Model, ModelCard, ModelConfig};
use crate::policy::PolicyError;
use crate::tokenizer::VOCAB;
use crate::train::{AdamW, supervised_step};
pub use dice::Dice;
pub use lesson::Lesson;

/// Lessons of a step, by task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// Sums.
    pub arithmetic: usize,
    /// Games.
    pub higher_lower: usize,
    /// Products with a calculator.
    pub calculator: usize,
    /// Numbers to say again.
    pub echo: usize,
    /// Small talk.
    pub chat: usize,
}

/// Whether the assistant of a lesson makes mistakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// It makes none.
    Clean,
    /// It makes the task's mistakes in their shares.
    Mixed,
}

/// How a base model is made. The defaults made the one that ships.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The model folder to write.
    pub out: PathBuf,
    /// Seed of the weights and the lessons.
    pub seed: u64,
    /// Steps.
    pub steps: u32,
    /// Lessons of each step.
    pub mix: Mix,
    /// Share of the steps, from the first, whose lessons have no mistakes.
    pub clean: f64,
    /// Greatest learning rate; it rises over the first twentieth and falls to a tenth by a cosine.
    pub lr: f64,
    /// Name on the model's card.
    pub name: String,
    /// Version on the model's card.
    pub version: String,
}

/// Learning rate for reinforcement fine-tuning on the card of a base model.
pub const RL_LR: f64 = 2e-4;

const WEIGHT_DECAY: f64 = 0.01;

impl Default for Options {
    fn default() -> Self {
        Self {
            out: PathBuf::from("models/paddock-base"),
            seed: 8,
            steps: 1300,
            mix: Mix {
                arithmetic: 64,
                higher_lower: 10,
                calculator: 12,
                echo: 24,
                chat: 4,
            },
            clean: 0.75,
            lr: 4e-3,
            name: "paddock-base".into(),
            version: "1".into(),
        }
    }
}

/// How far the making is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Steps done.
    pub step: u32,
    /// Steps in all.
    pub steps: u32,
    /// Mean cross-entropy of the step's learned tokens, in nats.
    pub loss: f64,
}

/// What was made.
#[derive(Debug, Clone, PartialEq)]
pub struct PretrainReport {
    /// The model folder.
    pub folder: PathBuf,
    /// Parameters of the model.
    pub parameters: usize,
    /// Steps made.
    pub steps: u32,
    /// Tokens of all lessons.
    pub tokens: u64,
    /// Mean loss of the last twentieth of the steps, in nats.
    pub loss: f64,
    /// Seconds it took.
    pub seconds: f64,
    /// SHA-256 of the weights.
    pub hash: String,
}

/// True for the task prompts that no lesson may hold: the examples' training and validation prompts
/// are drawn from these. A quarter of all texts: those whose SHA-256 begins with a byte below 64.
pub fn held_out(prompt: &str) -> bool {
    Sha256::digest(prompt.as_bytes())[0] < 64
}

/// Makes a base model and writes its folder.
///
/// # Errors
/// A loss that is not finite (then nothing is written), or a folder that can't be written.
pub fn run(
    options: &Options,
    mut progress: impl FnMut(Progress),
) -> Result<PretrainReport, PolicyError> {
    let started = Instant::now();
    std::fs::create_dir_all(&options.out).map_err(|source| PolicyError::Write {
        path: options.out.clone(),
        source,
    })?;
    let mut model = Model::initial(ModelConfig::base(VOCAB), options.seed)?;
    let mut optimiser = AdamW::new(&model, WEIGHT_DECAY);
    let mut dice = Dice::new(options.seed);
    let mut tokens = 0;
    let mut losses = Vec::new();
    for step in 1..=options.steps {
        let care = match f64::from(step) <= options.clean * f64::from(options.steps) {
            true => Care::Clean,
            false => Care::Mixed,
        };
        let batch: Vec<_> = lessons(options.mix, care, &mut dice)
            .into_iter()
            .map(Lesson::into_example)
            .collect();
        tokens += batch.iter().map(|e| e.ids.len() as u64).sum::<u64>();
        let lr = options.lr * pace(step, options.steps);
        let loss = supervised_step(&mut model, &mut optimiser, &batch, lr)?;
        losses.push(loss);
        progress(Progress {
            step,
            steps: options.steps,
            loss,
        });
    }
    let card = ModelCard {
        name: options.name.clone(),
        version: options.version.clone(),
        lr: RL_LR,
        context: model.config().max_position_embeddings as u32,
        about: format!(
            "made by `paddock model pretrain --seed {} --steps {}` from generated lessons",
            options.seed, options.steps
        ),
        ..ModelCard::default()
    };
    model.save(&options.out, &card)?;
    let tail = &losses[losses.len() - losses.len().div_ceil(20)..];
    Ok(PretrainReport {
        folder: options.out.clone(),
        parameters: model.parameter_count(),
        steps: options.steps,
        tokens,
        loss: tail.iter().sum::<f64>() / tail.len().max(1) as f64,
        seconds: started.elapsed().as_secs_f64(),
        hash: model.hash()?,
    })
}

/// One step's lessons.
pub fn lessons(mix: Mix, care: Care, dice: &mut Dice) -> Vec<Lesson> {
    let mut out = Vec::new();
    out.extend((0..mix.arithmetic).map(|_| arithmetic::lesson(care, dice)));
    out.extend((0..mix.higher_lower).map(|_| higher_lower::lesson(care, dice)));
    out.extend((0..mix.calculator).map(|_| calculator::lesson(care, dice)));
    out.extend((0..mix.echo).map(|_| echo::lesson(dice)));
    out.extend((0..mix.chat).map(|_| chat::lesson(dice)));
    out
}

/// Share of the greatest learning rate at a step.
fn pace(step: u32, steps: u32) -> f64 {
    let warmup = f64::from(steps) / 20.0;
    let step = f64::from(step);
    if step < warmup {
        return step / warmup;
    }
    let done = (step - warmup) / (f64::from(steps) - warmup).max(1.0);
    0.1 + 0.9 * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
}

#[cfg(test)]
mod tests;
