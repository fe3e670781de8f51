//! A model in training: its weights, its optimiser, and the reference it is held to.

use paddock_types::step::UpdateStats;

use super::adamw::AdamW;
use super::update::{TrainTrajectory, UpdateSettings, update};
use crate::model::{Model, ModelCard};
use crate::policy::PolicyError;

/// A model in training. Optimiser and reference exist from the first update on: a model that is
/// only sampled from costs no more than its weights.
pub struct Trainer {
    pub(crate) model: Model,
    pub(crate) card: ModelCard,
    pub(crate) optimiser: Option<AdamW>,
    /// The job's initial weights.
    pub(crate) reference: Option<Model>,
    /// Their hash: known also when no reference is computed.
    pub(crate) reference_hash: String,
}

impl Trainer {
    /// Training that begins with these weights.
    pub fn new(model: Model, card: ModelCard) -> Result<Self, PolicyError> {
        let reference_hash = model.hash()?;
        Ok(Self {
            model,
            card,
            optimiser: None,
            reference: None,
            reference_hash,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Its card.
    pub fn card(&self) -> &ModelCard {
        &self.card
    }

    /// Makes one step's updates on its trajectories, in their order. On an error weights and
    /// optimiser are as they were.
    pub fn update(
        &mut self,
        trajectories: &[TrainTrajectory],
        settings: &UpdateSettings,
    ) -> Result<UpdateStats, PolicyError> {
        // An optimiser that is still missing has made no update: these are the first weights.
        if self.optimiser.is_none() && settings.kl_coefficient != 0.0 {
            self.reference = Some(self.model.frozen()?);
        }
        if settings.kl_coefficient != 0.0 && self.reference.is_none() {
            return Err(PolicyError::Request(
                "a KL term cannot be added later: the first weights were not kept".into(),
            ));
        }
        let optimiser = self
            .optimiser
            .get_or_insert_with(|| AdamW::new(&self.model, 0.0));
        // One update fails before it changes anything; several may fail in the middle.
        let before = if settings.iterations > 1 {
            Some((self.model.frozen()?, optimiser.clone()))
        } else {
            None
        };
        let reference = self.reference.as_ref();
        let result = update(&self.model, reference, optimiser, trajectories, settings);
        if let (Err(_), Some((model, state))) = (&result, before) {
            self.model.take_weights(&model)?;
            *optimiser = state;
        }
        result
    }
}
