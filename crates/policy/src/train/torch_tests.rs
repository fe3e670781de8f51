//! The whole pipe (decoder, log-probabilities, loss, gradients of all weights, updates) against
//! what PyTorch makes of the same weights and tokens. `tests/torch_vectors.py` wrote the numbers.

use std::collections::BTreeMap;

use paddock_types::job::{LossAggMode, ScaleRewards};
use paddock_types::trajectory::Tokens;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::gradients::Tapes;
use super::objective::{Frozen, evaluate};
use super::prepared::Prepared;
use super::*;
use crate::grpo::advantages;
use crate::model::decoder::Tape;
use crate::model::infer::Reading;
use crate::model::{Model, ModelCard, ModelConfig};

/// How far from PyTorch's numbers, in units of the greatest of them.
const TOLERANCE: f64 = 1e-4;

#[derive(Deserialize)]
struct Row {
    ids: Vec<u32>,
    /// `1` for each trained token.
    mask: String,
    reward: f64,
    truncated: bool,
    group: usize,
}

#[derive(Deserialize)]
struct Settings {
    mode: LossAggMode,
    kl_coefficient: f64,
    clip_low: f64,
    clip_high: f64,
    max_new_tokens: u32,
    mask_truncated: bool,
    temperature: f64,
}

impl Settings {
    fn update(&self) -> UpdateSettings {
        UpdateSettings {
            step: 1,
            lr: 0.0,
            warmup: 0,
            kl_coefficient: self.kl_coefficient,
            clip_low: self.clip_low,
            clip_high: self.clip_high,
            loss_agg_mode: self.mode,
            mask_truncated: self.mask_truncated,
            max_new_tokens: self.max_new_tokens,
            temperature: self.temperature,
            iterations: 1,
        }
    }
}

#[derive(Deserialize)]
struct Case {
    batch: String,
    settings: Settings,
    loss: f64,
    kl: f64,
    clip_fraction: f64,
    entropy: f64,
    tokens: usize,
    gradient: Vec<f64>,
}

#[derive(Deserialize)]
struct Pipe {
    config: ModelConfig,
    weights: Vec<Vec<f32>>,
    old: Vec<Vec<f32>>,
    reference: Vec<Vec<f32>>,
    batches: BTreeMap<String, Vec<Row>>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Step {
    step: u32,
    batch: String,
    lr: f64,
    loss: f64,
    kl: f64,
    clip_fraction: f64,
    grad_norm: f64,
}

#[derive(Deserialize)]
struct Updates {
    lr: f64,
    warmup: u32,
    iterations: u32,
    settings: Settings,
    steps: Vec<Step>,
    weights: Vec<Vec<f64>>,
}

fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("vectors")
}

fn pipe() -> Pipe {
    read(include_str!("../../tests/vectors/pipe.json"))
}

fn model(config: &ModelConfig, weights: &[Vec<f32>]) -> Model {
    Model::from_numbers(config.clone(), weights.concat()).expect("a model")
}

/// The trajectories of a batch, with the advantages of their groups.
fn trajectories(rows: &[Row]) -> Vec<TrainTrajectory> {
    let mut out: Vec<TrainTrajectory> = rows
        .iter()
        .map(|row| TrainTrajectory {
            tokens: Tokens {
                ids: row.ids.clone(),
                mask: row.mask.chars().map(|c| c == '1').collect(),
                logprobs: vec![0.0; row.ids.len()],
            },
            advantage: 0.0,
            truncated: row.truncated,
        })
        .collect();
    for group in 0..rows.len() {
        let members: Vec<usize> = (0..rows.len())
            .filter(|i| rows[*i].group == group)
            .collect();
        let rewards: Vec<f64> = members.iter().map(|i| rows[*i].reward).collect();
        for (i, advantage) in members
            .into_iter()
            .zip(advantages(&rewards, ScaleRewards::Group))
        {
            out[i].advantage = advantage;
        }
    }
    out
}

