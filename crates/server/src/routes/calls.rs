//! Calls.

use axum::Json;
use axum::extract::State;
use paddock_api::{CallQuery, Page};
use paddock_store::{CallFilter, PageRequest};
use paddock_types::{CallId, CallRecord, JobId};

use super::{Answer, jobs, shown};
use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{Filter, Id, page};

pub(crate) async fn list(
    State(store): State<Shared>,
    Id(job): Id<JobId>,
    Filter(query): Filter<CallQuery>,
) -> Answer<Page<CallRecord>> {
    jobs::find(&store, job).await?;
    let filter = CallFilter {
        job: Some(job),
        plugin: query.plugin,
        trajectory: query.trajectory,
        outcome: query.outcome,
        sub_kind: query.sub_kind,
        call: None,
    };
    let page = page(query.limit, query.after)?;
    Ok(shown(store.calls(&filter, &page).await?, |call| call))
}

pub(crate) async fn detail(
    State(store): State<Shared>,
    Id(call): Id<CallId>,
) -> Answer<Vec<CallRecord>> {
    let filter = CallFilter {
        call: Some(call),
        ..CallFilter::default()
    };
    // Attempts are few: retries are bounded far below a page.
    let page = PageRequest::first(paddock_store::MAX_PAGE);
    let attempts = store.calls(&filter, &page).await?.items;
    if attempts.is_empty() {
        return Err(ApiError::not_found(call));
    }
    Ok(Json(attempts))
}
