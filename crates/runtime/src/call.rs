//! A call as the runtime is given it, and the clock that it runs by.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use paddock_types::CallId;
use std::sync::Mutex;

/// One attempt of one call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The call; the same over all its attempts.
    pub id: CallId,
    /// Which try, from 1. Answers of another attempt are refused.
    pub attempt: u32,
    /// The request, as the slot gets it. Never parsed here.
    pub body: Bytes,
    /// How many rewards are due; 0 for a rollout.
    pub trajectories: usize,
    /// Stands still while the model proxy serves the call.
    pub clock: CallClock,
}

/// The time that a call spends waiting for the policy: it isn't counted against its timeout.
#[derive(Debug, Clone, Default)]
pub struct CallClock(Arc<Mutex<Paused>>);

#[derive(Debug, Default)]
struct Paused {
    /// Model requests being served now.
    open: u32,
    since: Option<Instant>,
    total: Duration,
}

impl CallClock {
    /// Stops the clock until the guard is dropped. Several may be held at once: the time in which
    /// at least one is held counts once.
    pub fn pause(&self) -> PauseGuard {
        let mut paused = self.lock();
        if paused.open == 0 {
            paused.since = Some(Instant::now());
        }
        paused.open += 1;
        PauseGuard(self.clone())
    }

    /// How long it has stood still, up to `now`.
    pub fn paused(&self, now: Instant) -> Duration {
        let paused = self.lock();
        let running = paused
            .since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        paused.total + running
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Paused> {
        // A panic can't leave these three numbers half written.
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Keeps a [`CallClock`] still while it lives.
#[derive(Debug)]
#[must_use = "the clock runs on once the guard is dropped"]
pub struct PauseGuard(CallClock);

impl Drop for PauseGuard {
    fn drop(&mut self) {
        let mut paused = self.0.lock();
        paused.open -= 1;
        if paused.open == 0
            && let Some(since) = paused.since.take()
        {
            paused.total += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_that_overlap_count_once() {
        let clock = CallClock::default();
        assert_eq!(clock.paused(Instant::now()), Duration::ZERO);
        let first = clock.pause();
        let second = clock.pause();
        let start = clock.lock().since.expect("it stands still");
        let later = start + Duration::from_secs(5);
        assert_eq!(clock.paused(later), Duration::from_secs(5));
        drop(first);
        assert_eq!(clock.paused(later), Duration::from_secs(5));
        drop(second);
        let total = clock.paused(later);
        assert!(total < Duration::from_secs(5));
        assert_eq!(clock.paused(later + Duration::from_secs(9)), total);
    }
}
