//! What is asked of the sampler and what it answers.

use paddock_types::id::Phase;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

use crate::model::ModelConfig;
use crate::policy::PolicyError;

/// Names the stream of random numbers of one model turn. Equal keys draw equal numbers,
/// whatever else is sampled and in whatever order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleKey {
    /// The job's seed.
    pub seed: u64,
    /// Training or validation.
    pub phase: Phase,
    /// Step.
    pub step: u32,
    /// Sample in the step.
    pub sample: u32,
    /// Generation of the sample.
    pub generation: u32,
    /// Model turn of the trajectory.
    pub turn: u32,
}

impl SampleKey {
    /// The stream. Its n-th number decides the n-th token.
    pub(crate) fn random(&self) -> ChaCha8Rng {
        let mut hash = Sha256::new();
        hash.update(b"paddock sample 1");
        hash.update(self.seed.to_le_bytes());
        hash.update(self.phase.as_str());
        for number in [self.step, self.sample, self.generation, self.turn] {
            hash.update(number.to_le_bytes());
        }
        ChaCha8Rng::from_seed(hash.finalize().into())
    }
}

/// One model turn to sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRequest {
    /// Tokens to continue.
    pub prompt: Vec<u32>,
    /// Tokens that end the turn; the one that does is part of the answer.
    pub stop: Vec<u32>,
    /// Tokens at most.
    pub max_new_tokens: u32,
    /// Divides the logits; 0 takes the most likely token (validation only).
    pub temperature: f64,
    /// Nucleus mass in (0, 1].
    pub top_p: f64,
    /// Most likely tokens kept; 0 keeps all.
    pub top_k: u32,
    /// Names the random numbers.
    pub key: SampleKey,
}

impl SampleRequest {
    /// Says what of the request cannot be served by a model of this shape.
    pub(crate) fn check(&self, config: &ModelConfig) -> Result<(), PolicyError> {
        let wrong = |text: String| Err(PolicyError::Request(text));
        if self.prompt.is_empty() {
            return wrong("the prompt has no tokens, it needs at least 1".into());
        }
        if let Some(id) = self
            .prompt
            .iter()
            .find(|id| **id as usize >= config.vocab_size)
        {
            let last = config.vocab_size - 1;
            return wrong(format!("the prompt holds token {id}, allowed: 0 to {last}"));
        }
        if !self.temperature.is_finite() || self.temperature < 0.0 {
            return wrong(format!(
                "temperature is {}, allowed: 0 or more",
                self.temperature
            ));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return wrong(format!("top_p is {}, allowed: above 0 to 1", self.top_p));
        }
        Ok(())
    }
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// One of the stop tokens was sampled.
    Stop,
    /// The tokens allowed, or the context, were used up.
    Length,
}

/// A sampled turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Its tokens, stop token included. Empty when the prompt already fills the context.
    pub tokens: Vec<u32>,
    /// Log-probability of each under the logits divided by the temperature (by 1 at
    /// temperature 0), before `top_p` and `top_k`.
    pub logprobs: Vec<f32>,
    /// Why it ended.
    pub finish: Finish,
}
