//! SwiGLU (Shazeer 2020, eq. 6): silu(a) · b, where a row holds a and then b.

use super::simd::{exp, vectorised};

/// Gates rows of 2·width numbers into rows of width.
pub(crate) fn swiglu(x: &[f32], width: usize, out: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            for (row, out) in x.chunks_exact(2 * width).zip(out.chunks_exact_mut(width)) {
                let (gate, up) = row.split_at(width);
                for ((y, a), b) in out.iter_mut().zip(gate).zip(up) {
                    *y = a / (1.0 + exp(-a)) * b;
                }
            }
        },
    );
}

/// Writes dx of rows of x into `dx`.
pub(crate) fn swiglu_backward(x: &[f32], width: usize, grad: &[f32], dx: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            let rows = x.chunks_exact(2 * width).zip(grad.chunks_exact(width));
            for ((row, grad), dx) in rows.zip(dx.chunks_exact_mut(2 * width)) {
                let (gate, up) = row.split_at(width);
                let (d_gate, d_up) = dx.split_at_mut(width);
                let inputs = gate.iter().zip(up).zip(grad);
                for (((a, b), grad), (da, db)) in inputs.zip(d_gate.iter_mut().zip(d_up)) {
                    let sigmoid = 1.0 / (1.0 + exp(-a));
                    let silu = a * sigmoid;
                    *db = grad * silu;
                    *da = grad * b * (sigmoid + silu * (1.0 - sigmoid));
                }
            }
        },
    );
}
