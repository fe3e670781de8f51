//! The arithmetic of GRPO (Shao et al. 2024, DeepSeekMath, arXiv 2402.03300): advantages of a
//! group, and the loss of a step with its gradient with respect to log-probabilities. Pure
//! functions of numbers, in double precision.

mod advantage;
mod loss;

pub use advantage::advantages;
pub use loss::{LossSettings, SequenceLoss, SequenceTerms, StepShape};
