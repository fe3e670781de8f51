use std::sync::Arc;

use paddock_types::JobId;
use paddock_types::id::{Phase, SampleId};
use paddock_types::trajectory::{Conversation, Tokens, TrajectoryRecord, TrajectoryStatus};
use serde_json::Value;

use super::*;

fn graded(sample: u32, generation: u32, reward: f64, spoke: bool) -> Graded {
    let job = JobId::from_u64(1);
    let id = SampleId {
        job,
        phase: Phase::Train,
        step: 1,
        index: sample,
    };
    let tokens = Tokens {
        ids: vec![1, 2],
        mask: vec![false, spoke],
        logprobs: vec![0.0, -1.0],
    };
    let conversation = Conversation {
        tokens,
        ..Conversation::default()
    };
    let record = TrajectoryRecord {
        id: id.trajectory(generation),
        status: TrajectoryStatus::Success,
        reason: String::new(),
        source: String::new(),
        conversation: conversation.clone(),
        extra: Value::Null,
        rewards: [("g".to_owned(), reward)].into(),
        reward: Some(reward),
        metrics: [("length".to_owned(), f64::from(generation))].into(),
        ended_ms: 0,
    };
    Graded {
        record,
        conversation: Arc::new(conversation),
        reward,
    }
}

#[test]
fn groups_are_normalised_by_themselves_and_flat_ones_stay_with_advantage_zero() {
    let mut outcomes = Outcomes::default();
    outcomes
        .groups
        .insert(1, vec![graded(1, 0, 0.5, true), graded(1, 1, 0.5, true)]);
    outcomes
        .groups
        .insert(0, vec![graded(0, 0, 0.0, true), graded(0, 1, 1.0, true)]);
    let batch = batch(&outcomes, ScaleRewards::None);
    let advantages: Vec<f64> = batch.trajectories.iter().map(|t| t.advantage).collect();
    assert_eq!(
        advantages,
        [-0.5, 0.5, 0.0, 0.0],
        "in the order of the samples"
    );
    assert_eq!(batch.frac_zero_spread, 0.5);
    let record = step_record(&outcomes, &batch, 1);
    assert_eq!(
        (record.reward.mean, record.rewards["g"], record.trajectories),
        (0.5, 0.5, 4)
    );
    assert_eq!(
        (record.metrics["length"].min, record.metrics["length"].max),
        (0.0, 1.0)
    );
}

#[test]
fn a_rollout_that_never_asked_the_model_is_counted_and_not_trained_on() {
    let mut outcomes = Outcomes::default();
    outcomes
        .groups
        .insert(0, vec![graded(0, 0, 0.0, true), graded(0, 1, 1.0, false)]);
    outcomes
        .dropped
        .insert(1, ("judge".into(), "discard".into()));
    let batch = batch(&outcomes, ScaleRewards::Group);
    assert!(
        batch.trajectories.is_empty(),
        "a group of one teaches nothing"
    );
    assert_eq!((batch.silent, batch.too_small), (1, 1));
    let record = step_record(&outcomes, &batch, 1);
    assert_eq!(record.dropped["judge: discard"], 1);
    assert_eq!(record.dropped.values().sum::<u64>(), 2);
}
