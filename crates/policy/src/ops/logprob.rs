//! Log-softmax at a temperature with the target's number gathered, and the entropy beside it.
//! Cross-entropy is its negative: supervised training needs no operation of its own.

use std::sync::{Arc, OnceLock};

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::simd::{LANES, exp, sum_lanes, vectorised};
use super::storage::{Held, floats};

/// What one row of logits says, divided by the temperature.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Softmax {
    /// Greatest logit.
    max: f32,
    /// Σ e^(logit − greatest).
    sum: f32,
    /// log Σ e^logit.
    log_sum: f32,
    /// Entropy in nats.
    pub(crate) entropy: f32,
}

#[inline(always)]
fn greatest(logits: &[f32], inverse_temperature: f32) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            let x = chunk[i] * inverse_temperature;
            lanes[i] = if x > lanes[i] { x } else { lanes[i] };
        }
    }
    let rest = rest.iter().map(|x| x * inverse_temperature);
    lanes
        .into_iter()
        .chain(rest)
        .fold(f32::NEG_INFINITY, f32::max)
}

impl Softmax {
    /// Reads a row.
    #[inline(always)]
    pub(crate) fn of(logits: &[f32], inverse_temperature: f32) -> Self {
        let max = greatest(logits, inverse_temperature);
        let mut sums = [0.0f32; LANES];
        let mut products = [0.0f32; LANES];
        let (chunks, rest) = logits.as_chunks::<LANES>();
        for chunk in chunks {
            for i in 0..LANES {
                let x = chunk[i] * inverse_temperature - max;
                let e = exp(x);
                sums[i] += e;
                products[i] = e.mul_add(x, products[i]);
            }
        }
        for (i, logit) in rest.iter().enumerate() {
            let x = logit * inverse_temperature - max;
            let e = exp(x);
            sums[i] += e;
            products[i] = e.mul_add(x, products[i]);
        }
        let sum = sum_lanes(sums);
        let log = sum.ln();
        Self {
            max,
            sum,
            log_sum: max + log,
            entropy: log - sum_lanes(products) / sum,
        }
    }

    /// Log-probability of a logit of the row.
    pub(crate) fn logprob(&self, logit: f32, inverse_temperature: f32) -> f32 {
        logit * inverse_temperature - self.log_sum
    }

    /// Its probability times the sum of all (the sum is [`Softmax::sum`]).
    #[inline(always)]
    pub(crate) fn weight(&self, logit: f32, inverse_temperature: f32) -> f32 {
        exp(logit * inverse_temperature - self.max)
    }

    /// Sum of all weights.
    pub(crate) fn sum(&self) -> f32 {
        self.sum
    }
}

/// The operation: log-probability of each row's target.
pub(crate) struct TargetLogprob {
    /// One target a row.
    pub(crate) targets: Vec<u32>,
    /// One over the temperature.
    pub(crate) inverse_temperature: f32,
    /// Filled with each row's entropy by the forward pass.
    pub(crate) entropies: Arc<OnceLock<Vec<f32>>>,
}

impl CustomOp1 for TargetLogprob {
    fn name(&self) -> &'static str {
        "target-logprob"
    }

    fn cpu_fwd(&self, logits: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let vocab = layout.shape().dims2()?.1;
        let rows = floats(logits, layout)?.chunks_exact(vocab);
        let inverse = self.inverse_temperature;
        let (logprobs, entropies) = vectorised(#[inline(always)] || {
            rows.zip(&self.targets)
                .map(|(row, target)| {
                    let softmax = Softmax::of(row, inverse);
                    (
                        softmax.logprob(row[*target as usize], inverse),
                        softmax.entropy,
                    )
                })
                .unzip::<f32, f32, Vec<f32>, Vec<f32>>()
        });
        let count = logprobs.len();
        let _ = self.entropies.set(entropies);
        Ok((CpuStorage::F32(logprobs), count.into()))
    }

    fn bwd(&self, logits: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let vocab = logits.dim(1)?;
        let (held, held_grad) = (Held::new(logits), Held::new(grad));
        let (rows, grads) = (held.floats()?, held_grad.floats()?);
        let inverse = self.inverse_temperature;
        let mut out = vec![0.0f32; rows.len()];
        vectorised(#[inline(always)] || {
            let rows = rows.chunks_exact(vocab).zip(out.chunks_exact_mut(vocab));
            for (((row, out), target), grad) in rows.zip(&self.targets).zip(grads) {
                let softmax = Softmax::of(row, inverse);
                let factor = -grad * inverse / softmax.sum();
                for (d, logit) in out.iter_mut().zip(row) {
                    *d = factor * softmax.weight(*logit, inverse);
                }
                out[*target as usize] += grad * inverse;
            }
        });
        Ok(Some(Tensor::from_vec(
            out,
            logits.shape(),
            logits.device(),
        )?))
    }
}
