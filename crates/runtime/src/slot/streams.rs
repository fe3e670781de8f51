//! What a slot prints and logs, and what it says of its stacks.

use std::io;
use std::time::{Duration, Instant};

use paddock_types::log::Level;
use paddock_wire::{Decoder, LogEntry};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::unix::pipe;

use super::running::Running;
use crate::logs::{Lines, LogBudget, Output, level_of, now_ms};

/// Bytes read from one source before a verdict at most: more than a pipe or socket holds, so
/// whatever was written before the answer is read, and an endless writer doesn't hold it up.
const DRAIN_LIMIT: usize = 1 << 20;
/// Lines that belong to no call have a budget for each span of this length.
const SPAN: Duration = Duration::from_secs(10);

/// One pipe.
#[derive(Debug)]
pub(crate) struct Stream {
    /// `None` once it has closed.
    pub(crate) pipe: Option<pipe::Receiver>,
    name: &'static str,
    lines: Lines,
}

impl Stream {
    pub(crate) fn new(pipe: pipe::Receiver, name: &'static str) -> Self {
        Self {
            pipe: Some(pipe),
            name,
            lines: Lines::default(),
        }
    }

    /// Waits until there is something to read; forever once the pipe has closed.
    pub(crate) async fn readable(&self) {
        match &self.pipe {
            // An error shows when it is read.
            Some(pipe) => drop(pipe.readable().await),
            None => std::future::pending().await,
        }
    }
}

/// Takes lines, tells whose they are, and bounds them.
pub(crate) struct Lister {
    output: Output,
    /// For lines that belong to no call.
    spare: LogBudget,
    since: Instant,
}

impl Lister {
    pub(crate) fn new(output: Output, bytes: usize, keep: usize) -> Self {
        Self {
            output,
            spare: LogBudget::new(bytes, keep),
            since: Instant::now(),
        }
    }

    /// A line that a call, or nobody, has printed or logged.
    pub(crate) fn line(
        &mut self,
        owner: Option<&mut Running>,
        time_ms: i64,
        level: Level,
        logger: &str,
        text: String,
    ) {
        let key = owner.as_ref().map(|running| running.key());
        let kept = match owner {
            Some(running) => running.log.take(&text),
            None => {
                if self.since.elapsed() > SPAN {
                    self.since = Instant::now();
                    self.say_cut();
                }
                self.spare.take(&text)
            }
        };
        if kept {
            self.output.line(time_ms, level, logger, text, key);
        }
    }

    /// A line of the runtime's own about a call.
    pub(crate) fn note(&self, key: (u64, u32), text: String) {
        self.output
            .line(now_ms(), Level::Warning, "paddock", text, Some(key));
    }

    /// Says what was cut of lines that belong to no call.
    pub(crate) fn say_cut(&mut self) {
        if let Some(text) = self.spare.cut() {
            self.output
                .line(now_ms(), Level::Warning, "paddock", text, None);
        }
    }

    /// The last lines of nobody in particular.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.spare.last_lines()
    }

    /// The lines of a LOG frame.
    pub(crate) fn entries(
        &mut self,
        calls: &mut [Running],
        key: (u64, u32),
        entries: Vec<LogEntry>,
    ) {
        for entry in entries {
            let level = Level::parse(&entry.level).unwrap_or(Level::Info);
            let owner = calls.iter_mut().find(|c| c.key() == key);
            self.line(owner, entry.time_ms, level, &entry.logger, entry.text);
        }
    }

    /// Reads what a pipe has, through the reactor.
    pub(crate) fn read(&mut self, stream: &mut Stream, owner: Option<&mut Running>) {
        let Some(pipe) = &stream.pipe else { return };
        let mut buffer = [0; 16 << 10];
        let mut owner = owner;
        let mut budget = DRAIN_LIMIT;
        while budget > 0 {
            match pipe.try_read(&mut buffer) {
                Ok(count @ 1..) => {
                    budget = budget.saturating_sub(count);
                    let name = stream.name;
                    stream.lines.feed(&buffer[..count], |text| {
                        self.line(owner.as_deref_mut(), now_ms(), level_of(name), name, text);
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => {
                    stream.pipe = None;
                    return;
                }
            }
        }
    }

    /// Reads what a pipe has now, whether or not the reactor has heard of it.
    pub(crate) fn drain(&mut self, stream: &mut Stream, owner: Option<&mut Running>) {
        let mut owner = owner;
        let name = stream.name;
        if let Some(pipe) = &stream.pipe {
            let mut buffer = [0; 16 << 10];
            let mut budget = DRAIN_LIMIT;
            while budget > 0 {
                let Ok(count @ 1..) = rustix::io::read(pipe, &mut buffer) else {
                    break;
                };
                budget = budget.saturating_sub(count);
                stream.lines.feed(&buffer[..count], |text| {
                    self.line(owner.as_deref_mut(), now_ms(), level_of(name), name, text);
                });
            }
        }
    }

    /// Ends the line that has begun: its writer has ended, or its call has.
    pub(crate) fn end_line(&mut self, stream: &mut Stream, owner: Option<&mut Running>) {
        let name = stream.name;
        if let Some(text) = stream.lines.rest() {
            self.line(owner, now_ms(), level_of(name), name, text);
        }
    }
}

/// Which of these have something to read now: one system call.
pub(crate) fn ready<const N: usize>(fds: [Option<rustix::fd::BorrowedFd<'_>>; N]) -> [bool; N] {
    let present: Vec<usize> = (0..N).filter(|&n| fds[n].is_some()).collect();
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut out = [false; N];
    if poll(&mut polled, Some(&now)).is_ok_and(|count| count > 0) {
        for (n, fd) in present.into_iter().zip(&polled) {
            out[n] = !fd.revents().is_empty();
        }
    }
    out
}

/// Reads what a socket has now into a decoder, whether or not the reactor has heard of it.
pub(crate) fn drain_socket(socket: impl rustix::fd::AsFd, decoder: &mut Decoder) {
    let mut buffer = [0; 16 << 10];
    let mut budget = DRAIN_LIMIT;
    while budget > 0 {
        let Ok(count @ 1..) = rustix::io::read(&socket, &mut buffer) else {
            return;
        };
        budget = budget.saturating_sub(count);
        decoder.buffer().extend_from_slice(&buffer[..count]);
    }
}
