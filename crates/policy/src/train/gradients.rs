//! Gradients of a whole batch, micro-batch by micro-batch.
//!
//! A batch is cut into runs of micro-batches. Threads each take a run from end to end, adding up
//! its gradients as they come; the runs' sums are added in their order. So the result does not
//! depend on the number of threads, only (in the last bits) on where the batch is cut, which
//! depends on the sequences alone.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use crate::model::decoder::Tape;
use crate::model::infer::Reading;
use crate::model::{Model, Packed};
use crate::ops::simd::{LANES, vectorised};
use crate::policy::PolicyError;

/// One number for each of a model's, in their order.
pub(crate) type Gradients = Vec<f32>;

/// Numbers that a thread takes at a time where all are gone through.
pub(crate) const STRETCH: usize = 1 << 15;

/// Rows of a micro-batch at the most, but for longer sequences. Small enough that activations
/// of a small model stay near the core, large enough that weights are not read too often.
const ROWS: usize = 256;

/// Rows of a run, about: enough of them that its own sum of gradients weighs little.
const RUN_ROWS: usize = 448;

/// Runs at the most.
const RUNS: usize = 16;

/// Bytes of gradients that runs computed together may hold.
const GRADIENT_BYTES: usize = 256 << 20;

/// Where a batch of sequences is cut.
#[derive(Debug, PartialEq)]
pub(crate) struct Cuts {
    /// The micro-batches.
    pub(crate) ranges: Vec<Range<usize>>,
    /// Micro-batches of a run.
    pub(crate) per_run: usize,
}

/// Cuts sequences, given by the rows they take, into micro-batches of about the same number of
/// rows: threads meet at the end, and wait for the one that had most to do.
pub(crate) fn cut(rows: &[usize]) -> Cuts {
    let total: usize = rows.iter().sum();
    // A power of two of runs shares out evenly over the usual numbers of threads.
    let runs = (total / RUN_ROWS).next_power_of_two().clamp(2, RUNS);
    let per_run = total.div_ceil(runs * ROWS).max(1);
    let count = runs * per_run;
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let (mut before, mut current) = (0, 0);
    for (i, rows) in rows.iter().enumerate() {
        // A sequence belongs to the micro-batch in which its middle lies.
        let at = ((2 * before + rows) * count / (2 * total).max(1)).min(count - 1);
        match ranges.last_mut() {
            Some(range) if at == current => range.end = i + 1,
            _ => ranges.push(i..i + 1),
        }
        (before, current) = (before + rows, at);
    }
    Cuts { ranges, per_run }
}

/// Tapes that threads take and give back, so that each is made once a thread.
#[derive(Default)]
pub(crate) struct Tapes(Mutex<Vec<Tape>>);

impl Tapes {
    /// Lends a tape to `work`.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Tape) -> R) -> R {
        let all = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tape = all().pop().unwrap_or_default();
        let result = work(&mut tape);
        all().push(tape);
        result
    }
}

/// Sum of the gradients of micro-batches, `per_run` of them a run. `weigh` is told a
/// micro-batch's number, the log-probabilities of its targets and their entropies, and answers
/// dLoss/dlogprob of each target along with whatever else it wants to keep.
pub(crate) fn gradients<T: Send>(
    model: &Model,
    (batches, per_run): (&[Arc<Packed>], usize),
    temperature: f64,
    tapes: &Tapes,
    weigh: impl Fn(usize, &[f32], &[f32]) -> (Vec<f32>, T) + Sync,
) -> Result<(Gradients, Vec<T>), PolicyError> {
    let reading = Reading::new(model)?;
    let mut sums: Option<Gradients> = None;
    let mut kept = Vec::with_capacity(batches.len());
    let runs: Vec<(usize, &[Arc<Packed>])> = (0..)
        .step_by(per_run)
        .zip(batches.chunks(per_run))
        .collect();
    let fits = GRADIENT_BYTES / (4 * model.parameter_count()).max(1);
    let together = fits.min(RUNS).max(rayon::current_num_threads());
    for wave in runs.chunks(together) {
        let done = wave
            .par_iter()
            .map(|(first, batches)| {
                let mut sum: Gradients = vec![0.0; model.parameter_count()];
                let mut extras = Vec::with_capacity(batches.len());
                for (i, packed) in batches.iter().enumerate() {
                    extras.push(tapes.with(|tape| {
                        if packed.targets() == 0 {
                            return Ok(weigh(first + i, &[], &[]).1);
                        }
                        reading.forward(packed, temperature, tape)?;
                        let (slopes, extra) = weigh(first + i, &tape.logprobs, &tape.entropies);
                        reading.backward(packed, temperature, tape, &slopes, &mut sum)?;
                        Ok(extra)
                    })?);
                }
                Ok((sum, extras))
            })
            .collect::<Result<Vec<_>, PolicyError>>()?;
        let mut parts = Vec::with_capacity(done.len());
        for (part, extras) in done {
            kept.extend(extras);
            parts.push(part);
        }
        let mut parts = parts.into_iter();
        if sums.is_none() {
            sums = parts.next();
        }
        if let Some(sums) = &mut sums {
            add(sums, parts.as_slice());
        }
    }
    let sums = sums.unwrap_or_else(|| vec![0.0; model.parameter_count()]);
    Ok((sums, kept))
}

/// Adds parts to `sums`, in their order.
fn add(sums: &mut [f32], parts: &[Gradients]) {
    let stretches = sums.par_chunks_mut(STRETCH).enumerate();
    stretches.for_each(|(number, sums)| {
        for part in parts {
            let part = &part[number * STRETCH..][..sums.len()];
            vectorised(
                #[inline(always)]
                || {
                    for (sum, x) in sums.iter_mut().zip(part) {
                        *sum += x;
                    }
                },
            );
        }
    });
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
    fn sequences_are_cut_evenly_and_none_is_lost() {
        assert!(cut(&[]).ranges.is_empty());
        assert_eq!(cut(&[0, 0]).ranges.len(), 1);
        assert_eq!(cut(&[5]).ranges.len(), 1);
        assert_eq!(cut(&[10, 10]).ranges, [0..1, 1..2]);
        let even = cut(&[7; 256]);
        assert_eq!((even.ranges.len(), even.per_run), (8, 2));
        assert!(even.ranges.iter().all(|range| range.len() == 32));
        for rows in [vec![1000, 20, 10, 3000, 5, 0], (0..900).collect()] {
            let ranges = cut(&rows).ranges;
            let all: Vec<usize> = ranges.into_iter().flatten().collect();
            assert_eq!(all, (0..rows.len()).collect::<Vec<_>>());
        }
    }
}
