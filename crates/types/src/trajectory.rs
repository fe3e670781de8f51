//! Trajectories: what a rollout left behind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::{Message, Usage};
use crate::id::TrajectoryId;

/// What came of a trajectory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TrajectoryStatus {
    /// Its calls are still being made.
    Running,
    /// It was graded.
    Success,
    /// One of its calls failed for good.
    Failed,
    /// Its sample was dropped.
    Discard,
}

impl TrajectoryStatus {
    /// In lower case, as filters take it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Discard => "discard",
        }
    }
}

/// The token sequence of a trajectory as the policy saw and made it. All three have one length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Tokens {
    /// Token ids of the whole last context: prompt, turns, tool results.
    pub ids: Vec<u32>,
    /// True for each token that the policy sampled and that is trained on.
    pub mask: Vec<bool>,
    /// The sampler's log-probability of each sampled token; 0 elsewhere.
    pub logprobs: Vec<f32>,
}

/// A finished conversation with the policy, as the model proxy recorded it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Conversation {
    /// The whole conversation, prompt included.
    pub messages: Vec<Message>,
    /// Its tokens.
    pub tokens: Tokens,
    /// Why the last turn ended: `stop`, `length`, `tool_calls`; empty if the model was never asked.
    pub finish_reason: String,
    /// Token counts over all turns.
    pub usage: Usage,
    /// Model calls made.
    pub turns: u32,
    /// Messages that the plugin's edits of its history dropped.
    pub dropped: Vec<Message>,
    /// Conversations with the policy that the trajectory did not continue.
    pub side: Vec<Vec<Message>>,
}

/// A trajectory as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TrajectoryRecord {
    /// Its id: job, phase, step, sample and generation.
    pub id: TrajectoryId,
    /// What came of it.
    pub status: TrajectoryStatus,
    /// Why it failed or was dropped.
    #[serde(default)]
    pub reason: String,
    /// Line of the dataset that its sample stands on: `file:line`.
    #[serde(default)]
    pub source: String,
    /// What the model and the plugin said.
    pub conversation: Conversation,
    /// What the rollout returned.
    #[serde(default)]
    pub extra: Value,
    /// Each grader's reward, before its weight.
    #[serde(default)]
    pub rewards: BTreeMap<String, f64>,
    /// The weighted sum.
    #[serde(default)]
    pub reward: Option<f64>,
    /// Each grader's metrics.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: i64,
}

/// A trajectory without its conversation: what lists show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TrajectorySummary {
    /// Its id: job, phase, step, sample and generation.
    pub id: TrajectoryId,
    /// What came of it.
    pub status: TrajectoryStatus,
    /// Why it failed or was dropped.
    #[serde(default)]
    pub reason: String,
    /// Line of the dataset that its sample stands on: `file:line`.
    #[serde(default)]
    pub source: String,
    /// The beginning of the last message, at most [`EXCERPT_CHARS`] characters.
    #[serde(default)]
    pub excerpt: String,
    /// Why the last turn ended.
    #[serde(default)]
    pub finish_reason: String,
    /// Model calls made.
    pub turns: u32,
    /// Token counts over all turns.
    pub usage: Usage,
    /// Each grader's reward, before its weight.
    #[serde(default)]
    pub rewards: BTreeMap<String, f64>,
    /// The weighted sum.
    #[serde(default)]
    pub reward: Option<f64>,
    /// Each grader's metrics.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: i64,
}

/// Characters of a trajectory's excerpt.
pub const EXCERPT_CHARS: usize = 200;

impl TrajectoryRecord {
    /// The record without its conversation.
    pub fn summary(&self) -> TrajectorySummary {
        let last = self.conversation.messages.last();
        TrajectorySummary {
            id: self.id,
            status: self.status,
            reason: self.reason.clone(),
            source: self.source.clone(),
            excerpt: last
                .map(|m| m.content().chars().take(EXCERPT_CHARS).collect())
                .unwrap_or_default(),
            finish_reason: self.conversation.finish_reason.clone(),
            turns: self.conversation.turns,
            usage: self.conversation.usage,
            rewards: self.rewards.clone(),
            reward: self.reward,
            metrics: self.metrics.clone(),
            ended_ms: self.ended_ms,
        }
    }
}
