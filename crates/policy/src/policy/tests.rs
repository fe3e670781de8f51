use std::sync::Arc;

use super::*;
use crate::model::tests::small;
use crate::sample::SampleRequest;
use crate::sample::tests::request;
use crate::train::tests::{settings, trajectories};

fn policy() -> Policy {
    let trainer = Trainer::new(small(true), ModelCard::default()).expect("a trainer");
    Policy::start(trainer).expect("a policy")
}

#[tokio::test]
async fn many_callers_share_a_batch_and_each_gets_its_own() {
    let policy = policy();
    let alone = policy
        .sample(request(&[1, 2, 3], 4))
        .await
        .expect("sampled");
    let tasks: Vec<_> = (0..20)
        .map(|i| {
            let policy = policy.clone();
            tokio::spawn(async move { policy.sample(request(&[1, 2, 3], i)).await })
        })
        .collect();
    for (i, task) in tasks.into_iter().enumerate() {
        let sampled = task.await.expect("a task").expect("sampled");
        assert_eq!(sampled == alone, i == 4, "request {i}");
    }
}

#[tokio::test]
async fn an_update_changes_what_is_sampled_and_a_checkpoint_keeps_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = policy();
    let before = policy
        .sample(request(&[1, 2, 3], 4))
        .await
        .expect("sampled");
    policy
        .update(trajectories(10), settings())
        .await
        .expect("an update");
    let after = policy
        .sample(request(&[1, 2, 3], 4))
        .await
        .expect("sampled");
    assert_ne!(before.logprobs, after.logprobs);
    let checkpoint = folder.path().join("one");
    let progress = Progress {
        step: 3,
        ..Progress::default()
    };
    policy
        .save(checkpoint.clone(), progress.clone())
        .await
        .expect("saved");
    let (resumed, read) = Policy::resume(&checkpoint).expect("resumed");
    assert_eq!(read, progress);
    let loaded = Policy::load(&checkpoint).expect("loaded");
    for policy in [resumed, loaded] {
        assert_eq!(
            policy
                .sample(request(&[1, 2, 3], 4))
                .await
                .expect("sampled"),
            after
        );
    }
}

#[tokio::test]
async fn a_dropped_request_gives_its_place_away() {
    let policy = policy();
    let endless = SampleRequest {
        stop: vec![],
        max_new_tokens: 1000,
        ..request(&[1], 0)
    };
    let want = policy
        .sample(request(&[1, 2, 3], 4))
        .await
        .expect("sampled");
    {
        let dropped = policy.sample(endless);
        tokio::pin!(dropped);
        // Asked, then dropped before it can be answered.
        assert!(futures_poll_once(dropped.as_mut()).await.is_none());
    }
    assert_eq!(
        policy
            .sample(request(&[1, 2, 3], 4))
            .await
            .expect("sampled"),
        want
    );
}

async fn futures_poll_once<F: Future + Unpin>(future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn the_thread_ends_with_the_last_handle() {
    let policy = policy();
    let card = Arc::downgrade(&policy.card);
    let other = policy.clone();
    drop(policy);
    assert!(other.sample(request(&[1], 0)).await.is_ok());
    drop(other);
    assert!(card.upgrade().is_none());
}
