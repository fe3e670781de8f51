//! What all parts of a running job share: its plugins, its policy, and where things are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use paddock_policy::Policy;
use paddock_runtime::Plugin;
use paddock_store::Writer;
use paddock_types::JobId;
use paddock_types::job::{CallCounts, JobConfig};
use paddock_types::log::{Level, LogLine};
use paddock_types::verdict::{CallRecord, Outcome};
use tokio::sync::mpsc::UnboundedSender;

use crate::JobEvent;
use crate::metrics::Meter;
use crate::session::Sessions;

/// A grader with its weight.
#[derive(Clone)]
pub struct Grader {
    /// Its plugin.
    pub plugin: Plugin,
    /// Its reward's weight in the sum.
    pub weight: f64,
}

/// A running job's parts.
pub struct JobContext {
    /// Its id.
    pub job: JobId,
    /// What was asked for.
    pub config: JobConfig,
    /// The model being trained.
    pub policy: Policy,
    /// The rollout; without one, a single model turn is the rollout.
    pub rollout: Option<Plugin>,
    /// The graders, in the job's order.
    pub graders: Vec<Grader>,
    /// The open model sessions.
    pub sessions: Sessions,
    /// Base URL of the model proxy, ending in `/v1`.
    pub proxy_url: String,
    /// Where records go.
    pub writer: Writer,
    /// Who watches.
    pub events: UnboundedSender<JobEvent>,
    /// Calls made so far.
    pub calls: std::sync::Mutex<CallCounts>,
    /// Rollouts and grades in flight.
    pub flight: Flight,
    /// Counts what ends, by plugin.
    pub meter: Meter,
}

/// Calls in flight, counted.
#[derive(Debug, Default)]
pub struct Flight {
    rollouts: AtomicUsize,
    grades: AtomicUsize,
}

/// Counts a call as in flight until it is dropped.
pub struct InFlight(Arc<JobContext>, bool);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0
            .flight
            .counter(self.1)
            .fetch_sub(1, Ordering::Relaxed);
    }
}

impl Flight {
    const fn counter(&self, rollout: bool) -> &AtomicUsize {
        if rollout {
            &self.rollouts
        } else {
            &self.grades
        }
    }

    /// Rollouts and grades in flight now.
    pub fn now(&self) -> (usize, usize) {
        (
            self.rollouts.load(Ordering::Relaxed),
            self.grades.load(Ordering::Relaxed),
        )
    }
}

impl JobContext {
    /// Counts a call as in flight.
    pub fn fly(self: &Arc<Self>, rollout: bool) -> InFlight {
        self.flight.counter(rollout).fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone(), rollout)
    }

    /// Every plugin of the job, once.
    pub fn plugins(&self) -> impl Iterator<Item = &Plugin> {
        self.rollout
            .iter()
            .chain(self.graders.iter().map(|grader| &grader.plugin))
    }

    /// Counts a call's attempt and keeps its record.
    pub async fn record_call(&self, record: CallRecord) {
        if let Ok(mut counts) = self.calls.lock() {
            counts.made += 1;
            if let Some(kind) = record.verdict.sub_kind
                && record.verdict.outcome == Outcome::Failure
            {
                *counts.failed.entry(kind.to_string()).or_default() += 1;
            }
        }
        self.meter.count(&record);
        // A writer that failed ends the job by itself: `run` waits for it.
        let _ = self.writer.call(record).await;
    }

    /// Writes a line of the job's own log.
    pub fn log(&self, level: Level, text: impl Into<String>) {
        self.writer.log(
            self.job,
            LogLine {
                time_ms: crate::now_ms(),
                level,
                logger: "paddock".into(),
                text: text.into(),
                plugin: String::new(),
                instance: String::new(),
                call: None,
                attempt: 0,
            },
        );
    }

    /// Tells who watches, and the job's log.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        self.log(Level::Warning, text.clone());
        self.tell(JobEvent::Warning(text));
    }

    /// Tells who watches. Nobody watching is no fault.
    pub fn tell(&self, event: JobEvent) {
        let _ = self.events.send(event);
    }
}
