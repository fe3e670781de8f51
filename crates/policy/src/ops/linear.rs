//! y = x Wᵀ, and y = r + x Wᵀ, with W as (out, in) like in Hugging Face files.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};

use super::matmul::{Matrix, Onto, matmul};
use super::storage::{Held, floats};

/// out = x Wᵀ (+ out) for rows of x.
pub(crate) fn linear(x: &[f32], weight: &[f32], inputs: usize, out: &mut [f32], onto: Onto) {
    let (rows, outputs) = (x.len() / inputs, weight.len() / inputs);
    let weight = Matrix::new(weight, outputs, inputs).t();
    matmul(Matrix::new(x, rows, inputs), weight, out, onto);
}

/// y = x Wᵀ.
pub(crate) struct Linear;

/// y = r + x Wᵀ: a projection that ends in a residual connection.
pub(crate) struct ResidualLinear;

fn backward(x: &Tensor, weight: &Tensor, grad: &Tensor) -> Result<(Tensor, Tensor)> {
    let (rows, inputs) = x.dims2()?;
    let outputs = weight.dim(0)?;
    let (held_x, held_w, held_g) = (Held::new(x), Held::new(weight), Held::new(grad));
    let (x, w, g) = (held_x.floats()?, held_w.floats()?, held_g.floats()?);
    let g = Matrix::new(g, rows, outputs);
    let mut dx = vec![0.0; rows * inputs];
    matmul(g, Matrix::new(w, outputs, inputs), &mut dx, Onto::Nothing);
    let mut dw = vec![0.0; outputs * inputs];
    matmul(g.t(), Matrix::new(x, rows, inputs), &mut dw, Onto::Nothing);
    let device = grad.device();
    Ok((
        Tensor::from_vec(dx, (rows, inputs), device)?,
        Tensor::from_vec(dw, (outputs, inputs), device)?,
    ))
}

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, inputs) = x_layout.shape().dims2()?;
        let outputs = weight_layout.shape().dims2()?.0;
        let mut out = vec![0.0; rows * outputs];
        let (x, weight) = (floats(x, x_layout)?, floats(weight, weight_layout)?);
        linear(x, weight, inputs, &mut out, Onto::Nothing);
        Ok((CpuStorage::F32(out), (rows, outputs).into()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (dx, dw) = backward(x, weight, grad)?;
        Ok((Some(dx), Some(dw)))
    }
}

impl CustomOp3 for ResidualLinear {
    fn name(&self) -> &'static str {
        "residual-linear"
    }

    fn cpu_fwd(
        &self,
        residual: &CpuStorage,
        residual_layout: &Layout,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, inputs) = x_layout.shape().dims2()?;
        let outputs = weight_layout.shape().dims2()?.0;
        let mut out = floats(residual, residual_layout)?.to_vec();
        let (x, weight) = (floats(x, x_layout)?, floats(weight, weight_layout)?);
        linear(x, weight, inputs, &mut out, Onto::Itself);
        Ok((CpuStorage::F32(out), (rows, outputs).into()))
    }

    fn bwd(
        &self,
        _: &Tensor,
        x: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (dx, dw) = backward(x, weight, grad)?;
        Ok((Some(grad.clone()), Some(dx), Some(dw)))
    }
}
