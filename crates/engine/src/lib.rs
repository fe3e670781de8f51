//! The job engine: what a job does next is decided by pure state machines (`plan`, `pass`);
//! the driver (`driver`, `runner`) carries their commands out and never decides by itself.

mod backend;
pub mod body;
pub mod call;
pub mod checkpoints;
pub mod context;
pub mod dataset;
mod driver;
pub mod load;
pub mod metrics;
pub mod package;
pub mod pass;
pub mod plan;
pub mod prepare;
pub mod prompts;
mod record;
pub mod run;
pub mod runner;
pub mod session;
pub mod start;
pub mod train;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use paddock_runtime::Fence;
use paddock_types::step::{StepRecord, ValidationRecord};

pub use prepare::{Prepared, prepare};
pub use run::{Services, run};

/// What to run, and where things are kept.
#[derive(Debug, Clone)]
pub struct JobOptions {
    /// A project folder, or a job file in one.
    pub path: PathBuf,
    /// Where the job's records and checkpoints go.
    pub data_dir: PathBuf,
    /// What stands between plugins and the machine.
    pub fence: Fence,
    /// Where environments and models are kept for all jobs.
    pub cache_dir: PathBuf,
    /// Hyperparameters that override the file's, by name, as text.
    pub overrides: Vec<(String, String)>,
}

/// What happens in a job, for those who watch.
#[derive(Debug, Clone)]
pub enum JobEvent {
    /// A part of the preparation begins.
    Phase {
        /// `validating`, `environment`, `plugins`, `model`.
        name: &'static str,
        /// What exactly.
        detail: String,
    },
    /// A pass over the validation set is done.
    Validation(ValidationRecord),
    /// A step is done.
    Step {
        /// Its record.
        record: Box<StepRecord>,
        /// Steps of the job.
        of: u32,
    },
    /// Calls in flight, and samples done, of the pass being made.
    Flight {
        /// Rollouts in flight.
        rollouts: usize,
        /// Grades in flight.
        grades: usize,
        /// Samples done.
        done: usize,
        /// Samples of the pass.
        of: usize,
    },
    /// Something worth a look that doesn't end the job.
    Warning(String),
    /// A checkpoint was written here.
    Checkpoint(String),
}

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as i64)
}
