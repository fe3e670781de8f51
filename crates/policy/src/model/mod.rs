//! The decoder: a Llama-shaped transformer (RMSNorm, rotary positions, SwiGLU, no biases,
//! grouped key heads, embeddings tied or not), described by a `config.json` with Hugging Face's
//! field names and kept in `model.safetensors` with their tensor names.
//!
//! [`Model::logprobs`] is the training graph on candle, [`infer`] the same arithmetic on plain
//! buffers with cached keys and values; both call the functions of `ops`, so they agree bit for
//! bit (tested).

mod card;
mod config;
mod decoder;
pub(crate) mod files;
pub(crate) mod infer;
mod layout;
mod packed;
mod weights;

#[cfg(test)]
pub(crate) mod tests;

pub use card::ModelCard;
pub use config::ModelConfig;
pub use infer::Cache;
pub(crate) use layout::parameters;
pub use packed::Packed;
pub use weights::Model;
