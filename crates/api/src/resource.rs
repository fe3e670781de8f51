//! What the API answers with, where the stored record isn't the answer as it is.

use paddock_types::chat::Message;
use paddock_types::log::LogLine;
use paddock_types::trajectory::{Tokens, TrajectorySummary};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// What to give as `after` for the next page; null at the end of the list.
    pub next: Option<String>,
}

/// A trajectory, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrajectoryDetail {
    /// What lists show of it.
    #[serde(flatten)]
    pub summary: TrajectorySummary,
    /// The whole conversation, prompt included.
    pub messages: Vec<Message>,
    /// Messages that the plugin's edits of its history dropped.
    pub dropped: Vec<Message>,
    /// Conversations with the policy that the trajectory did not continue.
    pub side: Vec<Vec<Message>>,
    /// What the rollout returned.
    pub extra: Value,
    /// Its tokens, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

/// A log line with its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// Grows as lines arrive.
    pub id: i64,
    /// What to give as `after` to go on after this line, in the same order.
    pub cursor: String,
    /// The line.
    #[serde(flatten)]
    pub line: LogLine,
}

/// One metric of one plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricSeries {
    /// The plugin; empty for the job's own numbers.
    pub plugin: String,
    /// The metric's name.
    pub name: String,
    /// Times in milliseconds since 1970, ascending.
    pub times_ms: Vec<i64>,
    /// The value at each time.
    pub values: Vec<f64>,
}

/// Whether the server can answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`; a server that is not well answers 503.
    pub status: String,
}

/// Which version answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// The program's version.
    pub paddock: String,
    /// The API's version.
    pub api: String,
}
