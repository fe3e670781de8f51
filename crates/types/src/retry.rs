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
