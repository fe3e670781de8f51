//! A running server over a store with a job in it. The one place that starts servers for tests.

use std::sync::Arc;

use paddock_api::Client;
use paddock_server::{ServeOptions, ServerHandle, serve};
use paddock_store::{MetricPoint, SqliteStore, Store};
use paddock_types::chat::Message;
use paddock_types::id::{Phase, SampleId};
use paddock_types::job::{Hyperparameters, JobRecord};
use paddock_types::log::{Level, LogLine};
use paddock_types::step::{StepRecord, ValidationRecord};
use paddock_types::trajectory::{Conversation, Tokens, TrajectoryRecord, TrajectoryStatus};
use paddock_types::{CallId, CallRecord, JobId, Outcome, SubKind, TrajectoryId, Verdict};
use serde_json::json;

use crate::backend::Scripted;

pub(crate) const OWNER: &str = "the-owner-s-token";

pub(crate) struct Running {
    pub(crate) server: ServerHandle,
    pub(crate) backend: Arc<Scripted>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) job: JobId,
    pub(crate) client: Client,
    _folder: tempfile::TempDir,
}

impl Running {
    /// A server with a job of two samples of four trajectories, one call of which failed.
    pub(crate) async fn start() -> Self {
        Self::with(ServeOptions::default()).await
    }

    pub(crate) async fn with(options: ServeOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::open(folder.path()).await.expect("a store");
        let store = Arc::new(store);
        let job = JobId::new();
        fill(store.as_ref(), job).await;
        let backend = Arc::new(Scripted::default());
        let server = serve(options, store.clone(), backend.clone(), OWNER)
            .await
            .expect("it listens");
        let client = Client::new(server.url(), OWNER);
        Self {
            server,
            backend,
            store,
            job,
            client,
            _folder: folder,
        }
    }

    pub(crate) fn trajectory(&self, index: u32, generation: u32) -> TrajectoryId {
        sample(self.job, index).trajectory(generation)
    }
}

fn sample(job: JobId, index: u32) -> SampleId {
    SampleId {
        job,
        phase: Phase::Train,
        step: 1,
        index,
    }
}

async fn fill(store: &dyn Store, job: JobId) {
    store.put_job(&job_record(job)).await.expect("recorded");
    for step in 1..=3 {
        let step = StepRecord {
            step,
            trajectories: 8,
            ..StepRecord::default()
        };
        store.put_step(job, &step).await.expect("recorded");
    }
    let validation = ValidationRecord {
        step: 0,
        trajectories: 4,
        ..ValidationRecord::default()
    };
    store
        .put_validation(job, &validation)
        .await
        .expect("recorded");
    let ids = (0..2).flat_map(|index| (0..4).map(move |g| sample(job, index).trajectory(g)));
    let trajectories: Vec<_> = ids.clone().map(trajectory).collect();
    store
        .put_trajectories(&trajectories)
        .await
        .expect("recorded");
    let mut calls: Vec<_> = ids.map(call).collect();
    calls[2].verdict.outcome = Outcome::Failure;
    calls[2].verdict.sub_kind = Some(SubKind::Timeout);
    calls.push(CallRecord {
        attempt: 2,
        ..calls[2].clone()
    });
    store.put_calls(&calls).await.expect("recorded");
    let lines: Vec<_> = (0..5).map(|n| line(n, Some(calls[0].call))).collect();
    store.put_logs(job, &lines).await.expect("recorded");
    let points = [10, 20].map(|time_ms| MetricPoint {
        time_ms,
        name: "in_flight".to_owned(),
        value: 2.5,
    });
    store
        .put_metrics(job, "reward", &points)
        .await
        .expect("recorded");
}

pub(crate) fn job_record(job: JobId) -> JobRecord {
    serde_json::from_value(json!({
        "summary": {
            "job": job, "name": "demo", "state": "running", "fault": null, "steps": 3,
            "reward": {"first": 0.25, "last": 0.5}, "validation": {"before": null, "after": null},
            "samples": {}, "calls": {}, "seconds": 1.5, "checkpoint": null,
        },
        "config": {
            "name": "demo",
            "model": {"foundation": {"name": "paddock-base", "version": "1"}},
            "hyperparameters": Hyperparameters::default(),
            "rollout": {
                "name": "rollout", "python_func": "plugins.r:rollout", "envs": {"KEY": "hunter2"},
            },
            "graders": [{
                "plugin": {
                    "name": "reward", "python_func": "plugins.g:reward",
                    "envs": {"OTHER": "hunter2"},
                },
                "weight": 1.0,
            }],
            "data": {
                "training_files": [], "validation": "none", "max_invalid_records": {"number": 0},
            },
            "save_model_limit": 1, "enable_trajectory": true, "on_abnormal_reward": "fail",
            "content_format": "as_is", "model_timeout": 120, "tags": null, "project": null,
        },
        "project_dir": "", "created_ms": 0, "updated_ms": 0,
    }))
    .expect("it is a job")
}

fn trajectory(id: TrajectoryId) -> TrajectoryRecord {
    TrajectoryRecord {
        id,
        status: TrajectoryStatus::Success,
        reason: String::new(),
        source: "data/train.jsonl:1".to_owned(),
        conversation: Conversation {
            messages: vec![
                Message::text("user", "1 + 1?"),
                Message::text("assistant", "2"),
            ],
            tokens: Tokens {
                ids: vec![1, 2, 3],
                mask: vec![false, true, true],
                logprobs: vec![0.0, -0.5, -0.25],
            },
            finish_reason: "stop".to_owned(),
            turns: 1,
            ..Conversation::default()
        },
        extra: json!({"k": 1}),
        rewards: [("reward".to_owned(), f64::from(id.generation))].into(),
        reward: Some(f64::from(id.generation)),
        metrics: Default::default(),
        ended_ms: 5,
    }
}

fn call(id: TrajectoryId) -> CallRecord {
    CallRecord {
        call: CallId::new(),
        attempt: 1,
        job: id.sample.job,
        plugin: "reward".to_owned(),
        sample: id.sample,
        trajectory: Some(id),
        started_ms: 1,
        verdict: Verdict {
            outcome: Outcome::Success,
            sub_kind: None,
            platform: false,
            message: String::new(),
            evidence: Default::default(),
            rewards: vec![1.0],
            metrics: Default::default(),
            error: String::new(),
            extra: json!(null),
            queue_ms: 0.0,
            run_ms: 1.0,
            model_ms: 0.0,
            peak_memory_bytes: None,
            instance: "reward-1".to_owned(),
        },
    }
}

fn line(number: i64, call: Option<CallId>) -> LogLine {
    LogLine {
        time_ms: number,
        level: if number == 3 {
            Level::Error
        } else {
            Level::Info
        },
        logger: "stdout".to_owned(),
        text: format!("line {number}"),
        plugin: "reward".to_owned(),
        instance: "reward-1".to_owned(),
        call,
        attempt: 1,
    }
}
