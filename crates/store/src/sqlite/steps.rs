//! Steps and validations.

use paddock_types::JobId;
use paddock_types::step::{StepRecord, ValidationRecord};
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::SqliteStore;
use super::jobs::number;
use super::payload::{Packer, read_json};
use super::select::Select;
use crate::StoreError;

pub(super) async fn put_step(
    store: &SqliteStore,
    job: JobId,
    step: &StepRecord,
) -> Result<(), StoreError> {
    const WHAT: &str = "record a step";
    let payload = Packer::default().checked_json("a step", step)?;
    let mut transaction = store.begin(WHAT).await?;
    sqlx::query(
        "INSERT INTO steps (job, step, ended_ms, record) VALUES (?, ?, ?, ?)
         ON CONFLICT (job, step) DO UPDATE
         SET ended_ms = excluded.ended_ms, record = excluded.record",
    )
    .bind(number(job))
    .bind(i64::from(step.step))
    .bind(step.ended_ms)
    .bind(payload)
    .execute(&mut *transaction)
    .await
    .map_err(|source| StoreError::database(WHAT, source))?;
    transaction
        .commit()
        .await
        .map_err(|source| StoreError::database(WHAT, source))
}

pub(super) async fn steps(store: &SqliteStore, job: JobId) -> Result<Vec<StepRecord>, StoreError> {
    Select::new("SELECT record FROM steps")
        .and("job =", Some(number(job)))
        .push(" ORDER BY step")
        .rows(&store.readers, "read steps", read)
        .await
}

pub(super) async fn put_validation(
    store: &SqliteStore,
    job: JobId,
    validation: &ValidationRecord,
) -> Result<(), StoreError> {
    const WHAT: &str = "record a validation";
    let payload = Packer::default().checked_json("a validation", validation)?;
    let mut transaction = store.begin(WHAT).await?;
    sqlx::query(
        "INSERT INTO validations (job, step, record) VALUES (?, ?, ?)
         ON CONFLICT (job, step) DO UPDATE SET record = excluded.record",
    )
    .bind(number(job))
    .bind(i64::from(validation.step))
    .bind(payload)
    .execute(&mut *transaction)
    .await
    .map_err(|source| StoreError::database(WHAT, source))?;
    transaction
        .commit()
        .await
        .map_err(|source| StoreError::database(WHAT, source))
}

pub(super) async fn validations(
    store: &SqliteStore,
    job: JobId,
) -> Result<Vec<ValidationRecord>, StoreError> {
    Select::new("SELECT record FROM validations")
        .and("job =", Some(number(job)))
        .push(" ORDER BY step")
        .rows(&store.readers, "read validations", read)
        .await
}

fn read<T: DeserializeOwned>(row: &SqliteRow) -> Result<T, StoreError> {
    let packed: &[u8] = row
        .try_get(0)
        .map_err(|source| StoreError::database("read steps", source))?;
    read_json(|| "a step".into(), packed)
}
