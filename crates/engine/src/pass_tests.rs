use std::collections::HashMap;

use paddock_types::verdict::Outcome;
use proptest::prelude::*;

use super::*;

fn shape() -> PassShape {
    PassShape {
        samples: 1,
        generations: 2,
        graders: vec![PluginKind::SingleGrader, PluginKind::GroupGrader],
        validation: false,
        on_abnormal_reward: OnAbnormalReward::Fail,
    }
}

fn verdict(outcome: Outcome) -> Verdict {
    Verdict {
        outcome,
        ..Verdict::default()
    }
}

fn calls(commands: &[Command]) -> Vec<(CallKey, u32)> {
    commands
        .iter()
        .filter_map(|c| match c {
            Command::Call { key, attempt, .. } => Some((*key, *attempt)),
            _ => None,
        })
        .collect()
}

#[test]
fn grading_starts_when_the_group_is_complete() {
    let (mut pass, commands) = Pass::start(shape());
    let rollouts = calls(&commands);
    assert_eq!(rollouts.len(), 2);
    let good = verdict(Outcome::Success);
    assert_eq!(pass.on_verdict(rollouts[0].0, 1, &good, 0.5), []);
    let grades = calls(&pass.on_verdict(rollouts[1].0, 1, &good, 0.5));
    assert_eq!(grades.len(), 3, "two single calls and a group call");
    assert_eq!(pass.on_verdict(grades[0].0, 1, &good, 0.5), []);
    assert_eq!(pass.on_verdict(grades[1].0, 1, &good, 0.5), []);
    assert_eq!(
        pass.on_verdict(grades[2].0, 1, &good, 0.5),
        [Command::Graded(0)]
    );
    assert!(pass.is_over());
}

#[test]
fn a_failure_is_tried_three_times_more_and_then_ends_the_job() {
    let (mut pass, _) = Pass::start(shape());
    let key = CallKey::Rollout {
        sample: 0,
        generation: 0,
    };
    let bad = verdict(Outcome::Failure);
    for attempt in 1..=3 {
        let commands = pass.on_verdict(key, attempt, &bad, 0.5);
        assert_eq!(calls(&commands), [(key, attempt + 1)]);
        assert_eq!(
            pass.on_verdict(key, attempt, &bad, 0.5),
            [],
            "a late verdict changes nothing"
        );
    }
    let other = CallKey::Rollout {
        sample: 0,
        generation: 1,
    };
    assert_eq!(
        pass.on_verdict(key, 4, &bad, 0.5),
        [Command::Cancel(other), Command::Fail(key)]
    );
    assert!(pass.is_over());
}

#[test]
fn a_discard_drops_the_sample_at_once() {
    let (mut pass, _) = Pass::start(shape());
    let key = CallKey::Rollout {
        sample: 0,
        generation: 1,
    };
    let other = CallKey::Rollout {
        sample: 0,
        generation: 0,
    };
    assert_eq!(
        pass.on_verdict(key, 1, &verdict(Outcome::Discard), 0.5),
        [Command::Cancel(other), Command::Dropped(0, key)]
    );
}

#[test]
fn a_platform_fault_is_not_charged() {
    let (mut pass, _) = Pass::start(shape());
    let key = CallKey::Rollout {
        sample: 0,
        generation: 0,
    };
    let platform = Verdict {
        platform: true,
        ..verdict(Outcome::Failure)
    };
    for attempt in 1..=8 {
        let commands = pass.on_verdict(key, attempt, &platform, 0.5);
        assert!(
            matches!(commands[..], [Command::Call { charged: 0, .. }]),
            "{commands:?}"
        );
    }
}

#[test]
fn a_validation_never_fails_the_job() {
    let (mut pass, _) = Pass::start(PassShape {
        validation: true,
        generations: 1,
        ..shape()
    });
    let key = CallKey::Rollout {
        sample: 0,
        generation: 0,
    };
    for attempt in 1..=3 {
        pass.on_verdict(key, attempt, &verdict(Outcome::Failure), 0.5);
    }
    let last = pass.on_verdict(key, 4, &verdict(Outcome::Failure), 0.5);
    assert_eq!(last, [Command::Dropped(0, key)]);
}

proptest! {
    /// Whatever the verdicts and their order: it ends, each sample is counted once, and no call
    /// has two attempts in the air.
    #[test]
    fn random_verdicts_end_every_sample_once(
        samples in 1u32..5, generations in 1u32..4, validation: bool,
        choices in proptest::collection::vec((0usize..64, 0u8..12), 1..600),
    ) {
        let shape = PassShape { samples, generations, validation, ..shape() };
        let (mut pass, commands) = Pass::start(shape);
        let mut air: Vec<(CallKey, u32)> = calls(&commands);
        let mut ended: HashMap<u32, u32> = HashMap::new();
        let mut choices = choices.into_iter().chain(std::iter::repeat((0, 0)));
        while !air.is_empty() {
            let (pick, what) = choices.next().unwrap_or_default();
            let (key, attempt) = air.remove(pick % air.len());
            let outcome = match what {
                9 => Outcome::Failure, 10 => Outcome::Retry, 11 => Outcome::Discard,
                _ => Outcome::Success,
            };
            for command in pass.on_verdict(key, attempt, &verdict(outcome), 0.5) {
                match command {
                    Command::Call { key, attempt, .. } => {
                        prop_assert!(air.iter().all(|(k, _)| *k != key), "two attempts at once");
                        air.push((key, attempt));
                    }
                    Command::Cancel(key) => air.retain(|(k, _)| *k != key),
                    Command::Graded(s) | Command::Dropped(s, _) => *ended.entry(s).or_default() += 1,
                    Command::Fail(key) => {
                        prop_assert!(!validation);
                        *ended.entry(key.sample()).or_default() += 1;
                    }
                }
            }
        }
        prop_assert!(pass.is_over());
        prop_assert_eq!(ended.len() as u32, samples);
        prop_assert!(ended.values().all(|&n| n == 1));
    }
}
