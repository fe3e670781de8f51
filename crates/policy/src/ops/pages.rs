//! Keys and values of one sequence in one layer, in pages of 32 positions.
//!
//! Within a page keys lie dimension by dimension, so that 32 scores grow side by side without a
//! sum across lanes; values lie position by position. A score depends on its query and its key
//! alone and weights are added in the order of positions, so it makes no difference whether the
//! rows came one at a time (sampling) or all at once (training).

use super::simd::{LANES, exp, max, sum_lanes};

/// Positions of a page.
pub(crate) const PAGE: usize = 32;

/// Numbers of queries and keys that one dimension chunk holds.
pub(crate) const CHUNK: usize = 16;

/// Keys and values of one sequence in one layer.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    heads: usize,
    head: usize,
    len: usize,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Pages {
    /// Empty pages for `heads` key heads of `head` dimensions (a multiple of 16).
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
        let size = self.len.div_ceil(PAGE) * self.heads * self.head * PAGE;
        self.keys.truncate(size);
        self.values.truncate(size);
    }

    /// Positions held.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a position: each head's key and value, one head after another.
    #[inline(always)]
    pub(crate) fn push(&mut self, keys: &[f32], values: &[f32]) {
        let (page, slot) = (self.len / PAGE, self.len % PAGE);
        let size = self.heads * self.head * PAGE;
        if slot == 0 {
            self.keys.resize((page + 1) * size, 0.0);
            self.values.resize((page + 1) * size, 0.0);
        }
        let into = &mut self.keys[page * size..];
        for (at, key) in keys.iter().enumerate() {
            into[at * PAGE + slot] = *key;
        }
        let into = &mut self.values[page * size..];
        for (h, value) in values.chunks_exact(self.head).enumerate() {
            let at = (h * PAGE + slot) * self.head;
            into[at..at + self.head].copy_from_slice(value);
        }
        self.len += 1;
    }

    #[inline(always)]
    fn block<'a>(&self, data: &'a [f32], page: usize, head: usize) -> &'a [f32] {
        let size = self.head * PAGE;
        &data[(page * self.heads + head) * size..][..size]
    }

    /// query · key of whole pages up to `len` positions into `scores`; what lies beyond `len`
    /// in the last page is of no meaning.
    #[inline(always)]
    pub(crate) fn scores(&self, head: usize, query: &[f32], len: usize, scores: &mut Vec<f32>) {
        scores.clear();
        for page in 0..len.div_ceil(PAGE) {
            let (keys, _) = self.block(&self.keys, page, head).as_chunks::<PAGE>();
            let mut lanes = [0.0f32; PAGE];
            for (q, keys) in query.iter().zip(keys) {
                for i in 0..PAGE {
                    lanes[i] = q.mul_add(keys[i], lanes[i]);
                }
            }
            scores.extend_from_slice(&lanes);
        }
    }

    /// out = Σ weight · value over the first `len` positions.
    #[inline(always)]
    pub(crate) fn mix(&self, head: usize, weights: &[f32], len: usize, out: &mut [f32]) {
        if self.head.is_multiple_of(2 * CHUNK) {
            self.mix_chunks::<{ 2 * CHUNK }>(head, weights, len, out);
        } else {
            self.mix_chunks::<CHUNK>(head, weights, len, out);
        }
    }

    #[inline(always)]
    fn mix_chunks<const W: usize>(
        &self,
        head: usize,
        weights: &[f32],
        len: usize,
        out: &mut [f32],
    ) {
        let per_value = self.head / W;
        for (chunk, out) in out.as_chunks_mut::<W>().0.iter_mut().enumerate() {
            let mut sums = [0.0f32; W];
            for (page, weights) in weights[..len].chunks(PAGE).enumerate() {
                let (values, _) = self.block(&self.values, page, head).as_chunks::<W>();
                for (weight, value) in weights
                    .iter()
                    .zip(values.iter().skip(chunk).step_by(per_value))
                {
                    for i in 0..W {
                        sums[i] = weight.mul_add(value[i], sums[i]);
                    }
                }
            }
            *out = sums;
        }
    }
}

/// Turns the first `len` scores into e^(score − greatest), those beyond into 0, and returns one
/// over their sum.
#[inline(always)]
pub(crate) fn exponentials(scores: &mut [f32], len: usize) -> f32 {
    let greatest = max(&scores[..len]);
    let (chunks, _) = scores.as_chunks_mut::<LANES>();
    let mut sums = [0.0f32; LANES];
    for chunk in &mut chunks[..len / LANES] {
        for i in 0..LANES {
            chunk[i] = exp(chunk[i] - greatest);
            sums[i] += chunk[i];
        }
    }
    if let Some(chunk) = chunks.get_mut(len / LANES) {
        for i in 0..LANES {
            chunk[i] = if i < len % LANES {
                exp(chunk[i] - greatest)
            } else {
                0.0
            };
            sums[i] += chunk[i];
        }
    }
    1.0 / sum_lanes(sums)
}
