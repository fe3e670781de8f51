//! What waits to be written.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use paddock_types::log::{Level, LogLine};
use paddock_types::trajectory::TrajectoryRecord;
use paddock_types::{CallRecord, JobId};
use tokio::sync::oneshot;

use super::WriterOptions;

/// Records from which on a transaction need not gather more.
const LONG: usize = 512;

pub(super) struct Queue {
    pub(super) calls: Vec<CallRecord>,
    pub(super) trajectories: Vec<TrajectoryRecord>,
    logs: BTreeMap<JobId, Vec<LogLine>>,
    log_lines: usize,
    log_bytes: usize,
    dropped: BTreeMap<JobId, u64>,
    /// Room that the queued payloads take.
    pub(super) units: u32,
    /// Flushes to be answered once what is queued is written.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
    /// Nobody is left to hand anything in.
    pub(super) closed: bool,
    options: WriterOptions,
}

/// All that was queued, taken out to be written.
pub(super) struct Taken {
    pub(super) calls: Vec<CallRecord>,
    pub(super) trajectories: Vec<TrajectoryRecord>,
    pub(super) logs: BTreeMap<JobId, Vec<LogLine>>,
    pub(super) units: u32,
    pub(super) waiting: Vec<oneshot::Sender<()>>,
    pub(super) closed: bool,
}

impl Queue {
    pub(super) fn new(options: WriterOptions) -> Self {
        Self {
            calls: Vec::new(),
            trajectories: Vec::new(),
            logs: BTreeMap::new(),
            log_lines: 0,
            log_bytes: 0,
            dropped: BTreeMap::new(),
            units: 0,
            waiting: Vec::new(),
            closed: false,
            options,
        }
    }

    /// Queues a line, or counts it as dropped.
    pub(super) fn log(&mut self, job: JobId, line: LogLine) {
        let bytes = self.log_bytes + line.text.len();
        if self.closed || self.log_lines >= self.options.log_lines || bytes > self.options.log_bytes
        {
            *self.dropped.entry(job).or_default() += 1;
            return;
        }
        self.log_lines += 1;
        self.log_bytes = bytes;
        self.logs.entry(job).or_default().push(line);
    }

    /// True if there is enough for a transaction.
    pub(super) fn is_long(&self) -> bool {
        self.calls.len() + self.trajectories.len() + self.log_lines >= LONG
    }

    /// Takes everything out. A line says how many lines were dropped.
    pub(super) fn take(&mut self) -> Taken {
        for (job, count) in std::mem::take(&mut self.dropped) {
            self.logs.entry(job).or_default().push(cut(count));
        }
        self.log_lines = 0;
        self.log_bytes = 0;
        Taken {
            calls: std::mem::take(&mut self.calls),
            trajectories: std::mem::take(&mut self.trajectories),
            logs: std::mem::take(&mut self.logs),
            units: std::mem::take(&mut self.units),
            waiting: std::mem::take(&mut self.waiting),
            closed: self.closed,
        }
    }
}

impl Taken {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.trajectories.is_empty() && self.logs.is_empty()
    }
}

/// The line that stands for lines that were dropped.
fn cut(count: u64) -> LogLine {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    LogLine {
        time_ms: now.map_or(0, |d| d.as_millis() as i64),
        level: Level::Warning,
        logger: "paddock".to_owned(),
        text: format!("{count} log lines dropped here: they came faster than they could be kept"),
        plugin: String::new(),
        instance: String::new(),
        call: None,
        attempt: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> LogLine {
        LogLine {
            text: text.to_owned(),
            level: Level::Info,
            ..cut(0)
        }
    }

    #[test]
    fn lines_beyond_the_bounds_are_counted_in_a_line() {
        let mut queue = Queue::new(WriterOptions {
            log_lines: 2,
            log_bytes: 10,
            ..WriterOptions::default()
        });
        let job = JobId::new();
        queue.log(job, line("12345678901"));
        for text in ["one", "two", "three", "four"] {
            queue.log(job, line(text));
        }
        let lines = &queue.take().logs[&job];
        let texts: Vec<&str> = lines.iter().map(|l| l.text.as_str()).collect();
        assert_eq!(texts[..2], ["one", "two"]);
        assert!(texts[2].starts_with("3 log lines dropped"), "{}", texts[2]);
        assert_eq!(lines[2].level, Level::Warning);

        queue.log(job, line("again"));
        assert_eq!(queue.take().logs[&job].len(), 1, "counted once");
    }
}
