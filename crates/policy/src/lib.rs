//! Paddock: policy.

pub mod base_model;
pub mod checkpoint;
pub mod grpo;
pub mod model;
mod ops;
mod policy;
pub mod pretrain;
pub mod recorder;
pub mod sample;
pub mod template;
pub mod tokenizer;
pub mod train;

pub use checkpoint::Progress;
pub use model::ModelCard;
pub use policy::{Policy, PolicyError};
pub use sample::{Finish, SampleKey, SampleRequest, Sampled};
pub use train::{TrainTrajectory, UpdateSettings};
