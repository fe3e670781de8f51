//! Opening a store: creating and upgrading it, or reading one that others write.

use std::cmp::Ordering;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Row, SqlitePool};

use super::SqliteStore;
use crate::StoreError;
use crate::lock::{FolderLock, Hold};

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

const FILE: &str = "paddock.db";
/// How long a statement waits for another process's transaction.
const BUSY: Duration = Duration::from_secs(30);
/// How long a caller waits for the one writing connection.
const QUEUE: Duration = Duration::from_secs(120);
const READERS: u32 = 4;

impl SqliteStore {
    /// Opens the store in a data folder for writing; creates or upgrades it first if need be.
    /// Several processes may have one open: their transactions take turns.
    pub async fn open(data_dir: &Path) -> Result<Self, StoreError> {
        create_folder(data_dir)?;
        let path = data_dir.join(FILE);
        let mut hold = FolderLock::take(data_dir, false).await?;
        if let Hold::Shared(shared) = hold {
            // Others write: the schema is theirs, unless it is older than ours.
            let found = schema(&path, data_dir).await?;
            hold = match found.cmp(&wanted()) {
                Ordering::Equal => Hold::Shared(shared),
                Ordering::Less => {
                    drop(shared);
                    FolderLock::take(data_dir, true).await?
                }
                Ordering::Greater => return Err(other_schema(data_dir, found)),
            };
        }
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(QUEUE)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options(&path).create_if_missing(true))
            .await
            .map_err(|source| StoreError::database("open the store", source))?;
        let lock = match hold {
            Hold::Shared(lock) => lock,
            Hold::Alone(lock) => {
                migrate(&writer, data_dir).await?;
                lock.share()?
            }
        };
        Ok(Self {
            folder: data_dir.to_owned(),
            writer: Some(writer),
            readers: readers(&path).await?,
            _lock: Some(lock),
        })
    }

    /// Opens a store that is there for reading, while other processes may write it.
    ///
    /// # Errors
    /// [`StoreError::NoStore`] if there is none.
    pub async fn open_existing(data_dir: &Path) -> Result<Self, StoreError> {
        let path = data_dir.join(FILE);
        let found = schema(&path, data_dir).await?;
        if found != wanted() {
            return Err(other_schema(data_dir, found));
        }
        Ok(Self {
            folder: data_dir.to_owned(),
            writer: None,
            readers: readers(&path).await?,
            _lock: None,
        })
    }
}

fn create_folder(folder: &Path) -> Result<(), StoreError> {
    // Trajectories and logs are their owner's alone.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| StoreError::Folder {
            folder: folder.to_owned(),
            source,
        })
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        // A power cut may lose the last transactions, never the file's integrity; a killed
        // process loses nothing that was committed.
        .synchronous(SqliteSynchronous::Normal)
        .foreign_keys(true)
        .busy_timeout(BUSY)
        .pragma("temp_store", "memory")
        .pragma("wal_autocheckpoint", "4000")
        .pragma("journal_size_limit", "67108864")
        // Errors carry what matters; a statement's text in the log is only noise.
        .disable_statement_logging()
}

async fn readers(path: &Path) -> Result<SqlitePool, StoreError> {
    let reading = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .busy_timeout(BUSY)
        .pragma("temp_store", "memory")
        .disable_statement_logging();
    SqlitePoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(QUEUE)
        .connect_with(reading)
        .await
        .map_err(|source| StoreError::database("open the store for reading", source))
}

fn other_schema(folder: &Path, found: i64) -> StoreError {
    StoreError::Schema {
        folder: folder.to_owned(),
        found,
        wanted: wanted(),
    }
}

/// The schema that this version reads and writes.
fn wanted() -> i64 {
    MIGRATIONS.iter().map(|m| m.version).max().unwrap_or(0)
}

/// The schema of the store in the folder; 0 if it is only just being made.
async fn schema(path: &Path, folder: &Path) -> Result<i64, StoreError> {
    if !path.is_file() {
        return Err(StoreError::NoStore {
            folder: folder.to_owned(),
        });
    }
    let pool = readers(path).await?;
    let version = applied(&pool).await;
    pool.close().await;
    version
}

async fn applied(pool: &SqlitePool) -> Result<i64, StoreError> {
    let failed = |source| StoreError::database("read the store's schema", source);
    let made: i64 = sqlx::query(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'",
    )
    .fetch_one(pool)
    .await
    .and_then(|row| row.try_get(0))
    .map_err(failed)?;
    if made == 0 {
        return Ok(0);
    }
    sqlx::query("SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success")
        .fetch_one(pool)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)
}

async fn migrate(writer: &SqlitePool, folder: &Path) -> Result<(), StoreError> {
    let found = applied(writer).await?;
    if found > wanted() {
        return Err(other_schema(folder, found));
    }
    MIGRATIONS
        .run(writer)
        .await
        .map_err(|source| StoreError::Migrate {
            folder: folder.to_owned(),
            source: Box::new(source),
        })
}
