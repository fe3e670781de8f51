//! Supervised steps: mean cross-entropy of marked tokens. The base model is made with these.

use std::sync::Arc;

use super::adamw::AdamW;
use super::gradients::{Cuts, Tapes, cut, gradients, norm};
use crate::model::{Model, Packed};
use crate::policy::PolicyError;

/// A sequence to imitate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Example {
    /// Its tokens.
    pub ids: Vec<u32>,
    /// True for each token that is learned; as long as `ids`.
    pub mask: Vec<bool>,
}

/// One update towards a batch of examples. Returns the mean cross-entropy of the learned tokens
/// in nats, before the update. Weights are untouched when it is not finite.
pub fn supervised_step(
    model: &mut Model,
    optimiser: &mut AdamW,
    batch: &[Example],
    lr: f64,
) -> Result<f64, PolicyError> {
    let rows: Vec<usize> = batch
        .iter()
        .map(|example| Packed::rows_of(&example.mask))
        .collect();
    let Cuts { ranges, per_run } = cut(&rows);
    let batches: Vec<Arc<Packed>> = ranges
        .into_iter()
        .map(|range| {
            Arc::new(Packed::new(
                batch[range]
                    .iter()
                    .map(|e| (e.ids.as_slice(), e.mask.as_slice())),
            ))
        })
        .collect();
    let count: usize = batches.iter().map(|packed| packed.targets()).sum();
    if count == 0 {
        return Err(PolicyError::Request(
            "no token of the batch is marked to be learned".into(),
        ));
    }
    let slope = -1.0 / count as f32;
    let (gradients, sums) = gradients(
        model,
        (&batches, per_run),
        1.0,
        &Tapes::default(),
        |_, logprobs, _| {
            let sum: f64 = logprobs.iter().map(|x| f64::from(*x)).sum();
            (vec![slope; logprobs.len()], sum)
        },
    )?;
    let loss = -sums.iter().sum::<f64>() / count as f64;
    let norm = norm(&gradients);
    if !loss.is_finite() || !norm.is_finite() {
        return Err(PolicyError::NonFinite {
            what: if loss.is_finite() { "gradient" } else { "loss" },
            step: u32::try_from(optimiser.updates + 1).unwrap_or(u32::MAX),
            evidence: format!("loss {loss}, gradient norm {norm}, learning rate {lr}"),
        });
    }
    optimiser.update(model, &gradients, norm, lr)?;
    Ok(loss)
}
