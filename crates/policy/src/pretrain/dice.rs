//! Chance, from a seed. The draws are part of how a base model is made: changing them changes it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A source of draws.
#[derive(Debug, Clone)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Draws that depend on the seed alone.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number in 0..1.
    pub fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let count = (high - low + 1).max(1) as f64;
        low + (self.share() * count) as i64
    }

    /// True in this share of cases.
    pub fn chance(&mut self, share: f64) -> bool {
        self.share() < share
    }

    /// One of some things, all alike.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.between(0, things.len() as i64 - 1) as usize]
    }

    /// One of some things, each with its weight.
    pub fn weighted<T: Copy>(&mut self, things: &[(f64, T)]) -> T {
        let mut left = self.share() * things.iter().map(|(weight, _)| weight).sum::<f64>();
        for &(weight, thing) in things {
            left -= weight;
            if left < 0.0 {
                return thing;
            }
        }
        things[things.len() - 1].1
    }
}
