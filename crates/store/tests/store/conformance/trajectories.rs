//! Trajectories.

use std::sync::Arc;

use paddock_store::{Batch, PageRequest, Store, StoreError, TrajectoryFilter};
use paddock_types::id::Phase;
use paddock_types::trajectory::{TrajectoryRecord, TrajectoryStatus};
use paddock_types::{JobId, TrajectoryId};

use super::fixtures::{self, call, sample, trajectory};

async fn with_job(store: &Arc<dyn Store>) -> JobId {
    let job = fixtures::job("first");
    store.put_job(&job).await.expect("recorded");
    job.summary.job
}

async fn ids(store: &Arc<dyn Store>, filter: TrajectoryFilter) -> Vec<TrajectoryId> {
    let page = store.trajectories(&filter, &PageRequest::default()).await;
    page.expect("a page").items.iter().map(|t| t.id).collect()
}

pub(crate) async fn a_trajectory_reads_back_to_the_bit(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let mut record = trajectory(sample(job, Phase::Train, 1, 0).trajectory(3), 1.0 / 3.0);
    record.status = TrajectoryStatus::Discard;
    record.reason = "its sibling was discarded".to_owned();
    store
        .put_trajectories(std::slice::from_ref(&record))
        .await
        .expect("recorded");
    let read = store.trajectory(record.id).await.expect("read");
    assert_eq!(read.as_ref(), Some(&record));
    let list = store
        .trajectories(&TrajectoryFilter::default(), &PageRequest::default())
        .await
        .expect("a page");
    assert_eq!(list.items, [record.summary()]);
    assert_eq!(list.items[0].excerpt.chars().count(), 200);
    let other = sample(job, Phase::Train, 1, 0).trajectory(4);
    assert_eq!(store.trajectory(other).await.expect("read"), None);
}

pub(crate) async fn a_trajectory_is_replaced(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let id = sample(job, Phase::Train, 1, 0).trajectory(0);
    let mut record = TrajectoryRecord {
        status: TrajectoryStatus::Running,
        reward: None,
        ..trajectory(id, 0.0)
    };
    store
        .put_trajectories(std::slice::from_ref(&record))
        .await
        .expect("recorded");
    record = trajectory(id, 1.0);
    store
        .put_trajectories(std::slice::from_ref(&record))
        .await
        .expect("recorded again");
    assert_eq!(store.trajectory(id).await.expect("read"), Some(record));
    assert_eq!(ids(&store, TrajectoryFilter::default()).await, [id]);
}

/// Two phases, two steps, two samples, two generations, in the order of their ids.
fn many(job: JobId) -> Vec<TrajectoryRecord> {
    let mut records = Vec::new();
    for phase in [Phase::Train, Phase::Test] {
        for step in [2, 10] {
            for index in [0, 1] {
                for generation in [0, 1] {
                    let id = sample(job, phase, step, index).trajectory(generation);
                    records.push(trajectory(id, f64::from(generation)));
                }
            }
        }
    }
    records
}

pub(crate) async fn lists_are_in_training_order_in_pages(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let records = many(job);
    let mut shuffled = records.clone();
    shuffled.reverse();
    shuffled.rotate_left(5);
    store.put_trajectories(&shuffled).await.expect("recorded");
    let mut page = PageRequest::first(3);
    let mut seen = Vec::new();
    loop {
        let found = store
            .trajectories(&TrajectoryFilter::default(), &page)
            .await
            .expect("a page");
        seen.extend(found.items);
        // A client has only the cursor's text.
        page.after = found
            .next
            .map(|next| next.to_string().parse().expect("its text"));
        if page.after.is_none() {
            break;
        }
    }
    let wanted: Vec<_> = records.iter().map(TrajectoryRecord::summary).collect();
    assert_eq!(seen, wanted);
}

