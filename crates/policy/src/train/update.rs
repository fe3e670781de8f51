//! One GRPO step on the trajectories of a step: π_old, the reference, and as many full-batch
//! updates as asked for.
//!
//! π_old needs no pass of its own: the first update's forward pass is made with the weights that
//! the step began with, and a pass gives the same bits whatever it is for.

use std::sync::Arc;

use paddock_types::job::LossAggMode;
use paddock_types::step::UpdateStats;
use paddock_types::trajectory::Tokens;
use rayon::prelude::*;

use super::adamw::AdamW;
use super::gradients::{Tapes, norm};
use super::objective::{Frozen, Said, evaluate};
use super::prepared::Prepared;
use crate::grpo::LossSettings;
use crate::model::infer::Reading;
use crate::model::{Model, Packed};
use crate::policy::PolicyError;

/// A trajectory to train on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrainTrajectory {
    /// Its tokens, which of them the policy sampled, and the sampler's log-probabilities.
    pub tokens: Tokens,
    /// Its advantage within its group.
    pub advantage: f64,
    /// Whether its last turn ended for lack of room.
    pub truncated: bool,
}

/// The settings of one step's update; `docs/design/policy.md` says what the formulas leave open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpdateSettings {
    /// The step, from 1.
    pub step: u32,
    /// Learning rate after the warm-up.
    pub lr: f64,
    /// Steps of the warm-up: step s uses lr · min(1, s / warmup).
    pub warmup: u32,
    /// Weight of the KL term; 0 computes no reference.
    pub kl_coefficient: f64,
    /// Lower clip range of the ratio.
    pub clip_low: f64,
    /// Upper clip range of the ratio.
    pub clip_high: f64,
    /// How token losses become one number.
    pub loss_agg_mode: LossAggMode,
    /// Trains on no token of a truncated trajectory. It still counts in N.
    pub mask_truncated: bool,
    /// L of `seq-mean-token-sum-norm`.
    pub max_new_tokens: u32,
    /// Divides the logits.
    pub temperature: f64,
    /// Full-batch updates on these trajectories.
    pub iterations: u32,
}

impl UpdateSettings {
    fn learning_rate(&self) -> f64 {
        self.lr * (f64::from(self.step) / f64::from(self.warmup.max(1))).min(1.0)
    }

    pub(super) fn loss(&self) -> LossSettings {
        LossSettings {
            kl_coefficient: self.kl_coefficient,
            clip_low: self.clip_low,
            clip_high: self.clip_high,
            mode: self.loss_agg_mode,
            max_new_tokens: self.max_new_tokens,
        }
    }

    fn check(&self) -> Result<(), PolicyError> {
        let wrong = |text: String| Err(PolicyError::Request(text));
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            return wrong(format!(
                "temperature is {}, allowed: above 0",
                self.temperature
            ));
        }
        if self.iterations == 0 {
            return wrong("the number of updates a step is 0, allowed: 1 or more".into());
        }
        Ok(())
    }
}

/// Makes one step's updates. On an error weights and optimiser may be those of an earlier
/// update of the same step: the caller puts them back.
pub(crate) fn update(
    model: &Model,
    reference: Option<&Model>,
    optimiser: &mut AdamW,
    trajectories: &[TrainTrajectory],
    settings: &UpdateSettings,
) -> Result<UpdateStats, PolicyError> {
    settings.check()?;
    let prepared = Prepared::new(model, trajectories, settings)?;
    let tapes = Tapes::default();
    let references = match reference.filter(|_| settings.kl_coefficient != 0.0) {
        None => None,
        Some(reference) => {
            let reading = Reading::new(reference)?;
            let score = |packed: &Arc<Packed>| {
                tapes.with(|tape| reading.score(packed, settings.temperature, tape))
            };
            Some(
                prepared
                    .batches
                    .par_iter()
                    .map(score)
                    .collect::<Result<Vec<_>, _>>()?,
            )
        }
    };
    let mut old: Option<Vec<Vec<f32>>> = None;
    let mut stats = UpdateStats {
        lr: settings.learning_rate(),
        tokens: prepared.shape.tokens as u64,
        ..UpdateStats::default()
    };
    for _ in 0..settings.iterations {
        let frozen = Frozen {
            old: old.as_deref(),
            reference: references.as_deref(),
        };
        let (gradients, said) = evaluate(model, &prepared, settings, frozen, &tapes)?;
        let norm = norm(&gradients);
        let loss = add_up(&mut stats, &prepared, settings, &said, norm);
        if !loss.is_finite() || !norm.is_finite() {
            return Err(PolicyError::NonFinite {
                what: if loss.is_finite() { "gradient" } else { "loss" },
                step: settings.step,
                evidence: format!(
                    "loss {loss}, gradient norm {norm}, learning rate {}",
                    settings.learning_rate()
                ),
            });
        }
        optimiser.update(model, &gradients, norm, settings.learning_rate())?;
        if old.is_none() {
            compare_with_sampler(&mut stats, &prepared, &said);
            old = Some(said.into_iter().map(|said| said.logprobs).collect());
        }
    }
    Ok(stats)
}

/// Adds one update's numbers to the step's, as means over its updates. Returns its loss.
fn add_up(
    stats: &mut UpdateStats,
    prepared: &Prepared<'_>,
    settings: &UpdateSettings,
    said: &[Said],
    norm: f64,
) -> f64 {
    let losses = || said.iter().flat_map(|said| &said.losses);
    let loss: f64 = losses().map(|part| part.loss).sum();
    let share = 1.0 / f64::from(settings.iterations);
    let per_token = share / prepared.shape.tokens.max(1) as f64;
    stats.loss += share * loss;
    stats.kl += per_token * losses().map(|part| part.kl).sum::<f64>();
    stats.clip_fraction += per_token * losses().map(|part| part.clipped).sum::<usize>() as f64;
    stats.entropy += per_token * said.iter().map(|said| said.entropy).sum::<f64>();
    stats.grad_norm += share * norm;
    loss
}

fn compare_with_sampler(stats: &mut UpdateStats, prepared: &Prepared<'_>, said: &[Said]) {
    let mut sum = 0.0;
    for (batch, said) in said.iter().enumerate() {
        for (ours, sampler) in said.logprobs.iter().zip(prepared.sampler_logprobs(batch)) {
            let difference = f64::from((ours - sampler).abs());
            sum += difference;
            stats.sampler_diff_max = stats.sampler_diff_max.max(difference);
        }
    }
    stats.sampler_diff_mean = sum / prepared.shape.tokens.max(1) as f64;
}
