//! Paddock: policy.

pub mod model;
mod ops;
mod policy;
pub mod train;
pub mod template;
pub mod tokenizer;

pub use policy::PolicyError;
