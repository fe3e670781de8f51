//! The writer's task: gathers for a moment, writes a transaction, tells who waits.

use std::sync::Arc;
use std::time::Duration;

use super::queue::Taken;
use super::{End, Shared};
use crate::store::{Batch, Store};

/// How long a transaction gathers records, unless somebody waits for it or it is large already.
const GATHER: Duration = Duration::from_millis(10);

/// Whatever ends the task, a panic included, ends the writer.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.finish(End::Closed);
    }
}

/// Writes until the last handle is gone, or until a write fails.
pub(super) async fn run(store: Arc<dyn Store>, shared: Arc<Shared>) {
    let ending = Ending(shared);
    let shared = &ending.0;
    loop {
        shared.wake.notified().await;
        // Passing the time at once means that somebody hurries.
        let _ = tokio::time::timeout(GATHER, shared.hurry.notified()).await;
        let taken = shared.lock().take();
        if !taken.is_empty()
            && let Err(error) = write(store.as_ref(), &taken).await
        {
            tracing::error!(error = error.chain(), "records can't be kept");
            shared.finish(End::Failed(Arc::new(error)));
            return;
        }
        shared.room.add_permits(taken.units as usize);
        for waiting in taken.waiting {
            // A flush that nobody waits for any more needs no answer.
            let _ = waiting.send(());
        }
        if taken.closed {
            return;
        }
    }
}

async fn write(store: &dyn Store, taken: &Taken) -> Result<(), crate::StoreError> {
    let logs = taken.logs.iter();
    store
        .write(&Batch {
            trajectories: &taken.trajectories,
            calls: &taken.calls,
            logs: logs.map(|(&job, lines)| (job, lines.as_slice())).collect(),
        })
        .await
}
