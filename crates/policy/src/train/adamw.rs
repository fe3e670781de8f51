//! AdamW (Loshchilov and Hutter 2019, algorithm 2) as PyTorch computes it, with gradients
//! clipped by their norm beforehand.

use std::cell::RefCell;

use candle_core::{CpuStorage, Error, InplaceOp1, Layout, Result};
use rayon::prelude::*;

use super::gradients::{Gradients, STRETCH};
use crate::model::Model;
use crate::ops::simd::vectorised;
use crate::policy::PolicyError;

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPS: f64 = 1e-8;

/// Greatest gradient norm; longer gradients are shortened to it.
const MAX_NORM: f64 = 1.0;

/// The optimiser's state: two moments for each of a model's numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct AdamW {
    /// Updates made.
    pub(crate) updates: u64,
    /// First moments, in the order of the model's numbers.
    pub(crate) first: Vec<f32>,
    /// Second moments.
    pub(crate) second: Vec<f32>,
    pub(crate) weight_decay: f64,
}

impl AdamW {
    /// A fresh optimiser for a model. GRPO uses a weight decay of 0.
    pub fn new(model: &Model, weight_decay: f64) -> Self {
        let zeros = || vec![0.0; model.parameter_count()];
        Self {
            updates: 0,
            first: zeros(),
            second: zeros(),
            weight_decay,
        }
    }

    /// Changes the model's weights by gradients of the given norm.
    pub(crate) fn update(
        &mut self,
        model: &Model,
        gradients: &Gradients,
        norm: f64,
        lr: f64,
    ) -> std::result::Result<(), PolicyError> {
        self.updates += 1;
        let updates = self.updates as f64;
        let pace = Pace {
            clip: (MAX_NORM / (norm + 1e-6)).min(1.0) as f32,
            keep: (1.0 - lr * self.weight_decay) as f32,
            rate: (lr / (1.0 - BETA1.powf(updates))) as f32,
            root: (1.0 - BETA2.powf(updates)).sqrt() as f32,
        };
        let moments = RefCell::new((self.first.as_mut_slice(), self.second.as_mut_slice()));
        let update = Update {
            pace,
            gradients,
            moments,
        };
        model
            .weights()
            .inplace_op1(&update)
            .map_err(PolicyError::compute)?;
        model.weights_changed();
        Ok(())
    }
}

/// The numbers of one update that all weights share.
#[derive(Clone, Copy)]
struct Pace {
    clip: f32,
    keep: f32,
    rate: f32,
    root: f32,
}

/// The update as an operation: candle gives write access to a tensor's numbers to in-place
/// operations only.
struct Update<'a> {
    pace: Pace,
    gradients: &'a [f32],
    moments: RefCell<(&'a mut [f32], &'a mut [f32])>,
}

impl Pace {
    fn apply(self, weights: &mut [f32], gradients: &[f32], first: &mut [f32], second: &mut [f32]) {
        let Self {
            clip,
            keep,
            rate,
            root,
        } = self;
        let (b1, b2, eps) = (BETA1 as f32, BETA2 as f32, EPS as f32);
        let (c1, c2) = ((1.0 - BETA1) as f32, (1.0 - BETA2) as f32);
        vectorised(
            #[inline(always)]
            || {
                let state = first.iter_mut().zip(second);
                for ((weight, gradient), (m, v)) in weights.iter_mut().zip(gradients).zip(state) {
                    let g = gradient * clip;
                    *m = b1 * *m + c1 * g;
                    *v = b2 * *v + c2 * g * g;
                    *weight = *weight * keep - rate * *m / (v.sqrt() / root + eps);
                }
            },
        );
    }
}

impl InplaceOp1 for Update<'_> {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> Result<()> {
        let CpuStorage::F32(weights) = storage else {
            return Err(Error::msg("weights are not f32").bt());
        };
        let (pace, gradients) = (self.pace, self.gradients);
        let mut moments = self.moments.borrow_mut();
        let (first, second) = &mut *moments;
        weights
            .par_chunks_mut(STRETCH)
            .zip(gradients.par_chunks(STRETCH))
            .zip(
                first
                    .par_chunks_mut(STRETCH)
                    .zip(second.par_chunks_mut(STRETCH)),
            )
            .for_each(|((weights, gradients), (first, second))| {
                pace.apply(weights, gradients, first, second);
            });
        Ok(())
    }
}
