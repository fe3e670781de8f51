//! The blocks of the decoder, forward and backward, on plain buffers.

use super::config::ModelConfig;
use super::layout::Block;
use super::prepared::BlockPanels;
use crate::ops::attention::attend_backward;
use crate::ops::embedding::{gather, scatter};
use crate::ops::gemm::{Onto, add_outer, multiply};
use crate::ops::norm::{rms_norm, rms_norm_backward};
use crate::ops::panels::Panels;
use crate::ops::rope::Rope;
use crate::ops::swiglu::{swiglu, swiglu_backward};

/// What a block computes on its way, row after row: all that its backward pass needs.
pub(crate) struct Buffers {
    x: Vec<f32>,
    normed: Vec<f32>,
    qkv: Vec<f32>,
    mixed: Vec<f32>,
    middle: Vec<f32>,
    mlp_normed: Vec<f32>,
    gate_up: Vec<f32>,
    gated: Vec<f32>,
}

impl Buffers {
    /// Room for a number of rows.
    pub(crate) fn new(config: &ModelConfig, rows: usize) -> Self {
        let zeros = |width: usize| vec![0.0; rows * width];
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        Self {
            x: zeros(width),
            normed: zeros(width),
            qkv: zeros(config.heads().row()),
            mixed: zeros(config.heads().out()),
            middle: zeros(width),
            mlp_normed: zeros(width),
            gate_up: zeros(2 * inner),
            gated: zeros(inner),
        }
    }

    /// Takes `x` through a block. `attention` is given rows of queries, keys and values.
    pub(crate) fn forward(
        &mut self,
        config: &ModelConfig,
        weights: &Block<&[f32]>,
        panels: &BlockPanels,
        x: &mut [f32],
        attention: impl FnOnce(&[f32], &mut [f32]),
    ) {
        let eps = config.rms_norm_eps as f32;
        self.x.copy_from_slice(x);
        rms_norm(x, weights.attention_norm, eps, &mut self.normed);
        multiply(&self.normed, &panels.qkv, &mut self.qkv, Onto::Nothing);
        attention(&self.qkv, &mut self.mixed);
        multiply(&self.mixed, &panels.out, x, Onto::Itself);
        self.middle.copy_from_slice(x);
        rms_norm(x, weights.mlp_norm, eps, &mut self.mlp_normed);
        multiply(
            &self.mlp_normed,
            &panels.gate_up,
            &mut self.gate_up,
            Onto::Nothing,
        );
        swiglu(&self.gate_up, config.intermediate_size, &mut self.gated);
        multiply(&self.gated, &panels.down, x, Onto::Itself);
    }

    /// Takes the gradient `dx` of a block's result back to that of what it was given, and adds
    /// to those of its weights. The rows are packed sequences of the given lengths.
    pub(crate) fn backward(
        &self,
        config: &ModelConfig,
        (rope, lengths): (&Rope, &[usize]),
        weights: &Block<&[f32]>,
        panels: &BlockPanels,
        dx: &mut [f32],
        gradients: &mut Block<&mut [f32]>,
    ) {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let eps = config.rms_norm_eps as f32;
        let rows = dx.len() / width;
        let mut d_normed = vec![0.0; dx.len()];

        add_outer(dx, &self.gated, rows, gradients.down);
        let mut d_gated = vec![0.0; rows * inner];
        multiply(dx, &panels.down, &mut d_gated, Onto::Nothing);
        let mut d_gate_up = vec![0.0; rows * 2 * inner];
        swiglu_backward(&self.gate_up, inner, &d_gated, &mut d_gate_up);
        add_outer(&d_gate_up, &self.mlp_normed, rows, gradients.gate_up);
        multiply(&d_gate_up, &panels.gate_up, &mut d_normed, Onto::Nothing);
        let (gain, d_gain) = (weights.mlp_norm, &mut *gradients.mlp_norm);
        rms_norm_backward(&self.middle, gain, eps, &d_normed, dx, d_gain);

        add_outer(dx, &self.mixed, rows, gradients.out);
        let mut d_mixed = vec![0.0; self.mixed.len()];
        multiply(dx, &panels.out, &mut d_mixed, Onto::Nothing);
        let mut d_qkv = vec![0.0; self.qkv.len()];
        let heads = config.heads();
        attend_backward(
            heads,
            rope,
            lengths,
            &self.qkv,
            &self.mixed,
            &d_mixed,
            &mut d_qkv,
        );
        add_outer(&d_qkv, &self.normed, rows, gradients.qkv);
        multiply(&d_qkv, &panels.qkv, &mut d_normed, Onto::Nothing);
        let (gain, d_gain) = (weights.attention_norm, &mut *gradients.attention_norm);
        rms_norm_backward(&self.x, gain, eps, &d_normed, dx, d_gain);
    }
}

/// The end of the decoder: the rows that are looked at, the last norm, and the output layer.
pub(crate) struct Tail {
    last: Vec<f32>,
    normed: Vec<f32>,
    /// One row of logits for each row that is looked at.
    pub(crate) logits: Vec<f32>,
}

impl Tail {
    /// Logits of the given rows of `x`.
    pub(crate) fn forward(
        config: &ModelConfig,
        norm: &[f32],
        head: &Panels,
        x: &[f32],
        rows: &[u32],
    ) -> Self {
        let width = config.hidden_size;
        let mut tail = Self {
            last: vec![0.0; rows.len() * width],
            normed: vec![0.0; rows.len() * width],
            logits: vec![0.0; rows.len() * config.vocab_size],
        };
        gather(x, width, rows, &mut tail.last);
        rms_norm(
            &tail.last,
            norm,
            config.rms_norm_eps as f32,
            &mut tail.normed,
        );
        multiply(&tail.normed, head, &mut tail.logits, Onto::Nothing);
        tail
    }

    /// Adds the gradient of `x` to `dx`, and those of the norm and the output layer to theirs.
    pub(crate) fn backward(
        &self,
        config: &ModelConfig,
        (norm, head): (&[f32], &Panels),
        rows: &[u32],
        d_logits: &[f32],
        dx: &mut [f32],
        (d_norm, d_head): (&mut [f32], &mut [f32]),
    ) {
        add_outer(d_logits, &self.normed, rows.len(), d_head);
        let mut d_normed = vec![0.0; self.normed.len()];
        multiply(d_logits, head, &mut d_normed, Onto::Nothing);
        let mut d_last = vec![0.0; self.last.len()];
        let eps = config.rms_norm_eps as f32;
        rms_norm_backward(&self.last, norm, eps, &d_normed, &mut d_last, d_norm);
        scatter(&d_last, config.hidden_size, rows, dx);
    }
}
