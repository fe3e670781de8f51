//! The SQLite backend: one file, `paddock.db`, in the data folder.
//!
//! Write-ahead logging, so that readers of any process see a whole state while a job writes. One
//! connection writes; a few read. No statement is built from anybody's text: values are bound.

mod calls;
#[cfg(test)]
mod full_disk_tests;
mod insert;
mod jobs;
mod logs;
mod metrics;
mod open;
mod payload;
mod select;
mod steps;
mod trajectories;
mod trajectory_rows;

use std::path::PathBuf;

use async_trait::async_trait;
use paddock_types::job::JobRecord;
use paddock_types::step::{StepRecord, ValidationRecord};
use paddock_types::trajectory::{TrajectoryRecord, TrajectorySummary};
use paddock_types::{CallRecord, JobId, TrajectoryId};
use sqlx::SqlitePool;

use crate::store::{Batch, Store};
use crate::{
    CallFilter, JobFilter, LogFilter, MetricFilter, MetricPoint, MetricSeries, Page, PageRequest,
    StoreError, StoredLine, TrajectoryFilter,
};

/// The store in a data folder.
#[derive(Debug)]
pub struct SqliteStore {
    folder: PathBuf,
    /// One connection; `None` for a reader.
    writer: Option<SqlitePool>,
    readers: SqlitePool,
    _lock: Option<crate::lock::FolderLock>,
}

impl SqliteStore {
    /// A transaction that has the database to itself.
    async fn begin(
        &self,
        what: &'static str,
    ) -> Result<sqlx::Transaction<'static, sqlx::Sqlite>, StoreError> {
        let writer = self.writer.as_ref().ok_or(StoreError::ReadOnly { what })?;
        writer
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map_err(|source| StoreError::database(what, source))
    }

    /// The folder that the store is in.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// Closes its connections, and folds the write-ahead log into the file.
    pub async fn close(&self) {
        self.readers.close().await;
        if let Some(writer) = &self.writer {
            writer.close().await;
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn put_job(&self, job: &JobRecord) -> Result<(), StoreError> {
        jobs::put(self, job).await
    }

    async fn job(&self, job: JobId) -> Result<Option<JobRecord>, StoreError> {
        jobs::get(self, job).await
    }

    async fn jobs(
        &self,
        filter: &JobFilter,
        page: &PageRequest,
    ) -> Result<Page<JobRecord>, StoreError> {
        jobs::list(self, filter, page).await
    }

    async fn put_step(&self, job: JobId, step: &StepRecord) -> Result<(), StoreError> {
        steps::put_step(self, job, step).await
    }

    async fn steps(&self, job: JobId) -> Result<Vec<StepRecord>, StoreError> {
        steps::steps(self, job).await
    }

    async fn put_validation(
        &self,
        job: JobId,
        validation: &ValidationRecord,
    ) -> Result<(), StoreError> {
        steps::put_validation(self, job, validation).await
    }

    async fn validations(&self, job: JobId) -> Result<Vec<ValidationRecord>, StoreError> {
        steps::validations(self, job).await
    }

    async fn write(&self, batch: &Batch<'_>) -> Result<(), StoreError> {
        let mut transaction = self.begin("begin a transaction").await?;
        trajectories::insert(&mut transaction, batch.trajectories).await?;
        calls::insert(&mut transaction, batch.calls).await?;
        logs::insert(&mut transaction, &batch.logs).await?;
        transaction
            .commit()
            .await
            .map_err(|source| StoreError::database("commit a batch", source))
    }

    async fn trajectory(&self, id: TrajectoryId) -> Result<Option<TrajectoryRecord>, StoreError> {
        trajectories::get(self, id).await
    }

    async fn trajectories(
        &self,
        filter: &TrajectoryFilter,
        page: &PageRequest,
    ) -> Result<Page<TrajectorySummary>, StoreError> {
        trajectories::list(self, filter, page).await
    }

    async fn trajectory_calls(&self, id: TrajectoryId) -> Result<Vec<CallRecord>, StoreError> {
        calls::of_trajectory(self, id).await
    }

    async fn calls(
        &self,
        filter: &CallFilter,
        page: &PageRequest,
    ) -> Result<Page<CallRecord>, StoreError> {
        calls::list(self, filter, page).await
    }

    async fn logs(
        &self,
        job: JobId,
        filter: &LogFilter,
        page: &PageRequest,
    ) -> Result<Page<StoredLine>, StoreError> {
        logs::list(self, job, filter, page).await
    }

    async fn put_metrics(
        &self,
        job: JobId,
        plugin: &str,
        points: &[MetricPoint],
    ) -> Result<(), StoreError> {
        metrics::put(self, job, plugin, points).await
    }

    async fn metrics(
        &self,
        job: JobId,
        filter: &MetricFilter,
    ) -> Result<Vec<MetricSeries>, StoreError> {
        metrics::list(self, job, filter).await
    }
}
