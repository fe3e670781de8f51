//! The model proxy's way to the open sessions: chat requests in the OpenAI shape become turns.

use async_trait::async_trait;
use paddock_api::model::{
    ChatRequest, Choice, Completion, ModelBackend, ModelError, Receipt, TokenLogprob,
};

use crate::session::{Ask, Sessions, Turn, TurnError};

#[async_trait]
impl ModelBackend for Sessions {
    async fn complete(&self, token: &str, request: ChatRequest) -> Result<Completion, ModelError> {
        let refused = |param, message: String| ModelError::Refused {
            message,
            param: Some(param),
        };
        let model = self.model(token).ok_or(ModelError::UnknownToken)?;
        if request.n > 1 {
            let message = format!("n is {}: allowed is 1, one trajectory a call", request.n);
            return Err(refused("n", message));
        }
        let stop = stop_tokens(&request.stop).map_err(|message| refused("stop", message))?;
        let ask = Ask {
            messages: request.messages,
            tools: request.tools,
            sampling: request.sampling,
            stop,
            main: request.main,
        };
        let turn = match self.turn(token, ask).await {
            None => return Err(ModelError::UnknownToken),
            Some(Err(TurnError::Refused(message))) => {
                return Err(ModelError::Refused {
                    message,
                    param: None,
                });
            }
            Some(Err(TurnError::Platform(message))) => {
                return Err(ModelError::Unavailable { message });
            }
            Some(Ok(turn)) => turn,
        };
        let reply = turn.reply();
        let choice = Choice {
            message: reply.message,
            finish_reason: reply.finish_reason.as_str(),
            logprobs: request.logprobs.then(|| logprobs(&turn)),
        };
        let usage = turn.usage();
        let receipt = Some(Receipt::new(move || turn.record()));
        Ok(Completion {
            model,
            choices: vec![choice],
            usage,
            receipt,
        })
    }

    async fn model(&self, token: &str) -> Option<String> {
        Sessions::model(self, token)
    }
}

/// The tokens of stop texts: with a token a byte, a text of one byte is a token.
fn stop_tokens(texts: &[String]) -> Result<Vec<u32>, String> {
    let token = |text: &String| match text.as_bytes() {
        [byte] => Ok(u32::from(*byte)),
        _ => Err(format!(
            "stop is {text:?}: the embedded policy stops at texts of one byte"
        )),
    };
    texts.iter().map(token).collect()
}

fn logprobs(turn: &Turn) -> Vec<TokenLogprob> {
    let tokens = turn.sampled.tokens.iter().zip(&turn.sampled.logprobs);
    // Ids above a byte's are special tokens: they stand for no text.
    let bytes = |id: u32| u8::try_from(id).map(|byte| vec![byte]).unwrap_or_default();
    tokens
        .map(|(&id, &logprob)| TokenLogprob {
            bytes: bytes(id),
            logprob,
        })
        .collect()
}
