//! The backward pass of attention. Weights are computed again from queries and keys instead of
//! being kept: P = softmax(S), then dS = P ∘ (dO Vᵀ − rowsum(dO ∘ O)), dQ = dS K, dK = dSᵀ Q,
//! dV = Pᵀ dO (Dao et al. 2022, appendix B.4).

use pulp::{Arch, Simd, WithSimd};

use super::attention::{Heads, Scratch, mixed, score};
use super::pages::{PAGE, Pages, exponentials, padded};
use super::rope::Rope;
use super::simd::dot;
use super::tile::{add, pairs, store, tile, zero};

/// Queries whose weights are held together.
const TOGETHER: usize = 48;

/// Writes the gradient of packed sequences' rows into `d_rows`: `out` is what
/// [`attend`](super::attention::attend) made of `rows`, sequence after sequence, each from empty
/// pages.
pub(crate) fn attend_backward(
    heads: Heads,
    rope: &Rope,
    lengths: &[usize],
    rows: &[f32],
    out: &[f32],
    grad: &[f32],
    d_rows: &mut [f32],
) {
    let mut backward = Backward::new(heads, rope);
    let mut from = 0;
    for &length in lengths {
        let input = from * heads.row()..(from + length) * heads.row();
        let output = from * heads.out()..(from + length) * heads.out();
        Arch::new().dispatch(Sequence {
            backward: &mut backward,
            rows: &rows[input.clone()],
            out: &out[output.clone()],
            grad: &grad[output],
            d_rows: &mut d_rows[input],
        });
        from += length;
    }
}

/// What is worked with, sequence after sequence.
struct Backward<'a> {
    heads: Heads,
    rope: &'a Rope,
    /// Keys by dimension, values by position: what the forward pass reads.
    forward: Pages,
    /// The same with the parts changed: values by dimension, keys by position.
    swapped: Pages,
    scratch: Scratch,
    /// dS, row after row like the scores.
    slopes: Vec<f32>,
    /// Output gradients of some queries, padded.
    grads: Vec<f32>,
    d_query: Vec<f32>,
    d_keys: Vec<f32>,
    d_values: Vec<f32>,
}

impl<'a> Backward<'a> {
    fn new(heads: Heads, rope: &'a Rope) -> Self {
        Self {
            heads,
            rope,
            forward: Pages::new(heads.keys, heads.head),
            swapped: Pages::new(heads.keys, heads.head),
            scratch: Scratch::default(),
            slopes: Vec::new(),
            grads: Vec::new(),
            d_query: Vec::new(),
            d_keys: Vec::new(),
            d_values: Vec::new(),
        }
    }
}

struct Sequence<'a, 'b> {
    backward: &'a mut Backward<'b>,
    rows: &'a [f32],
    out: &'a [f32],
    grad: &'a [f32],
    d_rows: &'a mut [f32],
}

impl WithSimd for Sequence<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let b = &mut *self.backward;
        let (heads, wide) = (b.heads, padded(b.heads.head));
        b.forward.clear();
        b.swapped.clear();
        b.scratch.keys.resize(heads.keys * heads.head, 0.0);
        for (i, row) in self.rows.chunks_exact(heads.row()).enumerate() {
            let (keys, values) = heads.keys_and_values(row);
            heads.turn_keys(b.rope, i, keys, &mut b.scratch.keys);
            b.forward.push(&b.scratch.keys, values);
            b.swapped.push(values, &b.scratch.keys);
        }
        let length = b.forward.len().next_multiple_of(PAGE);
        for key_head in 0..heads.keys {
            let b = &mut *self.backward;
            heads.queries(b.rope, 0, self.rows, key_head, &mut b.scratch.queries);
            for sums in [&mut b.d_keys, &mut b.d_values] {
                sums.clear();
                sums.resize(length * wide, 0.0);
            }
            let count = b.scratch.queries.len() / wide;
            for first in (0..count).step_by(TOGETHER) {
                self.queries(simd, key_head, first, TOGETHER.min(count - first));
            }
            self.store(key_head);
        }
    }
}

impl Sequence<'_, '_> {
    /// Some queries of a key head: their gradients, and what they add to its keys' and values'.
    #[inline(always)]
    fn queries<S: Simd>(&mut self, simd: S, key_head: usize, first: usize, count: usize) {
        let b = &mut *self.backward;
        let (heads, wide) = (b.heads, padded(b.heads.head));
        let stride = ((first + count - 1) / heads.group() + 1).next_multiple_of(PAGE);
        for buffer in [&mut b.scratch.scores, &mut b.slopes] {
            buffer.clear();
            buffer.resize(count * stride, 0.0);
        }
        b.grads.clear();
        b.grads.resize(count * wide, 0.0);
        for (q, grad) in b.grads.chunks_exact_mut(wide).enumerate() {
            grad[..heads.head].copy_from_slice(&self.grad[heads.place(key_head, first + q)]);
        }
        let mut next = 0;
        if S::REGISTER_COUNT >= 32 {
            next = self.rows::<S, 12>(simd, key_head, first, next, count);
        }
        next = self.rows::<S, 4>(simd, key_head, first, next, count);
        self.rows::<S, 1>(simd, key_head, first, next, count);

        let b = &mut *self.backward;
        let queries = &b.scratch.queries[first * wide..(first + count) * wide];
        add_outer(simd, &b.slopes, queries, wide, &mut b.d_keys);
        add_outer(simd, &b.scratch.scores, &b.grads, wide, &mut b.d_values);
    }

