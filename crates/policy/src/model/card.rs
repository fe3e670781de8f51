//! The card of a model: what a job needs to know of it beside its weights.

use serde::{Deserialize, Serialize};

/// `card.json` of a model folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelCard {
    /// Name, as `model_reference.foundation_model.name` has it.
    pub name: String,
    /// Version.
    pub version: String,
    /// Learning rate that suits it: taken when a job names none.
    pub lr: f64,
    /// Positions it can hold.
    pub context: u32,
    /// SHA-256 of its weights: of the tensors' names, shapes and numbers. Filled in on load.
    pub hash: String,
    /// What it was made from and by; free text.
    pub about: String,
}
