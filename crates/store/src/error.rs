//! What can go wrong with the store, and what to do about it.

use std::path::PathBuf;
use std::sync::Arc;

use paddock_types::Fault;
use paddock_types::fault::Location;

/// An operation of the store that failed. The `Display` leaves the source out.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no store in the folder.
    #[error(
        "no store in \"{}\": run a job there first (`paddock run`), or name its data folder with `--data-dir`",
        .folder.display()
    )]
    NoStore {
        /// The data folder.
        folder: PathBuf,
    },
    /// The folder can't be made or used.
    #[error(
        "can't use the data folder \"{}\": see that it can be written to, or name another with `--data-dir`",
        .folder.display()
    )]
    Folder {
        /// The data folder.
        folder: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The store must be changed for this version, and another process uses it.
    #[error(
        "the store in \"{}\" must be upgraded, but another paddock process uses it: wait until its job ends, or stop it",
        .folder.display()
    )]
    InUse {
        /// The data folder.
        folder: PathBuf,
    },
    /// The store was made by another version.
    #[error(
        "the store in \"{}\" has schema {found}, this paddock reads {wanted}: {}",
        .folder.display(),
        if found < wanted { "run a job in it once to upgrade it" } else { "use the newer paddock that wrote it" }
    )]
    Schema {
        /// The data folder.
        folder: PathBuf,
        /// The store's schema.
        found: i64,
        /// The schema that this version reads.
        wanted: i64,
    },
    /// A migration failed.
    #[error("can't upgrade the store in \"{}\"", .folder.display())]
    Migrate {
        /// The data folder.
        folder: PathBuf,
        /// Why.
        source: Box<sqlx::migrate::MigrateError>,
    },
    /// The job is run by another process.
    #[error("job {job} is run by another paddock process: wait for it, or stop it first")]
    JobTaken {
        /// The job.
        job: paddock_types::JobId,
    },
    /// Something was to be written through a store that was opened for reading.
    #[error("can't {what}: the store was opened for reading only")]
    ReadOnly {
        /// The operation.
        what: &'static str,
    },
    /// Something was recorded for a job that is not in the store.
    #[error("can't record {what}: its job is not in the store")]
    NoJob {
        /// What was to be recorded.
        what: &'static str,
    },
    /// The disk is full.
    #[error(
        "can't {what}: the disk is full; free some space, or use another disk with `--data-dir`"
    )]
    DiskFull {
        /// The operation.
        what: &'static str,
        /// What the database says.
        source: sqlx::Error,
    },
    /// The database refused or failed.
    #[error("can't {what}")]
    Database {
        /// The operation.
        what: &'static str,
        /// What the database says.
        source: sqlx::Error,
    },
    /// What is stored can't be read back.
    #[error("{what} in the store is damaged")]
    Damaged {
        /// Which record.
        what: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A record can't be written as JSON.
    #[error("can't write {what} as JSON")]
    Encode {
        /// Which record.
        what: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// A number that is to be kept isn't finite.
    #[error("can't record {what}: {value} is not a finite number")]
    NotFinite {
        /// Which number.
        what: String,
        /// The value.
        value: f64,
    },
    /// A cursor that no list of this kind has given out.
    #[error("\"{text}\" is not a cursor of this list: use `next` of the page before")]
    BadCursor {
        /// What was given.
        text: String,
    },
    /// The writer has stopped after a failure: nothing more is kept.
    #[error("records can no longer be kept")]
    WriterFailed {
        /// The failure.
        source: Arc<StoreError>,
    },
    /// The writer's task has ended.
    #[error("records can no longer be kept: the writer is closed")]
    WriterClosed,
}

impl StoreError {
    /// True if the disk is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::WriterFailed { source } => source.is_disk_full(),
            _ => false,
        }
    }

    /// The error with all its sources, for logs and faults.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(error) = next {
            text.push_str(": ");
            text.push_str(&error.to_string());
            next = error.source();
        }
        text
    }

    /// What a job fails with that can't keep its records.
    pub fn to_fault(&self) -> Fault {
        let mut fault = Fault::internal(self.chain());
        if self.is_disk_full() {
            fault.advice =
                "free some space on the data folder's disk, then run the job again".to_owned();
        } else if matches!(self, Self::Folder { .. }) {
            let advice = "name a folder that can be written to";
            return Fault::invalid_value(self.chain(), advice)
                .at(Location::default().field("--data-dir"));
        }
        fault
    }

    /// Sorts a database's error by what the caller can do about it.
    pub(crate) fn database(what: &'static str, source: sqlx::Error) -> Self {
        const CONSTRAINT_FOREIGN_KEY: i32 = 787;
        const FULL: i32 = 13;
        const IOERR_SHMSIZE: i32 = 4874; // no room for the write-ahead log's index
        let code = source
            .as_database_error()
            .and_then(|e| e.code())
            .and_then(|code| code.parse::<i32>().ok());
        match code {
            Some(CONSTRAINT_FOREIGN_KEY) => Self::NoJob { what },
            Some(FULL | IOERR_SHMSIZE) => Self::DiskFull { what, source },
            _ => Self::Database { what, source },
        }
    }
}
