//! A backend that says what a test tells it to, and keeps what it was asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use paddock_api::model::{
    ChatRequest, Choice, Completion, ModelBackend, ModelError, Receipt, TokenLogprob,
};
use paddock_types::chat::{Message, Usage};
use serde_json::json;

/// The token of its one trajectory.
pub(crate) const TRAJECTORY: &str = "the-trajectory-s-token";

#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) asked: Mutex<Vec<ChatRequest>>,
    pub(crate) message: Mutex<Option<Message>>,
    pub(crate) fails: Mutex<Option<ModelError>>,
    pub(crate) receipts: Arc<AtomicUsize>,
}

#[async_trait]
impl ModelBackend for Scripted {
    async fn complete(&self, token: &str, request: ChatRequest) -> Result<Completion, ModelError> {
        if token != TRAJECTORY {
            return Err(ModelError::UnknownToken);
        }
        if let Some(error) = self.fails.lock().expect("no panic").clone() {
            return Err(error);
        }
        if request.n > 1 {
            return Err(ModelError::Refused {
                message: format!("n \"{}\": allowed while training is 1", request.n),
                param: Some("n"),
            });
        }
        let logprobs = request.logprobs.then(|| {
            vec![TokenLogprob {
                bytes: b"4".to_vec(),
                logprob: -0.5,
            }]
        });
        self.asked.lock().expect("no panic").push(request);
        let message = self.message.lock().expect("no panic").clone();
        let receipts = Arc::clone(&self.receipts);
        Ok(Completion {
            model: "paddock-base".to_owned(),
            choices: vec![Choice {
                message: message.unwrap_or_else(|| Message::text("assistant", "4")),
                finish_reason: "stop",
                logprobs,
            }],
            usage: Usage {
                prompt_tokens: 7,
                completion_tokens: 2,
                total_tokens: 9,
            },
            receipt: Some(Receipt::new(move || {
                receipts.fetch_add(1, Ordering::SeqCst);
            })),
        })
    }

    async fn model(&self, token: &str) -> Option<String> {
        (token == TRAJECTORY).then(|| "paddock-base".to_owned())
    }
}

/// A message that thinks, and calls a tool.
pub(crate) fn tool_call() -> Message {
    let message = json!({
        "role": "assistant",
        "reasoning_content": "I should add them",
        "tool_calls": [{
            "id": "call_1", "type": "function",
            "function": {"name": "add", "arguments": "{\"a\":2,\"b\":2}"},
        }],
    });
    serde_json::from_value(message).expect("a message")
}
