//! Steps and validations of a job.

use axum::Json;
use axum::extract::State;
use paddock_types::JobId;
use paddock_types::step::{StepRecord, ValidationRecord};

use super::{Answer, jobs};
use crate::app::Shared;
use crate::extract::Id;

pub(crate) async fn steps(
    State(store): State<Shared>,
    Id(job): Id<JobId>,
) -> Answer<Vec<StepRecord>> {
    jobs::find(&store, job).await?;
    Ok(Json(store.steps(job).await?))
}

pub(crate) async fn validations(
    State(store): State<Shared>,
    Id(job): Id<JobId>,
) -> Answer<Vec<ValidationRecord>> {
    jobs::find(&store, job).await?;
    Ok(Json(store.validations(job).await?))
}
