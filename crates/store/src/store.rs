//! The storage trait. A backend passes `tests/conformance` or it is none.

use async_trait::async_trait;
use paddock_types::job::JobRecord;
use paddock_types::log::LogLine;
use paddock_types::step::{StepRecord, ValidationRecord};
use paddock_types::trajectory::{TrajectoryRecord, TrajectorySummary};
use paddock_types::{CallRecord, JobId, TrajectoryId};

use crate::call::CallFilter;
use crate::error::StoreError;
use crate::job::JobFilter;
use crate::log::{LogFilter, StoredLine};
use crate::metric::{MetricFilter, MetricPoint, MetricSeries};
use crate::page::{Page, PageRequest};
use crate::trajectory::TrajectoryFilter;

/// Records that are written in one transaction: all of them, or none.
#[derive(Debug, Clone, Default)]
pub struct Batch<'a> {
    /// Trajectories; one that is there already is replaced.
    pub trajectories: &'a [TrajectoryRecord],
    /// Attempts; one that is there already stays as it is.
    pub calls: &'a [CallRecord],
    /// Log lines, by job.
    pub logs: Vec<(JobId, &'a [LogLine])>,
}

/// What Paddock keeps. A job is recorded before anything that belongs to it.
#[async_trait]
pub trait Store: Send + Sync {
    /// Records a job, or how it stands now.
    async fn put_job(&self, job: &JobRecord) -> Result<(), StoreError>;

    /// A job.
    async fn job(&self, job: JobId) -> Result<Option<JobRecord>, StoreError>;

    /// Jobs, newest first.
    async fn jobs(
        &self,
        filter: &JobFilter,
        page: &PageRequest,
    ) -> Result<Page<JobRecord>, StoreError>;

    /// Records a step; the same step again replaces it.
    async fn put_step(&self, job: JobId, step: &StepRecord) -> Result<(), StoreError>;

    /// All steps of a job, in order.
    async fn steps(&self, job: JobId) -> Result<Vec<StepRecord>, StoreError>;

    /// Records a validation; one after the same step replaces it.
    async fn put_validation(
        &self,
        job: JobId,
        validation: &ValidationRecord,
    ) -> Result<(), StoreError>;

    /// All validations of a job, in order.
    async fn validations(&self, job: JobId) -> Result<Vec<ValidationRecord>, StoreError>;

    /// Writes a batch in one transaction.
    async fn write(&self, batch: &Batch<'_>) -> Result<(), StoreError>;

    /// Writes trajectories in one transaction.
    async fn put_trajectories(&self, records: &[TrajectoryRecord]) -> Result<(), StoreError> {
        self.write(&Batch {
            trajectories: records,
            ..Batch::default()
        })
        .await
    }

    /// A trajectory, whole.
    async fn trajectory(&self, id: TrajectoryId) -> Result<Option<TrajectoryRecord>, StoreError>;

    /// Trajectories without their conversations, in the order of their ids.
    async fn trajectories(
        &self,
        filter: &TrajectoryFilter,
        page: &PageRequest,
    ) -> Result<Page<TrajectorySummary>, StoreError>;

    /// All attempts that were made for a trajectory, in order: its rollout, its single graders, and
    /// the group graders of its sample.
    async fn trajectory_calls(&self, id: TrajectoryId) -> Result<Vec<CallRecord>, StoreError>;

    /// Writes attempts in one transaction. The first verdict of an attempt stays.
    async fn put_calls(&self, records: &[CallRecord]) -> Result<(), StoreError> {
        self.write(&Batch {
            calls: records,
            ..Batch::default()
        })
        .await
    }

    /// Attempts in the order of their calls.
    async fn calls(
        &self,
        filter: &CallFilter,
        page: &PageRequest,
    ) -> Result<Page<CallRecord>, StoreError>;

    /// Writes log lines in one transaction.
    async fn put_logs(&self, job: JobId, lines: &[LogLine]) -> Result<(), StoreError> {
        self.write(&Batch {
            logs: vec![(job, lines)],
            ..Batch::default()
        })
        .await
    }

    /// Log lines of a job.
    async fn logs(
        &self,
        job: JobId,
        filter: &LogFilter,
        page: &PageRequest,
    ) -> Result<Page<StoredLine>, StoreError>;

    /// Writes measured numbers of a plugin; an empty `plugin` means the job's own.
    async fn put_metrics(
        &self,
        job: JobId,
        plugin: &str,
        points: &[MetricPoint],
    ) -> Result<(), StoreError>;

    /// Measured numbers of a job, by plugin and name.
    async fn metrics(
        &self,
        job: JobId,
        filter: &MetricFilter,
    ) -> Result<Vec<MetricSeries>, StoreError>;
}
