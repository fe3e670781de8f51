//! The hot operations of the decoder, each as a plain function over slices and as a candle
//! custom operation with its own backward pass.
//!
//! The plain functions are what both the training graph and the sampler call, so the two give
//! the same bits. Nothing here may let the result of a row depend on what else is in the batch,
//! or let the order of a sum depend on threads. candle's own matrix product must stay out: its
//! one-row and many-row paths differ in the last bits.

pub(crate) mod attention;
pub(crate) mod embedding;
#[expect(dead_code, reason="x")]
pub(crate) mod gemm;
pub(crate) mod panels;
pub(crate) mod linear;
pub(crate) mod logprob;
pub(crate) mod matmul;
pub(crate) mod norm;
pub(crate) mod pages;
pub(crate) mod rope;
pub(crate) mod simd;
pub(crate) mod storage;
pub(crate) mod swiglu;

#[cfg(test)]
mod gradient_tests;
