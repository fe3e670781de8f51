//! The loss of a step at the weights as they are, and its gradients.

use super::gradients::{Gradients, Tapes, gradients};
use super::prepared::Prepared;
use super::update::UpdateSettings;
use crate::grpo::{SequenceLoss, SequenceTerms};
use crate::model::Model;
use crate::ops::simd::{all_finite, vectorised};
use crate::policy::PolicyError;

/// What one micro-batch of one update says.
pub(super) struct Said {
    pub(super) losses: Vec<SequenceLoss>,
    pub(super) logprobs: Vec<f32>,
    pub(super) entropy: f64,
}

/// The log-probabilities that stay as they are during a step, micro-batch by micro-batch.
#[derive(Clone, Copy, Default)]
pub(super) struct Frozen<'a> {
    /// log π_old; `None` means the weights as they are.
    pub(super) old: Option<&'a [Vec<f32>]>,
    /// log π_ref; `None` leaves the KL term out.
    pub(super) reference: Option<&'a [Vec<f32>]>,
}

/// Gradients of the loss, and what each micro-batch says.
pub(super) fn evaluate(
    model: &Model,
    prepared: &Prepared<'_>,
    settings: &UpdateSettings,
    frozen: Frozen<'_>,
    tapes: &Tapes,
) -> Result<(Gradients, Vec<Said>), PolicyError> {
    let weigh = |batch: usize, logprobs: &[f32], entropies: &[f32]| {
        let old = frozen.old.map_or(logprobs, |old| &old[batch]);
        let reference = frozen.reference.map(|all| all[batch].as_slice());
        weigh(
            prepared,
            settings,
            batch,
            [logprobs, old],
            reference,
            entropies,
        )
    };
    let (gradients, said) = gradients(
        model,
        (&prepared.batches, prepared.per_run),
        settings.temperature,
        tapes,
        weigh,
    )?;
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
    Ok((gradients, said))
}

fn weigh(
    prepared: &Prepared<'_>,
    settings: &UpdateSettings,
    batch: usize,
    [logprobs, old]: [&[f32]; 2],
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
