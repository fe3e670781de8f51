//! The one matrix product of the policy.
//!
//! Each output element is one chain of fused multiply-adds over the summed dimension, from its
//! first to its last, started at zero: its bits do not depend on the number of rows, on how
//! they are cut, on the vector width or on threads. Written here because a product with packed
//! weights and those guarantees was measured to be about twice as fast at these sizes as
//! packing them at every call (`docs/design/policy.md`).

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::panels::{PANEL, Panels};
use super::tile::{add, pairs, store, tile, zero};

/// Whether a product is added to what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Onto {
    /// The output is overwritten.
    Nothing,
    /// The product is added to it.
    Itself,
}

/// Right sides of fewer numbers than this are multiplied on one thread: small models are made
/// parallel over micro-batches and sequences, where threads need not meet at every operation.
const PARALLEL_FROM: usize = 1 << 20;

/// Rows that a thread takes at a time.
const PARALLEL_ROWS: usize = 24;

/// out = left · right (+ out), with the rows of `left` and `out` one after another.
pub(crate) fn multiply(left: &[f32], right: &Panels, out: &mut [f32], onto: Onto) {
    let (depth, cols) = (right.depth(), right.cols());
    if out.is_empty() {
        return;
    }
    let rows = out.len() / cols;
    debug_assert_eq!(left.len(), rows * depth);
    let large = depth * cols >= PARALLEL_FROM && rayon::current_num_threads() > 1;
    if large && rows > PARALLEL_ROWS {
        out.par_chunks_mut(PARALLEL_ROWS * cols)
            .zip(left.par_chunks(PARALLEL_ROWS * depth))
            .for_each(|(out, left)| {
                Arch::new().dispatch(Rows {
                    left,
                    right,
                    out,
                    onto,
                })
            });
    } else if large {
        few_rows(left, right, out, onto);
    } else {
        Arch::new().dispatch(Rows {
            left,
            right,
            out,
            onto,
        });
    }
}

/// Few rows of a large matrix: threads take panels, and the results are put in their places.
fn few_rows(left: &[f32], right: &Panels, out: &mut [f32], onto: Onto) {
    let (depth, cols) = (right.depth(), right.cols());
    let rows = out.len() / cols;
    let panels: Vec<&[f32]> = right.iter().collect();
    let parts: Vec<Vec<f32>> = panels
        .par_iter()
        .with_min_len(8)
        .map(|panel| {
            let mut part = vec![0.0; rows * PANEL];
            Arch::new().dispatch(OnePanel {
                left,
                depth,
                panel,
                out: &mut part,
            });
            part
        })
        .collect();
    for (panel, part) in parts.iter().enumerate() {
        for (row, part) in part.chunks_exact(PANEL).enumerate() {
            let at = panel * PANEL;
            let width = PANEL.min(cols - at);
            let out = &mut out[row * cols + at..][..width];
            for (out, x) in out.iter_mut().zip(part) {
                *out = if onto == Onto::Itself { *out + x } else { *x };
            }
        }
    }
}

/// out += leftᵀ · right, where `left` (rows × out_rows) and `right` (rows × cols) both lie row
/// after row: the gradient of a weight matrix. Sums run over rows. `right` is packed into
/// `packed`.
pub(crate) fn add_outer(
    left: &[f32],
    right: &[f32],
    rows: usize,
    out: &mut [f32],
    packed: &mut Panels,
) {
    if rows == 0 {
        return;
    }
    let (out_rows, cols) = (left.len() / rows, right.len() / rows);
    packed.pack_rows(right, rows, cols);
    let right = &*packed;
    let large = out_rows * cols >= PARALLEL_FROM && rayon::current_num_threads() > 1;
    let per_task = if large { 4 * PARALLEL_ROWS } else { out_rows };
    let work = |(task, out): (usize, &mut [f32])| {
        let columns = Columns {
            left,
            stride: out_rows,
            from: task * per_task,
        };
        Arch::new().dispatch(Outer {
            columns,
            right,
            out,
        });
    };
    if large {
        out.par_chunks_mut(per_task * cols)
            .enumerate()
            .for_each(work);
    } else {
        work((0, out));
    }
}

