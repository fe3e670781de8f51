//! Causal self-attention with rotary positions and grouped key heads, over sequences of any
//! lengths packed row after row: no padding is computed.
//!
//! Forward: [`attend`] pushes new rows to a sequence's pages and lets each row look at the
//! positions up to its own. Training starts from empty pages, sampling from cached ones.
//! Backward: weights are computed again from queries and keys instead of being kept.

use super::pages::{CHUNK, Pages, exponentials};
use super::rope::Rope;
use super::simd::{dot, vectorised};

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

    fn group(&self) -> usize {
        self.queries / self.keys
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head as f32).sqrt()
    }

    /// Queries, keys and values of a row.
    #[inline(always)]
    fn split<'a>(&self, row: &'a [f32]) -> (&'a [f32], &'a [f32], &'a [f32]) {
        let (queries, rest) = row.split_at(self.queries * self.head);
        let (keys, values) = rest.split_at(self.keys * self.head);
        (queries, keys, values)
    }

    /// A query turned to its position and scaled.
    #[inline(always)]
    fn query(&self, rope: &Rope, position: usize, from: &[f32], query: &mut [f32]) {
        query.copy_from_slice(from);
        rope.apply(position, query);
        let scale = self.scale();
        for x in query {
            *x *= scale;
        }
    }

    /// All keys of a row turned to their position.
    #[inline(always)]
    fn turn_keys(&self, rope: &Rope, position: usize, from: &[f32], keys: &mut [f32]) {
        keys.copy_from_slice(from);
        for key in keys.chunks_exact_mut(self.head) {
            rope.apply(position, key);
        }
    }
}

/// Memory that attention works in.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    scores: Vec<f32>,
    query: Vec<f32>,
    keys: Vec<f32>,
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
    scratch.query.resize(heads.head, 0.0);
    scratch.keys.resize(heads.keys * heads.head, 0.0);
    let first = pages.len();
    vectorised(
        #[inline(always)]
        || {
            for (i, row) in rows.chunks_exact(heads.row()).enumerate() {
                let (_, keys, values) = heads.split(row);
                heads.turn_keys(rope, first + i, keys, &mut scratch.keys);
                pages.push(&scratch.keys, values);
            }
            let outs = out.chunks_exact_mut(heads.out());
            for (i, (row, out)) in rows.chunks_exact(heads.row()).zip(outs).enumerate() {
                let len = first + i + 1;
                let (queries, _, _) = heads.split(row);
                let queries = queries.chunks_exact(heads.head);
                for (h, (query, out)) in queries.zip(out.chunks_exact_mut(heads.head)).enumerate() {
                    heads.query(rope, len - 1, query, &mut scratch.query);
                    let key_head = h / heads.group();
                    pages.scores(key_head, &scratch.query, len, &mut scratch.scores);
                    let inverse = exponentials(&mut scratch.scores, len);
                    pages.mix(key_head, &scratch.scores, len, out);
                    for x in out {
                        *x *= inverse;
                    }
                }
            }
        },
    );
}

/// Writes the gradient of packed sequences' rows into `d_rows`: `out` is what [`attend`] made of
/// `rows`, sequence after sequence, each from empty pages.
pub(crate) fn attend_backward(
    heads: Heads,
    rope: &Rope,
    lengths: &[usize],
    rows: &[f32],
    out: &[f32],
    grad: &[f32],
    d_rows: &mut [f32],
) {
    let mut backward = Backward::new(heads);
    let mut from = 0;
    for &length in lengths {
        let input = from * heads.row()..(from + length) * heads.row();
        let output = from * heads.out()..(from + length) * heads.out();
        backward.sequence(
            rope,
            &rows[input.clone()],
            &out[output.clone()],
            &grad[output],
            &mut d_rows[input],
        );
        from += length;
    }
}

/// The backward pass of one sequence after another.
struct Backward {
    heads: Heads,
    /// Keys by dimension, values by position: what the forward pass reads.
    forward: Pages,
    /// The same with the parts changed: values by dimension, keys by position.
    swapped: Pages,
    scratch: Scratch,
    slopes: Vec<f32>,
    d_query: Vec<f32>,
    d_keys: Vec<f32>,
    d_values: Vec<f32>,
}

