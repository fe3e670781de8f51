//! A completion as server-sent events, in OpenAI's shape.
//!
//! The policy gives whole answers: they are sent in a few pieces, so that a client's code for
//! streams runs as it would elsewhere. The receipt is given as the last event goes out.

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use paddock_api::model::{Choice, Completion, Receipt};
use serde_json::{Map, Value, json};

use super::Stamp;
use super::answer::logprobs;
use super::error::ChatError;

/// Pieces of a text at most.
const PIECES: usize = 4;
const DONE: &[u8] = b"data: [DONE]\n\n";

/// The answer as a body that streams.
pub(super) fn body(
    stamp: &Stamp,
    mut completion: Completion,
    include_usage: bool,
) -> Result<Body, ChatError> {
    let receipt = completion.receipt.take();
    let events = events(stamp, &completion, include_usage)?;
    Ok(Body::from_stream(stream::iter(given(events, receipt))))
}

/// The events, then the end. Whoever stops listening before the end never has the receipt given.
fn given(
    events: Vec<Bytes>,
    receipt: Option<Receipt>,
) -> impl Iterator<Item = Result<Bytes, std::convert::Infallible>> {
    let end = std::iter::once_with(move || {
        if let Some(receipt) = receipt {
            receipt.given();
        }
        Bytes::from_static(DONE)
    });
    events.into_iter().chain(end).map(Ok)
}

fn events(
    stamp: &Stamp,
    completion: &Completion,
    include_usage: bool,
) -> Result<Vec<Bytes>, ChatError> {
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": stamp.id,
            "object": "chat.completion.chunk",
            "created": stamp.created,
            "model": completion.model,
            "choices": choices,
        });
        if include_usage {
            chunk["usage"] = usage;
        }
        Bytes::from(format!("data: {chunk}\n\n"))
    };
    let mut events = Vec::new();
    for (index, choice) in completion.choices.iter().enumerate() {
        for (delta, logprobs, finish) in deltas(choice)? {
            let choice = json!([{
                "index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish,
            }]);
            events.push(chunk(choice, Value::Null));
        }
    }
    if include_usage {
        events.push(chunk(json!([]), json!(completion.usage)));
    }
    Ok(events)
}

type Delta = (Value, Value, Option<&'static str>);

/// A choice piece by piece: who speaks, what was thought, what is said, what is called, the end.
fn deltas(choice: &Choice) -> Result<Vec<Delta>, ChatError> {
    let message = &choice.message.0;
    let mut out: Vec<Delta> = Vec::new();
    let mut say = |delta: Value| out.push((delta, Value::Null, None));
    say(json!({"role": "assistant", "content": ""}));
    for key in ["reasoning_content", "content"] {
        for piece in pieces(text(message, key)) {
            say(json!({key: piece}));
        }
    }
    if let Some(Value::Array(calls)) = message.get("tool_calls") {
        for (index, call) in calls.iter().enumerate() {
            let mut call = call.clone();
            call["index"] = index.into();
            say(json!({"tool_calls": [call]}));
        }
    }
    let tokens = match choice.logprobs.as_deref().map(logprobs) {
        Some(tokens) => {
            serde_json::to_value(tokens).map_err(|error| ChatError::unwritable(&error))?
        }
        None => Value::Null,
    };
    out.push((json!({}), tokens, Some(choice.finish_reason)));
    Ok(out)
}

fn text<'a>(message: &'a Map<String, Value>, key: &str) -> &'a str {
    message.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A text in at most [`PIECES`] pieces, cut between characters.
fn pieces(text: &str) -> Vec<&str> {
    let size = text.len().div_ceil(PIECES).max(1);
    let mut rest = text;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(size));
        out.push(piece);
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_receipt_is_given_with_the_last_event_only() {
        let done = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&done);
        let receipt = Receipt::new(move || told.store(true, Ordering::Relaxed));
        let mut events = given(vec![Bytes::from_static(b"data: 1\n\n")], Some(receipt));
        assert!(events.next().is_some());
        assert!(!done.load(Ordering::Relaxed), "more is to come");
        let last = events.next().and_then(Result::ok);
        assert_eq!(last.as_deref(), Some(DONE));
        assert!(done.load(Ordering::Relaxed));

        let told = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&told);
        let receipt = Receipt::new(move || cut.store(true, Ordering::Relaxed));
        let mut events = given(vec![Bytes::new()], Some(receipt));
        events.next();
        drop(events);
        assert!(
            !told.load(Ordering::Relaxed),
            "a cut stream is not recorded"
        );
    }

    proptest! {
        #[test]
        fn pieces_are_the_text_and_few(text in any::<String>()) {
            let pieces = pieces(&text);
            prop_assert_eq!(pieces.concat(), text.as_str());
            prop_assert!(pieces.len() <= PIECES);
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
        }
    }
}