pub(crate) async fn filters_choose(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let other = with_job(&store).await;
    let mut records = many(job);
    records[0].status = TrajectoryStatus::Failed;
    records[0].reward = None;
    records.extend(many(other));
    store.put_trajectories(&records).await.expect("recorded");
    let none = TrajectoryFilter {
        job: Some(job),
        ..TrajectoryFilter::default()
    };
    type Rule = fn(&TrajectoryRecord) -> bool;
    let cases: Vec<(TrajectoryFilter, Rule)> = vec![
        (none.clone(), |_| true),
        (
            TrajectoryFilter {
                step: Some(2),
                phase: Some(Phase::Test),
                ..none.clone()
            },
            |t| t.id.sample.step == 2 && t.id.sample.phase == Phase::Test,
        ),
        (
            TrajectoryFilter {
                status: Some(TrajectoryStatus::Failed),
                ..none.clone()
            },
            |t| t.status == TrajectoryStatus::Failed,
        ),
        (
            TrajectoryFilter {
                min_reward: Some(0.5),
                ..none.clone()
            },
            |t| t.reward.is_some_and(|r| r >= 0.5),
        ),
        (
            TrajectoryFilter {
                max_reward: Some(0.0),
                sample: Some(1),
                ..none.clone()
            },
            |t| t.reward.is_some_and(|r| r <= 0.0) && t.id.sample.index == 1,
        ),
        (
            TrajectoryFilter {
                text: Some("SEVEN and".to_owned()),
                ..none.clone()
            },
            |_| true,
        ),
        (
            TrajectoryFilter {
                text: Some("eight".to_owned()),
                ..none
            },
            |_| false,
        ),
    ];
    for (filter, rule) in cases {
        let wanted: Vec<_> = records
            .iter()
            .filter(|t| t.id.sample.job == job && rule(t))
            .map(|t| t.id)
            .collect();
        assert_eq!(ids(&store, filter.clone()).await, wanted, "{filter:?}");
    }
}

pub(crate) async fn a_page_stays_whole_while_rows_are_added(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let records = many(job);
    store
        .put_trajectories(&records[4..12])
        .await
        .expect("recorded");
    let first = store
        .trajectories(&TrajectoryFilter::default(), &PageRequest::first(4))
        .await
        .expect("a page");
    store.put_trajectories(&records).await.expect("recorded");
    let rest = store
        .trajectories(
            &TrajectoryFilter::default(),
            &PageRequest {
                limit: 100,
                after: first.next,
            },
        )
        .await
        .expect("a page");
    let seen: Vec<_> = rest.items.iter().map(|t| t.id).collect();
    let wanted: Vec<_> = records[8..].iter().map(|t| t.id).collect();
    assert_eq!(seen, wanted, "nothing twice, nothing skipped");
}

pub(crate) async fn a_reward_that_is_not_finite_is_refused(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let id = sample(job, Phase::Train, 1, 0).trajectory(0);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let refused = store.put_trajectories(&[trajectory(id, bad)]).await;
        let refused = refused.expect_err("it is no number");
        assert!(
            matches!(refused, StoreError::NotFinite { .. }),
            "{refused:?}"
        );
    }
    assert_eq!(store.trajectory(id).await.expect("read"), None);
}

pub(crate) async fn a_batch_is_written_whole_or_not_at_all(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let id = sample(job, Phase::Train, 1, 0).trajectory(0);
    let good = [trajectory(id, 1.0)];
    let bad = [call(
        sample(JobId::new(), Phase::Train, 1, 0).trajectory(0),
        "reward",
    )];
    let refused = store
        .write(&Batch {
            trajectories: &good,
            calls: &bad,
            ..Batch::default()
        })
        .await
        .expect_err("the call's job is unknown");
    assert!(matches!(refused, StoreError::NoJob { .. }), "{refused:?}");
    assert_eq!(store.trajectory(id).await.expect("read"), None);
}

pub(crate) async fn text_that_looks_like_a_pattern_is_text(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let id = sample(job, Phase::Train, 1, 0).trajectory(0);
    store
        .put_trajectories(&[trajectory(id, 1.0)])
        .await
        .expect("recorded");
    for text in ["%", "seven_and", "\\", "' OR 1=1 --"] {
        let filter = TrajectoryFilter {
            text: Some(text.to_owned()),
            ..TrajectoryFilter::default()
        };
        assert!(ids(&store, filter).await.is_empty(), "\"{text}\"");
    }
}
