//! The thread that owns the model.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};

use paddock_types::step::UpdateStats;
use tokio::sync::oneshot;

use super::PolicyError;
use crate::checkpoint::Progress;
use crate::sample::{Batch, Reply, SampleRequest, Sampled};
use crate::train::{TrainTrajectory, Trainer, UpdateSettings};

type To<T> = oneshot::Sender<Result<T, PolicyError>>;

/// What a handle asks for.
pub(super) enum Work {
    Sample(SampleRequest, To<Sampled>),
    Update(Vec<TrainTrajectory>, UpdateSettings, To<UpdateStats>),
    Save(PathBuf, Progress, To<()>),
}

impl Reply for To<Sampled> {
    fn send(self, result: Result<Sampled, PolicyError>) {
        // Nobody waits any more: the answer is of no use.
        let _ = oneshot::Sender::send(self, result);
    }

    fn is_closed(&self) -> bool {
        oneshot::Sender::is_closed(self)
    }
}

/// Serves until the last handle is gone.
pub(super) fn run(mut trainer: Trainer, arrivals: &Receiver<Work>) {
    let mut batch = Batch::new(trainer.model().config());
    loop {
        let next = if batch.is_empty() {
            arrivals.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            arrivals.try_recv()
        };
        match next {
            Ok(Work::Sample(request, reply)) => batch.add(trainer.model(), request, reply),
            Ok(Work::Update(trajectories, settings, reply)) => {
                finish(&mut batch, &trainer);
                batch.forget();
                let _ = reply.send(trainer.update(&trajectories, &settings));
            }
            Ok(Work::Save(folder, progress, reply)) => {
                finish(&mut batch, &trainer);
                let _ = reply.send(trainer.save(&folder, &progress));
            }
            Err(TryRecvError::Empty) => batch.round(trainer.model()),
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

fn finish(batch: &mut Batch<To<Sampled>>, trainer: &Trainer) {
    while !batch.is_empty() {
        batch.round(trainer.model());
    }
}
