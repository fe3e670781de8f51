//! SwiGLU (Shazeer 2020, eq. 6): silu(a) · b, where a row holds a and then b.

use super::simd::{LANES, exp, vectorised};

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

/// The gradients of a and b.
#[inline(always)]
fn slopes(a: f32, b: f32, grad: f32) -> (f32, f32) {
    let sigmoid = 1.0 / (1.0 + exp(-a));
    let silu = a * sigmoid;
    (grad * b * (sigmoid + silu * (1.0 - sigmoid)), grad * silu)
}

/// Writes dx of rows of x into `dx`. (In chunks: as one loop over five slices it was not made
/// into vector code.)
pub(crate) fn swiglu_backward(x: &[f32], width: usize, grad: &[f32], dx: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            let rows = x.chunks_exact(2 * width).zip(grad.chunks_exact(width));
            for ((row, grad), dx) in rows.zip(dx.chunks_exact_mut(2 * width)) {
                let (gate, up) = row.split_at(width);
                let (d_gate, d_up) = dx.split_at_mut(width);
                let (gates, gate) = gate.as_chunks::<LANES>();
                let (ups, up) = up.as_chunks::<LANES>();
                let (grads, grad) = grad.as_chunks::<LANES>();
                let (d_gates, d_gate) = d_gate.as_chunks_mut::<LANES>();
                let (d_ups, d_up) = d_up.as_chunks_mut::<LANES>();
                let outs = d_gates.iter_mut().zip(d_ups);
                for (((a, b), grad), (da, db)) in gates.iter().zip(ups).zip(grads).zip(outs) {
                    for i in 0..LANES {
                        (da[i], db[i]) = slopes(a[i], b[i], grad[i]);
                    }
                }
                let outs = d_gate.iter_mut().zip(d_up);
                for (((a, b), grad), (da, db)) in gate.iter().zip(up).zip(grad).zip(outs) {
                    (*da, *db) = slopes(*a, *b, *grad);
                }
            }
        },
    );
}
