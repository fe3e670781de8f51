//! Paddock: policy.

pub mod model;
mod ops;
mod policy;
pub mod pretrain;
pub mod recorder;
pub mod sample;
pub mod train;
pub mod template;
pub mod tokenizer;

pub use policy::PolicyError;
pub use sample::{Finish, SampleKey, SampleRequest, Sampled};
