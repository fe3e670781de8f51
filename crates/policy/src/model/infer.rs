//! The decoder on plain buffers, with cached keys and values: what sampling and the reference
//! model run. One thread computes one group of sequences from end to end; threads share groups
//! out among themselves and never meet inside one.

use super::packed::Packed;
use super::weights::{Model, blocks, ends};
use crate::ops::attention::{Scratch, attend};
use crate::ops::embedding::gather;
use crate::ops::linear::linear;
use crate::ops::logprob::Softmax;
use crate::ops::matmul::Onto;
use crate::ops::norm::rms_norm;
use crate::ops::pages::Pages;
use crate::ops::simd::vectorised;
use crate::ops::storage::Held;
use crate::ops::swiglu::swiglu;
use crate::policy::PolicyError;

/// Keys and values of one sequence in every layer.
#[derive(Debug)]
pub struct Cache {
    layers: Vec<Pages>,
}

impl Cache {
    /// An empty cache for sequences of a model.
    pub fn new(model: &Model) -> Self {
        let heads = model.config().heads();
        let layer = |_| Pages::new(heads.keys, heads.head);
        Self {
            layers: (0..model.config().num_hidden_layers).map(layer).collect(),
        }
    }

    /// Positions held.
    pub fn len(&self) -> usize {
        self.layers.first().map_or(0, Pages::len)
    }

    /// True of a cache that holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all positions from `len` on.
    pub fn truncate(&mut self, len: usize) {
        for layer in &mut self.layers {
            layer.truncate(len);
        }
    }
}

/// A model held for reading: nobody changes its weights meanwhile.
pub(crate) struct Reading<'a> {
    model: &'a Model,
    held: Vec<Held<'a>>,
}

impl<'a> Reading<'a> {
    /// Holds a model until the value is dropped.
    pub(crate) fn new(model: &'a Model) -> Self {
        Self {
            model,
            held: model.held(),
        }
    }

    /// Appends tokens to sequences and returns the logits of the rows `wanted`, counted over
    /// all the new tokens, one row after another.
    pub(crate) fn extend(
        &self,
        sequences: &mut [(&mut Cache, &[u32])],
        wanted: &[u32],
    ) -> Result<Vec<f32>, PolicyError> {
        let config = self.model.config();
        let all = self
            .held
            .iter()
            .map(Held::floats)
            .collect::<Result<Vec<_>, _>>();
        let all = all.map_err(PolicyError::compute)?;
        let (width, inner, heads) = (config.hidden_size, config.intermediate_size, config.heads());
        let eps = config.rms_norm_eps as f32;
        let ids: Vec<u32> = sequences
            .iter()
            .flat_map(|(_, ids)| ids.iter().copied())
            .collect();
        let rows = ids.len();

        let mut x = vec![0.0; rows * width];
        let mut normed = vec![0.0; rows * width];
        let mut qkv = vec![0.0; rows * heads.row()];
        let mut mixed = vec![0.0; rows * heads.out()];
        let mut both = vec![0.0; rows * 2 * inner];
        let mut gated = vec![0.0; rows * inner];
        let mut scratch = Scratch::default();
        gather(all[0], width, &ids, &mut x);
        for (layer, block) in blocks(&all, config.num_hidden_layers).enumerate() {
            rms_norm(&x, block.attention_norm, eps, &mut normed);
            linear(&normed, block.qkv, width, &mut qkv, Onto::Nothing);
            let (mut from, mut into) = (qkv.as_slice(), mixed.as_mut_slice());
            for (cache, ids) in sequences.iter_mut() {
                let (these, rest) = from.split_at(ids.len() * heads.row());
                let (out, others) = into.split_at_mut(ids.len() * heads.out());
                let pages = &mut cache.layers[layer];
                attend(heads, self.model.rope(), these, pages, &mut scratch, out);
                (from, into) = (rest, others);
            }
            linear(&mixed, block.out, heads.out(), &mut x, Onto::Itself);
            rms_norm(&x, block.mlp_norm, eps, &mut normed);
            linear(&normed, block.gate_up, width, &mut both, Onto::Nothing);
            swiglu(&both, inner, &mut gated);
            linear(&gated, block.down, inner, &mut x, Onto::Itself);
        }
        let (norm, head) = ends(&all, config.num_hidden_layers);
        let mut last = vec![0.0; wanted.len() * width];
        let mut normed = vec![0.0; wanted.len() * width];
        let mut logits = vec![0.0; wanted.len() * config.vocab_size];
        gather(&x, width, wanted, &mut last);
        rms_norm(&last, norm, eps, &mut normed);
        linear(&normed, head, width, &mut logits, Onto::Nothing);
        Ok(logits)
    }

    /// Log-probabilities of a micro-batch's targets, of logits divided by a temperature.
    pub(crate) fn score(&self, packed: &Packed, temperature: f64) -> Result<Vec<f32>, PolicyError> {
        let mut caches: Vec<Cache> = packed
            .lengths
            .iter()
            .map(|_| Cache::new(self.model))
            .collect();
        let mut ids = packed.ids.as_slice();
        let mut sequences = Vec::with_capacity(caches.len());
        for (cache, length) in caches.iter_mut().zip(packed.lengths.iter()) {
            let (these, rest) = ids.split_at(*length);
            sequences.push((cache, these));
            ids = rest;
        }
        let logits = self.extend(&mut sequences, &packed.rows)?;
        let inverse = (1.0 / temperature) as f32;
        let rows = logits.chunks_exact(self.model.config().vocab_size);
        Ok(vectorised(#[inline(always)] || {
            rows.zip(&packed.targets)
                .map(|(row, target)| {
                    Softmax::of(row, inverse).logprob(row[*target as usize], inverse)
                })
                .collect()
        }))
    }
}
