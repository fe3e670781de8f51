//! Reading candle tensors as slices. Everything of the policy is contiguous `f32` on the CPU.

use candle_core::{CpuStorage, Error, Layout, Result, Storage, StorageRef, Tensor};

/// The numbers of a contiguous CPU storage.
pub(crate) fn floats<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let (from, to) = layout
        .contiguous_offsets()
        .ok_or_else(|| Error::msg("the tensor is not contiguous").bt())?;
    Ok(&storage.as_slice::<f32>()?[from..to])
}

/// A tensor held for reading.
pub(crate) struct Held<'a> {
    storage: StorageRef<'a>,
    layout: &'a Layout,
}

impl<'a> Held<'a> {
    /// Holds a tensor until the value is dropped.
    pub(crate) fn new(tensor: &'a Tensor) -> Self {
        let (storage, layout) = tensor.storage_and_layout();
        Self { storage, layout }
    }

    /// Its numbers.
    pub(crate) fn floats(&self) -> Result<&[f32]> {
        match &*self.storage {
            Storage::Cpu(storage) => floats(storage, self.layout),
            _ => Err(Error::msg("the tensor is not on the CPU").bt()),
        }
    }
}
