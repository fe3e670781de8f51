//! Errors in OpenAI's shape, which clients know how to read.

use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use paddock_api::model::ModelError;
use serde_json::json;

/// Why a chat request isn't answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChatError {
    status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<&'static str>,
    message: String,
}

impl ChatError {
    /// A request that is wrong.
    pub(super) fn invalid(param: Option<&'static str>, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "invalid_request_error",
            code: None,
            param,
            message: message.into(),
        }
    }

    /// A request without a token.
    pub(super) fn no_token() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            kind: "authentication_error",
            code: Some("invalid_api_key"),
            param: None,
            message: "send \"Authorization: Bearer TOKEN\" with the token of the trajectory (`proxy.jwt_token`)".to_owned(),
        }
    }

    /// A request by another method than the path takes.
    pub(super) fn method() -> Self {
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            ..Self::invalid(None, "the method isn't allowed here")
        }
    }

    /// A body that could not be taken in.
    pub(super) fn body(error: &BytesRejection) -> Self {
        Self {
            status: error.status(),
            ..Self::invalid(None, error.body_text().to_lowercase())
        }
    }

    /// An answer that can't be written.
    pub(super) fn unwritable(error: &serde_json::Error) -> Self {
        Self::from(ModelError::Unavailable {
            message: format!("the answer can't be written: {error}"),
        })
    }
}

impl From<ModelError> for ChatError {
    fn from(error: ModelError) -> Self {
        let message = error.to_string();
        match error {
            ModelError::UnknownToken => Self {
                message,
                ..Self::no_token()
            },
            ModelError::Refused { param, .. } => Self::invalid(param, message),
            ModelError::Unavailable { .. } => {
                tracing::warn!(message, "the model does not answer");
                Self {
                    status: StatusCode::SERVICE_UNAVAILABLE,
                    kind: "server_error",
                    code: Some("model_unavailable"),
                    param: None,
                    message,
                }
            }
        }
    }
}

impl IntoResponse for ChatError {
    fn into_response(self) -> Response {
        let body = json!({"error": {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }});
        let headers = [(CONTENT_TYPE, "application/json")];
        (self.status, headers, body.to_string()).into_response()
    }
}
