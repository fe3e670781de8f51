//! The decoder: a Llama-shaped transformer (RMSNorm, rotary positions, SwiGLU, no biases,
//! grouped key heads, embeddings tied or not), described by a `config.json` with Hugging Face's
//! field names and kept in `model.safetensors` with their tensor names.
//!
//! `decoder` goes from all weights to log-probabilities and back: what training runs. `infer`
//! runs with cached keys and values: what sampling uses. Both are made of the blocks in `pass`,
//! so they agree bit for bit (tested).

mod card;
mod config;
pub(crate) mod decoder;
pub(crate) mod files;
pub(crate) mod infer;
mod layout;
mod packed;
mod pass;
mod prepared;
mod weights;

#[cfg(test)]
pub(crate) mod tests;

pub use card::ModelCard;
pub use config::ModelConfig;
pub use infer::Cache;
pub(crate) use layout::parameters;
pub use packed::Packed;
pub use weights::Model;
