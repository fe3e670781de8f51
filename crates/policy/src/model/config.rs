//! The shape of a model, as `config.json` has it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ops::attention::Heads;

/// The shape of a decoder. Field names are Hugging Face's for Llama.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Token ids.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the feed-forward blocks.
    pub intermediate_size: usize,
    /// Blocks.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads.
    #[serde(default)]
    pub num_key_value_heads: Option<usize>,
    /// Dimensions of a head; `hidden_size / num_attention_heads` when left out.
    #[serde(default)]
    pub head_dim: Option<usize>,
    /// Positions: the context.
    pub max_position_embeddings: usize,
    /// ε of the norms.
    #[serde(default = "default_eps")]
    pub rms_norm_eps: f64,
    /// Base of the rotary angles.
    #[serde(default = "default_theta")]
    pub rope_theta: f64,
    /// Whether the output layer is the embedding table.
    #[serde(default)]
    pub tie_word_embeddings: bool,
    /// Everything else the file says, kept as it is.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

const fn default_eps() -> f64 {
    1e-6
}

const fn default_theta() -> f64 {
    10_000.0
}

impl ModelConfig {
    /// The shape of the base model that ships: 1.02 million parameters at 272 token ids.
    pub fn base(vocab_size: usize) -> Self {
        let mut other = Map::new();
        other.insert(
            "architectures".into(),
            serde_json::json!(["LlamaForCausalLM"]),
        );
        other.insert("model_type".into(), "llama".into());
        other.insert("hidden_act".into(), "silu".into());
        other.insert("torch_dtype".into(), "float32".into());
        Self {
            vocab_size,
            hidden_size: 128,
            intermediate_size: 384,
            num_hidden_layers: 5,
            num_attention_heads: 4,
            num_key_value_heads: Some(2),
            head_dim: Some(32),
            max_position_embeddings: 2048,
            rms_norm_eps: 1e-5,
            rope_theta: 10_000.0,
            tie_word_embeddings: true,
            other,
        }
    }

    /// Dimensions of a head.
    pub fn head(&self) -> usize {
        self.head_dim
            .unwrap_or(self.hidden_size / self.num_attention_heads.max(1))
    }

    /// Key and value heads.
    pub fn key_heads(&self) -> usize {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    pub(crate) fn heads(&self) -> Heads {
        Heads {
            queries: self.num_attention_heads,
            keys: self.key_heads(),
            head: self.head(),
        }
    }

    /// Says what of the shape this decoder cannot compute.
    pub(crate) fn check(&self) -> Result<(), String> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.key_heads()),
            ("max_position_embeddings", self.max_position_embeddings),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(format!("`{name}` is 0, it must be at least 1"));
        }
        if !self.num_attention_heads.is_multiple_of(self.key_heads()) {
            return Err(format!(
                "`num_attention_heads` {} is no multiple of `num_key_value_heads` {}",
                self.num_attention_heads,
                self.key_heads()
            ));
        }
        if self.head() == 0 || !self.head().is_multiple_of(2) {
            return Err(format!(
                "a head has {} dimensions, it must have an even number",
                self.head()
            ));
        }
        for name in ["attention_bias", "mlp_bias"] {
            if self.other.get(name).and_then(Value::as_bool) == Some(true) {
                return Err(format!(
                    "`{name}: true` is not supported, only models without biases"
                ));
            }
        }
        if let Some(scaling) = self.other.get("rope_scaling").filter(|v| !v.is_null()) {
            return Err(format!(
                "`rope_scaling: {scaling}` is not supported, only null"
            ));
        }
        match self.other.get("model_type").and_then(Value::as_str) {
            None | Some("llama") => {}
            Some(other) => return Err(format!("`model_type` is \"{other}\", allowed: \"llama\"")),
        }
        match self.other.get("hidden_act").and_then(Value::as_str) {
            None | Some("silu") => Ok(()),
            Some(other) => Err(format!("`hidden_act` is \"{other}\", allowed: \"silu\"")),
        }
    }
}
