//! A completion in OpenAI's shape, in one piece.

use paddock_api::model::{Choice, Completion, TokenLogprob};
use paddock_types::chat::{Message, Usage};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::Stamp;
use super::error::ChatError;

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<Shown<'a>>,
    usage: Usage,
}

#[derive(Serialize)]
struct Shown<'a> {
    index: usize,
    #[serde(serialize_with = "with_content")]
    message: &'a Message,
    logprobs: Option<Logprobs<'a>>,
    finish_reason: &'a str,
}

/// The log-probabilities of a choice.
#[derive(Serialize)]
pub(super) struct Logprobs<'a> {
    content: Vec<Token<'a>>,
    refusal: Option<&'a str>,
}

#[derive(Serialize)]
struct Token<'a> {
    token: String,
    logprob: f32,
    bytes: &'a [u8],
    top_logprobs: [(); 0],
}

/// The answer as JSON.
pub(super) fn body(stamp: &Stamp, completion: &Completion) -> Result<Vec<u8>, ChatError> {
    let choices = completion.choices.iter().enumerate();
    let answer = Answer {
        id: &stamp.id,
        object: "chat.completion",
        created: stamp.created,
        model: &completion.model,
        choices: choices
            .map(|(index, choice)| shown(index, choice))
            .collect(),
        usage: completion.usage,
    };
    serde_json::to_vec(&answer).map_err(|error| ChatError::unwritable(&error))
}

fn shown(index: usize, choice: &Choice) -> Shown<'_> {
    Shown {
        index,
        message: &choice.message,
        logprobs: choice.logprobs.as_deref().map(logprobs),
        finish_reason: choice.finish_reason,
    }
}

/// Log-probabilities in OpenAI's shape.
pub(super) fn logprobs(tokens: &[TokenLogprob]) -> Logprobs<'_> {
    let content = tokens.iter().map(|token| Token {
        token: String::from_utf8_lossy(&token.bytes).into_owned(),
        logprob: token.logprob,
        bytes: &token.bytes,
        top_logprobs: [],
    });
    Logprobs {
        content: content.collect(),
        refusal: None,
    }
}

/// A message with a `content`, be it null: clients read it without asking.
fn with_content<S: Serializer>(message: &Message, serializer: S) -> Result<S::Ok, S::Error> {
    if message.0.contains_key("content") {
        return message.serialize(serializer);
    }
    let mut message = message.clone();
    message.0.insert("content".to_owned(), Value::Null);
    message.serialize(serializer)
}
