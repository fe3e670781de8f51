//! RMSNorm (Zhang and Sennrich 2019, eq. 4): y = g · x / sqrt(mean(x²) + ε), row by row.

use super::simd::{dot, vectorised};

#[inline(always)]
fn inverse_rms(row: &[f32], eps: f32) -> f32 {
    1.0 / (dot(row, row) / row.len() as f32 + eps).sqrt()
}

/// Normalises rows of x into `out`.
pub(crate) fn rms_norm(x: &[f32], gain: &[f32], eps: f32, out: &mut [f32]) {
    let width = gain.len();
    vectorised(
        #[inline(always)]
        || {
            for (row, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                let inverse = inverse_rms(row, eps);
                for ((y, x), g) in out.iter_mut().zip(row).zip(gain) {
                    *y = x * inverse * g;
                }
            }
        },
    );
}

/// Adds dx of rows of x to `dx`, and the gain's gradient to `dg`, row after row.
pub(crate) fn rms_norm_backward(
    x: &[f32],
    gain: &[f32],
    eps: f32,
    grad: &[f32],
    dx: &mut [f32],
    dg: &mut [f32],
) {
    let width = gain.len();
    let mut scaled = vec![0.0; width];
    vectorised(
        #[inline(always)]
        || {
            let rows = x.chunks_exact(width).zip(grad.chunks_exact(width));
            for ((row, grad), dx) in rows.zip(dx.chunks_exact_mut(width)) {
                let inverse = inverse_rms(row, eps);
                let inputs = row.iter().zip(grad).zip(gain);
                for (((x, grad), g), (scaled, dg)) in
                    inputs.zip(scaled.iter_mut().zip(dg.iter_mut()))
                {
                    *scaled = grad * g;
                    *dg = (grad * x).mul_add(inverse, *dg);
                }
                let pull = dot(&scaled, row) * inverse * inverse * inverse / width as f32;
                for ((dx, x), scaled) in dx.iter_mut().zip(row).zip(&scaled) {
                    *dx += scaled * inverse - x * pull;
                }
            }
        },
    );
}
