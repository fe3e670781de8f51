//! Writing many small records in few transactions, on a task of its own.
//!
//! Calls and trajectories push back: whoever hands one in waits while too much is queued. Log lines
//! never make anyone wait: beyond the bound they are dropped, and a line says how many. The first
//! failure ends it: it is told to whoever asks, and nothing is accepted any more. It never loses
//! a record in silence.

mod queue;
mod task;
mod weight;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paddock_types::log::LogLine;
use paddock_types::trajectory::TrajectoryRecord;
use paddock_types::{CallRecord, JobId};
use tokio::sync::{Notify, Semaphore, oneshot, watch};

use crate::store::Store;
use crate::{StoreError, writer::queue::Queue};

/// The bounds of a writer's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    /// Bytes of calls and trajectories queued at most, roughly; beyond it, their givers wait.
    pub payload_bytes: usize,
    /// Log lines queued at most; beyond it, lines are dropped and counted.
    pub log_lines: usize,
    /// Bytes of log text queued at most; beyond it, lines are dropped and counted.
    pub log_bytes: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            payload_bytes: 64 << 20,
            log_lines: 100_000,
            log_bytes: 32 << 20,
        }
    }
}

/// A handle to a writer; clone it freely. When the last one goes, what is queued is still written,
/// if the runtime lives on: call [`Writer::flush`] before the end of a job.
#[derive(Clone)]
pub struct Writer(Arc<Handle>);

struct Handle(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    /// Room for payloads, in units of [`UNIT`] bytes.
    room: Semaphore,
    units: u32,
    /// Something is queued.
    wake: Notify,
    /// Something is waited for, or much is queued: don't gather any longer.
    hurry: Notify,
    end: watch::Sender<End>,
}

/// Whether the writer still writes.
#[derive(Clone)]
enum End {
    Open,
    Failed(Arc<StoreError>),
    Closed,
}

/// Bytes that one permit of the queue stands for.
const UNIT: usize = 1024;

impl Writer {
    /// Starts a writer on the current tokio runtime.
    pub fn start(store: Arc<dyn Store>, options: WriterOptions) -> Self {
        let units = (options.payload_bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS >> 4) as u32;
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::new(options)),
            room: Semaphore::new(units as usize),
            units,
            wake: Notify::new(),
            hurry: Notify::new(),
            end: watch::Sender::new(End::Open),
        });
        tokio::spawn(task::run(store, Arc::clone(&shared)));
        Self(Arc::new(Handle(shared)))
    }

    /// Hands in the record of an attempt; waits while too much is queued.
    ///
    /// # Errors
    /// If the writer has failed or is closed.
    pub async fn call(&self, record: CallRecord) -> Result<(), StoreError> {
        let units = self.shared().admit(weight::call(&record)).await?;
        self.shared().put(units, |queue| queue.calls.push(record));
        Ok(())
    }

    /// Hands in a trajectory; waits while too much is queued.
    ///
    /// # Errors
    /// If the writer has failed or is closed.
    pub async fn trajectory(&self, record: TrajectoryRecord) -> Result<(), StoreError> {
        let units = self.shared().admit(weight::trajectory(&record)).await?;
        self.shared()
            .put(units, |queue| queue.trajectories.push(record));
        Ok(())
    }

    /// Hands in a log line. Never waits: if too many are queued the line is dropped and counted.
    pub fn log(&self, job: JobId, line: LogLine) {
        self.shared().put(0, |queue| queue.log(job, line));
    }

    /// Waits until everything handed in before is in the store.
    ///
    /// # Errors
    /// If it could not be written, then or earlier.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let (done, written) = oneshot::channel();
        let shared = self.shared();
        {
            let mut queue = shared.lock();
            shared.check()?;
            queue.waiting.push(done);
        }
        shared.hurry.notify_one();
        shared.wake.notify_one();
        match written.await {
            Ok(()) => Ok(()),
            Err(_) => shared.check().and(Err(StoreError::WriterClosed)),
        }
    }

    /// Waits until the writer fails, and says why; for as long as it doesn't, forever.
    pub async fn failed(&self) -> Arc<StoreError> {
        let mut end = self.shared().end.subscribe();
        loop {
            if let End::Failed(source) = &*end.borrow_and_update() {
                return Arc::clone(source);
            }
            if end.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn shared(&self) -> &Shared {
        &self.0.0
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything can still be written.
    fn check(&self) -> Result<(), StoreError> {
        match &*self.end.borrow() {
            End::Open => Ok(()),
            End::Failed(source) => Err(StoreError::WriterFailed {
                source: Arc::clone(source),
            }),
            End::Closed => Err(StoreError::WriterClosed),
        }
    }

    /// Waits for room for so many bytes. A record larger than all the room waits to be alone.
    async fn admit(&self, bytes: usize) -> Result<u32, StoreError> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let units = units.clamp(1, self.units);
        match self.room.acquire_many(units).await {
            Ok(permit) => {
                permit.forget();
                Ok(units)
            }
            Err(_) => Err(self.check().err().unwrap_or(StoreError::WriterClosed)),
        }
    }

    fn put(&self, units: u32, put: impl FnOnce(&mut Queue)) {
        let many = {
            let mut queue = self.lock();
            queue.units += units;
            put(&mut queue);
            queue.is_long()
        };
        if many {
            self.hurry.notify_one();
        }
        self.wake.notify_one();
    }

    /// Ends it: whoever waits is told.
    fn finish(&self, end: End) {
        self.end.send_if_modified(|now| {
            let open = matches!(now, End::Open);
            if open {
                *now = end;
            }
            open
        });
        self.room.close();
        let mut queue = self.lock();
        queue.waiting.clear();
        queue.closed = true;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.hurry.notify_one();
        self.0.wake.notify_one();
    }
}
