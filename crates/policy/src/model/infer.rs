//! The decoder with cached keys and values: what sampling runs. One
//! thread computes one group of sequences from end to end; threads share groups out among
//! themselves and never meet inside one.

use std::sync::Arc;

use super::config::ModelConfig;
use super::layout::cut;
use super::pass::{Buffers, Tail};
use super::prepared::Prepared;
use super::weights::Model;
use crate::ops::attention::{Scratch, attend};
use crate::ops::embedding::gather;
use crate::ops::pages::Pages;
use crate::ops::rope::Rope;
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
    pub(super) prepared: Arc<Prepared>,
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

    pub(super) fn config(&self) -> &ModelConfig {
        self.model.config()
    }

    pub(super) fn rope(&self) -> &Arc<Rope> {
        self.model.rope()
    }

    /// All its numbers.
    pub(super) fn floats(&self) -> Result<&[f32], PolicyError> {
        self.held.floats().map_err(PolicyError::compute)
    }

    /// Appends tokens to sequences and returns the logits of the rows `wanted`, counted over
    /// all the new tokens, one row after another.
    pub(crate) fn extend(
        &self,
        sequences: &mut [(&mut Cache, &[u32])],
        wanted: &[u32],
    ) -> Result<Vec<f32>, PolicyError> {
        let config = self.config();
        let weights = cut(config, self.floats()?);
        let panels = &self.prepared.forward;
        let ids: Vec<u32> = sequences
            .iter()
            .flat_map(|(_, ids)| ids.iter().copied())
            .collect();
        let heads = config.heads();
        let (mut buffers, mut scratch) = (Buffers::default(), Scratch::default());
        let mut x = vec![0.0; ids.len() * config.hidden_size];
        gather(weights.embeddings, config.hidden_size, &ids, &mut x);
        let last = weights.blocks.len() - 1;
        for (layer, block) in weights.blocks.iter().zip(&panels.blocks).enumerate() {
            let wanted = (layer == last).then_some(wanted);
            buffers.forward(config, block, &mut x, wanted, |mut rows, mut out| {
                for (cache, ids) in sequences.iter_mut() {
                    let (these, rest) = rows.split_at(ids.len() * heads.row());
                    let (into, others) = out.split_at_mut(ids.len() * heads.out());
                    let pages = &mut cache.layers[layer];
                    attend(heads, self.rope(), these, pages, &mut scratch, into);
                    (rows, out) = (rest, others);
                }
            });
        }
        let mut tail = Tail::default();
        tail.forward(config, weights.norm, &panels.head, &x);
        Ok(tail.logits)
    }
}
