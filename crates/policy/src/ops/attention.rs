//! Causal self-attention with rotary positions and grouped key heads, over sequences of any
//! lengths packed row after row: no padding is computed.
//!
//! [`attend`] pushes new rows to a sequence's pages and lets each row look at the positions up
//! to its own. Training starts from empty pages, sampling from cached ones. Queries are taken
//! some at a time, those of all heads that share a key head together; a query's result does not
//! depend on which others it is taken with.

use pulp::{Arch, Simd, WithSimd};

use super::pages::{PAGE, Pages, exponentials, padded};
use super::rope::Rope;
use super::tile::{pairs, store, tile, zero};

pub(crate) use super::attention_backward::attend_backward;

/// How a row of queries, keys and values is laid out: all query heads, key heads, value heads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads {
    /// Query heads.
    pub(crate) queries: usize,
    /// Key and value heads; each serves `queries / keys` query heads.
    pub(crate) keys: usize,
    /// Dimensions of a head.
    pub(crate) head: usize,
}

impl Heads {
    /// Numbers of an input row.
    pub(crate) const fn row(&self) -> usize {
        (self.queries + 2 * self.keys) * self.head
    }

    /// Numbers of an output row.
    pub(crate) const fn out(&self) -> usize {
        self.queries * self.head
    }

    /// Query heads that share a key head.
    pub(super) const fn group(&self) -> usize {
        self.queries / self.keys
    }

    pub(super) fn scale(&self) -> f32 {
        1.0 / (self.head as f32).sqrt()
    }

    /// Keys and values of a row.
    #[inline(always)]
    pub(super) fn keys_and_values<'a>(&self, row: &'a [f32]) -> (&'a [f32], &'a [f32]) {
        row[self.out()..].split_at(self.keys * self.head)
    }

    /// All keys of a row turned to their position.
    #[inline(always)]
    pub(super) fn turn_keys(&self, rope: &Rope, position: usize, from: &[f32], keys: &mut [f32]) {
        keys.copy_from_slice(from);
        for key in keys.chunks_exact_mut(self.head) {
            rope.apply(position, key);
        }
    }

    /// The queries that one key head serves, row after row, turned to their positions, scaled
    /// and padded.
    #[inline(always)]
    pub(super) fn queries(
        &self,
        rope: &Rope,
        first: usize,
        rows: &[f32],
        key_head: usize,
        into: &mut Vec<f32>,
    ) {
        let scale = self.scale();
        let wide = padded(self.head);
        let size = self.group() * self.head;
        into.clear();
        into.resize(rows.len() / self.row() * self.group() * wide, 0.0);
        let mut padded = into.chunks_exact_mut(wide);
        for (i, row) in rows.chunks_exact(self.row()).enumerate() {
            let queries = row[key_head * size..(key_head + 1) * size].chunks_exact(self.head);
            for (query, into) in queries.zip(&mut padded) {
                let into = &mut into[..self.head];
                into.copy_from_slice(query);
                rope.apply(first + i, into);
                for x in into {
                    *x *= scale;
                }
            }
        }
    }

    /// Where an output row has the result of a key head's `query`-th query.
    #[inline(always)]
    pub(super) fn place(&self, key_head: usize, query: usize) -> std::ops::Range<usize> {
        let (row, member) = (query / self.group(), query % self.group());
        let from = row * self.out() + (key_head * self.group() + member) * self.head;
        from..from + self.head
    }
}

/// Memory that attention works in.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) keys: Vec<f32>,
    pub(super) queries: Vec<f32>,
    pub(super) scores: Vec<f32>,
}

/// Appends rows of one sequence to its pages and writes each row's attention into `out`.
pub(crate) fn attend(
    heads: Heads,
    rope: &Rope,
    rows: &[f32],
    pages: &mut Pages,
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    Arch::new().dispatch(Attend {
        heads,
        rope,
        rows,
        pages,
        scratch,
        out,
    });
}

struct Attend<'a> {
    heads: Heads,
    rope: &'a Rope,
    rows: &'a [f32],
    pages: &'a mut Pages,
    scratch: &'a mut Scratch,
    out: &'a mut [f32],
}

