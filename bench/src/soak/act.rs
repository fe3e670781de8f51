//! What each call of the soak does, and what must come of it.

use paddock_types::{Outcome, SubKind, Verdict};
use serde_json::{Value, json};

/// What `soak.py` does with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Its work.
    Work,
    /// Never ends.
    Hang,
    /// Its process dies.
    Crash,
    /// Raises.
    Raise,
    /// Answers `nan`.
    Nan,
}

impl Act {
    /// One call in a hundred each is one of the bad ones, spread evenly.
    pub(super) fn of(number: usize) -> Self {
        match number % 100 {
            13 => Self::Hang,
            33 => Self::Crash,
            73 => Self::Raise,
            93 => Self::Nan,
            _ => Self::Work,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Hang => "hang",
            Self::Crash => "crash",
            Self::Raise => "raise",
            Self::Nan => "nan",
        }
    }

    pub(super) fn row(self, number: usize) -> Value {
        json!({"act": self.name(), "number": number})
    }

    /// True if this is the verdict that the call must have.
    pub(super) fn is_right(self, number: usize, verdict: &Verdict) -> bool {
        let failed = |kind| verdict.outcome == Outcome::Failure && verdict.sub_kind == Some(kind);
        match self {
            Self::Work => verdict.outcome == Outcome::Success && verdict.rewards == [number as f64],
            Self::Hang => failed(SubKind::Timeout),
            Self::Crash => failed(SubKind::Eof) && verdict.message.contains("SIGABRT"),
            Self::Raise => {
                failed(SubKind::Raised) && verdict.error.contains(&format!("call {number}"))
            }
            Self::Nan => failed(SubKind::AbnormalReward),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_each_of_the_bad_ones() {
        let count = |act| (0..1000).filter(|&n| Act::of(n) == act).count();
        for act in [Act::Hang, Act::Crash, Act::Raise, Act::Nan] {
            assert_eq!(count(act), 10);
        }
    }
}
