//! What plugins print and log: cut into lines, bounded, told which call it belongs to.
//!
//! A pipe is always read, however much is printed: what can't be kept is counted, never waited
//! for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use paddock_types::CallId;
use paddock_types::log::{Level, LogLine};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// Takes log lines; must not wait.
pub type LogSink = Arc<dyn Fn(LogLine) + Send + Sync>;

/// Longest line kept, in bytes.
const LINE_LIMIT: usize = 16 << 10;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as i64)
}

/// Cuts a stream of bytes into lines. A line that is too long loses its end, and says so.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    dropped: usize,
}

impl Lines {
    /// Takes bytes and gives the lines they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut line: impl FnMut(String)) {
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            let (piece, ends) = match piece.strip_suffix(b"\n") {
                Some(piece) => (piece, true),
                None => (piece, false),
            };
            let room = LINE_LIMIT.saturating_sub(self.partial.len());
            let kept = piece.len().min(room);
            self.partial.extend_from_slice(&piece[..kept]);
            self.dropped += piece.len() - kept;
            if ends {
                line(self.take());
            }
        }
    }

    /// The line that has begun and not ended, if there is one.
    pub(crate) fn rest(&mut self) -> Option<String> {
        (!self.partial.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> String {
        let bytes = std::mem::take(&mut self.partial);
        let dropped = std::mem::take(&mut self.dropped);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_suffix('\r').unwrap_or(&text);
        if dropped == 0 {
            text.to_owned()
        } else {
            format!("{text} … ({dropped} bytes cut)")
        }
    }
}

/// How much of a call's output is kept, and its last lines.
#[derive(Debug)]
pub(crate) struct LogBudget {
    left: usize,
    limit: usize,
    cut_lines: u64,
    cut_bytes: u64,
    last: VecDeque<String>,
    keep: usize,
}

impl LogBudget {
    pub(crate) fn new(limit: usize, keep: usize) -> Self {
        Self {
            left: limit,
            limit,
            cut_lines: 0,
            cut_bytes: 0,
            last: VecDeque::new(),
            keep,
        }
    }

    /// True if a line of this text may be kept; it is counted either way.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        if self.last.len() == self.keep {
            self.last.pop_front();
        }
        self.last.push_back(text.to_owned());
        // An empty line costs something too: its record.
        let cost = text.len() + 32;
        if cost <= self.left {
            self.left -= cost;
            return true;
        }
        self.left = 0;
        self.cut_lines += 1;
        self.cut_bytes += text.len() as u64;
        false
    }

    /// The line that says how much was cut, if anything was. Starts anew.
    pub(crate) fn cut(&mut self) -> Option<String> {
        let (lines, bytes) = (self.cut_lines, self.cut_bytes);
        self.cut_lines = 0;
        self.cut_bytes = 0;
        self.left = self.limit;
        (lines > 0).then(|| {
            format!(
                "{lines} log lines ({bytes} bytes) were cut: the limit is {} bytes",
                self.limit
            )
        })
    }

    /// The last lines, oldest first.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.last.iter().cloned().collect()
    }
}

/// Where the lines of one plugin go, with its name and instance on them.
#[derive(Clone)]
pub(crate) struct Output {
    sink: LogSink,
    plugin: Arc<str>,
    instance: Arc<str>,
    tail: Arc<Mutex<VecDeque<String>>>,
    keep: usize,
    bytes: usize,
}

impl Output {
    pub(crate) fn new(
        sink: LogSink,
        plugin: Arc<str>,
        instance: Arc<str>,
        keep: usize,
        bytes: usize,
    ) -> Self {
        Self {
            sink,
            plugin,
            instance,
            tail: Arc::default(),
            keep,
            bytes,
        }
    }

    /// The last lines that [`Output::copy`] has seen.
    pub(crate) fn tail(&self) -> Arc<Mutex<VecDeque<String>>> {
        self.tail.clone()
    }

    /// Passes a line on.
    pub(crate) fn line(
        &self,
        time_ms: i64,
        level: Level,
        logger: &str,
        text: String,
        call: Option<(u64, u32)>,
    ) {
        (self.sink)(LogLine {
            time_ms,
            level,
            logger: logger.to_owned(),
            text,
            plugin: self.plugin.to_string(),
            instance: self.instance.to_string(),
            call: call.map(|(id, _)| CallId::from_u64(id)),
            attempt: call.map_or(0, |(_, attempt)| attempt),
        });
    }

    /// Copies a pipe that belongs to no call, until it closes.
    pub(crate) async fn copy(self, mut pipe: pipe::Receiver, logger: &'static str) {
        let mut lines = Lines::default();
        let mut budget = LogBudget::new(self.bytes, 0);
        let mut buffer = [0; 8 << 10];
        while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
            lines.feed(&buffer[..count], |text| {
                self.keep(&mut budget, logger, text)
            });
        }
        if let Some(text) = lines.rest() {
            self.keep(&mut budget, logger, text);
        }
        if let Some(text) = budget.cut() {
            self.line(now_ms(), Level::Warning, "paddock", text, None);
        }
    }

    fn keep(&self, budget: &mut LogBudget, logger: &str, text: String) {
        {
            let mut tail = self.tail.lock().unwrap_or_else(|e| e.into_inner());
            if tail.len() == self.keep {
                tail.pop_front();
            }
            tail.push_back(text.clone());
        }
        if budget.take(&text) {
            self.line(now_ms(), level_of(logger), logger, text, None);
        }
    }
}

/// The level of what was printed.
pub(crate) fn level_of(stream: &str) -> Level {
    match stream {
        "stderr" => Level::Warning,
        _ => Level::Info,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let mut cutter = Lines::default();
        let mut out = Vec::new();
        for piece in pieces {
            cutter.feed(piece, |line| out.push(line));
        }
        out.extend(cutter.rest());
        out
    }

    #[test]
    fn lines_are_cut_wherever_the_bytes_were() {
        assert_eq!(
            lines(&[b"a\nb", b"c\r\n", b"\n", b"end"]),
            ["a", "bc", "", "end"]
        );
        assert_eq!(lines(&[b"caf\xe9\n"]), ["caf\u{fffd}"]);
    }

    #[test]
    fn a_long_line_says_what_it_lost() {
        let long = vec![b'x'; LINE_LIMIT + 5];
        let out = lines(&[&long, b"\n"]);
        assert!(out[0].ends_with("… (5 bytes cut)"), "{}", out[0].len());
    }

    #[test]
    fn a_budget_counts_what_it_cuts_and_keeps_the_last_lines() {
        let mut budget = LogBudget::new(100, 2);
        assert!(budget.take("one"));
        assert!(budget.take("two"));
        assert!(!budget.take("three"));
        assert!(!budget.take("four"));
        assert_eq!(budget.last_lines(), ["three", "four"]);
        let said = budget.cut().expect("something was cut");
        assert!(said.starts_with("2 log lines (9 bytes)"), "{said}");
        assert_eq!(budget.cut(), None);
    }
}
