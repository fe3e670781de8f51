//! Whether slots wait for a core: from the kernel's own account of each process.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Slots looked at.
const LOOKED_AT: usize = 4;
/// A process that runs or waits to run for this share of the time has no use for company.
const BUSY: f64 = 0.7;
/// The same for one that mostly waits for calls, if its cores are taken: it waits for them at
/// least this share of the time that it runs.
const QUEUES: f64 = 0.3;
/// What uses less of a core than this waits for something else than cores.
const NEGLIGIBLE: f64 = 0.08;
/// Shorter spans tell nothing.
const SPAN: Duration = Duration::from_millis(8);

/// Whether instances are at their limit of cores is looked at in spans of this length: a little more than the one in
/// which cores are given out.
const CAP_SPAN: Duration = Duration::from_millis(30);
/// What was seen longer ago says nothing about now.
const CAP_STALE: Duration = Duration::from_millis(500);

/// What a process has used up to a point in time.
#[derive(Debug, Clone, Copy)]
struct Used {
    at: Instant,
    /// Nanoseconds on a core.
    ran: u64,
    /// Nanoseconds in the queue for one.
    waited: u64,
}

/// The last look at each process.
#[derive(Debug, Default)]
pub(crate) struct CpuWatch {
    seen: HashMap<i32, Used>,
    /// When instances were looked at, what they had been through by then, and what came of it.
    cap: Option<(Instant, (u64, u64), bool)>,
}

impl CpuWatch {
    /// True if, since the last look, the first few of these processes would have done no more with
    /// company. Also while nothing is known yet: better to look again than to start processes on
    /// a guess. False where the kernel doesn't tell.
    pub(crate) fn starved(&mut self, pids: impl Iterator<Item = i32>, now: Instant) -> bool {
        let mut looked = HashMap::new();
        let (mut wall, mut ran, mut waited) = (0.0, 0.0, 0.0);
        for pid in pids.take(LOOKED_AT) {
            let Some(used) = used(pid, now) else { continue };
            let before = self.seen.get(&pid).copied().unwrap_or(used);
            let span = now.duration_since(before.at);
            if span < SPAN {
                looked.insert(pid, before);
                continue;
            }
            wall += span.as_nanos() as f64;
            ran += used.ran.saturating_sub(before.ran) as f64;
            waited += used.waited.saturating_sub(before.waited) as f64;
            looked.insert(pid, used);
        }
        self.seen = looked;
        if wall == 0.0 {
            return !self.seen.is_empty();
        }
        starved((ran + waited) / wall, waited / ran)
    }
}

impl CpuWatch {
    /// True if instances wanted more than their cores in a quarter of the time in which they had something to do. A process
    /// that stands still for that isn't in the kernel's queue for a core, so `starved` doesn't see it. Also true
    /// while nothing is known yet.
    pub(crate) fn capped(&mut self, told: (u64, u64), now: Instant) -> bool {
        match &mut self.cap {
            Some((at, ..)) if now.duration_since(*at) > CAP_STALE => {
                self.cap = Some((now, told, true));
                true
            }
            None => {
                self.cap = Some((now, told, true));
                true
            }
            Some((at, _, capped)) if now.duration_since(*at) < CAP_SPAN => *capped,
            Some((at, before, capped)) => {
                let periods = told.0.saturating_sub(before.0);
                let throttled = told.1.saturating_sub(before.1);
                *capped = periods > 0 && 4 * throttled >= periods;
                (*at, *before) = (now, told);
                *capped
            }
        }
    }
}

/// From the share of the time that was spent on a core or waiting for one, and how much of the
/// first there was of the second.
fn starved(share: f64, queued: f64) -> bool {
    share >= BUSY || share >= NEGLIGIBLE && queued >= QUEUES
}

/// What a process's main thread has used.
fn used(pid: i32, at: Instant) -> Option<Used> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace();
    Some(Used {
        at,
        ran: fields.next()?.parse().ok()?,
        waited: fields.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn company_helps_those_who_wait_for_something_else_than_cores() {
        assert!(starved(0.95, 0.0), "computes all the time");
        assert!(starved(0.3, 1.0), "short calls, and no core is free");
        assert!(!starved(0.3, 0.05), "short calls, and cores are free");
        assert!(!starved(0.01, 5.0), "sleeps");
        assert!(!starved(0.0, f64::NAN), "does nothing");
    }

    #[test]
    fn instances_at_their_limit_of_cores_get_no_company() {
        let mut watch = CpuWatch::default();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert!(watch.capped((100, 90), at(0)), "nothing is known yet");
        assert!(watch.capped((101, 90), at(10)));
        assert!(!watch.capped((110, 91), at(100)), "seldom");
        assert!(!watch.capped((114, 95), at(110)), "it is too early to say");
        assert!(watch.capped((114, 95), at(200)), "always");
        assert!(!watch.capped((114, 95), at(300)), "it had nothing to do");
        assert!(watch.capped((114, 95), at(900)), "that was long ago");
    }

    #[test]
    fn nothing_is_known_before_the_second_look() {
        let mut watch = CpuWatch::default();
        let now = Instant::now();
        let me = std::process::id() as i32;
        let told = used(me, now).is_some();
        assert_eq!(watch.starved([me].into_iter(), now), told);
        assert!(!watch.starved([-1].into_iter(), now), "no such process");
    }
}
