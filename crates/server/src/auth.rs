//! Who may use the API: whoever bears the owner's token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use constant_time_eq::constant_time_eq;
use paddock_api::Code;

use crate::error::ApiError;

/// The owner's token.
#[derive(Clone)]
pub(crate) struct OwnerToken(Arc<str>);

impl OwnerToken {
    pub(crate) fn new(token: &str) -> Self {
        Self(token.into())
    }

    /// True if this is it. How long that takes to say tells nothing of the token.
    fn is(&self, given: &str) -> bool {
        constant_time_eq(self.0.as_bytes(), given.as_bytes())
    }
}

/// The token that a request bears.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim())
        .filter(|token| !token.is_empty())
}

/// Lets only the owner through.
pub(crate) async fn require_owner(
    State(owner): State<OwnerToken>,
    request: Request,
    next: Next,
) -> Response {
    match bearer(request.headers()) {
        Some(token) if owner.is(token) => next.run(request).await,
        Some(_) => {
            refused("the token opens nothing here: use the one in the data folder's \"token\" file")
        }
        None => refused(
            "send \"Authorization: Bearer TOKEN\" with the token in the data folder's \"token\" file",
        ),
    }
}

fn refused(detail: &str) -> Response {
    ApiError::new(Code::Unauthorized, detail).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn bearer_of(value: &'static str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
        bearer(&headers).map(str::to_owned)
    }

    #[test]
    fn a_bearer_token_is_read_whatever_the_scheme_s_case() {
        assert_eq!(bearer_of("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(bearer_of("bearer  abc ").as_deref(), Some("abc"));
        for other in ["abc", "Basic abc", "Bearer", "Bearer ", ""] {
            assert_eq!(bearer_of(other), None, "\"{other}\"");
        }
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let owner = OwnerToken::new("secret");
        assert!(owner.is("secret"));
        for other in ["", "secre", "secrets", "Secret"] {
            assert!(!owner.is(other), "\"{other}\"");
        }
    }
}
