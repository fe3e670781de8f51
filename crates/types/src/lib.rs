//! The words of Paddock as types: ids, states, faults, verdicts, limits, retry rules.
//!
//! No I/O, no async, no clock: everything here can be tested by calling it.

pub mod chat;
pub mod explain;
pub mod fault;
pub mod id;
pub mod job;
pub mod job_file;
pub mod log;
pub mod plugin;
pub mod retry;
pub mod rows;
pub mod step;
pub mod suggest;
pub mod trajectory;
pub mod verdict;

pub use fault::{Fault, FaultKind, Location, Owner, SubKind};
pub use id::{CallId, JobId, SampleId, TrajectoryId};
pub use verdict::{CallRecord, Outcome, Verdict};
