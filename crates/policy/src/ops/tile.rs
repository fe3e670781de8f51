//! The kernel under every product: a few rows times two vectors of columns.
//!
//! Each sum is one chain of fused multiply-adds over the summed dimension, in order. How many
//! rows are computed together changes nothing about a row's chain.

use pulp::Simd;

/// Sums of a tile: two vectors of columns for each of `M` rows.
pub(super) type Tile<S, const M: usize> = [[<S as Simd>::f32s; 2]; M];

/// Columns that come side by side; what is laid out for the kernel is padded to a multiple.
pub(super) const COLUMNS: usize = 32;

/// Pairs of vectors in a number of columns.
#[inline(always)]
pub(super) fn pairs<S: Simd>(columns: usize) -> usize {
    columns / (2 * S::F32_LANES)
}

/// Empty sums.
#[inline(always)]
pub(super) fn zero<S: Simd, const M: usize>(simd: S) -> Tile<S, M> {
    [[simd.splat_f32s(0.0); 2]; M]
}

/// Goes on with `sums` over `depth` rows of `right`, each of `columns` numbers, of which the
/// `pair`-th two vectors are taken. `left` gives a row's factor at a step: row by row, so that
/// no more than one of them is in a register at a time. (Given as one array a step, all were
/// loaded first and the sums spilled to memory.)
#[inline(always)]
pub(super) fn tile<S: Simd, const M: usize>(
    simd: S,
    right: &[f32],
    columns: usize,
    pair: usize,
    depth: usize,
    left: impl Fn(usize, usize) -> f32,
    mut sums: Tile<S, M>,
) -> Tile<S, M> {
    let (right, _) = S::as_simd_f32s(right);
    let width = columns / S::F32_LANES;
    // Counted by `depth`, so that the compiler sees that every index into `left` is in range.
    for (k, vectors) in (0..depth).zip(right.chunks_exact(width)) {
        let (a, b) = (vectors[2 * pair], vectors[2 * pair + 1]);
        for (row, sums) in sums.iter_mut().enumerate() {
            let x = simd.splat_f32s(left(row, k));
            sums[0] = simd.mul_add_f32s(x, a, sums[0]);
            sums[1] = simd.mul_add_f32s(x, b, sums[1]);
        }
    }
    sums
}

/// Writes a row of a tile to its columns of `out`, as far as there are any.
#[inline(always)]
pub(super) fn store<S: Simd>(simd: S, sums: [S::f32s; 2], pair: usize, out: &mut [f32]) {
    put(simd, sums, pair, out, |_, sum| sum);
}

/// Adds a row of a tile to its columns of `out`.
#[inline(always)]
pub(super) fn add<S: Simd>(simd: S, sums: [S::f32s; 2], pair: usize, out: &mut [f32]) {
    put(simd, sums, pair, out, |out, sum| simd.add_f32s(out, sum));
}

#[inline(always)]
fn put<S: Simd>(
    simd: S,
    sums: [S::f32s; 2],
    pair: usize,
    out: &mut [f32],
    value: impl Fn(S::f32s, S::f32s) -> S::f32s,
) {
    let from = (2 * pair * S::F32_LANES).min(out.len());
    let to = (from + 2 * S::F32_LANES).min(out.len());
    // Whole vectors are stored in place, the rest by a call.
    let (whole, rest) = S::as_mut_simd_f32s(&mut out[from..to]);
    let mut sums = sums.into_iter();
    for (out, sum) in whole.iter_mut().zip(&mut sums) {
        *out = value(*out, sum);
    }
    if let (false, Some(sum)) = (rest.is_empty(), sums.next()) {
        let sum = value(simd.partial_load_f32s(rest), sum);
        simd.partial_store_f32s(rest, sum);
    }
}
