//! Jobs.

use paddock_types::JobId;
use paddock_types::job::JobRecord;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::SqliteStore;
use super::payload::{Packer, read_json};
use super::select::Select;
use crate::{Cursor, JobFilter, Page, PageRequest, StoreError};

const READ: &str = "read jobs";

pub(super) async fn put(store: &SqliteStore, record: &JobRecord) -> Result<(), StoreError> {
    let payload = Packer::default().checked_json("a job", record)?;
    let mut transaction = store.begin("record a job").await?;
    sqlx::query(
        "INSERT INTO jobs (job, name, state, created_ms, updated_ms, record)
         VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (job) DO UPDATE SET name = excluded.name, state = excluded.state,
             updated_ms = excluded.updated_ms, record = excluded.record",
    )
    .bind(number(record.summary.job))
    .bind(&record.summary.name)
    .bind(record.summary.state.as_str())
    .bind(record.created_ms)
    .bind(record.updated_ms)
    .bind(payload)
    .execute(&mut *transaction)
    .await
    .map_err(|source| StoreError::database("record a job", source))?;
    transaction
        .commit()
        .await
        .map_err(|source| StoreError::database("record a job", source))
}

pub(super) async fn get(store: &SqliteStore, job: JobId) -> Result<Option<JobRecord>, StoreError> {
    let mut select = Select::new("SELECT record FROM jobs");
    select.and("job =", Some(number(job)));
    let mut found = select.rows(&store.readers, READ, read).await?;
    Ok(found.pop())
}

pub(super) async fn list(
    store: &SqliteStore,
    filter: &JobFilter,
    page: &PageRequest,
) -> Result<Page<JobRecord>, StoreError> {
    let rows = page.rows();
    let mut select = Select::new("SELECT record FROM jobs");
    select
        .and("state =", filter.state.map(|state| state.as_str()))
        .and("name =", filter.name.as_deref());
    if let Some(after) = &page.after {
        let [job] = after.keys()?;
        select.and("job <", Some(job));
    }
    let found = select
        .push(" ORDER BY job DESC")
        .limit(rows)
        .rows(&store.readers, READ, read)
        .await?;
    Ok(Page::cut(found, rows, |record| {
        Cursor::at([number(record.summary.job)])
    }))
}

/// A job's number as SQLite keeps it. Ids are times: the sign bit is free until the year 2248.
pub(super) fn number(job: JobId) -> i64 {
    job.to_u64() as i64
}

fn read(row: &SqliteRow) -> Result<JobRecord, StoreError> {
    let packed: &[u8] = row
        .try_get(0)
        .map_err(|source| StoreError::database(READ, source))?;
    read_json(|| "a job".into(), packed)
}
