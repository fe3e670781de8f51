//! The blocks of the decoder, forward and backward, on buffers that are used again and again.

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

/// Gives a buffer another length. What it held stays: who asks for it writes all of it.
pub(super) fn sized(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    buffer.resize(len, 0.0);
    buffer
}

fn copy(from: &[f32], into: &mut Vec<f32>) {
    into.clear();
    into.extend_from_slice(from);
}

/// What a block computes on its way, row after row: all that its backward pass needs.
#[derive(Default)]
pub(crate) struct Buffers {
    x: Vec<f32>,
    normed: Vec<f32>,
    qkv: Vec<f32>,
    mixed: Vec<f32>,
    /// Those rows of `mixed` that go on, in the last block.
    chosen: Vec<f32>,
    middle: Vec<f32>,
    mlp_normed: Vec<f32>,
    gate_up: Vec<f32>,
    gated: Vec<f32>,
}

/// Memory that a backward pass works in.
#[derive(Default)]
pub(crate) struct Work {
    d_normed: Vec<f32>,
    d_gated: Vec<f32>,
    d_gate_up: Vec<f32>,
    d_mixed: Vec<f32>,
    d_qkv: Vec<f32>,
    spread: Vec<f32>,
    packed: Panels,
}

impl Work {
    /// Puts `rows` into their places among `count` rows of a width, the others zero.
    fn spread(&mut self, rows: &[u32], width: usize, count: usize, from: &mut Vec<f32>) {
        self.spread.clear();
        self.spread.resize(count * width, 0.0);
        scatter(from, width, rows, &mut self.spread);
        std::mem::swap(&mut self.spread, from);
    }
}

impl Buffers {
    /// Takes `x` through a block. `attention` is given rows of queries, keys and values. After
    /// the last block only some rows are looked at: it leaves in `x` those in `wanted`, and
    /// computes nothing else for the others once they have been attended to.
    pub(crate) fn forward(
        &mut self,
        config: &ModelConfig,
        (weights, panels): (&Block<&[f32]>, &BlockPanels),
        x: &mut Vec<f32>,
        wanted: Option<&[u32]>,
        attention: impl FnOnce(&[f32], &mut [f32]),
    ) {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let (heads, eps) = (config.heads(), config.rms_norm_eps as f32);
        let rows = x.len() / width;
        copy(x, &mut self.x);
        let normed = sized(&mut self.normed, x.len());
        rms_norm(x, weights.attention_norm, eps, normed);
        let qkv = sized(&mut self.qkv, rows * heads.row());
        multiply(normed, &panels.qkv, qkv, Onto::Nothing);
        let mut mixed = sized(&mut self.mixed, rows * heads.out());
        attention(qkv, mixed);
        if let Some(wanted) = wanted {
            let chosen = sized(&mut self.chosen, wanted.len() * heads.out());
            gather(mixed, heads.out(), wanted, chosen);
            gather(&self.x, width, wanted, sized(x, wanted.len() * width));
            mixed = chosen;
        }
        let rows = x.len() / width;
        multiply(mixed, &panels.out, x, Onto::Itself);
        copy(x, &mut self.middle);
        let normed = sized(&mut self.mlp_normed, x.len());
        rms_norm(x, weights.mlp_norm, eps, normed);
        let gate_up = sized(&mut self.gate_up, rows * 2 * inner);
        multiply(normed, &panels.gate_up, gate_up, Onto::Nothing);
        let gated = sized(&mut self.gated, rows * inner);
        swiglu(gate_up, inner, gated);
        multiply(gated, &panels.down, x, Onto::Itself);
    }

