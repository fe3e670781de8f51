//! Measured numbers of a job.

use axum::Json;
use axum::extract::State;
use paddock_api::{MetricQuery, MetricSeries};
use paddock_store::MetricFilter;
use paddock_types::JobId;

use super::{Answer, jobs};
use crate::app::Shared;
use crate::extract::{Filter, Id};

pub(crate) async fn list(
    State(store): State<Shared>,
    Id(job): Id<JobId>,
    Filter(query): Filter<MetricQuery>,
) -> Answer<Vec<MetricSeries>> {
    jobs::find(&store, job).await?;
    let filter = MetricFilter {
        plugin: query.plugin,
        name: query.name,
        since: query.since,
        until: query.until,
    };
    let series = store.metrics(job, &filter).await?;
    let shown = series.into_iter().map(|series| {
        let (times_ms, values) = series.points.into_iter().unzip();
        MetricSeries {
            plugin: series.plugin,
            name: series.name,
            times_ms,
            values,
        }
    });
    Ok(Json(shown.collect()))
}
