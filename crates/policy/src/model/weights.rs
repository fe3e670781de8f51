//! A model: its shape and its numbers.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::config::ModelConfig;
use super::layout::{PER_LAYER, Start, parameters};
use crate::ops::rope::Rope;
use crate::ops::storage::Held;
use crate::policy::PolicyError;

/// A decoder with its weights. Trainable ones are candle variables; a frozen one builds no
/// graph.
pub struct Model {
    config: ModelConfig,
    rope: Arc<Rope>,
    tensors: Vec<Tensor>,
    vars: Vec<Var>,
}

/// The parameters of a block.
pub(crate) struct Block<T> {
    pub(crate) attention_norm: T,
    pub(crate) qkv: T,
    pub(crate) out: T,
    pub(crate) mlp_norm: T,
    pub(crate) gate_up: T,
    pub(crate) down: T,
}

impl Model {
    /// A trainable model from numbers in the order of its parameters.
    pub(crate) fn from_numbers(
        config: ModelConfig,
        numbers: Vec<Vec<f32>>,
    ) -> Result<Self, PolicyError> {
        let vars = parameters(&config)
            .iter()
            .zip(numbers)
            .map(|(parameter, numbers)| Var::from_vec(numbers, parameter.shape(), &Device::Cpu))
            .collect::<Result<Vec<_>, _>>()
            .map_err(PolicyError::compute)?;
        let tensors = vars.iter().map(|var| var.as_tensor().clone()).collect();
        let rope = Rope::new(
            config.head(),
            config.rope_theta,
            config.max_position_embeddings,
        );
        Ok(Self {
            config,
            rope: Arc::new(rope),
            tensors,
            vars,
        })
    }

    /// A fresh model: normal weights from the seed, norms at one.
    pub fn initial(config: ModelConfig, seed: u64) -> Result<Self, PolicyError> {
        config.check().map_err(|reason| PolicyError::Config {
            file: "config".into(),
            reason,
        })?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let numbers = parameters(&config)
            .iter()
            .map(|parameter| match parameter.start {
                Start::Ones => vec![1.0; parameter.size()],
                Start::Normal(deviation) => (0..parameter.size())
                    .map(|_| (normal(&mut random) * deviation) as f32)
                    .collect(),
            })
            .collect();
        Self::from_numbers(config, numbers)
    }

    /// Its shape.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Number of its parameters.
    pub fn parameter_count(&self) -> usize {
        self.tensors.iter().map(Tensor::elem_count).sum()
    }

    /// A copy with numbers of its own that builds no graph: a reference.
    pub fn frozen(&self) -> Result<Self, PolicyError> {
        let tensors = self
            .tensors
            .iter()
            .map(|tensor| tensor.detach().copy())
            .collect::<Result<_, _>>()
            .map_err(PolicyError::compute)?;
        let (config, rope) = (self.config.clone(), self.rope.clone());
        Ok(Self {
            config,
            rope,
            tensors,
            vars: Vec::new(),
        })
    }

    /// Takes over the weights of a model of the same shape.
    pub(crate) fn take_weights(&self, other: &Self) -> Result<(), PolicyError> {
        for (var, tensor) in self.vars.iter().zip(&other.tensors) {
            var.set(tensor).map_err(PolicyError::compute)?;
        }
        Ok(())
    }

    /// The variables of a trainable model; empty for a frozen one.
    pub(crate) fn vars(&self) -> &[Var] {
        &self.vars
    }

    pub(crate) fn rope(&self) -> &Arc<Rope> {
        &self.rope
    }

    pub(crate) fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Every parameter's numbers, held for reading.
    pub(crate) fn held(&self) -> Vec<Held<'_>> {
        self.tensors.iter().map(Held::new).collect()
    }
}

/// The blocks of a list of parameters.
pub(crate) fn blocks<T: Copy>(all: &[T], layers: usize) -> impl Iterator<Item = Block<T>> {
    all[1..1 + layers * PER_LAYER]
        .as_chunks::<PER_LAYER>()
        .0
        .iter()
        .map(
            |&[attention_norm, qkv, out, mlp_norm, gate_up, down]| Block {
                attention_norm,
                qkv,
                out,
                mlp_norm,
                gate_up,
                down,
            },
        )
}

/// The last norm and the output layer of a list of parameters.
pub(crate) fn ends<T: Copy>(all: &[T], layers: usize) -> (T, T) {
    let norm = 1 + layers * PER_LAYER;
    (all[norm], *all.get(norm + 1).unwrap_or(&all[0]))
}

/// A standard normal number (Box and Muller 1958).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (a, b) = (uniform(), uniform());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}