    /// Takes the gradient `dx` of a block's result back to that of what it was given, and adds
    /// to those of its weights. The rows are packed sequences of the given lengths.
    pub(crate) fn backward(
        &self,
        config: &ModelConfig,
        (rope, lengths): (&Rope, &[usize]),
        (weights, panels): (&Block<&[f32]>, &BlockPanels),
        (dx, wanted): (&mut Vec<f32>, Option<&[u32]>),
        work: &mut Work,
        gradients: &mut Block<&mut [f32]>,
    ) {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let (heads, eps) = (config.heads(), config.rms_norm_eps as f32);
        let rows = dx.len() / width;

        let packed = &mut work.packed;
        add_outer(dx, &self.gated, rows, gradients.down, packed);
        let d_gated = sized(&mut work.d_gated, rows * inner);
        multiply(dx, &panels.down, d_gated, Onto::Nothing);
        let d_gate_up = sized(&mut work.d_gate_up, rows * 2 * inner);
        swiglu_backward(&self.gate_up, inner, d_gated, d_gate_up);
        add_outer(d_gate_up, &self.mlp_normed, rows, gradients.gate_up, packed);
        let d_normed = sized(&mut work.d_normed, dx.len());
        multiply(d_gate_up, &panels.gate_up, d_normed, Onto::Nothing);
        let (gain, d_gain) = (weights.mlp_norm, &mut *gradients.mlp_norm);
        rms_norm_backward(&self.middle, gain, eps, d_normed, dx, d_gain);

        let mixed = wanted.map_or(&self.mixed, |_| &self.chosen);
        add_outer(dx, mixed, rows, gradients.out, packed);
        let mut d_mixed = std::mem::take(&mut work.d_mixed);
        sized(&mut d_mixed, rows * heads.out());
        multiply(dx, &panels.out, &mut d_mixed, Onto::Nothing);
        if let Some(wanted) = wanted {
            let rows = self.x.len() / width;
            work.spread(wanted, heads.out(), rows, &mut d_mixed);
            work.spread(wanted, width, rows, dx);
        }
        let rows = dx.len() / width;
        let d_qkv = sized(&mut work.d_qkv, self.qkv.len());
        let (qkv, mixed) = (&self.qkv, &self.mixed);
        attend_backward(heads, rope, lengths, qkv, mixed, &d_mixed, d_qkv);
        work.d_mixed = d_mixed;
        add_outer(d_qkv, &self.normed, rows, gradients.qkv, &mut work.packed);
        let d_normed = sized(&mut work.d_normed, dx.len());
        multiply(d_qkv, &panels.qkv, d_normed, Onto::Nothing);
        let (gain, d_gain) = (weights.attention_norm, &mut *gradients.attention_norm);
        rms_norm_backward(&self.x, gain, eps, d_normed, dx, d_gain);
    }
}

/// The end of the decoder: the last norm and the output layer, over the rows looked at.
#[derive(Default)]
pub(crate) struct Tail {
    last: Vec<f32>,
    normed: Vec<f32>,
    /// One row of logits for each row that is looked at.
    pub(crate) logits: Vec<f32>,
}

impl Tail {
    /// Logits of rows.
    pub(crate) fn forward(&mut self, config: &ModelConfig, norm: &[f32], head: &Panels, x: &[f32]) {
        let eps = config.rms_norm_eps as f32;
        let rows = x.len() / config.hidden_size;
        copy(x, &mut self.last);
        let normed = sized(&mut self.normed, x.len());
        rms_norm(x, norm, eps, normed);
        let logits = sized(&mut self.logits, rows * config.vocab_size);
        multiply(normed, head, logits, Onto::Nothing);
    }

    /// Writes the gradient of the rows to `dx`, and adds those of the norm and the output layer
    /// to theirs.
    pub(crate) fn backward(
        &self,
        config: &ModelConfig,
        (norm, head): (&[f32], &Panels),
        d_logits: &[f32],
        (dx, work): (&mut Vec<f32>, &mut Work),
        (d_norm, d_head): (&mut [f32], &mut [f32]),
    ) {
        let eps = config.rms_norm_eps as f32;
        let rows = self.last.len() / config.hidden_size;
        add_outer(d_logits, &self.normed, rows, d_head, &mut work.packed);
        let d_normed = sized(&mut work.d_normed, self.last.len());
        multiply(d_logits, head, d_normed, Onto::Nothing);
        dx.clear();
        dx.resize(self.last.len(), 0.0);
        rms_norm_backward(&self.last, norm, eps, d_normed, dx, d_norm);
    }
}
