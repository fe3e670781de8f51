//! A model: its shape and its numbers.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{Device, Tensor, Var};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::config::ModelConfig;
use super::layout::{Start, parameters};
use super::prepared::Prepared;
use crate::ops::rope::Rope;
use crate::ops::storage::Held;
use crate::policy::PolicyError;

/// A decoder with its weights: one tensor of all its numbers, in the order of its parameters.
/// That of a trainable model is a candle variable; a frozen one builds no graph.
pub struct Model {
    config: ModelConfig,
    rope: Arc<Rope>,
    weights: Tensor,
    var: Option<Var>,
    /// Matrices packed for products, until the weights change.
    prepared: Mutex<Option<Arc<Prepared>>>,
}

impl Model {
    /// A trainable model from all its numbers, in the order of its parameters.
    pub(crate) fn from_numbers(
        config: ModelConfig,
        numbers: Vec<f32>,
    ) -> Result<Self, PolicyError> {
        let count = numbers.len();
        let var = Var::from_vec(numbers, count, &Device::Cpu).map_err(PolicyError::compute)?;
        let rope = Rope::new(
            config.head(),
            config.rope_theta,
            config.max_position_embeddings,
        );
        Ok(Self {
            config,
            rope: Arc::new(rope),
            weights: var.as_tensor().clone(),
            var: Some(var),
            prepared: Mutex::default(),
        })
    }

    /// A fresh model: normal weights from the seed, norms at one.
    pub fn initial(config: ModelConfig, seed: u64) -> Result<Self, PolicyError> {
        config.check().map_err(|reason| PolicyError::Config {
            file: "config".into(),
            reason,
        })?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut numbers = Vec::new();
        for parameter in parameters(&config) {
            numbers.extend((0..parameter.size()).map(|_| match parameter.start {
                Start::Ones => 1.0,
                Start::Normal(deviation) => (normal(&mut random) * deviation) as f32,
            }));
        }
        Self::from_numbers(config, numbers)
    }

    /// Its shape.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Number of its parameters.
    pub fn parameter_count(&self) -> usize {
        self.weights.elem_count()
    }

    /// A copy with numbers of its own that builds no graph: a reference.
    pub fn frozen(&self) -> Result<Self, PolicyError> {
        let weights = self.weights.detach().copy().map_err(PolicyError::compute)?;
        Ok(Self {
            config: self.config.clone(),
            rope: self.rope.clone(),
            weights,
            var: None,
            prepared: Mutex::default(),
        })
    }

    /// Takes over the weights of a model of the same shape.
    pub(crate) fn take_weights(&self, other: &Self) -> Result<(), PolicyError> {
        if let Some(var) = &self.var {
            var.set(&other.weights).map_err(PolicyError::compute)?;
            self.weights_changed();
        }
        Ok(())
    }

    /// All its numbers.
    pub(crate) fn weights(&self) -> &Tensor {
        &self.weights
    }

    /// All its numbers, held for reading.
    pub(crate) fn held(&self) -> Held<'_> {
        Held::new(&self.weights)
    }

    pub(crate) fn rope(&self) -> &Arc<Rope> {
        &self.rope
    }

    /// Its matrices, packed for products with its weights as they are now.
    pub(crate) fn prepared(&self) -> candle_core::Result<Arc<Prepared>> {
        let mut kept = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = &*kept {
            return Ok(prepared.clone());
        }
        let prepared = Arc::new(Prepared::new(&self.config, self.held().floats()?));
        *kept = Some(prepared.clone());
        Ok(prepared)
    }

    /// Must follow every change of the weights.
    pub(crate) fn weights_changed(&self) {
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A standard normal number (Box and Muller 1958).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (a, b) = (uniform(), uniform());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}