/// Rows of a left side that lies row after row.
struct Rows<'a> {
    left: &'a [f32],
    right: &'a Panels,
    out: &'a mut [f32],
    onto: Onto,
}

impl WithSimd for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            mut left,
            right,
            mut out,
            onto,
        } = self;
        // Twelve rows of two vectors fill 32 registers, four those of smaller machines.
        if S::REGISTER_COUNT >= 32 {
            rows::<S, 12>(simd, &mut left, right, &mut out, onto);
            rows::<S, 8>(simd, &mut left, right, &mut out, onto);
        }
        rows::<S, 4>(simd, &mut left, right, &mut out, onto);
        rows::<S, 2>(simd, &mut left, right, &mut out, onto);
        rows::<S, 1>(simd, &mut left, right, &mut out, onto);
    }
}

/// Takes blocks of `M` rows off the front while there are that many.
#[inline(always)]
fn rows<S: Simd, const M: usize>(
    simd: S,
    left: &mut &[f32],
    right: &Panels,
    out: &mut &mut [f32],
    onto: Onto,
) {
    let (depth, cols) = (right.depth(), right.cols());
    while out.len() >= M * cols {
        let (these, rest) = left.split_at(M * depth);
        let (into, others) = std::mem::take(out).split_at_mut(M * cols);
        (*left, *out) = (rest, others);
        block::<S, M>(simd, these, right, into, onto);
    }
}

#[inline(always)]
fn block<S: Simd, const M: usize>(
    simd: S,
    left: &[f32],
    right: &Panels,
    out: &mut [f32],
    onto: Onto,
) {
    let (depth, cols) = (right.depth(), right.cols());
    let rows: [&[f32]; M] = std::array::from_fn(|row| &left[row * depth..(row + 1) * depth]);
    for (number, panel) in right.iter().enumerate() {
        for pair in 0..pairs::<S>(PANEL) {
            let left = |row: usize, k: usize| rows[row][k];
            let sums = tile::<S, M>(simd, panel, PANEL, pair, depth, left, zero(simd));
            for (sums, out) in sums.into_iter().zip(out.chunks_exact_mut(cols)) {
                let out = &mut out[number * PANEL..];
                match onto {
                    Onto::Nothing => store(simd, sums, pair, out),
                    Onto::Itself => add(simd, sums, pair, out),
                }
            }
        }
    }
}

/// All rows with one panel.
struct OnePanel<'a> {
    left: &'a [f32],
    depth: usize,
    panel: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for OnePanel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let rows = self
            .left
            .chunks_exact(self.depth)
            .zip(self.out.chunks_exact_mut(PANEL));
        for (row, out) in rows {
            for pair in 0..pairs::<S>(PANEL) {
                let left = |_: usize, k: usize| row[k];
                let [sums] =
                    tile::<S, 1>(simd, self.panel, PANEL, pair, self.depth, left, zero(simd));
                store(simd, sums, pair, out);
            }
        }
    }
}

/// Some columns of a left side that lies row after row.
#[derive(Clone, Copy)]
struct Columns<'a> {
    left: &'a [f32],
    stride: usize,
    from: usize,
}

struct Outer<'a> {
    columns: Columns<'a>,
    right: &'a Panels,
    out: &'a mut [f32],
}

impl WithSimd for Outer<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            mut columns,
            right,
            mut out,
        } = self;
        if S::REGISTER_COUNT >= 32 {
            outer_rows::<S, 12>(simd, &mut columns, right, &mut out);
            outer_rows::<S, 8>(simd, &mut columns, right, &mut out);
        }
        outer_rows::<S, 4>(simd, &mut columns, right, &mut out);
        outer_rows::<S, 2>(simd, &mut columns, right, &mut out);
        outer_rows::<S, 1>(simd, &mut columns, right, &mut out);
    }
}

