//! Measured numbers.

use std::sync::Arc;

use paddock_store::{MetricFilter, MetricPoint, Store, StoreError};
use paddock_types::JobId;

use super::fixtures;

fn point(time_ms: i64, name: &str, value: f64) -> MetricPoint {
    MetricPoint {
        time_ms,
        name: name.to_owned(),
        value,
    }
}

async fn with_points(store: &Arc<dyn Store>) -> JobId {
    let job = fixtures::job("first");
    store.put_job(&job).await.expect("recorded");
    let job = job.summary.job;
    let points = [
        point(20, "calls_per_second", 2.0),
        point(10, "calls_per_second", 1.0),
        point(10, "in_flight", 7.0),
    ];
    store
        .put_metrics(job, "reward", &points)
        .await
        .expect("recorded");
    store
        .put_metrics(job, "rollout", &[point(10, "in_flight", 3.0)])
        .await
        .expect("recorded");
    job
}

pub(crate) async fn points_come_by_series_and_time(store: Arc<dyn Store>) {
    let job = with_points(&store).await;
    store
        .put_metrics(job, "reward", &[point(20, "calls_per_second", 5.0)])
        .await
        .expect("a point is replaced");
    let series = store
        .metrics(job, &MetricFilter::default())
        .await
        .expect("read");
    let seen: Vec<_> = series
        .iter()
        .map(|s| (s.plugin.as_str(), s.name.as_str(), s.points.as_slice()))
        .collect();
    type Seen<'a> = (&'a str, &'a str, &'a [(i64, f64)]);
    let wanted: [Seen<'_>; 3] = [
        ("reward", "calls_per_second", &[(10, 1.0), (20, 5.0)]),
        ("reward", "in_flight", &[(10, 7.0)]),
        ("rollout", "in_flight", &[(10, 3.0)]),
    ];
    assert_eq!(seen, wanted);
}

pub(crate) async fn filters_choose(store: Arc<dyn Store>) {
    let job = with_points(&store).await;
    let filter = MetricFilter {
        plugin: Some("reward".to_owned()),
        name: Some("calls_per_second".to_owned()),
        since: Some(11),
        until: Some(21),
    };
    let series = store.metrics(job, &filter).await.expect("read");
    assert_eq!(series.len(), 1);
    assert_eq!(series[0].points, [(20, 2.0)]);
    let other = store.metrics(JobId::new(), &MetricFilter::default()).await;
    assert!(other.expect("read").is_empty());
}

pub(crate) async fn a_value_that_is_not_finite_is_refused(store: Arc<dyn Store>) {
    let job = with_points(&store).await;
    let refused = store
        .put_metrics(job, "reward", &[point(30, "in_flight", f64::NAN)])
        .await
        .expect_err("not a number");
    assert!(
        matches!(refused, StoreError::NotFinite { .. }),
        "{refused:?}"
    );
}
