//! The hot operations of the decoder, as functions over slices: forward and, where training
//! needs it, backward.
//!
//! Training and sampling call the same functions, so the two give the same bits. Nothing here
//! may let the result of a row depend on what else is in the batch, or let the order of a sum
//! depend on threads. candle's own matrix product must stay out: its one-row and many-row paths
//! differ in the last bits.

pub(crate) mod attention;
mod attention_backward;
pub(crate) mod embedding;
pub(crate) mod gemm;
pub(crate) mod logprob;
pub(crate) mod norm;
pub(crate) mod pages;
pub(crate) mod panels;
pub(crate) mod rope;
pub(crate) mod simd;
pub(crate) mod storage;
pub(crate) mod swiglu;
mod tile;

#[cfg(test)]
mod gradient_tests;
