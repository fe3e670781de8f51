//! Whether slots wait for a core: from the kernel's own account of each process.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Slots looked at.
const LOOKED_AT: usize = 4;
/// A process that runs or waits to run for this share of the time has no use for company.
const SHARE: f64 = 0.7;
/// Shorter spans tell nothing.
const SPAN: Duration = Duration::from_millis(8);

/// The last look at each process.
#[derive(Debug, Default)]
pub(crate) struct CpuWatch {
    seen: HashMap<i32, (Instant, u64)>,
}

impl CpuWatch {
    /// True if the first few of these processes spent most of the time since the last look running
    /// or waiting for a core, and a good part of it waiting.
    pub(crate) fn starved(&mut self, pids: impl Iterator<Item = i32>, now: Instant) -> bool {
        let mut looked = HashMap::new();
        let mut shares = Vec::new();
        for pid in pids.take(LOOKED_AT) {
            let Some(spent) = spent(pid) else { continue };
            if let Some((at, before)) = self.seen.get(&pid) {
                let span = now.duration_since(*at);
                if span < SPAN {
                    looked.insert(pid, (*at, *before));
                    continue;
                }
                let share = spent.saturating_sub(*before) as f64 / span.as_nanos() as f64;
                shares.push(share);
            }
            looked.insert(pid, (now, spent));
        }
        self.seen = looked;
        // Nothing known yet: wait for the next look rather than start processes on a guess.
        shares.is_empty() && !self.seen.is_empty()
            || !shares.is_empty() && shares.iter().sum::<f64>() / shares.len() as f64 >= SHARE
    }
}

/// Nanoseconds that a process's main thread has run or waited for a core. `None` where the kernel
/// doesn't tell.
fn spent(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let ran: u64 = fields.next()?.parse().ok()?;
    let waited: u64 = fields.next()?.parse().ok()?;
    Some(ran + waited)
}
