//! One line of a plugin's or the job's output.

use serde::{Deserialize, Serialize};

use crate::id::CallId;

/// Severity, ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Details for its author.
    Debug,
    /// The usual.
    Info,
    /// Worth a look.
    Warning,
    /// Something failed.
    Error,
}

impl Level {
    /// In lower case, as filters take it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// The level that a text names.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "debug" => Self::Debug,
            "info" => Self::Info,
            "warning" | "warn" => Self::Warning,
            "error" | "critical" => Self::Error,
            _ => return None,
        })
    }
}

/// A log line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LogLine {
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// Severity.
    pub level: Level,
    /// The logger's name; `stdout`, `stderr` or `paddock` for what no logger wrote.
    pub logger: String,
    /// The text, without its line end.
    pub text: String,
    /// The plugin; empty for the job's own lines.
    #[serde(default)]
    pub plugin: String,
    /// The instance.
    #[serde(default)]
    pub instance: String,
    /// The call it belongs to, where that can be told.
    #[serde(default)]
    pub call: Option<CallId>,
    /// The call's attempt.
    #[serde(default)]
    pub attempt: u32,
}
