//! Sampling: requests, random numbers, the choice of a token, and the batch that requests
//! join and leave between token steps.

mod batch;
mod choice;
mod request;
mod reuse;

#[cfg(test)]
pub(crate) mod tests;

pub use request::{Finish, SampleKey, SampleRequest, Sampled};

pub(crate) use batch::{Batch, Reply};
