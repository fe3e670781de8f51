//! The small bodies that the runtime reads beside answers.

use serde::{Deserialize, Serialize};

/// A slot's first word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The wire version it speaks.
    pub version: u32,
    /// Its process id, as it sees it.
    pub pid: i32,
}

/// Where a call stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stacks {
    /// The stack, innermost frame last.
    pub stack: String,
    /// True if the event loop doesn't turn.
    pub blocked_loop: bool,
    /// The call whose step the loop runs now, if it is known.
    pub running: Option<u64>,
    /// The innermost place in the plugin's own files, `judge.py:12 in score`; empty if there is none.
    pub place: String,
}

/// One line of a LOG frame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogEntry {
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// `debug`, `info`, `warning`, `error`.
    pub level: String,
    /// The logger's name.
    pub logger: String,
    /// The text.
    pub text: String,
}
