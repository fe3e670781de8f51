//! The model proxy: OpenAI's chat completions over whatever samples.
//!
//! It reads requests and writes answers, and knows nothing of trajectories: their tokens are the
//! backend's to judge. The path is short on purpose: rollouts ask thousands of times a second.

mod answer;
mod error;
mod request;
mod stream;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use paddock_api::model::{ModelBackend, ModelError};
use paddock_api::path;
use serde_json::json;

use crate::auth::bearer;
use error::ChatError;

/// The header that marks requests of the wrapped client.
const MAIN_HEADER: &str = "x-paddock-main";

type Backend = Arc<dyn ModelBackend>;

/// What an answer is known by.
struct Stamp {
    id: String,
    created: u64,
}

impl Stamp {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            id: format!("chatcmpl-{:032x}", rand::random::<u128>()),
            created: now.map_or(0, |d| d.as_secs()),
        }
    }
}

/// The proxy's routes.
pub(crate) fn routes(backend: Backend, body_limit: usize) -> Router {
    Router::new()
        .route(path::CHAT_COMPLETIONS, post(chat))
        .route(path::MODELS, get(models))
        .method_not_allowed_fallback(|| async { ChatError::method() })
        .layer(DefaultBodyLimit::max(body_limit))
        .with_state(backend)
}

async fn chat(
    State(backend): State<Backend>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ChatError> {
    let token = bearer(&headers).ok_or_else(ChatError::no_token)?;
    let body = body.map_err(|error| ChatError::body(&error))?;
    let main = headers
        .get(MAIN_HEADER)
        .is_some_and(|value| value.as_bytes() == b"1");
    let asked = request::parse(&body, main)?;
    let mut completion = backend.complete(token, asked.request).await?;
    let stamp = Stamp::new();
    if asked.stream {
        let body = stream::body(&stamp, completion, asked.include_usage)?;
        return Ok(sent("text/event-stream", body));
    }
    let receipt = completion.receipt.take();
    let body = answer::body(&stamp, &completion)?;
    if let Some(receipt) = receipt {
        receipt.given();
    }
    Ok(sent("application/json", body.into()))
}

async fn models(State(backend): State<Backend>, headers: HeaderMap) -> Result<Response, ChatError> {
    let token = bearer(&headers).ok_or_else(ChatError::no_token)?;
    let model = backend
        .model(token)
        .await
        .ok_or(ChatError::from(ModelError::UnknownToken))?;
    let list = json!({
        "object": "list",
        "data": [{"id": model, "object": "model", "created": 0, "owned_by": "paddock"}],
    });
    Ok(sent("application/json", list.to_string().into()))
}

fn sent(content_type: &'static str, body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
