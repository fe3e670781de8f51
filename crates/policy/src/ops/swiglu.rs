//! SwiGLU (Shazeer 2020, eq. 6): silu(a) · b, where a row holds a and then b.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::simd::{exp, vectorised};
use super::storage::{Held, floats};

/// Gates rows of 2·width numbers into rows of width.
pub(crate) fn swiglu(x: &[f32], width: usize, out: &mut [f32]) {
    vectorised(#[inline(always)] || {
        for (row, out) in x.chunks_exact(2 * width).zip(out.chunks_exact_mut(width)) {
            let (gate, up) = row.split_at(width);
            for ((y, a), b) in out.iter_mut().zip(gate).zip(up) {
                *y = a / (1.0 + exp(-a)) * b;
            }
        }
    });
}

fn backward(x: &[f32], width: usize, grad: &[f32]) -> Vec<f32> {
    let mut dx = vec![0.0; x.len()];
    vectorised(#[inline(always)] || {
        let rows = x.chunks_exact(2 * width).zip(grad.chunks_exact(width));
        for ((row, grad), dx) in rows.zip(dx.chunks_exact_mut(2 * width)) {
            let (gate, up) = row.split_at(width);
            let (d_gate, d_up) = dx.split_at_mut(width);
            for i in 0..width {
                let sigmoid = 1.0 / (1.0 + exp(-gate[i]));
                let silu = gate[i] * sigmoid;
                d_up[i] = grad[i] * silu;
                d_gate[i] = grad[i] * up[i] * (sigmoid + silu * (1.0 - sigmoid));
            }
        }
    });
    dx
}

/// The operation.
pub(crate) struct SwiGlu;

impl CustomOp1 for SwiGlu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, both) = layout.shape().dims2()?;
        let mut out = vec![0.0; rows * both / 2];
        swiglu(floats(x, layout)?, both / 2, &mut out);
        Ok((CpuStorage::F32(out), (rows, both / 2).into()))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let width = grad.dim(1)?;
        let (held_x, held_grad) = (Held::new(x), Held::new(grad));
        let dx = backward(held_x.floats()?, width, held_grad.floats()?);
        Ok(Some(Tensor::from_vec(dx, x.shape(), grad.device())?))
    }
}