impl WithSimd for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            heads,
            rope,
            rows,
            pages,
            scratch,
            out,
        } = self;
        let first = pages.len();
        scratch.keys.resize(heads.keys * heads.head, 0.0);
        for (i, row) in rows.chunks_exact(heads.row()).enumerate() {
            let (keys, values) = heads.keys_and_values(row);
            heads.turn_keys(rope, first + i, keys, &mut scratch.keys);
            pages.push(&scratch.keys, values);
        }
        let wide = padded(heads.head);
        for key_head in 0..heads.keys {
            heads.queries(rope, first, rows, key_head, &mut scratch.queries);
            let mut run = Run {
                heads,
                pages,
                key_head,
                first,
                query: 0,
                out: &mut *out,
            };
            let mut queries = scratch.queries.as_slice();
            if S::REGISTER_COUNT >= 32 {
                run.blocks::<S, 12>(simd, &mut queries, wide, &mut scratch.scores);
            }
            run.blocks::<S, 4>(simd, &mut queries, wide, &mut scratch.scores);
            run.blocks::<S, 2>(simd, &mut queries, wide, &mut scratch.scores);
            run.blocks::<S, 1>(simd, &mut queries, wide, &mut scratch.scores);
        }
    }
}

/// The queries of one key head.
struct Run<'a> {
    heads: Heads,
    pages: &'a Pages,
    key_head: usize,
    /// Position of the first row.
    first: usize,
    /// The next query.
    query: usize,
    out: &'a mut [f32],
}

impl Run<'_> {
    /// Takes blocks of `M` queries off the front while there are that many.
    #[inline(always)]
    fn blocks<S: Simd, const M: usize>(
        &mut self,
        simd: S,
        queries: &mut &[f32],
        wide: usize,
        scores: &mut Vec<f32>,
    ) {
        while queries.len() >= M * wide {
            let (these, rest) = queries.split_at(M * wide);
            *queries = rest;
            let lens: [usize; M] =
                std::array::from_fn(|q| self.first + (self.query + q) / self.heads.group() + 1);
            let stride = lens[M - 1].next_multiple_of(PAGE);
            scores.resize(M * stride, 0.0);
            score::<S, M>(
                simd,
                self.pages,
                self.key_head,
                self.heads.head,
                these,
                scores,
            );
            let mut inverse = [0.0; M];
            for ((weights, len), inverse) in
                scores.chunks_exact_mut(stride).zip(lens).zip(&mut inverse)
            {
                *inverse = exponentials(weights, len);
            }
            self.mix::<S, M>(simd, scores, lens[M - 1], inverse);
            self.query += M;
        }
    }

    /// Writes Σ weight · value, normalised.
    #[inline(always)]
    fn mix<S: Simd, const M: usize>(
        &mut self,
        simd: S,
        weights: &[f32],
        len: usize,
        inverse: [f32; M],
    ) {
        let wide = padded(self.heads.head);
        for pair in 0..pairs::<S>(wide) {
            let sums = mixed::<S, M>(simd, self.pages, self.key_head, wide, weights, len, pair);
            for (q, (sums, inverse)) in sums.into_iter().zip(inverse).enumerate() {
                let inverse = simd.splat_f32s(inverse);
                let sums = sums.map(|sum| simd.mul_f32s(sum, inverse));
                let place = self.heads.place(self.key_head, self.query + q);
                store(simd, sums, pair, &mut self.out[place]);
            }
        }
    }
}

/// Scores of `M` padded queries with whole pages, as many as a row of `scores` has room for.
#[inline(always)]
pub(super) fn score<S: Simd, const M: usize>(
    simd: S,
    pages: &Pages,
    key_head: usize,
    head: usize,
    queries: &[f32],
    scores: &mut [f32],
) {
    let wide = queries.len() / M;
    let stride = scores.len() / M;
    let queries: [&[f32]; M] = std::array::from_fn(|q| &queries[q * wide..][..head]);
    for page in 0..stride / PAGE {
        let keys = pages.keys(page, key_head);
        for pair in 0..pairs::<S>(PAGE) {
            let left = |q: usize, d: usize| queries[q][d];
            let sums = tile::<S, M>(simd, keys, PAGE, pair, head, left, zero(simd));
            for (sums, scores) in sums.into_iter().zip(scores.chunks_exact_mut(stride)) {
                store(simd, sums, pair, &mut scores[page * PAGE..][..PAGE]);
            }
        }
    }
}

/// Σ weight · value over the first `len` positions for `M` rows of weights: two vectors of it.
#[inline(always)]
pub(super) fn mixed<S: Simd, const M: usize>(
    simd: S,
    pages: &Pages,
    key_head: usize,
    wide: usize,
    weights: &[f32],
    len: usize,
    pair: usize,
) -> super::tile::Tile<S, M> {
    let stride = weights.len() / M;
    let mut sums = zero::<S, M>(simd);
    for page in 0..len.div_ceil(PAGE) {
        let depth = PAGE.min(len - page * PAGE);
        let rows: [&[f32]; M] =
            std::array::from_fn(|q| &weights[q * stride + page * PAGE..][..depth]);
        let left = |q: usize, j: usize| rows[q][j];
        sums = tile::<S, M>(
            simd,
            pages.values(page, key_head),
            wide,
            pair,
            depth,
            left,
            sums,
        );
    }
    sums
}
