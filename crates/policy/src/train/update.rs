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
use super::gradients::{gradients, micro_batches, norm};
use crate::grpo::{LossSettings, SequenceLoss, SequenceTerms, StepShape};
use crate::model::infer::Reading;
use crate::model::{Model, Packed};
use crate::ops::simd::{all_finite, vectorised};
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

/// The settings of one step's update; `grpo.md` says what each means.
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

    fn loss(&self) -> LossSettings {
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

/// A step's trajectories, packed and counted.
struct Prepared<'a> {
    trajectories: &'a [TrainTrajectory],
    batches: Vec<Arc<Packed>>,
    /// For each micro-batch, the trajectories that have trained tokens and how many.
    members: Vec<Vec<(usize, usize)>>,
    shape: StepShape,
}

impl<'a> Prepared<'a> {
    fn new(
        model: &Model,
        trajectories: &'a [TrainTrajectory],
        settings: &UpdateSettings,
    ) -> Result<Self, PolicyError> {
        let mut rows = Vec::with_capacity(trajectories.len());
        for (i, trajectory) in trajectories.iter().enumerate() {
            rows.push(rows_of(model, i, trajectory, settings)?);
        }
        let (mut batches, mut members) = (Vec::new(), Vec::new());
        for range in micro_batches(&rows) {
            let trained: Vec<usize> = range.filter(|i| rows[*i] > 0).collect();
            let tokens = |i: &usize| &trajectories[*i].tokens;
            batches.push(Arc::new(Packed::new(
                trained
                    .iter()
                    .map(|i| (tokens(i).ids.as_slice(), tokens(i).mask.as_slice())),
            )));
            let count = |i: usize| {
                trajectories[i].tokens.mask[1..]
                    .iter()
                    .filter(|m| **m)
                    .count()
            };
            members.push(trained.into_iter().map(|i| (i, count(i))).collect());
        }
        let tokens = batches.iter().map(|packed| packed.targets()).sum();
        let shape = StepShape {
            trajectories: trajectories.len(),
            tokens,
        };
        Ok(Self {
            trajectories,
            batches,
            members,
            shape,
        })
    }

    /// The sampler's log-probabilities of a micro-batch's targets.
    fn sampler_logprobs(&self, batch: usize) -> impl Iterator<Item = f32> {
        self.members[batch].iter().flat_map(|(i, _)| {
            let tokens = &self.trajectories[*i].tokens;
            let trained = (1..tokens.ids.len()).filter(|t| tokens.mask[*t]);
            trained.map(|t| tokens.logprobs[t])
        })
    }

    /// Names the first target whose log-probability is not finite.
    fn broken(&self, batch: usize, logprobs: &[f32]) -> String {
        let at = logprobs
            .iter()
            .position(|x| !x.is_finite())
            .unwrap_or_default();
        let mut first = 0;
        for (i, count) in &self.members[batch] {
            if at < first + count {
                let tokens = &self.trajectories[*i].tokens;
                let position = (1..tokens.ids.len())
                    .filter(|t| tokens.mask[*t])
                    .nth(at - first);
                let position = position.unwrap_or_default();
                return format!(
                    "{} at token {position} of trajectory {i} of the step",
                    logprobs[at]
                );
            }
            first += count;
        }
        String::new()
    }
}

/// Rows of a trajectory that a pass computes: 0 when nothing of it is trained on.
fn rows_of(
    model: &Model,
    number: usize,
    trajectory: &TrainTrajectory,
    settings: &UpdateSettings,
) -> Result<usize, PolicyError> {
    let Tokens {
        ids,
        mask,
        logprobs,
    } = &trajectory.tokens;
    let wrong = |text: String| Err(PolicyError::Request(format!("trajectory {number}: {text}")));
    if ids.len() != mask.len() || ids.len() != logprobs.len() {
        let (a, b, c) = (ids.len(), mask.len(), logprobs.len());
        return wrong(format!(
            "{a} tokens, {b} mask entries and {c} log-probs, must be equal"
        ));
    }
    let config = model.config();
    if let Some(id) = ids.iter().find(|id| **id as usize >= config.vocab_size) {
        return wrong(format!(
            "token {id}, allowed: 0 to {}",
            config.vocab_size - 1
        ));
    }
    if !trajectory.advantage.is_finite() {
        return wrong(format!(
            "advantage {}, it must be finite",
            trajectory.advantage
        ));
    }
    let rows = Packed::rows_of(mask);
    if rows > config.max_position_embeddings {
        let context = config.max_position_embeddings;
        return wrong(format!(
            "trained tokens up to position {rows}, the context is {context}"
        ));
    }
    let left_out = trajectory.truncated && settings.mask_truncated;
    Ok(if left_out { 0 } else { rows })
}

/// What one micro-batch of one update says.
struct Said {
    losses: Vec<SequenceLoss>,
    logprobs: Vec<f32>,
    entropy: f64,
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
    let references = match reference.filter(|_| settings.kl_coefficient != 0.0) {
        None => None,
        Some(reference) => {
            let reading = Reading::new(reference)?;
            let score = |packed: &Arc<Packed>| reading.score(packed, settings.temperature);
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
        let weigh = |batch: usize, logprobs: &[f32], entropies: &[f32]| {
            let old = old.as_ref().map_or(logprobs, |old| &old[batch]);
            let reference = references.as_ref().map(|all| all[batch].as_slice());
            weigh(
                &prepared, settings, batch, logprobs, old, reference, entropies,
            )
        };
        let (gradients, said) = gradients(model, &prepared.batches, settings.temperature, weigh)?;
        for (batch, said) in said.iter().enumerate() {
            if !vectorised(
                #[inline(always)]
                || all_finite(&said.logprobs),
            ) {
                let evidence = prepared.broken(batch, &said.logprobs);
                return Err(PolicyError::NonFinite {
                    what: "log-prob",
                    step: settings.step,
                    evidence,
                });
            }
        }
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

fn weigh(
    prepared: &Prepared<'_>,
    settings: &UpdateSettings,
    batch: usize,
    logprobs: &[f32],
    old: &[f32],
    reference: Option<&[f32]>,
    entropies: &[f32],
) -> (Vec<f32>, Said) {
    let terms = settings.loss();
    let mut slopes = Vec::with_capacity(logprobs.len());
    let mut losses = Vec::with_capacity(prepared.members[batch].len());
    for (trajectory, count) in &prepared.members[batch] {
        let range = slopes.len()..slopes.len() + count;
        let sequence = SequenceTerms {
            advantage: prepared.trajectories[*trajectory].advantage,
            logprobs: &logprobs[range.clone()],
            old: &old[range.clone()],
            reference: reference.map(|all| &all[range]),
        };
        let loss = sequence.loss(&terms, terms.token_weight(prepared.shape, *count));
        slopes.extend_from_slice(&loss.gradient);
        losses.push(loss);
    }
    let entropy = entropies.iter().map(|x| f64::from(*x)).sum();
    (
        slopes,
        Said {
            losses,
            logprobs: logprobs.to_vec(),
            entropy,
        },
    )
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
