//! RMSNorm (Zhang and Sennrich 2019, eq. 4): y = g · x / sqrt(mean(x²) + ε), row by row.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::simd::{dot, vectorised};
use super::storage::{Held, floats};

#[inline(always)]
fn inverse_rms(row: &[f32], eps: f32) -> f32 {
    1.0 / (dot(row, row) / row.len() as f32 + eps).sqrt()
}

/// Normalises rows of x into `out`.
pub(crate) fn rms_norm(x: &[f32], gain: &[f32], eps: f32, out: &mut [f32]) {
    let width = gain.len();
    vectorised(#[inline(always)] || {
        for (row, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let inverse = inverse_rms(row, eps);
            for ((y, x), g) in out.iter_mut().zip(row).zip(gain) {
                *y = x * inverse * g;
            }
        }
    });
}

/// dx and dg of rows of x.
fn backward(x: &[f32], gain: &[f32], eps: f32, grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let width = gain.len();
    let mut dx = vec![0.0; x.len()];
    let mut dg = vec![0.0; width];
    let mut scaled = vec![0.0; width];
    vectorised(#[inline(always)] || {
        let rows = x.chunks_exact(width).zip(grad.chunks_exact(width));
        for ((row, grad), dx) in rows.zip(dx.chunks_exact_mut(width)) {
            let inverse = inverse_rms(row, eps);
            for i in 0..width {
                scaled[i] = grad[i] * gain[i];
                dg[i] = (grad[i] * row[i]).mul_add(inverse, dg[i]);
            }
            let pull = dot(&scaled, row) * inverse * inverse * inverse / width as f32;
            for i in 0..width {
                dx[i] = scaled[i] * inverse - row[i] * pull;
            }
        }
    });
    (dx, dg)
}

/// The operation, with its ε.
pub(crate) struct RmsNorm(pub(crate) f32);

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        gain: &CpuStorage,
        gain_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let x = floats(x, x_layout)?;
        let mut out = vec![0.0; x.len()];
        rms_norm(x, floats(gain, gain_layout)?, self.0, &mut out);
        Ok((CpuStorage::F32(out), x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        gain: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (held_x, held_gain, held_grad) = (Held::new(x), Held::new(gain), Held::new(grad));
        let (dx, dg) = backward(
            held_x.floats()?,
            held_gain.floats()?,
            self.0,
            held_grad.floats()?,
        );
        let device = grad.device();
        Ok((
            Some(Tensor::from_vec(dx, x.shape(), device)?),
            Some(Tensor::from_vec(dg, gain.shape(), device)?),
        ))
    }
}
