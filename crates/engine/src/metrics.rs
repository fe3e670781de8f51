//! Numbers of each plugin over time: counted at every verdict, written every ten seconds.
//!
//! The names and units here are the only ones; the API and the console read them from the store.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use paddock_store::MetricPoint;
use paddock_types::verdict::{CallRecord, Outcome};

/// How often a window is closed and written.
pub const WINDOW: Duration = Duration::from_secs(10);

/// Calls that ended, per second.
pub const CALLS: &str = "calls_per_second";
/// Calls that ended in a fault, per second.
pub const FAILED: &str = "failed_calls_per_second";
/// Mean run time of the calls that ended, in milliseconds.
pub const LATENCY: &str = "latency_ms";
/// Mean wait for a slot of the calls that ended, in milliseconds.
pub const QUEUE: &str = "queue_ms";
/// Calls in flight when the window closed.
pub const IN_FLIGHT: &str = "calls_in_flight";

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    calls: u64,
    failed: u64,
    run_ms: f64,
    queue_ms: f64,
}

/// Counts what ends, by plugin, between two windows.
#[derive(Debug)]
pub struct Meter {
    since: Mutex<(Instant, BTreeMap<String, Sums>)>,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            since: Mutex::new((Instant::now(), BTreeMap::new())),
        }
    }
}

impl Meter {
    /// Counts an attempt that is over.
    pub fn count(&self, record: &CallRecord) {
        let Ok(mut since) = self.since.lock() else {
            return;
        };
        let sums = match since.1.get_mut(&record.plugin) {
            Some(sums) => sums,
            None => since.1.entry(record.plugin.clone()).or_default(),
        };
        sums.calls += 1;
        sums.failed += u64::from(record.verdict.outcome == Outcome::Failure);
        sums.run_ms += record.verdict.run_ms;
        sums.queue_ms += record.verdict.queue_ms;
    }

    /// Closes the window: the numbers of each plugin, given how many calls it has in flight.
    /// A plugin that nothing ended in has zeros, so that a gap means "not measured".
    pub fn window(&self, plugins: &[(String, usize)]) -> Vec<(String, Vec<MetricPoint>)> {
        let Ok(mut since) = self.since.lock() else {
            return vec![];
        };
        let seconds = since.0.elapsed().as_secs_f64().max(1e-3);
        let sums = std::mem::take(&mut since.1);
        since.0 = Instant::now();
        let time_ms = crate::now_ms();
        let points = |(name, in_flight): &(String, usize)| {
            let sums = sums.get(name).copied().unwrap_or_default();
            let point = |name: &str, value| MetricPoint {
                time_ms,
                name: name.to_owned(),
                value,
            };
            let mut points = vec![
                point(CALLS, sums.calls as f64 / seconds),
                point(FAILED, sums.failed as f64 / seconds),
                point(IN_FLIGHT, *in_flight as f64),
            ];
            if sums.calls > 0 {
                points.push(point(LATENCY, sums.run_ms / sums.calls as f64));
                points.push(point(QUEUE, sums.queue_ms / sums.calls as f64));
            }
            (name.clone(), points)
        };
        plugins.iter().map(points).collect()
    }
}
