//! The API's routes, one file a resource.

pub(crate) mod calls;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod meta;
pub(crate) mod metrics;
pub(crate) mod steps;
pub(crate) mod trajectories;

use axum::Json;
use paddock_api::Page;

use crate::error::ApiError;

/// What a route answers.
type Answer<T> = Result<Json<T>, ApiError>;

/// A page of the store as the API shows it.
fn shown<T, U>(page: paddock_store::Page<T>, show: impl FnMut(T) -> U) -> Json<Page<U>> {
    Json(Page {
        items: page.items.into_iter().map(show).collect(),
        next: page.next.map(|cursor| cursor.to_string()),
    })
}
