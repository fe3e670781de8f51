//! The trajectories of a step, checked, cut into micro-batches and counted.

use std::sync::Arc;

use paddock_types::trajectory::Tokens;

use super::gradients::{Cuts, cut};
use super::update::{TrainTrajectory, UpdateSettings};
use crate::grpo::StepShape;
use crate::model::{Model, Packed};
use crate::policy::PolicyError;

/// A step's trajectories, packed and counted.
pub(super) struct Prepared<'a> {
    pub(super) trajectories: &'a [TrainTrajectory],
    pub(super) batches: Vec<Arc<Packed>>,
    /// Micro-batches of a run.
    pub(super) per_run: usize,
    /// For each micro-batch, the trajectories that have trained tokens and how many.
    pub(super) members: Vec<Vec<(usize, usize)>>,
    pub(super) shape: StepShape,
}

impl<'a> Prepared<'a> {
    /// Packs and counts; refuses what cannot be trained on.
    pub(super) fn new(
        model: &Model,
        trajectories: &'a [TrainTrajectory],
        settings: &UpdateSettings,
    ) -> Result<Self, PolicyError> {
        let mut rows = Vec::with_capacity(trajectories.len());
        for (i, trajectory) in trajectories.iter().enumerate() {
            rows.push(rows_of(model, i, trajectory, settings)?);
        }
        let (mut batches, mut members) = (Vec::new(), Vec::new());
        let Cuts { ranges, per_run } = cut(&rows);
        for range in ranges {
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
            per_run,
            members,
            shape,
        })
    }

    /// The sampler's log-probabilities of a micro-batch's targets.
    pub(super) fn sampler_logprobs(&self, batch: usize) -> impl Iterator<Item = f32> {
        self.members[batch].iter().flat_map(|(i, _)| {
            let tokens = &self.trajectories[*i].tokens;
            let trained = (1..tokens.ids.len()).filter(|t| tokens.mask[*t]);
            trained.map(|t| tokens.logprobs[t])
        })
    }

    /// Names the first target whose log-probability is not finite.
    pub(super) fn broken(&self, batch: usize, logprobs: &[f32]) -> String {
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
