//! From graded groups to an update, and to the step's record.

use std::collections::BTreeMap;

use paddock_policy::grpo;
use paddock_policy::{TrainTrajectory, UpdateSettings};
use paddock_types::job::{Hyperparameters, ScaleRewards};
use paddock_types::step::{Spread, StepRecord, ValidationRecord};

use crate::runner::{Graded, Outcomes};

/// What a step trains on, and what it left out.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order of the trajectories' ids.
    pub trajectories: Vec<TrainTrajectory>,
    /// Share of groups whose rewards were all equal.
    pub frac_zero_spread: f64,
    /// Trajectories whose rollout never asked the model.
    pub silent: u64,
    /// Groups left with fewer than two trajectories.
    pub too_small: u64,
}

/// Normalises rewards within each group. Groups without spread stay in the batch, with advantage 0.
pub fn batch(outcomes: &Outcomes, scale: ScaleRewards) -> Batch {
    let mut batch = Batch::default();
    let (mut groups, mut flat) = (0u32, 0u32);
    for group in outcomes.groups.values() {
        let spoke = |graded: &&Graded| graded.conversation.tokens.mask.contains(&true);
        let valid: Vec<&Graded> = group.iter().filter(spoke).collect();
        batch.silent += (group.len() - valid.len()) as u64;
        if valid.len() < 2 {
            batch.too_small += 1;
            continue;
        }
        let rewards: Vec<f64> = valid.iter().map(|graded| graded.reward).collect();
        let advantages = grpo::advantages(&rewards, scale);
        groups += 1;
        flat += u32::from(rewards.iter().all(|&reward| reward == rewards[0]));
        batch
            .trajectories
            .extend(valid.iter().zip(advantages).map(|(graded, advantage)| {
                let conversation = &graded.conversation;
                TrainTrajectory {
                    tokens: conversation.tokens.clone(),
                    advantage,
                    truncated: conversation.finish_reason == "length",
                }
            }));
    }
    batch.frac_zero_spread = if groups == 0 {
        0.0
    } else {
        f64::from(flat) / f64::from(groups)
    };
    batch
}

/// The settings of a step's update.
pub fn settings(h: &Hyperparameters, step: u32, card_lr: f64) -> UpdateSettings {
    UpdateSettings {
        step,
        lr: h.lr.unwrap_or(card_lr),
        warmup: h.lr_warmup_steps,
        kl_coefficient: h.kl_coefficient,
        clip_low: h.clip_ratio_low,
        clip_high: h.clip_ratio_high,
        loss_agg_mode: h.loss_agg_mode,
        mask_truncated: h.mask_truncated,
        max_new_tokens: h.max_new_tokens,
        temperature: h.temperature,
        iterations: h.num_iterations_per_batch,
    }
}

fn all(outcomes: &Outcomes) -> impl Iterator<Item = &Graded> {
    outcomes.groups.values().flatten()
}

fn by_grader(outcomes: &Outcomes) -> BTreeMap<String, f64> {
    let mut rewards: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, &reward) in all(outcomes).flat_map(|graded| &graded.record.rewards) {
        rewards.entry(name.clone()).or_default().push(reward);
    }
    let mean = |rewards: Vec<f64>| Spread::of(rewards).unwrap_or_default().mean;
    rewards
        .into_iter()
        .map(|(name, rewards)| (name, mean(rewards)))
        .collect()
}

/// Dropped samples, counted by the plugin and the kind of what dropped them.
pub fn dropped(outcomes: &Outcomes) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (plugin, kind) in outcomes.dropped.values() {
        *counts.entry(format!("{plugin}: {kind}")).or_default() += 1;
    }
    counts
}

/// A step's record, but for the update's numbers and times.
pub fn step_record(outcomes: &Outcomes, batch: &Batch, step: u32) -> StepRecord {
    let mut metrics: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (key, &value) in all(outcomes).flat_map(|graded| &graded.record.metrics) {
        metrics.entry(key.clone()).or_default().push(value);
    }
    let spread = |(key, values)| Some((key, Spread::of(Vec::<f64>::clone(&values))?));
    let sampled = |graded: &Graded| {
        graded
            .conversation
            .tokens
            .mask
            .iter()
            .filter(|&&trained| trained)
            .count() as f64
    };
    let mut dropped = dropped(outcomes);
    if batch.too_small > 0 {
        dropped.insert(
            "fewer than two trajectories asked the model".into(),
            batch.too_small,
        );
    }
    StepRecord {
        step,
        reward: Spread::of(all(outcomes).map(|graded| graded.reward)).unwrap_or_default(),
        rewards: by_grader(outcomes),
        metrics: metrics.into_iter().filter_map(spread).collect(),
        frac_zero_spread: batch.frac_zero_spread,
        trajectories: batch.trajectories.len() as u64,
        dropped,
        completion_tokens: Spread::of(all(outcomes).map(sampled))
            .unwrap_or_default()
            .mean,
        ..StepRecord::default()
    }
}

/// A validation's record.
pub fn validation_record(outcomes: &Outcomes, after: u32) -> ValidationRecord {
    ValidationRecord {
        step: after,
        reward: Spread::of(all(outcomes).map(|graded| graded.reward)),
        rewards: by_grader(outcomes),
        trajectories: all(outcomes).count() as u64,
        left_out: dropped(outcomes),
    }
}

#[cfg(test)]
#[path = "train_tests.rs"]
mod tests;
