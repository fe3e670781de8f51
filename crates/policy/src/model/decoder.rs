//! The decoder as a candle graph: what training differentiates.

use std::sync::{Arc, OnceLock};

use candle_core::{Result, Tensor};

use super::packed::Packed;
use super::weights::{Model, blocks, ends};
use crate::ops::attention::Attention;
use crate::ops::embedding::Rows;
use crate::ops::linear::{Linear, ResidualLinear};
use crate::ops::logprob::TargetLogprob;
use crate::ops::norm::RmsNorm;
use crate::ops::swiglu::SwiGlu;

/// Log-probabilities of a micro-batch's targets.
pub(crate) struct Logprobs {
    /// One a target, with its graph.
    pub(crate) logprobs: Tensor,
    /// Entropy of each target's distribution, in nats; no graph.
    pub(crate) entropies: Vec<f32>,
}

impl Model {
    /// Log-probabilities of the targets, of logits divided by a temperature.
    pub(crate) fn logprobs(&self, packed: &Packed, temperature: f64) -> Result<Logprobs> {
        let config = self.config();
        let eps = config.rms_norm_eps as f32;
        let all: Vec<&Tensor> = self.tensors().iter().collect();
        let mut x = all[0].apply_op1(Rows(packed.ids.clone()))?;
        for block in blocks(&all, config.num_hidden_layers) {
            let attention = Attention {
                heads: config.heads(),
                rope: self.rope().clone(),
                lengths: packed.lengths.clone(),
            };
            let mixed = x
                .apply_op2(block.attention_norm, RmsNorm(eps))?
                .apply_op2(block.qkv, Linear)?
                .apply_op1(attention)?;
            x = x.apply_op3(&mixed, block.out, ResidualLinear)?;
            let gated = x
                .apply_op2(block.mlp_norm, RmsNorm(eps))?
                .apply_op2(block.gate_up, Linear)?
                .apply_op1(SwiGlu)?;
            x = x.apply_op3(&gated, block.down, ResidualLinear)?;
        }
        let (norm, head) = ends(&all, config.num_hidden_layers);
        let entropies = Arc::new(OnceLock::new());
        let logprobs = x
            .apply_op1(Rows(packed.rows.clone()))?
            .apply_op2(norm, RmsNorm(eps))?
            .apply_op2(head, Linear)?
            .apply_op1(TargetLogprob {
                targets: packed.targets.clone(),
                inverse_temperature: (1.0 / temperature) as f32,
                entropies: entropies.clone(),
            })?;
        let entropies = entropies.get().cloned().unwrap_or_default();
        Ok(Logprobs {
            logprobs,
            entropies,
        })
    }
}
