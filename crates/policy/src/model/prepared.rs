//! A model's matrices, packed for products. Packing takes about as long as multiplying forty
//! rows, so it is done once for each state of the weights, not at each call.

use std::sync::OnceLock;

use super::config::ModelConfig;
use super::layout::cut;
use crate::ops::panels::Panels;

/// The matrices of a block.
pub(crate) struct BlockPanels {
    pub(crate) qkv: Panels,
    pub(crate) out: Panels,
    pub(crate) gate_up: Panels,
    pub(crate) down: Panels,
}

/// All matrices, for products from one side.
pub(crate) struct PanelSet {
    pub(crate) blocks: Vec<BlockPanels>,
    pub(crate) head: Panels,
}

/// All matrices: for the forward pass (x Wᵀ) and, once it is needed, the backward one (g W).
pub(crate) struct Prepared {
    pub(crate) forward: PanelSet,
    backward: OnceLock<PanelSet>,
}

/// How one matrix of a number of columns is packed.
type Pack = fn(&[f32], usize) -> Panels;

impl PanelSet {
    fn new(config: &ModelConfig, weights: &[f32], pack: Pack) -> Self {
        let (width, parts) = (config.hidden_size, cut(config, weights));
        let block = |block: &super::layout::Block<&[f32]>| BlockPanels {
            qkv: pack(block.qkv, width),
            out: pack(block.out, config.heads().out()),
            gate_up: pack(block.gate_up, width),
            down: pack(block.down, config.intermediate_size),
        };
        Self {
            blocks: parts.blocks.iter().map(block).collect(),
            head: pack(parts.head.unwrap_or(parts.embeddings), width),
        }
    }
}

impl Prepared {
    pub(crate) fn new(config: &ModelConfig, weights: &[f32]) -> Self {
        let pack: Pack = |matrix, inputs| Panels::of_columns(matrix, inputs, matrix.len() / inputs);
        Self {
            forward: PanelSet::new(config, weights, pack),
            backward: OnceLock::new(),
        }
    }

    /// The matrices for the backward pass; `weights` are those it was made with.
    pub(crate) fn backward(&self, config: &ModelConfig, weights: &[f32]) -> &PanelSet {
        let pack: Pack = |matrix, inputs| Panels::of_rows(matrix, matrix.len() / inputs, inputs);
        self.backward
            .get_or_init(|| PanelSet::new(config, weights, pack))
    }
}
