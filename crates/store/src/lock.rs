//! Locks on the data folder, so that processes that share it stay out of each other's way.
//!
//! They are `flock`s: the kernel lets go of them when their process dies, however it dies.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paddock_types::JobId;
use rustix::fs::{FlockOperation, flock};

use crate::StoreError;

/// How long an upgrade waits for other processes to leave the folder.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(25);

/// How a process holds the data folder.
pub(crate) enum Hold {
    /// Alone: it may change the schema. Ends with [`FolderLock::share`].
    Alone(FolderLock),
    /// Beside other writers.
    Shared(FolderLock),
}

/// The lock that every writing process holds on the data folder for as long as it lives.
#[derive(Debug)]
pub(crate) struct FolderLock {
    file: File,
    folder: PathBuf,
}

impl FolderLock {
    /// Takes the folder: alone if nobody else has it, beside the others if they do. With
    /// `need_alone`, waits a while for the others to go.
    pub(crate) async fn take(folder: &Path, need_alone: bool) -> Result<Hold, StoreError> {
        Self::take_within(folder, need_alone, PATIENCE).await
    }

    async fn take_within(
        folder: &Path,
        need_alone: bool,
        patience: Duration,
    ) -> Result<Hold, StoreError> {
        let lock = Self::open(folder)?;
        let deadline = Instant::now() + patience;
        loop {
            if lock.tried(FlockOperation::NonBlockingLockExclusive)? {
                return Ok(Hold::Alone(lock));
            }
            if !need_alone && lock.tried(FlockOperation::NonBlockingLockShared)? {
                return Ok(Hold::Shared(lock));
            }
            if Instant::now() >= deadline {
                return Err(StoreError::InUse {
                    folder: lock.folder,
                });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Lets other writers in.
    pub(crate) fn share(self) -> Result<Self, StoreError> {
        flock(&self.file, FlockOperation::LockShared).map_err(|error| self.failed(error))?;
        Ok(self)
    }

    fn open(folder: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join("lock"))
            .map_err(|source| StoreError::Folder {
                folder: folder.to_owned(),
                source,
            })?;
        Ok(Self {
            file,
            folder: folder.to_owned(),
        })
    }

    fn tried(&self, operation: FlockOperation) -> Result<bool, StoreError> {
        match flock(&self.file, operation) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: rustix::io::Errno) -> StoreError {
        StoreError::Folder {
            folder: self.folder.clone(),
            source: error.into(),
        }
    }
}

/// The right to run a job, held by one process at a time. A job that is `running` in the store and
/// has no holder was left behind by a process that died.
#[derive(Debug)]
pub struct JobLock {
    _file: File,
    path: PathBuf,
}

impl JobLock {
    /// Takes the job.
    ///
    /// # Errors
    /// [`StoreError::JobTaken`] if another process runs it.
    pub fn acquire(data_dir: &Path, job: JobId) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Folder {
            folder: data_dir.to_owned(),
            source,
        };
        let path = lock_path(data_dir, job);
        std::fs::create_dir_all(data_dir.join("running")).map_err(failed)?;
        loop {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(StoreError::JobTaken { job }),
                Err(error) => return Err(failed(error.into())),
            }
            // The holder before removes the file as it leaves: a lock on a removed file is none.
            let ours = file.metadata().map_err(failed)?.ino();
            if std::fs::metadata(&path).is_ok_and(|there| there.ino() == ours) {
                return Ok(Self { _file: file, path });
            }
        }
    }

    /// True if a living process runs the job.
    pub fn is_held(data_dir: &Path, job: JobId) -> bool {
        File::open(lock_path(data_dir, job)).is_ok_and(|file| {
            flock(&file, FlockOperation::NonBlockingLockShared)
                .is_err_and(|error| error == rustix::io::Errno::WOULDBLOCK)
        })
    }
}

impl Drop for JobLock {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "a job's lock file stays behind");
        }
    }
}

fn lock_path(data_dir: &Path, job: JobId) -> PathBuf {
    data_dir.join("running").join(job.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_needs_the_folder_alone_waits_and_then_says_who_is_in_the_way() {
        let dir = tempfile::tempdir().expect("a folder");
        let Hold::Alone(first) = FolderLock::take(dir.path(), false).await.expect("free") else {
            panic!("nobody else was there");
        };
        let first = first.share().expect("it is ours");
        let beside = FolderLock::take(dir.path(), false).await.expect("shared");
        assert!(matches!(beside, Hold::Shared(_)));
        drop(beside);
        let waiting = FolderLock::take_within(dir.path(), true, PAUSE * 2).await;
        let refused = waiting.err().expect("another process uses it");
        assert!(matches!(refused, StoreError::InUse { .. }), "{refused:?}");
        drop(first);
        let alone = FolderLock::take(dir.path(), true).await.expect("free");
        assert!(matches!(alone, Hold::Alone(_)));
    }

    #[test]
    fn a_job_has_one_runner() {
        let dir = tempfile::tempdir().expect("a folder");
        let job = JobId::new();
        assert!(!JobLock::is_held(dir.path(), job));
        let lock = JobLock::acquire(dir.path(), job).expect("nobody runs it");
        assert!(JobLock::is_held(dir.path(), job));
        assert!(matches!(
            JobLock::acquire(dir.path(), job),
            Err(StoreError::JobTaken { .. })
        ));
        drop(lock);
        assert!(!JobLock::is_held(dir.path(), job));
        JobLock::acquire(dir.path(), job).expect("it was let go");
    }
}
