//! Changing weights: gradients over micro-batches, the optimiser, supervised steps and the
//! GRPO step.

mod adamw;
mod gradients;
mod supervised;

pub use adamw::AdamW;
pub use supervised::{Example, supervised_step};

pub(crate) use gradients::{Gradients, gradients, micro_batches, norm};
