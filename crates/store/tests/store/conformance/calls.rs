//! Calls.

use std::sync::Arc;

use paddock_store::{CallFilter, PageRequest, Store, StoreError};
use paddock_types::id::Phase;
use paddock_types::{CallId, CallRecord, JobId, Outcome, SubKind};

use super::fixtures::{self, call, failed_call, sample};

async fn with_job(store: &Arc<dyn Store>) -> JobId {
    let job = fixtures::job("first");
    store.put_job(&job).await.expect("recorded");
    job.summary.job
}

async fn found(store: &Arc<dyn Store>, filter: CallFilter) -> Vec<(CallId, u32)> {
    let page = store.calls(&filter, &PageRequest::default()).await;
    let items = page.expect("a page").items;
    items.iter().map(|c| (c.call, c.attempt)).collect()
}

pub(crate) async fn a_call_reads_back(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let id = sample(job, Phase::Test, 7, 2).trajectory(1);
    let mut records = [
        call(id, "reward"),
        failed_call(id, "reward"),
        call(id, "group"),
    ];
    records[2].trajectory = None;
    store.put_calls(&records).await.expect("recorded");
    let page = store
        .calls(&CallFilter::default(), &PageRequest::default())
        .await
        .expect("a page");
    assert_eq!(page.items, records);
}

pub(crate) async fn the_first_verdict_of_an_attempt_stays(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let first = call(sample(job, Phase::Train, 1, 0).trajectory(0), "reward");
    let mut late = first.clone();
    late.verdict.outcome = Outcome::Failure;
    store
        .put_calls(&[first.clone(), late.clone()])
        .await
        .expect("recorded");
    store.put_calls(&[late]).await.expect("recorded");
    let page = store
        .calls(&CallFilter::default(), &PageRequest::default())
        .await
        .expect("a page");
    assert_eq!(page.items, [first]);
}

pub(crate) async fn filters_choose(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let other = with_job(&store).await;
    let mine = sample(job, Phase::Train, 1, 0);
    let mut records: Vec<CallRecord> = Vec::new();
    for generation in 0..3 {
        records.push(call(mine.trajectory(generation), "rollout"));
        records.push(failed_call(mine.trajectory(generation), "reward"));
        let mut again = call(mine.trajectory(generation), "reward");
        again.call = records[records.len() - 1].call;
        again.attempt = 2;
        records.push(again);
    }
    records.push(call(
        sample(other, Phase::Train, 1, 0).trajectory(0),
        "reward",
    ));
    store.put_calls(&records).await.expect("recorded");
    let none = CallFilter {
        job: Some(job),
        ..CallFilter::default()
    };
    let failed = CallFilter {
        outcome: Some(Outcome::Failure),
        ..none.clone()
    };
    let raised = CallFilter {
        sub_kind: Some(SubKind::Raised),
        plugin: Some("reward".to_owned()),
        ..none.clone()
    };
    let timeout = CallFilter {
        sub_kind: Some(SubKind::Timeout),
        ..none.clone()
    };
    let plugin = CallFilter {
        plugin: Some("rollout".to_owned()),
        ..none.clone()
    };
    let trajectory = CallFilter {
        trajectory: Some(mine.trajectory(1)),
        ..none.clone()
    };
    let attempts = CallFilter {
        call: Some(records[1].call),
        ..CallFilter::default()
    };
    type Rule = fn(usize) -> bool;
    let cases: [(CallFilter, Rule); 7] = [
        (none, |n| n < 9),
        (failed, |n| n < 9 && n % 3 == 1),
        (raised, |n| n < 9 && n % 3 == 1),
        (timeout, |_| false),
        (plugin, |n| n < 9 && n.is_multiple_of(3)),
        (trajectory, |n| (3..6).contains(&n)),
        (attempts, |n| n == 1 || n == 2),
    ];
    for (filter, rule) in cases {
        let wanted: Vec<_> = records
            .iter()
            .enumerate()
            .filter(|(n, _)| rule(*n))
            .map(|(_, c)| (c.call, c.attempt))
            .collect();
        assert_eq!(found(&store, filter.clone()).await, wanted, "{filter:?}");
    }
}

pub(crate) async fn a_trajectory_has_its_calls_and_its_groups(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let mine = sample(job, Phase::Train, 1, 0);
    let rollout = call(mine.trajectory(0), "rollout");
    let sibling = call(mine.trajectory(1), "rollout");
    let mut group = call(mine.trajectory(0), "group");
    group.trajectory = None;
    let elsewhere = call(sample(job, Phase::Train, 1, 1).trajectory(0), "rollout");
    let records = [rollout.clone(), sibling, group.clone(), elsewhere];
    store.put_calls(&records).await.expect("recorded");
    let calls = store.trajectory_calls(mine.trajectory(0)).await;
    assert_eq!(calls.expect("read"), [rollout, group]);
}

pub(crate) async fn lists_are_in_pages(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let id = sample(job, Phase::Train, 1, 0).trajectory(0);
    let records: Vec<CallRecord> = (0..200).map(|_| call(id, "reward")).collect();
    store.put_calls(&records).await.expect("recorded");
    let mut page = PageRequest::first(64);
    let mut seen = Vec::new();
    let filter = CallFilter {
        job: Some(job),
        ..CallFilter::default()
    };
    loop {
        let found = store.calls(&filter, &page).await.expect("a page");
        seen.extend(found.items);
        page.after = found.next;
        if page.after.is_none() {
            break;
        }
    }
    assert_eq!(seen, records);
}

pub(crate) async fn a_call_without_its_job_is_refused(store: Arc<dyn Store>) {
    let id = sample(JobId::new(), Phase::Train, 1, 0).trajectory(0);
    let refused = store.put_calls(&[call(id, "reward")]).await;
    let refused = refused.expect_err("there is no job");
    assert!(matches!(refused, StoreError::NoJob { .. }), "{refused:?}");
}

pub(crate) async fn numbers_that_are_not_finite_are_refused(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let id = sample(job, Phase::Train, 1, 0).trajectory(0);
    let mut reward = call(id, "reward");
    reward.verdict.rewards = vec![0.5, f64::NAN];
    let mut time = call(id, "reward");
    time.verdict.run_ms = f64::INFINITY;
    for bad in [reward, time] {
        let refused = store.put_calls(&[bad]).await.expect_err("not a number");
        assert!(
            matches!(refused, StoreError::NotFinite { .. }),
            "{refused:?}"
        );
    }
}