#[inline(always)]
fn outer_rows<S: Simd, const M: usize>(
    simd: S,
    columns: &mut Columns<'_>,
    right: &Panels,
    out: &mut &mut [f32],
) {
    let cols = right.cols();
    // M columns side by side, row after row: what the kernel reads at each step.
    let mut packed: Vec<[f32; M]> = Vec::with_capacity(right.depth());
    while out.len() >= M * cols {
        let (into, others) = std::mem::take(out).split_at_mut(M * cols);
        *out = others;
        packed.clear();
        let rows = columns.left.chunks_exact(columns.stride);
        packed.extend(rows.filter_map(|row| row[columns.from..].first_chunk::<M>()));
        columns.from += M;
        let depth = right.depth();
        let left = &packed[..depth];
        for (number, panel) in right.iter().enumerate() {
            for pair in 0..pairs::<S>(PANEL) {
                let left = |row: usize, k: usize| left[k][row];
                let sums = tile::<S, M>(simd, panel, PANEL, pair, depth, left, zero(simd));
                for (sums, out) in sums.into_iter().zip(into.chunks_exact_mut(cols)) {
                    add(simd, sums, pair, &mut out[number * PANEL..]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|i| ((i * 7919 + seed * 104_729) % 1999) as f32 / 999.5 - 1.0)
            .collect()
    }

    /// The definition, in double precision.
    fn plain(left: &[f32], right: &[f32], depth: usize, cols: usize) -> Vec<f64> {
        left.chunks_exact(depth)
            .flat_map(|row| {
                (0..cols).map(move |c| {
                    let terms = row.iter().zip(right.iter().skip(c).step_by(cols));
                    terms.map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
                })
            })
            .collect()
    }

    fn close(got: &[f32], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!((f64::from(*got) - want).abs() < 1e-4, "{got}, want {want}");
        }
    }

    fn transposed(matrix: &[f32], cols: usize) -> Vec<f32> {
        (0..cols)
            .flat_map(|c| matrix.iter().skip(c).step_by(cols).copied())
            .collect()
    }

    #[test]
    fn products_are_right() {
        for (rows, depth, cols) in [(1, 1, 1), (13, 40, 70), (31, 128, 272), (12, 7, 33)] {
            let (a, b) = (numbers(rows * depth, 1), numbers(depth * cols, 2));
            let want = plain(&a, &b, depth, cols);
            let mut out = vec![9.0; rows * cols];
            multiply(
                &a,
                &Panels::of_rows(&b, depth, cols),
                &mut out,
                Onto::Nothing,
            );
            close(&out, &want);
            let columns = Panels::of_columns(&transposed(&b, cols), depth, cols);
            multiply(&a, &columns, &mut out, Onto::Itself);
            let twice: Vec<f64> = want.iter().map(|x| 2.0 * x).collect();
            close(&out, &twice);
            let mut out = vec![0.0; rows * cols];
            // Memory of another matrix must make no difference.
            let mut packed = Panels::of_rows(&[f32::NAN; 64], 8, 8);
            add_outer(&transposed(&a, depth), &b, depth, &mut out, &mut packed);
            close(&out, &want);
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_batch() {
        for (k, n) in [(128, 272), (384, 128), (300, 64), (700, 50), (1024, 1100)] {
            let (a, w) = (numbers(97 * k, 1), numbers(n * k, 2));
            let w = Panels::of_columns(&w, k, n);
            let mut all = vec![0.0; 97 * n];
            multiply(&a, &w, &mut all, Onto::Nothing);
            for rows in [1, 2, 7, 8, 16, 33, 96] {
                for from in [0, 1, 97 - rows] {
                    let mut some = vec![0.0; rows * n];
                    multiply(
                        &a[from * k..(from + rows) * k],
                        &w,
                        &mut some,
                        Onto::Nothing,
                    );
                    assert_eq!(some, all[from * n..(from + rows) * n], "rows {from}+{rows}");
                }
            }
        }
    }

    #[test]
    fn threads_change_nothing() {
        let (rows, n) = (1100, 1000);
        let (a, b) = (numbers(rows * 960, 1), numbers(rows * n, 2));
        let w = Panels::of_rows(&b, rows, n);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("a pool").install(|| {
                let mut few = vec![0.0; 3 * n];
                multiply(&a[..3 * rows], &w, &mut few, Onto::Nothing);
                let mut many = vec![0.0; 900 * n];
                multiply(&a[..900 * rows], &w, &mut many, Onto::Nothing);
                let mut outer = vec![0.0; 960 * n];
                add_outer(&a, &b, rows, &mut outer, &mut Panels::default());
                assert_eq!(few, many[..3 * n]);
                (many, outer)
            })
        };
        assert!(run(1) == run(3));
    }
}