fn close(what: &str, got: f64, want: f64, scale: f64) {
    assert!(
        (got - want).abs() <= TOLERANCE * scale.max(1e-3),
        "{what}: {got}, PyTorch has {want}"
    );
}

#[test]
fn loss_kl_and_gradients_of_all_weights_agree_with_pytorch() {
    let pipe = pipe();
    let [theta, old, reference] =
        [&pipe.weights, &pipe.old, &pipe.reference].map(|weights| model(&pipe.config, weights));
    let mut modes = 0;
    for (number, case) in pipe.cases.iter().enumerate() {
        let trajectories = trajectories(&pipe.batches[&case.batch]);
        let settings = case.settings.update();
        let prepared = Prepared::new(&theta, &trajectories, &settings).expect("a step");
        let scores = |model: &Model| -> Vec<Vec<f32>> {
            let reading = Reading::new(model).expect("a model");
            let batches = prepared.batches.iter();
            batches
                .map(|b| {
                    let mut tape = Tape::default();
                    let scores = reading.score(b, settings.temperature, &mut tape);
                    scores.expect("scores")
                })
                .collect()
        };
        let (old, reference) = (scores(&old), scores(&reference));
        let frozen = Frozen {
            old: Some(&old),
            reference: (settings.kl_coefficient != 0.0).then_some(&reference),
        };
        let (gradients, said) =
            evaluate(&theta, &prepared, &settings, frozen, &Tapes::default()).expect("a loss");

        let name = format!("case {number} ({}, {:?})", case.batch, case.settings.mode);
        let losses = || said.iter().flat_map(|said| &said.losses);
        let tokens = case.tokens as f64;
        assert_eq!(prepared.shape.tokens, case.tokens, "{name}");
        close(
            &name,
            losses().map(|l| l.loss).sum(),
            case.loss,
            case.loss.abs(),
        );
        close(
            &name,
            losses().map(|l| l.kl).sum::<f64>() / tokens,
            case.kl,
            case.kl,
        );
        let clipped = losses().map(|l| l.clipped).sum::<usize>() as f64 / tokens;
        close(&name, clipped, case.clip_fraction, 1.0);
        let entropy = said.iter().map(|said| said.entropy).sum::<f64>() / tokens;
        close(&name, entropy, case.entropy, case.entropy);
        let scale = case.gradient.iter().fold(0.0f64, |a, g| a.max(g.abs()));
        assert_eq!(gradients.len(), case.gradient.len());
        for (at, (got, want)) in gradients.iter().zip(&case.gradient).enumerate() {
            close(
                &format!("{name}, gradient {at}"),
                f64::from(*got),
                *want,
                scale,
            );
        }
        modes += 1;
    }
    assert!(modes >= 24, "only {modes} cases");
}

#[test]
fn steps_of_several_updates_agree_with_pytorch() {
    let pipe = pipe();
    let updates: Updates = read(include_str!("../../tests/vectors/update.json"));
    let start = model(&pipe.config, &pipe.weights);
    let mut trainer = Trainer::new(start, ModelCard::default()).expect("a trainer");
    for step in &updates.steps {
        let settings = UpdateSettings {
            step: step.step,
            lr: updates.lr,
            warmup: updates.warmup,
            iterations: updates.iterations,
            ..updates.settings.update()
        };
        let stats = trainer
            .update(&trajectories(&pipe.batches[&step.batch]), &settings)
            .expect("an update");
        let name = format!("step {}", step.step);
        close(&name, stats.lr, step.lr, step.lr);
        close(&name, stats.loss, step.loss, 1.0);
        close(&name, stats.kl, step.kl, 1.0);
        close(&name, stats.clip_fraction, step.clip_fraction, 1.0);
        close(&name, stats.grad_norm, step.grad_norm, step.grad_norm);
    }
    let got: Vec<f32> = trainer.model().weights().to_vec1().expect("numbers");
    for (at, (got, want)) in got.iter().zip(updates.weights.iter().flatten()).enumerate() {
        close(&format!("weight {at}"), f64::from(*got), *want, 1.0);
    }
}
