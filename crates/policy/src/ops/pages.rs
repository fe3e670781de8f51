//! Keys and values of one sequence in one layer, in pages of 32 positions.
//!
//! Within a page and head, keys lie dimension by dimension and values position by position: as
//! the kernel reads them. A score depends on its query and its key alone, and weights are added
//! in the order of positions, so it makes no difference whether the rows came one at a time
//! (sampling) or all at once (training).

use super::simd::{LANES, exp, max, sum_lanes};
use super::tile::COLUMNS;

/// Positions of a page.
pub(crate) const PAGE: usize = COLUMNS;

/// Keys and values of one sequence in one layer.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    heads: usize,
    head: usize,
    len: usize,
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// Numbers that a vector of one head takes where it is padded for the kernel.
pub(super) const fn padded(head: usize) -> usize {
    head.next_multiple_of(COLUMNS)
}

impl Pages {
    /// Empty pages for `heads` key heads of `head` dimensions.
    pub(crate) fn new(heads: usize, head: usize) -> Self {
        Self {
            heads,
            head,
            ..Self::default()
        }
    }

    /// Forgets everything, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Forgets all positions from `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        let pages = self.len.div_ceil(PAGE) * self.heads * PAGE;
        self.keys.truncate(pages * self.head);
        self.values.truncate(pages * padded(self.head));
    }

    /// Positions held.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a position: each head's key and value, one head after another.
    #[inline(always)]
    pub(super) fn push(&mut self, keys: &[f32], values: &[f32]) {
        let (page, slot) = (self.len / PAGE, self.len % PAGE);
        let wide = padded(self.head);
        let (key_size, value_size) = (self.heads * self.head * PAGE, self.heads * wide * PAGE);
        if slot == 0 {
            self.keys.resize((page + 1) * key_size, 0.0);
            self.values.resize((page + 1) * value_size, 0.0);
        }
        let (into, _) = self.keys[page * key_size..].as_chunks_mut::<PAGE>();
        for (into, key) in into.iter_mut().zip(keys) {
            into[slot] = *key;
        }
        let into = &mut self.values[page * value_size..];
        for (h, value) in values.chunks_exact(self.head).enumerate() {
            let at = (h * PAGE + slot) * wide;
            into[at..at + self.head].copy_from_slice(value);
        }
        self.len += 1;
    }

    /// One head's keys of a page: `head` rows of 32 positions.
    #[inline(always)]
    pub(super) fn keys(&self, page: usize, head: usize) -> &[f32] {
        let size = self.head * PAGE;
        &self.keys[(page * self.heads + head) * size..][..size]
    }

    /// One head's values of a page: 32 rows of padded vectors.
    #[inline(always)]
    pub(super) fn values(&self, page: usize, head: usize) -> &[f32] {
        let size = padded(self.head) * PAGE;
        &self.values[(page * self.heads + head) * size..][..size]
    }
}

/// Turns the first `len` scores into e^(score − greatest), those beyond into 0, and returns one
/// over their sum.
#[inline(always)]
pub(super) fn exponentials(scores: &mut [f32], len: usize) -> f32 {
    let greatest = max(&scores[..len]);
    let (chunks, _) = scores.as_chunks_mut::<LANES>();
    let mut sums = [0.0f32; LANES];
    let (whole, rest) = chunks.split_at_mut(len / LANES);
    for chunk in whole {
        for i in 0..LANES {
            chunk[i] = exp(chunk[i] - greatest);
            sums[i] += chunk[i];
        }
    }
    if let Some((chunk, rest)) = rest.split_first_mut() {
        for i in 0..LANES {
            chunk[i] = if i < len % LANES {
                exp(chunk[i] - greatest)
            } else {
                0.0
            };
            sums[i] += chunk[i];
        }
        for chunk in rest {
            *chunk = [0.0; LANES];
        }
    }
    1.0 / sum_lanes(sums)
}