impl Backward {
    fn new(heads: Heads) -> Self {
        Self {
            heads,
            forward: Pages::new(heads.keys, heads.head),
            swapped: Pages::new(heads.keys, heads.head),
            scratch: Scratch {
                query: vec![0.0; heads.head],
                keys: vec![0.0; heads.keys * heads.head],
                ..Scratch::default()
            },
            slopes: Vec::new(),
            d_query: vec![0.0; heads.head],
            d_keys: Vec::new(),
            d_values: Vec::new(),
        }
    }

    fn sequence(
        &mut self,
        rope: &Rope,
        rows: &[f32],
        outs: &[f32],
        grads: &[f32],
        result: &mut [f32],
    ) {
        vectorised(
            #[inline(always)]
            || {
                self.load(rope, rows);
                for key_head in 0..self.heads.keys {
                    self.key_head(key_head, rope, rows, outs, grads, result);
                    self.store(key_head, rope, result);
                }
            },
        );
    }

    #[inline(always)]
    fn load(&mut self, rope: &Rope, rows: &[f32]) {
        self.forward.clear();
        self.swapped.clear();
        for (i, row) in rows.chunks_exact(self.heads.row()).enumerate() {
            let (_, keys, values) = self.heads.split(row);
            self.heads.turn_keys(rope, i, keys, &mut self.scratch.keys);
            self.forward.push(&self.scratch.keys, values);
            self.swapped.push(values, &self.scratch.keys);
        }
    }

    /// Gradients of the queries that one key head serves, and of its keys and values.
    #[inline(always)]
    fn key_head(
        &mut self,
        key_head: usize,
        rope: &Rope,
        rows: &[f32],
        outs: &[f32],
        grads: &[f32],
        result: &mut [f32],
    ) {
        let heads = self.heads;
        let size = self.forward.len() * heads.head;
        self.d_keys.clear();
        self.d_keys.resize(size, 0.0);
        self.d_values.clear();
        self.d_values.resize(size, 0.0);
        for i in 0..self.forward.len() {
            let len = i + 1;
            for h in key_head * heads.group()..(key_head + 1) * heads.group() {
                let query = i * heads.row() + h * heads.head;
                let query = query..query + heads.head;
                let output = i * heads.out() + h * heads.head;
                let output = output..output + heads.head;
                let (grad, out) = (&grads[output.clone()], &outs[output]);
                heads.query(rope, i, &rows[query.clone()], &mut self.scratch.query);

                // p = softmax, then dS = p (dO·V − dO·O)
                let scores = &mut self.scratch.scores;
                self.forward
                    .scores(key_head, &self.scratch.query, len, scores);
                let inverse = exponentials(scores, len);
                self.swapped.scores(key_head, grad, len, &mut self.slopes);
                let mean = dot(grad, out);
                for (slope, weight) in self.slopes.iter_mut().zip(scores.iter_mut()) {
                    *weight *= inverse;
                    *slope = *weight * (*slope - mean);
                }

                self.swapped
                    .mix(key_head, &self.slopes, len, &mut self.d_query);
                let scale = heads.scale();
                for x in &mut self.d_query {
                    *x *= scale;
                }
                rope.undo(i, &mut self.d_query);
                result[query].copy_from_slice(&self.d_query);

                outer(&self.slopes[..len], &self.scratch.query, &mut self.d_keys);
                outer(&self.scratch.scores[..len], grad, &mut self.d_values);
            }
        }
    }

    #[inline(always)]
    fn store(&mut self, key_head: usize, rope: &Rope, result: &mut [f32]) {
        let heads = self.heads;
        let keys = heads.out() + key_head * heads.head;
        let values = keys + heads.keys * heads.head;
        for (i, row) in result.chunks_exact_mut(heads.row()).enumerate() {
            let from = i * heads.head..(i + 1) * heads.head;
            let key = &mut row[keys..keys + heads.head];
            key.copy_from_slice(&self.d_keys[from.clone()]);
            rope.undo(i, key);
            row[values..values + heads.head].copy_from_slice(&self.d_values[from]);
        }
    }
}

/// sums[j] += weight[j] · vector.
#[inline(always)]
fn outer(weights: &[f32], vector: &[f32], sums: &mut [f32]) {
    let (vector, _) = vector.as_chunks::<CHUNK>();
    let (sums, _) = sums.as_chunks_mut::<CHUNK>();
    for (weight, sums) in weights.iter().zip(sums.chunks_exact_mut(vector.len())) {
        for (sum, x) in sums.iter_mut().zip(vector) {
            for i in 0..CHUNK {
                sum[i] = weight.mul_add(x[i], sum[i]);
            }
        }
    }
}
