//! Ids and filters out of a request, with errors that say what is wrong.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use paddock_api::Code;
use paddock_store::{MAX_PAGE, PageRequest};
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// The id in the path.
pub(crate) struct Id<T>(pub(crate) T);

impl<S, T> FromRequestParts<S> for Id<T>
where
    S: Send + Sync,
    T: FromStr<Err: Display>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|error| invalid(error.body_text()))?;
        text.parse()
            .map(Self)
            .map_err(|error| invalid(format!("{error}")))
    }
}

/// The query's parameters.
pub(crate) struct Filter<T>(pub(crate) T);

impl<S, T> FromRequestParts<S> for Filter<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Query::try_from_uri(&parts.uri)
            .map(|Query(query)| Self(query))
            .map_err(|error| invalid(error.body_text()))
    }
}

/// The page that a query asks for.
pub(crate) fn page(limit: Option<u32>, after: Option<String>) -> Result<PageRequest, ApiError> {
    let usual = PageRequest::default();
    let limit = limit.unwrap_or(usual.limit);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(invalid(format!(
            "limit \"{limit}\": allowed is 1 to {MAX_PAGE}"
        )));
    }
    let after = after.map(|text| text.parse()).transpose()?;
    Ok(PageRequest { limit, after })
}

pub(crate) fn invalid(detail: impl Into<String>) -> ApiError {
    ApiError::new(Code::InvalidRequest, detail)
}
