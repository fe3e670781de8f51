//! Trajectories.

use axum::Json;
use axum::extract::State;
use paddock_api::{Page, TrajectoryDetail, TrajectoryOptions, TrajectoryQuery};
use paddock_store::TrajectoryFilter;
use paddock_types::trajectory::{TrajectoryRecord, TrajectorySummary};
use paddock_types::{CallRecord, JobId, TrajectoryId};

use super::{Answer, jobs, shown};
use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{Filter, Id, page};

pub(crate) async fn list(
    State(store): State<Shared>,
    Id(job): Id<JobId>,
    Filter(query): Filter<TrajectoryQuery>,
) -> Answer<Page<TrajectorySummary>> {
    jobs::find(&store, job).await?;
    let filter = TrajectoryFilter {
        job: Some(job),
        step: query.step,
        phase: query.phase,
        sample: query.sample,
        status: query.status,
        min_reward: query.min_reward,
        max_reward: query.max_reward,
        text: query.text,
    };
    let page = page(query.limit, query.after)?;
    Ok(shown(store.trajectories(&filter, &page).await?, |t| t))
}

pub(crate) async fn detail(
    State(store): State<Shared>,
    Id(id): Id<TrajectoryId>,
    Filter(options): Filter<TrajectoryOptions>,
) -> Answer<TrajectoryDetail> {
    let record = find(&store, id).await?;
    let summary = record.summary();
    let conversation = record.conversation;
    Ok(Json(TrajectoryDetail {
        summary,
        messages: conversation.messages,
        dropped: conversation.dropped,
        side: conversation.side,
        extra: record.extra,
        tokens: options.tokens.then_some(conversation.tokens),
    }))
}

pub(crate) async fn calls(
    State(store): State<Shared>,
    Id(id): Id<TrajectoryId>,
) -> Answer<Vec<CallRecord>> {
    let calls = store.trajectory_calls(id).await?;
    if calls.is_empty() {
        // Calls are there before their trajectory is: only one that has neither is unknown.
        find(&store, id).await?;
    }
    Ok(Json(calls))
}

async fn find(store: &Shared, id: TrajectoryId) -> Result<TrajectoryRecord, ApiError> {
    let found = store.trajectory(id).await?;
    found.ok_or_else(|| ApiError::not_found(id))
}
