//! AdamW (Loshchilov and Hutter 2019, algorithm 2) as PyTorch computes it, with gradients
//! clipped by their norm beforehand.

use std::cell::RefCell;

use candle_core::{CpuStorage, Error, InplaceOp1, Layout, Result, Var};
use rayon::prelude::*;

use super::gradients::Gradients;
use crate::model::Model;
use crate::ops::simd::vectorised;
use crate::policy::PolicyError;

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPS: f64 = 1e-8;

/// Greatest gradient norm; longer gradients are shortened to it.
const MAX_NORM: f64 = 1.0;

/// The optimiser's state: two moments a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct AdamW {
    /// Updates made.
    pub(crate) updates: u64,
    /// First moments, in the order of the model's parameters.
    pub(crate) first: Vec<Vec<f32>>,
    /// Second moments.
    pub(crate) second: Vec<Vec<f32>>,
    pub(crate) weight_decay: f64,
}

impl AdamW {
    /// A fresh optimiser for a model. GRPO uses a weight decay of 0.
    pub fn new(model: &Model, weight_decay: f64) -> Self {
        let zeros = || {
            model
                .tensors()
                .iter()
                .map(|t| vec![0.0; t.elem_count()])
                .collect::<Vec<_>>()
        };
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
        model
            .vars()
            .par_iter()
            .zip(gradients)
            .zip(self.first.par_iter_mut().zip(&mut self.second))
            .try_for_each(|((var, gradient), (first, second))| {
                pace.apply(var, gradient, first, second)
            })
            .map_err(PolicyError::compute)
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

/// One parameter's update. candle gives write access to a variable's storage to in-place
/// operations only.
struct Update<'a> {
    pace: Pace,
    gradient: &'a [f32],
    moments: RefCell<(&'a mut [f32], &'a mut [f32])>,
}

impl Pace {
    fn apply(
        self,
        var: &Var,
        gradient: &[f32],
        first: &mut [f32],
        second: &mut [f32],
    ) -> Result<()> {
        let update = Update {
            pace: self,
            gradient,
            moments: RefCell::new((first, second)),
        };
        var.as_tensor().inplace_op1(&update)
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
        let Pace {
            clip,
            keep,
            rate,
            root,
        } = self.pace;
        let (b1, b2, eps) = (BETA1 as f32, BETA2 as f32, EPS as f32);
        let (c1, c2) = ((1.0 - BETA1) as f32, (1.0 - BETA2) as f32);
        let mut moments = self.moments.borrow_mut();
        let (first, second) = &mut *moments;
        vectorised(#[inline(always)] || {
            let state = first.iter_mut().zip(second.iter_mut());
            for ((weight, gradient), (m, v)) in weights.iter_mut().zip(self.gradient).zip(state) {
                let g = gradient * clip;
                *m = b1 * *m + c1 * g;
                *v = b2 * *v + c2 * g * g;
                *weight = *weight * keep - rate * *m / (v.sqrt() / root + eps);
            }
        });
        Ok(())
    }
}
