//! Whose doing it is when memory runs out, and the verdict that says so. Pure.
//!
//! The kernel picks the largest process of the instance. It is charged if its slot was large itself: its group had
//! more than half of the instance's memory, or no other slot of the instance had a call. Otherwise many have
//! together used what one may: the victim is called again uncharged, alone in its process, and is charged if it is
//! the largest again.

use paddock_types::{SubKind, Verdict};
use serde_json::json;

use super::shown::Bytes;
use crate::judge::failure;

/// Who used the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The slot that lost a process.
    Slot,
    /// The slots of the instance together.
    Together,
    /// Somebody outside: the instance was within its limit.
    Machine,
}

/// A process of a slot was ended for want of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Oom {
    pub(crate) blame: Blame,
    /// The instance's memory size.
    pub(crate) limit: u64,
    /// The most that the slot has used.
    pub(crate) peak: u64,
    /// Milliseconds before the end, and what the slot used then.
    pub(crate) curve: Vec<(u64, u64)>,
    /// True if Paddock saw it and ended the process; false if the kernel did.
    pub(crate) polled: bool,
}

/// Who is to blame.
pub(crate) fn blame(limit_met: bool, peak: u64, limit: u64, alone: bool) -> Blame {
    match limit_met {
        false => Blame::Machine,
        true if alone || peak > limit / 2 => Blame::Slot,
        true => Blame::Together,
    }
}

impl Oom {
    /// What happened, for a message.
    pub(crate) fn words(&self) -> String {
        let (limit, peak) = (Bytes(self.limit), Bytes(self.peak));
        match self.blame {
            Blame::Machine => format!(
                "the machine itself ran out of memory, and a process of this call was ended, with {peak} of the {limit} \
                 that its instance may use"
            ),
            _ => format!("the instance went over its memory size of {limit} (peak {peak})"),
        }
    }

    /// The verdict of the call that is to blame.
    pub(crate) fn verdict(&self) -> Verdict {
        let mut verdict = failure(SubKind::Oom, self.words());
        self.show(&mut verdict);
        verdict
    }

    /// Adds what shows it.
    pub(crate) fn show(&self, verdict: &mut Verdict) {
        let evidence = &mut verdict.evidence;
        let mut put = |key: &str, value| drop(evidence.insert(key.to_owned(), value));
        put("memory_limit", json!(Bytes(self.limit).to_string()));
        put("memory_limit_bytes", json!(self.limit));
        put("peak_memory_bytes", json!(self.peak));
        put(
            "ended_by",
            json!(if self.polled { "paddock" } else { "kernel" }),
        );
        if !self.curve.is_empty() {
            let points = self.curve.iter();
            let points = points.map(|(ms, bytes)| json!({"ms_before": ms, "bytes": bytes}));
            put("memory_curve", points.collect());
        }
        verdict.peak_memory_bytes = Some(self.peak);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_victim_among_others_is_not_charged_at_once() {
        const GIB: u64 = 1 << 30;
        assert_eq!(blame(true, GIB + 1, 2 * GIB, false), Blame::Slot);
        assert_eq!(blame(true, GIB / 5, 2 * GIB, false), Blame::Together);
        assert_eq!(blame(true, GIB / 5, 2 * GIB, true), Blame::Slot);
        assert_eq!(blame(false, 2 * GIB, 2 * GIB, true), Blame::Machine);
    }

    #[test]
    fn the_verdict_names_size_peak_and_curve() {
        let oom = Oom {
            blame: Blame::Slot,
            limit: 2 << 30,
            peak: 2 << 30,
            curve: vec![(250, 1 << 30), (0, 2 << 30)],
            polled: false,
        };
        let verdict = oom.verdict();
        assert_eq!(verdict.sub_kind, Some(SubKind::Oom));
        assert_eq!(
            verdict.message,
            "the instance went over its memory size of 2 GiB (peak 2 GiB)"
        );
        assert_eq!(verdict.evidence["memory_limit"], json!("2 GiB"));
        assert_eq!(verdict.evidence["memory_curve"][0]["ms_before"], json!(250));
        assert_eq!(verdict.peak_memory_bytes, Some(2 << 30));
    }
}
