//! The decoder as one candle operation: from all weights to the log-probabilities of a
//! micro-batch's targets, with its own backward pass.
//!
//! One operation and not one for each layer's parts: candle adds every gradient to a tensor of
//! zeros, with spinning threads of its own, which was measured to take a quarter of a step when
//! activations went through it (`docs/design/policy.md`).

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use candle_core::{CpuStorage, CustomOp1, Error, Layout, Result, Shape, Tensor};

use super::config::ModelConfig;
use super::layout::{cut, cut_mut};
use super::packed::Packed;
use super::pass::{Buffers, Tail};
use super::prepared::Prepared;
use super::weights::Model;
use crate::ops::attention::{Scratch, attend};
use crate::ops::embedding::{gather, scatter};
use crate::ops::logprob::{target_logprobs, target_logprobs_backward};
use crate::ops::pages::Pages;
use crate::ops::rope::Rope;
use crate::ops::storage::{Held, floats};

/// Log-probabilities of a micro-batch's targets.
pub(crate) struct Logprobs {
    /// One a target, with its graph.
    pub(crate) logprobs: Tensor,
    /// Entropy of each target's distribution, in nats; no graph.
    pub(crate) entropies: Vec<f32>,
}

impl Model {
    /// Log-probabilities of the targets, of logits divided by a temperature.
    pub(crate) fn logprobs(&self, packed: &Arc<Packed>, temperature: f64) -> Result<Logprobs> {
        let entropies = Arc::new(OnceLock::new());
        let logprobs = self.weights().apply_op1(Decoder {
            config: self.config().clone(),
            rope: self.rope().clone(),
            prepared: self.prepared()?,
            packed: packed.clone(),
            inverse_temperature: (1.0 / temperature) as f32,
            entropies: entropies.clone(),
            tape: Mutex::default(),
        })?;
        let entropies = entropies.get().cloned().unwrap_or_default();
        Ok(Logprobs {
            logprobs,
            entropies,
        })
    }
}

/// What the forward pass leaves for the backward one.
struct Tape {
    blocks: Vec<Buffers>,
    tail: Tail,
}

struct Decoder {
    config: ModelConfig,
    rope: Arc<Rope>,
    prepared: Arc<Prepared>,
    packed: Arc<Packed>,
    inverse_temperature: f32,
    entropies: Arc<OnceLock<Vec<f32>>>,
    tape: Mutex<Option<Tape>>,
}

impl Decoder {
    /// Attention of packed sequences, each from empty pages.
    fn attention(&self, mut rows: &[f32], mut out: &mut [f32]) {
        let heads = self.config.heads();
        let mut pages = Pages::new(heads.keys, heads.head);
        let mut scratch = Scratch::default();
        for &length in self.packed.lengths.iter() {
            let (these, rest) = rows.split_at(length * heads.row());
            let (into, others) = out.split_at_mut(length * heads.out());
            pages.clear();
            attend(heads, &self.rope, these, &mut pages, &mut scratch, into);
            (rows, out) = (rest, others);
        }
    }

    fn forward(&self, weights: &[f32]) -> (Tape, Vec<f32>, Vec<f32>) {
        let (config, packed) = (&self.config, &self.packed);
        let (parts, panels) = (cut(config, weights), &self.prepared.forward);
        let mut x = vec![0.0; packed.ids.len() * config.hidden_size];
        gather(parts.embeddings, config.hidden_size, &packed.ids, &mut x);
        let blocks = parts
            .blocks
            .iter()
            .zip(&panels.blocks)
            .map(|(weights, panels)| {
                let mut buffers = Buffers::new(config, packed.ids.len());
                buffers.forward(config, weights, panels, &mut x, |qkv, mixed| {
                    self.attention(qkv, mixed);
                });
                buffers
            });
        let blocks = blocks.collect();
        let tail = Tail::forward(config, parts.norm, &panels.head, &x, &packed.rows);
        let (logprobs, entropies) =
            target_logprobs(&tail.logits, &packed.targets, self.inverse_temperature);
        (Tape { blocks, tail }, logprobs, entropies)
    }

    fn backward(&self, weights: &[f32], mut tape: Tape, grad: &[f32]) -> Vec<f32> {
        let (config, packed) = (&self.config, &self.packed);
        let parts = cut(config, weights);
        let panels = self.prepared.backward(config, weights);
        let mut gradients = vec![0.0; weights.len()];
        let mut into = cut_mut(config, &mut gradients);

        let mut d_logits = vec![0.0; tape.tail.logits.len()];
        target_logprobs_backward(
            &tape.tail.logits,
            &packed.targets,
            self.inverse_temperature,
            grad,
            &mut d_logits,
        );
        let mut dx = vec![0.0; packed.ids.len() * config.hidden_size];
        let d_head = into.head.as_deref_mut().unwrap_or(&mut *into.embeddings);
        tape.tail.backward(
            config,
            (parts.norm, &panels.head),
            &packed.rows,
            &d_logits,
            &mut dx,
            (&mut *into.norm, d_head),
        );
        let layers = parts
            .blocks
            .iter()
            .zip(&panels.blocks)
            .zip(&mut into.blocks);
        for ((weights, panels), gradients) in layers.rev() {
            // Taken off the tape, so that its memory is free for the next.
            let Some(buffers) = tape.blocks.pop() else {
                break;
            };
            let place = (&*self.rope, packed.lengths.as_slice());
            buffers.backward(config, place, weights, panels, &mut dx, gradients);
        }
        scatter(&dx, config.hidden_size, &packed.ids, into.embeddings);
        gradients
    }
}

impl CustomOp1 for Decoder {
    fn name(&self) -> &'static str {
        "decoder"
    }

    fn cpu_fwd(&self, weights: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (tape, logprobs, entropies) = self.forward(floats(weights, layout)?);
        *self.tape.lock().unwrap_or_else(PoisonError::into_inner) = Some(tape);
        // The operation runs once: nobody has set them before.
        let _ = self.entropies.set(entropies);
        let count = logprobs.len();
        Ok((CpuStorage::F32(logprobs), count.into()))
    }

    fn bwd(&self, weights: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let tape = self
            .tape
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let tape = tape.ok_or_else(|| Error::msg("a decoder is differentiated once").bt())?;
        let (held, held_grad) = (Held::new(weights), Held::new(grad));
        let gradients = self.backward(held.floats()?, tape, held_grad.floats()?);
        Ok(Some(Tensor::from_vec(
            gradients,
            weights.shape(),
            weights.device(),
        )?))
    }
}
