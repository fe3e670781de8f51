//! Errors on their way out, as problem details.

use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use paddock_api::{Code, PROBLEM_JSON, Problem};
use paddock_store::StoreError;

/// An error of the API.
#[derive(Debug)]
pub(crate) struct ApiError(Problem);

impl ApiError {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Problem::new(code, detail))
    }

    pub(crate) fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(Code::NotFound, format!("no {what} in this store"))
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if let StoreError::BadCursor { .. } = error {
            return Self::new(Code::InvalidRequest, error.to_string());
        }
        tracing::error!(error = error.chain(), "the store failed");
        Self::new(Code::Internal, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let status =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A problem is text and a number: it can always be written.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if problem.code == Code::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
