//! The runtime: queue, slots, deadlines, verdicts, and each verdict recorded in the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use futures::future::try_join_all;
use paddock_runtime::Plugin;
use paddock_store::{SqliteStore, Store as _, Writer, WriterOptions};
use paddock_types::id::Phase;
use paddock_types::job::{
    DataConfig, InvalidRecords, JobConfig, JobRecord, JobState, JobSummary, ModelReference,
    ValidationSet,
};
use paddock_types::{CallRecord, JobId, SampleId};

use super::Bench;
use crate::plugins;

/// Calls answered and recorded in a second, with so many callers.
pub(super) async fn measure(
    bench: &Bench,
    function: &str,
    in_flight: usize,
) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(folder.path()).await?);
    let writer = Writer::start(store.clone(), WriterOptions::default());
    let function = format!("grader:{function}");
    let (project, limits) = (bench.project.clone(), Default::default());
    let plugin = plugins::start(project, &function, &bench.environment, limits).await?;
    let job = JobId::new();
    store.put_job(&record(job)).await?;
    // Slots are added as the queue asks for them: that is not measured.
    let warm = bench.span / 5;
    answer(bench, &plugin, &writer, job, in_flight, warm).await?;
    let start = Instant::now();
    let answered = answer(bench, &plugin, &writer, job, in_flight, bench.span).await?;
    writer.flush().await?;
    let rate = answered as f64 / start.elapsed().as_secs_f64();
    plugin.close().await;
    store.close().await;
    Ok(rate)
}

async fn answer(
    bench: &Bench,
    plugin: &Plugin,
    writer: &Writer,
    job: JobId,
    callers: usize,
    span: std::time::Duration,
) -> anyhow::Result<u64> {
    let answered = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + span;
    let tasks = (0..callers).map(|index| {
        let (plugin, writer, body) = (plugin.clone(), writer.clone(), bench.body.clone());
        let answered = answered.clone();
        let sample = SampleId {
            job,
            phase: Phase::Train,
            step: 1,
            index: index as u32,
        };
        let task = tokio::spawn(async move {
            while Instant::now() < end {
                let call = plugins::call(body.clone(), 1);
                let record = CallRecord {
                    call: call.id,
                    attempt: 1,
                    job,
                    plugin: "grader".to_owned(),
                    sample,
                    trajectory: Some(sample.trajectory(0)),
                    started_ms: now_ms(),
                    verdict: plugin.call(call).await,
                };
                let verdict = &record.verdict;
                ensure!(verdict.rewards == [1.0], "it answered {verdict:?}");
                writer.call(record).await?;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        async { task.await? }
    });
    try_join_all(tasks).await?;
    Ok(answered.load(Ordering::Relaxed))
}

/// The job that the calls are recorded for.
fn record(job: JobId) -> JobRecord {
    JobRecord {
        summary: JobSummary {
            job,
            name: "bench".to_owned(),
            state: JobState::Running,
            fault: None,
            steps: 1,
            reward: Default::default(),
            validation: Default::default(),
            samples: Default::default(),
            calls: Default::default(),
            seconds: 0.0,
            checkpoint: None,
        },
        config: JobConfig {
            name: "bench".to_owned(),
            model: ModelReference::Foundation {
                name: "none".to_owned(),
                version: "1".to_owned(),
            },
            hyperparameters: Default::default(),
            rollout: None,
            graders: Vec::new(),
            data: DataConfig {
                training_files: Vec::new(),
                validation: ValidationSet::Percentage(0.0),
                max_invalid_records: InvalidRecords::Number(0),
            },
            save_model_limit: 1,
            enable_trajectory: true,
            on_abnormal_reward: Default::default(),
            content_format: Default::default(),
            network: Default::default(),
            model_timeout: 120,
            tags: serde_json::Value::Null,
            project: None,
        },
        project_dir: String::new(),
        created_ms: now_ms(),
        updated_ms: now_ms(),
        plugins: Default::default(),
    }
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as i64)
}
