//! Steps and validations.

use std::sync::Arc;

use paddock_store::{Store, StoreError};
use paddock_types::JobId;
use paddock_types::step::ValidationRecord;

use super::fixtures;

pub(crate) async fn steps_read_back_in_order(store: Arc<dyn Store>) {
    let job = fixtures::job("first");
    store.put_job(&job).await.expect("recorded");
    for number in [2, 10, 1] {
        let step = fixtures::step(number);
        store
            .put_step(job.summary.job, &step)
            .await
            .expect("recorded");
    }
    let steps = store.steps(job.summary.job).await.expect("read");
    assert_eq!(steps, [1, 2, 10].map(fixtures::step));
}

pub(crate) async fn a_step_is_replaced(store: Arc<dyn Store>) {
    let job = fixtures::job("first");
    store.put_job(&job).await.expect("recorded");
    let mut step = fixtures::step(1);
    for trajectories in [1, 2] {
        step.trajectories = trajectories;
        store
            .put_step(job.summary.job, &step)
            .await
            .expect("recorded");
    }
    let steps = store.steps(job.summary.job).await.expect("read");
    assert_eq!(steps, [step]);
}

pub(crate) async fn validations_are_apart_from_steps(store: Arc<dyn Store>) {
    let job = fixtures::job("first");
    store.put_job(&job).await.expect("recorded");
    let validations = [0, 5].map(|step| ValidationRecord {
        step,
        trajectories: 64,
        left_out: [("Timeout".to_owned(), 1)].into(),
        ..ValidationRecord::default()
    });
    for validation in &validations {
        store
            .put_validation(job.summary.job, validation)
            .await
            .expect("recorded");
    }
    let read = store.validations(job.summary.job).await.expect("read");
    assert_eq!(read, validations);
    assert!(store.steps(job.summary.job).await.expect("read").is_empty());
}

pub(crate) async fn a_step_without_its_job_is_refused(store: Arc<dyn Store>) {
    let refused = store.put_step(JobId::new(), &fixtures::step(1)).await;
    let refused = refused.expect_err("there is no job");
    assert!(matches!(refused, StoreError::NoJob { .. }), "{refused:?}");
}
