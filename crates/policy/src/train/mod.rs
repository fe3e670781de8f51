//! Changing weights: gradients over micro-batches, the optimiser, supervised steps and the
//! GRPO step.

mod adamw;
mod gradients;
mod supervised;
mod trainer;
mod update;

#[cfg(test)]
pub(crate) mod tests;

pub use adamw::AdamW;
pub use supervised::{Example, supervised_step};
pub use trainer::Trainer;
pub use update::{TrainTrajectory, UpdateSettings};
