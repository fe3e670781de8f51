//! Rows of a table by number: token embeddings, and the rows that are trained on.

use candle_core::{CpuStorage, CustomOp1, Error, Layout, Result, Shape, Tensor};

use super::storage::{Held, floats};

/// Copies the rows `ids` of a table of `width` columns into `out`.
pub(crate) fn gather(table: &[f32], width: usize, ids: &[u32], out: &mut [f32]) {
    for (id, out) in ids.iter().zip(out.chunks_exact_mut(width)) {
        let from = *id as usize * width;
        out.copy_from_slice(&table[from..from + width]);
    }
}

/// The operation, with the rows' numbers. Its backward pass adds in their order.
pub(crate) struct Rows(pub(crate) Vec<u32>);

impl CustomOp1 for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn cpu_fwd(&self, table: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (count, width) = layout.shape().dims2()?;
        if let Some(id) = self.0.iter().find(|id| **id as usize >= count) {
            return Err(Error::msg(format!("row {id} of a table of {count} rows")).bt());
        }
        let mut out = vec![0.0; self.0.len() * width];
        gather(floats(table, layout)?, width, &self.0, &mut out);
        Ok((CpuStorage::F32(out), (self.0.len(), width).into()))
    }

    fn bwd(&self, table: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let (count, width) = table.dims2()?;
        let held = Held::new(grad);
        let mut out = vec![0.0f32; count * width];
        for (id, row) in self.0.iter().zip(held.floats()?.chunks_exact(width)) {
            let to = &mut out[*id as usize * width..][..width];
            for (sum, x) in to.iter_mut().zip(row) {
                *sum += x;
            }
        }
        Ok(Some(Tensor::from_vec(out, (count, width), grad.device())?))
    }
}
