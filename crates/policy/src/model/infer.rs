//! The decoder with cached keys and values: what sampling and the reference model run. One
//! thread computes one group of sequences from end to end; threads share groups out among
//! themselves and never meet inside one.

use std::sync::Arc;

use super::layout::cut;
use super::packed::Packed;
use super::pass::{Buffers, Tail};
use super::prepared::Prepared;
use super::weights::Model;
use crate::ops::attention::{Scratch, attend};
use crate::ops::embedding::gather;
use crate::ops::logprob::target_logprobs;
use crate::ops::pages::Pages;
use crate::ops::storage::Held;
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
    held: Held<'a>,
    prepared: Arc<Prepared>,
}

impl<'a> Reading<'a> {
    /// Holds a model until the value is dropped.
    pub(crate) fn new(model: &'a Model) -> Result<Self, PolicyError> {
        let prepared = model.prepared().map_err(PolicyError::compute)?;
        Ok(Self {
            model,
            held: model.held(),
            prepared,
        })
    }

    /// Appends tokens to sequences and returns the logits of the rows `wanted`, counted over
    /// all the new tokens, one row after another.
    pub(crate) fn extend(
        &self,
        sequences: &mut [(&mut Cache, &[u32])],
        wanted: &[u32],
    ) -> Result<Vec<f32>, PolicyError> {
        let config = self.model.config();
        let weights = cut(config, self.held.floats().map_err(PolicyError::compute)?);
        let panels = &self.prepared.forward;
        let ids: Vec<u32> = sequences
            .iter()
            .flat_map(|(_, ids)| ids.iter().copied())
            .collect();
        let heads = config.heads();
        let mut scratch = Scratch::default();
        let mut buffers = Buffers::new(config, ids.len());
        let mut x = vec![0.0; ids.len() * config.hidden_size];
        gather(weights.embeddings, config.hidden_size, &ids, &mut x);
        for (layer, (weights, panels)) in weights.blocks.iter().zip(&panels.blocks).enumerate() {
            buffers.forward(config, weights, panels, &mut x, |mut rows, mut out| {
                for (cache, ids) in sequences.iter_mut() {
                    let (these, rest) = rows.split_at(ids.len() * heads.row());
                    let (into, others) = out.split_at_mut(ids.len() * heads.out());
                    let pages = &mut cache.layers[layer];
                    attend(heads, self.model.rope(), these, pages, &mut scratch, into);
                    (rows, out) = (rest, others);
                }
            });
        }
        Ok(Tail::forward(config, weights.norm, &panels.head, &x, wanted).logits)
    }

    /// Log-probabilities of a micro-batch's targets, of logits divided by a temperature.
    pub(crate) fn score(&self, packed: &Packed, temperature: f64) -> Result<Vec<f32>, PolicyError> {
        let new = |_| Cache::new(self.model);
        let mut caches: Vec<Cache> = packed.lengths.iter().map(new).collect();
        let mut ids = packed.ids.as_slice();
        let mut sequences = Vec::with_capacity(caches.len());
        for (cache, length) in caches.iter_mut().zip(packed.lengths.iter()) {
            let (these, rest) = ids.split_at(*length);
            sequences.push((cache, these));
            ids = rest;
        }
        let logits = self.extend(&mut sequences, &packed.rows)?;
        Ok(target_logprobs(&logits, &packed.targets, (1.0 / temperature) as f32).0)
    }
}
