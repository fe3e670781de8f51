//! Advantages and the loss's arithmetic against PyTorch's numbers (`torch_vectors.py`).

use paddock_policy::grpo::{LossSettings, SequenceTerms, StepShape, advantages};
use paddock_types::job::{LossAggMode, ScaleRewards};
use serde::Deserialize;

#[derive(Deserialize)]
struct Group {
    rewards: Vec<f64>,
    group: Vec<f64>,
    none: Vec<f64>,
}

#[derive(Deserialize)]
struct Case {
    mode: LossAggMode,
    kl_coefficient: f64,
    loss: f64,
    kl: f64,
    clip_fraction: f64,
    gradient: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct Vectors {
    clip_low: f64,
    clip_high: f64,
    max_new_tokens: u32,
    rewards: Vec<f64>,
    logprobs: Vec<Vec<f32>>,
    old: Vec<Vec<f32>>,
    reference: Vec<Vec<f32>>,
    cases: Vec<Case>,
    advantages: Vec<Group>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("vectors/loss.json")).expect("vectors")
}

fn close(got: f64, want: f64) {
    assert!((got - want).abs() < 1e-6, "{got}, PyTorch has {want}");
}

#[test]
fn advantages_agree_with_pytorch() {
    for group in vectors().advantages {
        for (scale, want) in [
            (ScaleRewards::Group, group.group),
            (ScaleRewards::None, group.none),
        ] {
            let got = advantages(&group.rewards, scale);
            assert_eq!(got.len(), want.len());
            got.iter()
                .zip(want)
                .for_each(|(got, want)| close(*got, want));
        }
    }
}

#[test]
fn losses_and_their_gradients_agree_with_pytorch() {
    let vectors = vectors();
    let advantages = advantages(&vectors.rewards, ScaleRewards::Group);
    let tokens = vectors.logprobs.iter().map(Vec::len).sum();
    let shape = StepShape {
        trajectories: vectors.rewards.len(),
        tokens,
    };
    for case in &vectors.cases {
        let settings = LossSettings {
            kl_coefficient: case.kl_coefficient,
            clip_low: vectors.clip_low,
            clip_high: vectors.clip_high,
            mode: case.mode,
            max_new_tokens: vectors.max_new_tokens,
        };
        let (mut loss, mut kl, mut clipped) = (0.0, 0.0, 0);
        for (i, logprobs) in vectors.logprobs.iter().enumerate() {
            let terms = SequenceTerms {
                advantage: advantages[i],
                logprobs,
                old: &vectors.old[i],
                reference: (case.kl_coefficient != 0.0).then_some(&vectors.reference[i]),
            };
            let part = terms.loss(&settings, settings.token_weight(shape, logprobs.len()));
            loss += part.loss;
            kl += part.kl;
            clipped += part.clipped;
            assert_eq!(part.gradient.len(), case.gradient[i].len());
            let pairs = part.gradient.iter().zip(&case.gradient[i]);
            pairs.for_each(|(got, want)| close(f64::from(*got), *want));
        }
        close(loss, case.loss);
        close(kl / tokens as f64, case.kl);
        close(clipped as f64 / tokens as f64, case.clip_fraction);
    }
}
