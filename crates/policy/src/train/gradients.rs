//! Gradients of a whole batch, micro-batch by micro-batch.
//!
//! Threads each take a micro-batch from end to end; the sums are made in the micro-batches'
//! order. So the result does not depend on the number of threads, only (in the last bits) on
//! where the batch is cut, which depends on the sequences alone.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use crate::model::{Model, Packed};
use crate::ops::simd::{LANES, vectorised};
use crate::ops::storage::Held;
use crate::policy::PolicyError;

/// One number for each of a model's, in their order.
pub(crate) type Gradients = Vec<f32>;

/// Numbers that a thread takes at a time where all are gone through.
pub(crate) const STRETCH: usize = 1 << 15;

/// Rows of a micro-batch. Small enough that activations of a small model stay near the core,
/// large enough that the gradients' sums weigh little.
const ROWS: usize = 1024;

/// Bytes of gradients that micro-batches computed together may hold.
const GRADIENT_BYTES: usize = 256 << 20;

/// Cuts sequences, given by the rows they take, into runs of about [`ROWS`] rows each.
pub(crate) fn micro_batches(rows: &[usize]) -> Vec<Range<usize>> {
    let mut cuts = Vec::new();
    let (mut from, mut held) = (0, 0);
    for (i, rows) in rows.iter().enumerate() {
        if held > 0 && held + rows > ROWS {
            cuts.push(from..i);
            (from, held) = (i, 0);
        }
        held += rows;
    }
    if from < rows.len() {
        cuts.push(from..rows.len());
    }
    cuts
}

/// Sum of the gradients of micro-batches. `weigh` is told a micro-batch's number, the
/// log-probabilities of its targets and their entropies, and answers dLoss/dlogprob of each
/// target along with whatever else it wants to keep.
pub(crate) fn gradients<T: Send>(
    model: &Model,
    batches: &[Arc<Packed>],
    temperature: f64,
    weigh: impl Fn(usize, &[f32], &[f32]) -> (Vec<f32>, T) + Sync,
) -> Result<(Gradients, Vec<T>), PolicyError> {
    let mut sums: Gradients = vec![0.0; model.parameter_count()];
    let mut kept = Vec::with_capacity(batches.len());
    let fits = GRADIENT_BYTES / (4 * model.parameter_count()).max(1);
    let together = fits.min(16).max(rayon::current_num_threads());
    for (wave, batches) in batches.chunks(together).enumerate() {
        let done = batches
            .par_iter()
            .enumerate()
            .map(|(i, packed)| one(model, packed, temperature, wave * together + i, &weigh))
            .collect::<Result<Vec<_>, _>>()
            .map_err(PolicyError::compute)?;
        for (tensor, extra) in done {
            kept.push(extra);
            if let Some(tensor) = tensor {
                add(&mut sums, &tensor).map_err(PolicyError::compute)?;
            }
        }
    }
    Ok((sums, kept))
}

type One<T> = (Option<Tensor>, T);

fn one<T>(
    model: &Model,
    packed: &Arc<Packed>,
    temperature: f64,
    number: usize,
    weigh: &(impl Fn(usize, &[f32], &[f32]) -> (Vec<f32>, T) + Sync),
) -> candle_core::Result<One<T>> {
    if packed.targets() == 0 {
        return Ok((None, weigh(number, &[], &[]).1));
    }
    let out = model.logprobs(packed, temperature)?;
    let (slopes, extra) = {
        let held = Held::new(&out.logprobs);
        weigh(number, held.floats()?, &out.entropies)
    };
    // Σ slope · logprob has the loss's gradient; its value is of no meaning.
    let slopes = Tensor::from_vec(slopes, packed.targets(), &Device::Cpu)?;
    let mut grads = (out.logprobs * slopes)?.sum_all()?.backward()?;
    Ok((grads.remove(model.weights()), extra))
}

fn add(sums: &mut [f32], tensor: &Tensor) -> candle_core::Result<()> {
    let held = Held::new(tensor);
    sums.par_chunks_mut(STRETCH)
        .zip(held.floats()?.par_chunks(STRETCH))
        .for_each(|(sums, numbers)| {
            vectorised(
                #[inline(always)]
                || {
                    for (sum, x) in sums.iter_mut().zip(numbers) {
                        *sum += x;
                    }
                },
            );
        });
    Ok(())
}

/// The gradients' Euclidean norm, summed in double precision, stretch by stretch.
pub(crate) fn norm(gradients: &Gradients) -> f64 {
    let squares: Vec<f64> = gradients
        .par_chunks(STRETCH)
        .map(|stretch| {
            let mut lanes = [0.0f64; LANES];
            let (chunks, rest) = stretch.as_chunks::<LANES>();
            vectorised(
                #[inline(always)]
                || {
                    for chunk in chunks {
                        for i in 0..LANES {
                            let x = f64::from(chunk[i]);
                            lanes[i] += x * x;
                        }
                    }
                },
            );
            let rest: f64 = rest.iter().map(|x| f64::from(*x).powi(2)).sum();
            lanes.iter().sum::<f64>() + rest
        })
        .collect();
    squares.iter().sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_cut_by_rows_and_none_is_lost() {
        assert!(micro_batches(&[]).is_empty());
        assert_eq!(
            micro_batches(&[1000, 20, 10, 3000, 5]),
            [0..2, 2..3, 3..4, 4..5]
        );
        assert_eq!(micro_batches(&[8; 256]), [0..128, 128..256]);
    }
}
