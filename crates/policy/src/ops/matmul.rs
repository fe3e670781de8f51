//! The one matrix product of the policy, over the `matrixmultiply` crate (through `ndarray`,
//! whose views make the call safe).
//!
//! `matrixmultiply` adds the products of an output element in one order, whatever the number of
//! rows: that is what makes a row's result independent of its batch (tested below). Work is
//! split over output columns, never over the summed dimension.

use ndarray::linalg::general_mat_mul;
use ndarray::parallel::prelude::*;
use ndarray::{ArrayView2, ArrayViewMut2, Axis, ShapeBuilder};

/// A matrix seen in a slice.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    /// Its numbers.
    pub(crate) data: &'a [f32],
    /// Rows.
    pub(crate) rows: usize,
    /// Columns.
    pub(crate) cols: usize,
    /// True when `data` holds columns one after another.
    pub(crate) transposed: bool,
}

impl<'a> Matrix<'a> {
    /// Rows one after another.
    pub(crate) fn new(data: &'a [f32], rows: usize, cols: usize) -> Self {
        Self {
            data,
            rows,
            cols,
            transposed: false,
        }
    }

    /// The transpose, without moving anything.
    pub(crate) fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            transposed: !self.transposed,
            ..self
        }
    }

    fn view(self) -> ArrayView2<'a, f32> {
        let shape = (self.rows, self.cols);
        let shape = if self.transposed {
            shape.f()
        } else {
            shape.into_shape_with_order().into()
        };
        ArrayView2::from_shape(shape, self.data).expect("the slice has rows × cols numbers")
    }
}

/// Whether a product is added to what is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Onto {
    /// The output is overwritten.
    Nothing,
    /// The product is added to it.
    Itself,
}

/// Weights of fewer numbers than this are multiplied on one thread: small models are made
/// parallel over micro-batches and sequences, where threads need not meet at every operation.
const PARALLEL_FROM: usize = 1 << 20;

/// out = a · b (+ out). `out` holds rows one after another.
pub(crate) fn matmul(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], onto: Onto) {
    debug_assert_eq!(a.cols, b.rows);
    let (rows, cols) = (a.rows, b.cols);
    if rows == 0 || cols == 0 {
        return;
    }
    let beta = if onto == Onto::Itself { 1.0 } else { 0.0 };
    let mut out =
        ArrayViewMut2::from_shape((rows, cols), out).expect("the output has rows × cols numbers");
    let threads = rayon::current_num_threads();
    if threads == 1 || b.rows * b.cols < PARALLEL_FROM {
        general_mat_mul(1.0, &a.view(), &b.view(), beta, &mut out);
        return;
    }
    let width = cols.div_ceil(threads).next_multiple_of(64);
    out.axis_chunks_iter_mut(Axis(1), width)
        .into_par_iter()
        .zip(b.view().axis_chunks_iter(Axis(1), width))
        .for_each(|(mut out, b)| general_mat_mul(1.0, &a.view(), &b, beta, &mut out));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|i| ((i * 7919 + seed * 104_729) % 1999) as f32 / 999.5 - 1.0)
            .collect()
    }

    #[test]
    fn a_row_does_not_depend_on_its_batch() {
        for (k, n) in [(128, 272), (384, 128), (300, 64), (700, 50)] {
            let (a, w) = (numbers(97 * k, 1), numbers(n * k, 2));
            let mut all = vec![0.0; 97 * n];
            let w = Matrix::new(&w, n, k).t();
            matmul(Matrix::new(&a, 97, k), w, &mut all, Onto::Nothing);
            for rows in [1, 2, 7, 8, 16, 33, 96] {
                for from in [0, 1, 97 - rows] {
                    let mut some = vec![0.0; rows * n];
                    let part = &a[from * k..(from + rows) * k];
                    matmul(Matrix::new(part, rows, k), w, &mut some, Onto::Nothing);
                    assert_eq!(some, all[from * n..(from + rows) * n], "rows {from}+{rows}");
                }
            }
        }
    }

    #[test]
    fn columns_split_over_threads_change_nothing() {
        let (k, n) = (1024, 1100);
        let (a, w) = (numbers(5 * k, 1), numbers(n * k, 2));
        let (a, w) = (Matrix::new(&a, 5, k), Matrix::new(&w, n, k).t());
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let mut out = vec![0.0; 5 * n];
            pool.expect("a pool")
                .install(|| matmul(a, w, &mut out, Onto::Nothing));
            out
        };
        assert_eq!(run(1), run(3));
    }

    #[test]
    fn a_product_is_right_and_may_be_added() {
        let a = [1.0, 2.0, 3.0, 4.0];
        let b = [5.0, 6.0, 7.0, 8.0];
        let mut out = vec![1.0; 4];
        matmul(
            Matrix::new(&a, 2, 2),
            Matrix::new(&b, 2, 2),
            &mut out,
            Onto::Itself,
        );
        assert_eq!(out, [20.0, 23.0, 44.0, 51.0]);
        matmul(
            Matrix::new(&a, 2, 2).t(),
            Matrix::new(&b, 2, 2),
            &mut out,
            Onto::Nothing,
        );
        assert_eq!(out, [26.0, 30.0, 38.0, 44.0]);
    }
}
