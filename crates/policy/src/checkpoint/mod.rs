//! Checkpoints: a folder that loads as a model, and holds what a job needs to go on as if it
//! had never stopped.
//!
//! `model.safetensors`, `config.json`, `card.json` (a model folder), `optimizer.safetensors`,
//! `reference.safetensors` where the job has a KL term, and `state.json`. The folder is written
//! under a temporary name, every file and then the folder is flushed, and only then it gets its
//! name: a checkpoint that is there is whole.

mod folder;
mod state;

#[cfg(test)]
mod tests;

pub use state::{Progress, read_progress};

use std::path::Path;

use folder::replace_folder;
use state::State;

use crate::model::files::{read_json, read_tensors, split, take, write_json, write_tensors};
use crate::model::{Model, parameters};
use crate::policy::PolicyError;
use crate::train::{AdamW, Trainer};

const OPTIMIZER: &str = "optimizer.safetensors";
const REFERENCE: &str = "reference.safetensors";
const FIRST: &str = "first.";
const SECOND: &str = "second.";

impl Trainer {
    /// Writes a checkpoint. `folder` is replaced if it is there.
    pub fn save(&self, folder: &Path, progress: &Progress) -> Result<(), PolicyError> {
        replace_folder(folder, |inside| {
            self.model.save(inside, &self.card)?;
            let parameters = parameters(self.model.config());
            if let Some(AdamW { first, second, .. }) = &self.optimiser {
                let mut tensors = split(&parameters, first, FIRST);
                tensors.extend(split(&parameters, second, SECOND));
                write_tensors(&inside.join(OPTIMIZER), &tensors)?;
            }
            if let Some(reference) = &self.reference {
                let held = reference.held();
                let numbers = held.floats().map_err(PolicyError::compute)?;
                write_tensors(&inside.join(REFERENCE), &split(&parameters, numbers, ""))?;
            }
            write_json(&inside.join(state::FILE), &State::of(self, progress)?)
        })
    }

    /// Reads a checkpoint: what [`Trainer::save`] wrote, bit for bit.
    pub fn resume(folder: &Path) -> Result<(Self, Progress), PolicyError> {
        let file = folder.join(state::FILE);
        let state: State = read_json(&file)?;
        let (model, card) = Model::load(folder)?;
        state.check(&file, &card)?;
        let parameters = parameters(model.config());
        let optimiser = match state.updates {
            0 => None,
            updates => {
                let file = folder.join(OPTIMIZER);
                let tensors = read_tensors(&file)?;
                let first = take(&file, &tensors, &parameters, FIRST)?;
                let second = take(&file, &tensors, &parameters, SECOND)?;
                Some(AdamW {
                    updates,
                    first,
                    second,
                    weight_decay: 0.0,
                })
            }
        };
        let reference = if state.has_reference {
            let file = folder.join(REFERENCE);
            let numbers = take(&file, &read_tensors(&file)?, &parameters, "")?;
            let reference = Model::from_numbers(model.config().clone(), numbers)?.frozen()?;
            state.check_reference(&file, &reference.hash()?)?;
            Some(reference)
        } else {
            None
        };
        let reference_hash = state.hashes.reference;
        Ok((
            Self {
                model,
                card,
                optimiser,
                reference,
                reference_hash,
            },
            state.progress,
        ))
    }
}
