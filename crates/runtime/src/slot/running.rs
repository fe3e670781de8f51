//! A call in a slot: its clock, its logs, and how far its ending has come.

use std::time::{Duration, Instant};

use paddock_types::Verdict;
use paddock_wire::Stacks;
use serde_json::json;
use tokio::sync::oneshot;

use crate::call::{Call, CallClock};
use crate::logs::LogBudget;
use crate::pool::Waiting;

/// While a call's clock stands still, it is looked at this often.
const PAUSED_LOOK: Duration = Duration::from_millis(20);

/// Where a call is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not on it.
    Runs,
    /// Its deadline has passed; evidence is awaited.
    Evidence {
        /// No longer than this.
        until: Instant,
    },
    /// It was asked to end.
    Cancelled {
        /// Its process ends if it hasn't by then.
        until: Instant,
    },
}

/// A call that a slot has been given.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) call: u64,
    pub(crate) attempt: u32,
    pub(crate) trajectories: usize,
    pub(crate) started: Instant,
    pub(crate) phase: Phase,
    /// Nobody waits for its verdict any more.
    pub(crate) abandoned: bool,
    /// It was given up, and has not ended when it was asked to.
    pub(crate) overstayed: bool,
    /// `faulthandler` was asked for its stack.
    pub(crate) signalled: bool,
    /// It runs alone on purpose.
    pub(crate) alone: bool,
    pub(crate) log: LogBudget,
    pub(crate) stacks: Option<Stacks>,
    pub(crate) peak: Option<u64>,
    queue: Duration,
    clock: CallClock,
    reply: oneshot::Sender<Verdict>,
}

impl Running {
    /// Starts the call's clock, and gives its body.
    pub(crate) fn start(waiting: Waiting, log: LogBudget) -> (Self, bytes::Bytes) {
        let Call {
            id,
            attempt,
            body,
            trajectories,
            clock,
        } = waiting.call;
        let started = Instant::now();
        let running = Self {
            call: id.to_u64(),
            attempt,
            trajectories,
            started,
            phase: Phase::Runs,
            abandoned: false,
            overstayed: false,
            signalled: false,
            alone: waiting.alone,
            log,
            stacks: None,
            peak: None,
            queue: started.duration_since(waiting.queued),
            clock,
            reply: waiting.reply,
        };
        (running, body)
    }

    /// The call and its attempt.
    pub(crate) fn key(&self) -> (u64, u32) {
        (self.call, self.attempt)
    }

    /// How long it has run, model time left out.
    pub(crate) fn ran(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
            .saturating_sub(self.clock.paused(now))
    }

    /// When to look at it next.
    pub(crate) fn next_look(&self, now: Instant, timeout: Duration) -> Instant {
        match self.phase {
            Phase::Runs => {
                let left = timeout.saturating_sub(self.ran(now));
                let paused = self.clock.paused(now) > Duration::ZERO;
                now + if paused { left.max(PAUSED_LOOK) } else { left }
            }
            Phase::Evidence { until } => until.min(now + Duration::from_millis(10)),
            Phase::Cancelled { until } => until,
        }
    }

    /// Gives the verdict, with its times on it.
    pub(crate) fn answer(self, mut verdict: Verdict, instance: &str) {
        let now = Instant::now();
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        verdict.queue_ms = ms(self.queue);
        verdict.run_ms = ms(now.saturating_duration_since(self.started));
        verdict.model_ms = ms(self.clock.paused(now));
        verdict.peak_memory_bytes = verdict.peak_memory_bytes.or(self.peak);
        verdict.instance = instance.to_owned();
        if verdict.sub_kind.is_some() && !verdict.evidence.contains_key("logs") {
            let lines = self.log.last_lines();
            if !lines.is_empty() {
                verdict.evidence.insert("logs".into(), json!(lines));
            }
        }
        // The one who asked may have given up.
        let _ = self.reply.send(verdict);
    }
}
