//! Jobs.

use axum::Json;
use axum::extract::State;
use paddock_api::{JobQuery, Page};
use paddock_store::JobFilter;
use paddock_types::JobId;
use paddock_types::job::JobRecord;

use super::{Answer, shown};
use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{Filter, Id, page};

pub(crate) async fn list(
    State(store): State<Shared>,
    Filter(query): Filter<JobQuery>,
) -> Answer<Page<JobRecord>> {
    let filter = JobFilter {
        state: query.state,
        name: query.name,
    };
    let page = page(query.limit, query.after)?;
    Ok(shown(store.jobs(&filter, &page).await?, JobRecord::masked))
}

pub(crate) async fn detail(State(store): State<Shared>, Id(id): Id<JobId>) -> Answer<JobRecord> {
    find(&store, id).await.map(JobRecord::masked).map(Json)
}

/// The job, or the error that there is none.
pub(crate) async fn find(store: &Shared, id: JobId) -> Result<JobRecord, ApiError> {
    store.job(id).await?.ok_or_else(|| ApiError::not_found(id))
}
