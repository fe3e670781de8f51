//! A typed client, one method an endpoint.

use paddock_types::job::JobRecord;
use paddock_types::step::{StepRecord, ValidationRecord};
use paddock_types::trajectory::TrajectorySummary;
use paddock_types::{CallId, CallRecord, JobId, TrajectoryId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    CallQuery, ClientError, Health, JobQuery, LogEntry, LogQuery, MetricQuery, MetricSeries, Page,
    Problem, TrajectoryDetail, TrajectoryOptions, TrajectoryQuery, Version, path,
};

/// Asks a Paddock server.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: String,
}

type Answer<T> = Result<T, ClientError>;

impl Client {
    /// A client of the server at `base` (`http://127.0.0.1:8080`), with a token of its owner.
    pub fn new(base: impl Into<String>, token: impl Into<String>) -> Self {
        let mut base: String = base.into();
        base.truncate(base.trim_end_matches('/').len());
        Self {
            http: reqwest::Client::new(),
            base,
            token: token.into(),
        }
    }

    /// Whether the server can answer.
    pub async fn health(&self) -> Answer<Health> {
        self.get(path::HEALTH, &()).await
    }

    /// Which version answers.
    pub async fn version(&self) -> Answer<Version> {
        self.get(path::VERSION, &()).await
    }

    /// The API's document.
    pub async fn openapi(&self) -> Answer<Value> {
        self.get(path::OPENAPI, &()).await
    }

    /// Jobs, newest first.
    pub async fn jobs(&self, query: &JobQuery) -> Answer<Page<JobRecord>> {
        self.get(path::JOBS, query).await
    }

    /// A job.
    pub async fn job(&self, job: JobId) -> Answer<JobRecord> {
        self.get(&path::JOB.replace("{job}", &job.to_string()), &())
            .await
    }

    /// A job's steps, in order.
    pub async fn steps(&self, job: JobId) -> Answer<Vec<StepRecord>> {
        self.of_job(path::JOB_STEPS, job, &()).await
    }

    /// A job's validations, in order.
    pub async fn validations(&self, job: JobId) -> Answer<Vec<ValidationRecord>> {
        self.of_job(path::JOB_VALIDATIONS, job, &()).await
    }

    /// A job's trajectories, without their conversations.
    pub async fn trajectories(
        &self,
        job: JobId,
        query: &TrajectoryQuery,
    ) -> Answer<Page<TrajectorySummary>> {
        self.of_job(path::JOB_TRAJECTORIES, job, query).await
    }

    /// A job's calls, an item an attempt.
    pub async fn calls(&self, job: JobId, query: &CallQuery) -> Answer<Page<CallRecord>> {
        self.of_job(path::JOB_CALLS, job, query).await
    }

    /// A job's log lines.
    pub async fn logs(&self, job: JobId, query: &LogQuery) -> Answer<Page<LogEntry>> {
        self.of_job(path::JOB_LOGS, job, query).await
    }

    /// A job's measured numbers.
    pub async fn metrics(&self, job: JobId, query: &MetricQuery) -> Answer<Vec<MetricSeries>> {
        self.of_job(path::JOB_METRICS, job, query).await
    }

    /// A trajectory, whole; with its tokens if they are asked for.
    pub async fn trajectory(&self, id: TrajectoryId, tokens: bool) -> Answer<TrajectoryDetail> {
        let path = path::TRAJECTORY.replace("{trajectory}", &id.to_string());
        self.get(&path, &TrajectoryOptions { tokens }).await
    }

    /// All attempts made for a trajectory.
    pub async fn trajectory_calls(&self, id: TrajectoryId) -> Answer<Vec<CallRecord>> {
        let path = path::TRAJECTORY_CALLS.replace("{trajectory}", &id.to_string());
        self.get(&path, &()).await
    }

    /// All attempts of a call.
    pub async fn call(&self, call: CallId) -> Answer<Vec<CallRecord>> {
        let path = path::CALL.replace("{call}", &call.to_string());
        self.get(&path, &()).await
    }

    async fn of_job<T: DeserializeOwned>(
        &self,
        path: &str,
        job: JobId,
        query: &impl Serialize,
    ) -> Answer<T> {
        self.get(&path.replace("{job}", &job.to_string()), query)
            .await
    }

    /// Asks for any path of the API.
    async fn get<T: DeserializeOwned>(&self, path: &str, query: &impl Serialize) -> Answer<T> {
        let unreachable = |source| ClientError::Unreachable {
            base: self.base.clone(),
            source,
        };
        let answer = self
            .http
            .get(format!("{}{path}", self.base))
            .bearer_auth(&self.token)
            .query(query)
            .send()
            .await
            .map_err(unreachable)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(unreachable)?;
        let unexpected = |source: serde_json::Error| ClientError::Unexpected {
            base: self.base.clone(),
            status: status.as_u16(),
            source: source.into(),
        };
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(unexpected);
        }
        let problem: Problem = serde_json::from_slice(&body).map_err(unexpected)?;
        Err(ClientError::Problem(problem))
    }
}
