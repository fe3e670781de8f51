//! Log lines of a job.

use axum::extract::State;
use paddock_api::{LogEntry, LogQuery, Page};
use paddock_store::{LogFilter, LogOrder};
use paddock_types::JobId;

use super::{Answer, jobs, shown};
use crate::app::Shared;
use crate::extract::{Filter, Id, page};

pub(crate) async fn list(
    State(store): State<Shared>,
    Id(job): Id<JobId>,
    Filter(query): Filter<LogQuery>,
) -> Answer<Page<LogEntry>> {
    jobs::find(&store, job).await?;
    let order = match query.order.unwrap_or_default() {
        paddock_api::LogOrder::Time => LogOrder::Time,
        paddock_api::LogOrder::Latest => LogOrder::Latest,
        paddock_api::LogOrder::Arrival => LogOrder::Arrival,
    };
    let filter = LogFilter {
        plugin: query.plugin,
        instance: query.instance,
        call: query.call,
        trajectory: query.trajectory,
        level: query.level,
        text: query.text,
        since: query.since,
        until: query.until,
        order,
    };
    let page = page(query.limit, query.after)?;
    let lines = store.logs(job, &filter, &page).await?;
    Ok(shown(lines, |stored| LogEntry {
        id: stored.id,
        cursor: stored.cursor(order).to_string(),
        line: stored.line,
    }))
}
