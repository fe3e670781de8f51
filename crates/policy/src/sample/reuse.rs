//! Caches of finished turns, kept for the next turn of the same conversation.
//!
//! A cached row has the bits that a fresh pass would give, so taking one up changes time and
//! nothing else. All are dropped when the weights change.

use std::collections::VecDeque;

use crate::model::Cache;

struct Kept {
    /// The tokens whose keys and values the cache holds.
    tokens: Vec<u32>,
    cache: Cache,
}

/// Kept caches, oldest first, within a number of positions.
#[derive(Default)]
pub(crate) struct Reuse {
    kept: VecDeque<Kept>,
    /// Positions held by all.
    positions: usize,
}

impl Reuse {
    /// Keeps a cache that holds `tokens`.
    pub(crate) fn keep(&mut self, mut tokens: Vec<u32>, cache: Cache) {
        tokens.truncate(cache.len());
        self.positions += tokens.len();
        self.kept.push_back(Kept { tokens, cache });
    }

    /// Takes the cache whose tokens share the longest beginning with a prompt, cut to what they
    /// share; at least one token of the prompt is left to be computed. The longest wins among
    /// those that the prompt continues whole; a cache that would have to be cut by more than
    /// half is left to its own conversation.
    pub(crate) fn take(&mut self, prompt: &[u32]) -> Option<Cache> {
        let shared = |kept: &Kept| {
            let same = kept.tokens.iter().zip(&prompt[..prompt.len() - 1]);
            same.take_while(|(a, b)| a == b).count()
        };
        let (at, length) = self
            .kept
            .iter()
            .enumerate()
            .map(|(at, kept)| (at, shared(kept)))
            .filter(|(at, length)| *length > 0 && 2 * length > self.kept[*at].tokens.len())
            .max_by_key(|(at, length)| (*length, usize::MAX - at))?;
        let mut kept = self.kept.remove(at)?;
        self.positions -= kept.tokens.len();
        kept.cache.truncate(length);
        Some(kept.cache)
    }

    /// Drops the oldest until at most `positions` are held.
    pub(crate) fn shrink(&mut self, positions: usize) {
        while self.positions > positions {
            let Some(oldest) = self.kept.pop_front() else {
                break;
            };
            self.positions -= oldest.tokens.len();
        }
    }
}
