//! What a step records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Mean, least, greatest and standard deviation (ddof 0) of a set of numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
    /// Standard deviation, population form.
    pub std: f64,
}

impl Spread {
    /// The spread of some numbers; `None` of nothing.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let numbers: Vec<f64> = numbers.into_iter().collect();
        let count = numbers.len() as f64;
        if numbers.is_empty() {
            return None;
        }
        let mean = numbers.iter().sum::<f64>() / count;
        let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        Some(Self {
            mean,
            min: numbers.iter().copied().fold(f64::INFINITY, f64::min),
            max: numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            std: variance.sqrt(),
        })
    }
}

/// What the optimiser says of an update.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct UpdateStats {
    /// The loss, KL term included.
    pub loss: f64,
    /// Mean k3 estimate of the KL divergence to the reference; 0 when `kl_coefficient` is 0.
    pub kl: f64,
    /// Share of trained tokens whose ratio was clipped.
    pub clip_fraction: f64,
    /// Mean entropy of the policy over trained tokens, in nats.
    pub entropy: f64,
    /// Gradient norm before clipping.
    pub grad_norm: f64,
    /// Learning rate of the update.
    pub lr: f64,
    /// Mean absolute difference between the sampler's log-probs and the forward pass's.
    pub sampler_diff_mean: f64,
    /// Greatest such difference.
    pub sampler_diff_max: f64,
    /// Tokens trained on.
    pub tokens: u64,
}

/// A training step, as the store keeps it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct StepRecord {
    /// Its number, from 1.
    pub step: u32,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: i64,
    /// Weighted rewards of the trajectories trained on.
    pub reward: Spread,
    /// Mean reward of each grader, before its weight.
    pub rewards: BTreeMap<String, f64>,
    /// The graders' metrics: least, greatest and mean a key.
    pub metrics: BTreeMap<String, Spread>,
    /// The update's numbers.
    pub update: UpdateStats,
    /// Share of groups whose rewards were all equal.
    pub frac_zero_spread: f64,
    /// Trajectories trained on.
    pub trajectories: u64,
    /// Samples dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Mean number of sampled tokens a trajectory.
    pub completion_tokens: f64,
    /// Seconds from the draw to the last grade.
    pub rollout_seconds: f64,
    /// Seconds of the update.
    pub update_seconds: f64,
}

/// A pass over the validation set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ValidationRecord {
    /// After which step; 0 before the first.
    pub step: u32,
    /// Weighted rewards; `None` if no trajectory was graded, which is not a zero.
    pub reward: Option<Spread>,
    /// Mean reward of each grader, before its weight.
    pub rewards: BTreeMap<String, f64>,
    /// Trajectories measured.
    pub trajectories: u64,
    /// Trajectories left out, by reason.
    pub left_out: BTreeMap<String, u64>,
}
