//! The handle that the rest of Paddock holds.

mod error;
mod worker;

#[cfg(test)]
mod tests;

pub use error::PolicyError;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use paddock_types::step::UpdateStats;
use tokio::sync::oneshot;

use crate::checkpoint::Progress;
use crate::model::{Model, ModelCard};
use crate::sample::{SampleRequest, Sampled};
use crate::train::{TrainTrajectory, Trainer, UpdateSettings};
use worker::Work;

/// A cloneable handle on a model. One thread owns the model and does what arrives in its order:
/// requests to sample share a batch that they join and leave between token steps; an update or
/// a checkpoint waits for the sampling that was asked for before it. The thread ends with the
/// last handle.
#[derive(Clone)]
pub struct Policy {
    card: Arc<ModelCard>,
    work: Sender<Work>,
}

impl Policy {
    /// Loads a model folder (a checkpoint is one too) and begins a training with its weights.
    pub fn load(folder: &Path) -> Result<Self, PolicyError> {
        let (model, card) = Model::load(folder)?;
        Self::start(Trainer::new(model, card)?)
    }

    /// Loads a checkpoint to go on with the training that wrote it.
    pub fn resume(folder: &Path) -> Result<(Self, Progress), PolicyError> {
        let (trainer, progress) = Trainer::resume(folder)?;
        Ok((Self::start(trainer)?, progress))
    }

    /// Gives a trainer a thread of its own.
    pub fn start(trainer: Trainer) -> Result<Self, PolicyError> {
        let card = Arc::new(trainer.card().clone());
        let (work, arrivals) = channel();
        thread::Builder::new()
            .name("policy".into())
            .spawn(move || worker::run(trainer, &arrivals))
            .map_err(|source| PolicyError::Start { source })?;
        Ok(Self { card, work })
    }

    /// The card of the model it was loaded from.
    pub fn card(&self) -> &ModelCard {
        &self.card
    }

    /// Samples one turn. Dropping the future gives its place in the batch away.
    pub async fn sample(&self, request: SampleRequest) -> Result<Sampled, PolicyError> {
        self.ask(|reply| Work::Sample(request, reply)).await
    }

    /// Makes one step's updates on trajectories, in the order given. On an error the weights
    /// are as they were.
    pub async fn update(
        &self,
        batch: Vec<TrainTrajectory>,
        settings: UpdateSettings,
    ) -> Result<UpdateStats, PolicyError> {
        self.ask(|reply| Work::Update(batch, settings, reply)).await
    }

    /// Writes a checkpoint: whole and on the disk when this returns, or not there.
    pub async fn save(&self, folder: PathBuf, progress: Progress) -> Result<(), PolicyError> {
        self.ask(|reply| Work::Save(folder, progress, reply)).await
    }

    async fn ask<T>(
        &self,
        work: impl FnOnce(oneshot::Sender<Result<T, PolicyError>>) -> Work,
    ) -> Result<T, PolicyError> {
        let (reply, answer) = oneshot::channel();
        self.work
            .send(work(reply))
            .map_err(|_| PolicyError::Ended)?;
        answer.await.map_err(|_| PolicyError::Ended)?
    }
}
