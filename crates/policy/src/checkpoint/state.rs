//! `state.json`: how far the job is, and what it must find unchanged to go on.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::files::read_json;
use crate::model::{ModelCard, ModelConfig};
use crate::policy::PolicyError;
use crate::train::Trainer;
use crate::{template, tokenizer};

/// Its name.
pub(super) const FILE: &str = "state.json";

/// The layout of a checkpoint.
const FORMAT: u32 = 1;

/// How far a job is. The learning rate and the random numbers of a step follow from its number
/// and the seed: neither has a state of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Steps done.
    pub step: u32,
    /// The job's seed.
    pub seed: u64,
    /// Seed of the data's permutation.
    pub permutation_seed: u64,
    /// Rows drawn so far.
    pub position: u64,
    /// Hash of the job's configuration.
    pub config_hash: String,
}

/// What must be the same when a job goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hashes {
    /// The weights beside it, as its card has them.
    pub(super) weights: String,
    /// The job's first weights.
    pub(super) reference: String,
    tokenizer: String,
    template: String,
    /// The shape of the model.
    model_config: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    format: u32,
    pub(super) progress: Progress,
    /// Updates that the optimiser has made.
    pub(super) updates: u64,
    pub(super) has_reference: bool,
    pub(super) hashes: Hashes,
}

impl State {
    pub(super) fn of(trainer: &Trainer, progress: &Progress) -> Result<Self, PolicyError> {
        Ok(Self {
            format: FORMAT,
            progress: progress.clone(),
            updates: trainer
                .optimiser
                .as_ref()
                .map_or(0, |optimiser| optimiser.updates),
            has_reference: trainer.reference.is_some(),
            hashes: Hashes {
                weights: trainer.model.hash()?,
                reference: trainer.reference_hash.clone(),
                tokenizer: tokenizer::hash(),
                template: template::hash(),
                model_config: hash_of(trainer.model.config()),
            },
        })
    }

    /// Refuses a checkpoint of another format, of other weights, or made with another tokenizer
    /// or template: what was sampled before would not be what is sampled after.
    pub(super) fn check(&self, file: &Path, card: &ModelCard) -> Result<(), PolicyError> {
        if self.format != FORMAT {
            return Err(wrong(
                file,
                format!("format {}, allowed: {FORMAT}", self.format),
            ));
        }
        let pairs = [
            ("weights", &self.hashes.weights, card.hash.clone()),
            ("tokenizer", &self.hashes.tokenizer, tokenizer::hash()),
            ("template", &self.hashes.template, template::hash()),
        ];
        for (what, was, is) in pairs {
            if *was != is {
                return Err(wrong(
                    file,
                    format!("the {what} had hash {was}, now it is {is}"),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn check_reference(&self, file: &Path, is: &str) -> Result<(), PolicyError> {
        let was = &self.hashes.reference;
        if was != is {
            return Err(wrong(
                file,
                format!("the reference had hash {was}, now it is {is}"),
            ));
        }
        Ok(())
    }
}

fn wrong(file: &Path, reason: String) -> PolicyError {
    PolicyError::Checkpoint {
        file: file.to_path_buf(),
        reason,
    }
}

fn hash_of(config: &ModelConfig) -> String {
    let text = serde_json::to_string(config).unwrap_or_default();
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// How far the job of a checkpoint was, without reading its weights.
pub fn read_progress(folder: &Path) -> Result<Progress, PolicyError> {
    Ok(read_json::<State>(&folder.join(FILE))?.progress)
}
