//! What a call of this plugin usually needs, learnt from those that have run: so many are let into an instance as fit,
//! the others wait or get another instance. Nobody is let in to die.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A need that is seen no more is forgotten by this part at a time.
const FORGET: u64 = 32;

/// What a slot with a call has at its peak.
#[derive(Debug, Default)]
pub(super) struct Need(AtomicU64);

impl Need {
    /// A call has had so much.
    pub(super) fn saw(&self, bytes: u64) {
        let learn = |known: u64| Some(bytes.max(known - known / FORGET));
        // The closure always gives a value.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, learn);
    }

    /// So many calls together were too many for so much memory.
    pub(super) fn too_many(&self, calls: usize, limit: u64) {
        self.saw(limit / calls.max(1) as u64 + 1);
    }

    /// How many calls fit into so much memory: one in any case.
    pub(super) fn fit(&self, limit: u64) -> usize {
        match self.0.load(Ordering::Relaxed) {
            0 => usize::MAX,
            need => usize::try_from(limit / need).unwrap_or(usize::MAX).max(1),
        }
    }

    /// Counts one more call in, if it fits.
    pub(super) fn enter(&self, busy: &AtomicUsize, limit: u64) -> bool {
        let fit = self.fit(limit);
        busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
            (n < fit).then_some(n + 1)
        })
        .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_let_in_as_fit() {
        let (need, busy) = (Need::default(), AtomicUsize::new(0));
        assert_eq!(need.fit(100), usize::MAX, "nothing is known yet");
        need.saw(30);
        assert_eq!(need.fit(100), 3);
        let entered = (0..5).filter(|_| need.enter(&busy, 100)).count();
        assert_eq!((entered, busy.load(Ordering::Relaxed)), (3, 3));
        need.too_many(3, 100);
        assert_eq!(need.fit(100), 2);
        need.saw(1000);
        assert_eq!(need.fit(100), 1, "one always fits");
    }

    #[test]
    fn a_great_need_is_forgotten_in_time() {
        let need = Need::default();
        need.saw(1 << 30);
        for _ in 0..200 {
            need.saw(10 << 20);
        }
        assert!(need.fit(2 << 30) > 50, "{need:?}");
    }
}