    /// Weights, dS and dQ of blocks of `M` of these queries; returns the first not taken.
    #[inline(always)]
    fn rows<S: Simd, const M: usize>(
        &mut self,
        simd: S,
        key_head: usize,
        first: usize,
        mut next: usize,
        count: usize,
    ) -> usize {
        let b = &mut *self.backward;
        let (heads, wide) = (b.heads, padded(b.heads.head));
        let stride = b.slopes.len() / count;
        while next + M <= count {
            let queries = &b.scratch.queries[(first + next) * wide..][..M * wide];
            let scores = &mut b.scratch.scores[next * stride..][..M * stride];
            let slopes = &mut b.slopes[next * stride..][..M * stride];
            let grads = &b.grads[next * wide..][..M * wide];
            score::<S, M>(simd, &b.forward, key_head, heads.head, queries, scores);
            score::<S, M>(simd, &b.swapped, key_head, heads.head, grads, slopes);
            let rows = scores
                .chunks_exact_mut(stride)
                .zip(slopes.chunks_exact_mut(stride));
            for (q, (weights, slopes)) in rows.enumerate() {
                let query = first + next + q;
                let inverse = exponentials(weights, query / heads.group() + 1);
                let place = heads.place(key_head, query);
                let mean = dot(&grads[q * wide..][..heads.head], &self.out[place]);
                for (slope, weight) in slopes.iter_mut().zip(weights) {
                    *weight *= inverse;
                    *slope = *weight * (*slope - mean);
                }
            }
            let len = (first + next + M - 1) / heads.group() + 1;
            b.d_query.resize(M * wide, 0.0);
            for pair in 0..pairs::<S>(wide) {
                let sums = mixed::<S, M>(simd, &b.swapped, key_head, wide, slopes, len, pair);
                for (sums, out) in sums.into_iter().zip(b.d_query.chunks_exact_mut(wide)) {
                    store(simd, sums, pair, out);
                }
            }
            for (q, d_query) in b.d_query.chunks_exact_mut(wide).enumerate() {
                let (row, member) = (
                    (first + next + q) / heads.group(),
                    (first + next + q) % heads.group(),
                );
                let d_query = &mut d_query[..heads.head];
                for x in d_query.iter_mut() {
                    *x *= heads.scale();
                }
                b.rope.undo(row, d_query);
                let at = row * heads.row() + (key_head * heads.group() + member) * heads.head;
                self.d_rows[at..at + heads.head].copy_from_slice(d_query);
            }
            next += M;
        }
        next
    }

    /// Writes a key head's gradients to their rows.
    #[inline(always)]
    fn store(&mut self, key_head: usize) {
        let b = &mut *self.backward;
        let (heads, wide) = (b.heads, padded(b.heads.head));
        let keys = heads.out() + key_head * heads.head;
        let values = keys + heads.keys * heads.head;
        for (i, row) in self.d_rows.chunks_exact_mut(heads.row()).enumerate() {
            let key = &mut row[keys..keys + heads.head];
            key.copy_from_slice(&b.d_keys[i * wide..][..heads.head]);
            b.rope.undo(i, key);
            let value = &b.d_values[i * wide..][..heads.head];
            row[values..values + heads.head].copy_from_slice(value);
        }
    }
}

/// sums[j] += Σ over rows of weight[row][j] · vector[row], for padded vectors.
#[inline(always)]
fn add_outer<S: Simd>(simd: S, weights: &[f32], vectors: &[f32], wide: usize, sums: &mut [f32]) {
    let rows = vectors.len() / wide;
    let stride = weights.len() / rows;
    // A page has 32 positions: four blocks of eight, or eight of four.
    if S::REGISTER_COUNT >= 32 {
        outer_blocks::<S, 8>(simd, weights, stride, vectors, wide, sums);
    } else {
        outer_blocks::<S, 4>(simd, weights, stride, vectors, wide, sums);
    }
}

#[inline(always)]
fn outer_blocks<S: Simd, const M: usize>(
    simd: S,
    weights: &[f32],
    stride: usize,
    vectors: &[f32],
    wide: usize,
    sums: &mut [f32],
) {
    let (weights, _) = weights.as_chunks::<M>();
    let (per_row, rows) = (stride / M, vectors.len() / wide);
    for (block, sums) in sums.chunks_exact_mut(M * wide).take(per_row).enumerate() {
        for pair in 0..pairs::<S>(wide) {
            let left = |column: usize, row: usize| weights[row * per_row + block][column];
            let tile = tile::<S, M>(simd, vectors, wide, pair, rows, left, zero(simd));
            for (tile, sums) in tile.into_iter().zip(sums.chunks_exact_mut(wide)) {
                add(simd, tile, pair, sums);
            }
        }
    }
}
