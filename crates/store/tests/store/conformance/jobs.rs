//! Jobs.

use std::sync::Arc;

use paddock_store::{JobFilter, PageRequest, Store, StoreError};
use paddock_types::JobId;
use paddock_types::job::JobState;

use super::fixtures;

pub(crate) async fn a_job_reads_back(store: Arc<dyn Store>) {
    let job = fixtures::job("first");
    store.put_job(&job).await.expect("it is recorded");
    let read = store.job(job.summary.job).await.expect("it is read");
    assert_eq!(read, Some(job));
}

pub(crate) async fn a_job_is_replaced(store: Arc<dyn Store>) {
    let mut job = fixtures::job("first");
    store.put_job(&job).await.expect("it is recorded");
    store
        .put_step(job.summary.job, &fixtures::step(1))
        .await
        .expect("a step");
    job.summary.state = JobState::Completed;
    job.updated_ms += 1;
    store.put_job(&job).await.expect("it is recorded again");
    let read = store.job(job.summary.job).await.expect("it is read");
    assert_eq!(read.as_ref(), Some(&job));
    let steps = store.steps(job.summary.job).await.expect("steps");
    assert_eq!(steps.len(), 1, "what belongs to it stays");
}

pub(crate) async fn an_unknown_job_is_none(store: Arc<dyn Store>) {
    assert_eq!(store.job(JobId::new()).await.expect("it is read"), None);
    let steps = store.steps(JobId::new()).await.expect("it is read");
    assert!(steps.is_empty());
}

pub(crate) async fn lists_are_newest_first_in_pages(store: Arc<dyn Store>) {
    let mut names = Vec::new();
    for number in 0..5 {
        let name = format!("job {number}");
        store
            .put_job(&fixtures::job(&name))
            .await
            .expect("recorded");
        names.insert(0, name);
    }
    let mut page = PageRequest::first(2);
    let mut seen = Vec::new();
    loop {
        let found = store
            .jobs(&JobFilter::default(), &page)
            .await
            .expect("a page");
        assert!(found.items.len() <= 2);
        seen.extend(found.items.into_iter().map(|job| job.summary.name));
        page.after = found.next;
        if page.after.is_none() {
            break;
        }
    }
    assert_eq!(seen, names);
}

pub(crate) async fn filters_choose(store: Arc<dyn Store>) {
    let (one, mut two) = (fixtures::job("one"), fixtures::job("two"));
    two.summary.state = JobState::Failed;
    for job in [&one, &two] {
        store.put_job(job).await.expect("recorded");
    }
    let failed = JobFilter {
        state: Some(JobState::Failed),
        ..JobFilter::default()
    };
    let named = JobFilter {
        name: Some("one".to_owned()),
        ..JobFilter::default()
    };
    let page = PageRequest::default();
    let found = store.jobs(&failed, &page).await.expect("a page");
    assert_eq!(found.items, [two]);
    let found = store.jobs(&named, &page).await.expect("a page");
    assert_eq!(found.items, [one]);
    assert_eq!(found.next, None);
}

pub(crate) async fn a_number_that_is_not_finite_is_refused(store: Arc<dyn Store>) {
    let mut job = fixtures::job("first");
    job.summary.seconds = f64::NAN;
    let refused = store
        .put_job(&job)
        .await
        .expect_err("it can't be read back");
    assert!(matches!(refused, StoreError::Encode { .. }), "{refused:?}");
    assert_eq!(store.job(job.summary.job).await.expect("read"), None);
}
