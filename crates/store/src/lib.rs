//! What Paddock keeps: jobs, steps, trajectories, calls, log lines and metrics.
//!
//! [`Store`] is what everyone else sees; [`SqliteStore`] is its one backend so far, and
//! `tests/conformance` is what another must pass. [`Writer`] is how the hot paths write: many small
//! records in few transactions. Nothing here decides anything about a job, and nothing loses a
//! record in silence: what can't be kept is an error, or counted in a line.

mod call;
mod error;
mod job;
mod lock;
mod log;
mod metric;
mod page;
mod sqlite;
mod store;
mod trajectory;
mod writer;

pub use call::CallFilter;
pub use error::StoreError;
pub use job::JobFilter;
pub use lock::JobLock;
pub use log::{LogFilter, LogOrder, StoredLine};
pub use metric::{MetricFilter, MetricPoint, MetricSeries};
pub use page::{Cursor, MAX_PAGE, Page, PageRequest};
pub use sqlite::SqliteStore;
pub use store::{Batch, Store};
pub use trajectory::TrajectoryFilter;
pub use writer::{Writer, WriterOptions};
