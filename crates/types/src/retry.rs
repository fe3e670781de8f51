//! What happens after an attempt: the retry rules of the plugin contract, as a pure function.

use std::time::Duration;

use crate::verdict::{Outcome, Verdict};

/// How often a plugin's own `failure` or `retry` is tried again.
pub const PLUGIN_RETRIES: u32 = 3;

/// How often a call is tried again for faults that aren't its own, before the platform gives up.
pub const PLATFORM_RETRIES: u32 = 10;

/// What to do with a call after one of its attempts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// The answer counts.
    Done,
    /// Call it again after this long.
    Again(Duration),
    /// Give the call up: the job fails with its fault.
    Fail,
    /// Give the sample up, with all its trajectories.
    Drop,
}

/// A call's history so far: how many attempts were charged to it, and how many were not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tries {
    /// Attempts that ended in the plugin's own fault.
    pub charged: u32,
    /// Attempts that ended in a fault of the platform or of a neighbour.
    pub uncharged: u32,
}

impl Tries {
    /// Counts a verdict and says what comes next. `jitter` in 0..1 spreads the waits.
    pub fn after(&mut self, verdict: &Verdict, retries: u32, jitter: f64) -> Next {
        match verdict.outcome {
            Outcome::Success => Next::Done,
            Outcome::Discard => Next::Drop,
            Outcome::Failure | Outcome::Retry if verdict.platform => {
                self.uncharged += 1;
                if self.uncharged > PLATFORM_RETRIES {
                    return Next::Fail;
                }
                Next::Again(Duration::from_millis((50.0 + 50.0 * jitter) as u64))
            }
            Outcome::Failure | Outcome::Retry => {
                self.charged += 1;
                if self.charged > retries {
                    return match verdict.outcome {
                        Outcome::Retry => Next::Drop,
                        _ => Next::Fail,
                    };
                }
                Next::Again(wait(self.charged, jitter))
            }
        }
    }
}

/// About 1, 4 and 16 s, spread by a quarter.
fn wait(charged: u32, jitter: f64) -> Duration {
    let seconds = 4f64.powi(charged.min(3) as i32 - 1);
    Duration::from_secs_f64(seconds * (0.875 + 0.25 * jitter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(outcome: Outcome, platform: bool) -> Verdict {
        Verdict {
            outcome,
            platform,
            ..Verdict::default()
        }
    }

    fn waits(outcome: Outcome) -> (Vec<f64>, Next) {
        let mut tries = Tries::default();
        let mut waits = vec![];
        loop {
            match tries.after(&verdict(outcome, false), PLUGIN_RETRIES, 0.5) {
                Next::Again(wait) => waits.push(wait.as_secs_f64()),
                last => return (waits, last),
            }
        }
    }

    #[test]
    fn a_failure_ends_the_job_and_a_retry_drops_the_sample_after_three_more_tries() {
        assert_eq!(waits(Outcome::Failure), (vec![1.0, 4.0, 16.0], Next::Fail));
        assert_eq!(waits(Outcome::Retry), (vec![1.0, 4.0, 16.0], Next::Drop));
    }

    #[test]
    fn discard_drops_at_once_and_success_is_done() {
        let mut tries = Tries::default();
        assert_eq!(
            tries.after(&verdict(Outcome::Discard, false), 3, 0.5),
            Next::Drop
        );
        assert_eq!(
            tries.after(&verdict(Outcome::Success, false), 3, 0.5),
            Next::Done
        );
    }

    #[test]
    fn what_is_not_the_plugins_is_not_charged() {
        let mut tries = Tries::default();
        for _ in 0..PLATFORM_RETRIES {
            let next = tries.after(&verdict(Outcome::Failure, true), PLUGIN_RETRIES, 0.5);
            assert!(matches!(next, Next::Again(_)));
        }
        assert_eq!(tries.charged, 0);
        assert_eq!(
            tries.after(&verdict(Outcome::Failure, true), PLUGIN_RETRIES, 0.5),
            Next::Fail
        );
    }
}
