//! Which log lines a list holds, and in what order.

use paddock_types::log::{Level, LogLine};
use paddock_types::{CallId, TrajectoryId};

use crate::Cursor;

/// Log lines of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// Of this plugin; an empty text means the job's own lines.
    pub plugin: Option<String>,
    /// Of this instance.
    pub instance: Option<String>,
    /// Of this call.
    pub call: Option<CallId>,
    /// Of the calls of this trajectory, its group graders' among them.
    pub trajectory: Option<TrajectoryId>,
    /// Of at least this severity.
    pub level: Option<Level>,
    /// With this text; case of ASCII letters is no difference.
    pub text: Option<String>,
    /// From this time on, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Before this time, in milliseconds since 1970.
    pub until: Option<i64>,
    /// How they are sorted.
    pub order: LogOrder,
}

/// How log lines are sorted. Either order is stable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogOrder {
    /// By time; lines of one millisecond as they arrived.
    #[default]
    Time,
    /// By time, the latest first: what `tail` shows.
    Latest,
    /// As they arrived. To follow a log: a line that arrives late with an earlier time is not missed.
    Arrival,
}

/// A log line with its number in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredLine {
    /// Grows as lines arrive.
    pub id: i64,
    /// The line.
    pub line: LogLine,
}

impl StoredLine {
    /// The cursor of the lines after this one, in a list of this order: to go on following a log
    /// whose end was reached.
    pub fn cursor(&self, order: LogOrder) -> Cursor {
        match order {
            LogOrder::Arrival => Cursor::at([self.id]),
            LogOrder::Time | LogOrder::Latest => Cursor::at([self.line.time_ms, self.id]),
        }
    }
}
