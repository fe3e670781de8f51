//! The decoder from weights to the log-probabilities of a micro-batch's targets, and back from
//! their gradient to that of all weights: what training runs.
//!
//! The backward pass is written out and not left to candle: its graph adds every gradient to a
//! tensor of zeros, with spinning threads of its own, which was measured to take a quarter of a
//! step when activations went through it (`docs/design/policy.md`).

use super::infer::Reading;
use super::layout::{cut, cut_mut};
use super::packed::Packed;
use super::pass::{Buffers, Tail, Work};
use crate::ops::attention::{Scratch, attend};
use crate::ops::embedding::{gather, scatter};
use crate::ops::logprob::{target_logprobs, target_logprobs_backward};
use crate::ops::pages::Pages;
use crate::policy::PolicyError;

/// What a forward pass leaves for the backward one, and the memory of both: a thread takes it
/// from one micro-batch to the next. Memory fresh from the system costs a fault a page.
#[derive(Default)]
pub(crate) struct Tape {
    x: Vec<f32>,
    blocks: Vec<Buffers>,
    tail: Tail,
    pages: Pages,
    scratch: Scratch,
    work: Work,
    d_logits: Vec<f32>,
    /// Log-probability of each target.
    pub(crate) logprobs: Vec<f32>,
    /// Entropy of each target's distribution, in nats.
    pub(crate) entropies: Vec<f32>,
}

impl Reading<'_> {
    /// Log-probabilities of a micro-batch's targets, of logits divided by a temperature; the
    /// tape is ready for [`Reading::backward`].
    pub(crate) fn forward(
        &self,
        packed: &Packed,
        temperature: f64,
        tape: &mut Tape,
    ) -> Result<(), PolicyError> {
        let blocks = self.config().num_hidden_layers;
        self.pass(packed, temperature, tape, blocks)
    }

    /// The same without a way back. `tape` is memory to work in.
    pub(crate) fn score(
        &self,
        packed: &Packed,
        temperature: f64,
        tape: &mut Tape,
    ) -> Result<Vec<f32>, PolicyError> {
        self.pass(packed, temperature, tape, 1)?;
        Ok(std::mem::take(&mut tape.logprobs))
    }

    /// A forward pass that keeps what the last `kept` blocks computed.
    fn pass(
        &self,
        packed: &Packed,
        temperature: f64,
        tape: &mut Tape,
        kept: usize,
    ) -> Result<(), PolicyError> {
        let (config, panels) = (self.config(), &self.prepared.forward);
        let heads = config.heads();
        let parts = cut(config, self.floats()?);
        let Tape {
            x, pages, scratch, ..
        } = tape;
        x.resize(packed.ids.len() * config.hidden_size, 0.0);
        gather(parts.embeddings, config.hidden_size, &packed.ids, x);
        if tape.blocks.len() < kept {
            tape.blocks.resize_with(kept, Buffers::default);
        }
        *pages = Pages::new(heads.keys, heads.head);
        let last = parts.blocks.len() - 1;
        for (layer, block) in parts.blocks.iter().zip(&panels.blocks).enumerate() {
            let wanted = (layer == last).then_some(packed.rows.as_slice());
            let buffers = &mut tape.blocks[layer % kept];
            buffers.forward(config, block, x, wanted, |mut rows, mut out| {
                // Each sequence from empty pages.
                for &length in packed.lengths.iter() {
                    let (these, rest) = rows.split_at(length * heads.row());
                    let (into, others) = out.split_at_mut(length * heads.out());
                    pages.clear();
                    attend(heads, self.rope(), these, pages, scratch, into);
                    (rows, out) = (rest, others);
                }
            });
        }
        tape.tail.forward(config, parts.norm, &panels.head, x);
        (tape.logprobs, tape.entropies) = target_logprobs(
            &tape.tail.logits,
            &packed.targets,
            (1.0 / temperature) as f32,
        );
        Ok(())
    }

    /// Adds to `gradients`, one for each weight, those that `grad`, of each target's
    /// log-probability, makes.
    pub(crate) fn backward(
        &self,
        packed: &Packed,
        temperature: f64,
        tape: &mut Tape,
        grad: &[f32],
        gradients: &mut [f32],
    ) -> Result<(), PolicyError> {
        let (config, weights) = (self.config(), self.floats()?);
        let parts = cut(config, weights);
        let panels = self.prepared.backward(config, weights);
        let mut into = cut_mut(config, gradients);
        let Tape {
            x: dx,
            blocks,
            tail,
            work,
            d_logits,
            ..
        } = tape;

        d_logits.resize(tail.logits.len(), 0.0);
        target_logprobs_backward(
            &tail.logits,
            &packed.targets,
            (1.0 / temperature) as f32,
            grad,
            d_logits,
        );
        let d_head = into.head.as_deref_mut().unwrap_or(&mut *into.embeddings);
        tail.backward(
            config,
            (parts.norm, &panels.head),
            d_logits,
            (dx, work),
            (&mut *into.norm, d_head),
        );
        let last = parts.blocks.len() - 1;
        let place = (self.rope().as_ref(), packed.lengths.as_slice());
        let blocks = blocks.iter().zip(&mut into.blocks);
        let layers = parts.blocks.iter().zip(&panels.blocks).zip(blocks);
        for (layer, (block, (buffers, gradients))) in layers.enumerate().rev() {
            let wanted = (layer == last).then_some(packed.rows.as_slice());
            buffers.backward(config, place, block, (dx, wanted), work, gradients);
        }
        scatter(dx, config.hidden_size, &packed.ids, into.embeddings);
        Ok(())
    }
}
