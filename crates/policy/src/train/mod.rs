//! Changing weights: gradients over micro-batches, the optimiser, supervised steps and the
//! GRPO step.

mod adamw;
mod gradients;
mod objective;
mod prepared;
mod supervised;
mod trainer;
mod update;

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod torch_tests;

pub use adamw::AdamW;
pub use supervised::{Example, supervised_step};
pub use trainer::Trainer;
pub use update::{TrainTrajectory, UpdateSettings};
