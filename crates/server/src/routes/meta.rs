//! What the server says of itself.

use axum::Json;
use axum::extract::State;
use paddock_api::{Code, Health, Version};
use paddock_store::{JobFilter, PageRequest};
use serde_json::Value;

use super::Answer;
use crate::app::Shared;
use crate::error::ApiError;

pub(crate) async fn health(State(store): State<Shared>) -> Answer<Health> {
    let asked = store
        .jobs(&JobFilter::default(), &PageRequest::first(1))
        .await;
    if let Err(error) = asked {
        tracing::error!(error = error.chain(), "the store does not answer");
        return Err(ApiError::new(Code::Unavailable, error.to_string()));
    }
    Ok(Json(Health {
        status: "ok".to_owned(),
    }))
}

pub(crate) async fn version() -> Json<Version> {
    Json(Version {
        paddock: env!("CARGO_PKG_VERSION").to_owned(),
        api: "v1".to_owned(),
    })
}

pub(crate) async fn openapi() -> Answer<Value> {
    let document = serde_json::to_value(paddock_api::openapi());
    document
        .map(Json)
        .map_err(|error| ApiError::new(Code::Internal, error.to_string()))
}
