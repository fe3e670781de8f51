//! The seam between the model proxy and whatever samples: what a chat request asks, what a
//! completion holds, what can go wrong. No web framework in sight: the engine implements
//! [`ModelBackend`], the server calls it.

use async_trait::async_trait;
use paddock_types::chat::{Message, Sampling, Usage};
use serde_json::Value;

/// Answers chat requests.
#[async_trait]
pub trait ModelBackend: Send + Sync {
    /// Answers a request that bears this token. Dropping the future gives the request up: nothing
    /// of it is recorded.
    ///
    /// # Errors
    /// [`ModelError::UnknownToken`] for a token that opens no trajectory, or no longer.
    async fn complete(&self, token: &str, request: ChatRequest) -> Result<Completion, ModelError>;

    /// The model that answers this token's requests; `None` if the token opens nothing.
    async fn model(&self, token: &str) -> Option<String>;
}

/// A chat request.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The tools that the model may call; `None` if the request names none.
    pub tools: Option<Value>,
    /// Sampling fields that the request sets itself.
    pub sampling: Sampling,
    /// True if it comes from the wrapped client: it goes on with the trajectory, or edits it.
    pub main: bool,
    /// Completions wanted, at least 1.
    pub n: u32,
    /// Texts that end a completion, besides the model's own end.
    pub stop: Vec<String>,
    /// True if log-probabilities are wanted.
    pub logprobs: bool,
}

/// An answered chat request.
#[derive(Debug)]
pub struct Completion {
    /// The model's name.
    pub model: String,
    /// As many as were asked for.
    pub choices: Vec<Choice>,
    /// Token counts over all choices.
    pub usage: Usage,
    /// Told once the answer has been given in full; dropped if it was cut.
    pub receipt: Option<Receipt>,
}

/// One completion.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The assistant's message: `content`, and where there are any `reasoning_content` and
    /// `tool_calls`.
    pub message: Message,
    /// `stop`, `length` or `tool_calls`.
    pub finish_reason: &'static str,
    /// The sampled tokens, if log-probabilities were asked for and the policy has them.
    pub logprobs: Option<Vec<TokenLogprob>>,
}

/// A sampled token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// Its bytes; empty for a token that stands for no text.
    pub bytes: Vec<u8>,
    /// Its log-probability.
    pub logprob: f32,
}

/// Says that an answer was given in full. A streamed answer is recorded when it ends, so a backend
/// that keeps this rule records in here; a cut stream only drops it.
pub struct Receipt(Box<dyn FnOnce() + Send>);

impl Receipt {
    /// A receipt that calls this.
    pub fn new(given: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(given))
    }

    /// The answer has been given in full.
    pub fn given(self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receipt")
    }
}

/// Why a chat request isn't answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The token opens no trajectory, or no longer.
    #[error("the token opens no trajectory: it is unknown, or its call is over")]
    UnknownToken,
    /// The request asks for what can't be given.
    #[error("{message}")]
    Refused {
        /// What, and what is allowed.
        message: String,
        /// The field that asks for it.
        param: Option<&'static str>,
    },
    /// The model's side failed: the platform's fault, never the plugin's.
    #[error("{message}")]
    Unavailable {
        /// What happened.
        message: String,
    },
}
