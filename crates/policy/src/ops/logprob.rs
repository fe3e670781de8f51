//! Log-softmax at a temperature with the target's number gathered, and the entropy beside it.
//! Cross-entropy is its negative: supervised training needs no operation of its own.

use super::simd::{LANES, exp, max_lanes, sum_lanes, vectorised};

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
    for (lane, x) in lanes.iter_mut().zip(rest) {
        let x = x * inverse_temperature;
        *lane = if x > *lane { x } else { *lane };
    }
    max_lanes(lanes)
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

/// Log-probability of each row's target, and each row's entropy.
pub(crate) fn target_logprobs(
    logits: &[f32],
    targets: &[u32],
    inverse_temperature: f32,
) -> (Vec<f32>, Vec<f32>) {
    let (mut logprobs, mut entropies) = (vec![0.0; targets.len()], vec![0.0; targets.len()]);
    if targets.is_empty() {
        return (logprobs, entropies);
    }
    let vocab = logits.len() / targets.len();
    vectorised(
        #[inline(always)]
        || {
            let outs = logprobs.iter_mut().zip(&mut entropies);
            for ((row, target), (logprob, entropy)) in
                logits.chunks_exact(vocab).zip(targets).zip(outs)
            {
                let softmax = Softmax::of(row, inverse_temperature);
                *logprob = softmax.logprob(row[*target as usize], inverse_temperature);
                *entropy = softmax.entropy;
            }
        },
    );
    (logprobs, entropies)
}

/// The logits' gradient, from that of each target's log-probability.
pub(crate) fn target_logprobs_backward(
    logits: &[f32],
    targets: &[u32],
    inverse_temperature: f32,
    grad: &[f32],
    d_logits: &mut [f32],
) {
    if targets.is_empty() {
        return;
    }
    let vocab = logits.len() / targets.len();
    vectorised(
        #[inline(always)]
        || {
            let rows = logits
                .chunks_exact(vocab)
                .zip(d_logits.chunks_exact_mut(vocab));
            for (((row, out), target), grad) in rows.zip(targets).zip(grad) {
                let softmax = Softmax::of(row, inverse_temperature);
                let factor = -grad * inverse_temperature / softmax.sum();
                for (d, logit) in out.iter_mut().zip(row) {
                    *d = factor * softmax.weight(*logit, inverse_temperature);
                }
                out[*target as usize] += grad * inverse_temperature;
            }
        },
    );
}
