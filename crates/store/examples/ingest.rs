//! Measures what the writer sustains: `cargo run --release -p paddock-store --example ingest`.
//!
//! Calls as a trainer makes them (a small verdict each, 2,048 in flight), then trajectories of
//! 20 KB, each until it is in the store. The numbers in `docs/design/store.md` come from here.

#![expect(clippy::print_stdout, reason = "its result is its output")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use paddock_store::{SqliteStore, Store, Writer, WriterOptions};
use paddock_types::chat::Message;
use paddock_types::id::{Phase, SampleId};
use paddock_types::trajectory::{Conversation, Tokens, TrajectoryRecord, TrajectoryStatus};
use paddock_types::{CallId, CallRecord, JobId, Outcome, Verdict};

const CALLS: u32 = 200_000;
const TRAJECTORIES: u32 = 8_192;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(folder.path()).await?);
    let shared: Arc<dyn Store> = store.clone();
    let job = record_job(&shared).await?;
    let writer = Writer::start(shared, WriterOptions::default());

    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..64 {
        let writer = writer.clone();
        tasks.spawn(async move {
            for number in 0..CALLS / 64 {
                writer.call(call(job, task, number)).await?;
            }
            Ok::<(), paddock_store::StoreError>(())
        });
    }
    for ended in tasks.join_all().await {
        ended?;
    }
    writer.flush().await?;
    report("calls", CALLS, start, folder.path())?;

    let start = Instant::now();
    for index in 0..TRAJECTORIES {
        writer.trajectory(trajectory(job, index)).await?;
    }
    writer.flush().await?;
    report("trajectories", TRAJECTORIES, start, folder.path())?;
    store.close().await;
    Ok(())
}

fn report(
    what: &str,
    count: u32,
    start: Instant,
    folder: &std::path::Path,
) -> Result<(), Box<dyn Error>> {
    let seconds = start.elapsed().as_secs_f64();
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    println!(
        "{count} {what} in {seconds:.2} s: {:.0}/s; the folder holds {:.1} MiB",
        f64::from(count) / seconds,
        bytes as f64 / 1_048_576.0
    );
    Ok(())
}

async fn record_job(store: &Arc<dyn Store>) -> Result<JobId, Box<dyn Error>> {
    let job = JobId::new();
    let record = serde_json::from_value(serde_json::json!({
        "summary": {
            "job": job, "name": "ingest", "state": "running", "fault": null, "steps": 0,
            "reward": {"first": null, "last": null}, "validation": {"before": null, "after": null},
            "samples": {}, "calls": {}, "seconds": 0.0, "checkpoint": null,
        },
        "config": {
            "name": "ingest",
            "model": {"foundation": {"name": "paddock-base", "version": "1"}},
            "hyperparameters": paddock_types::job::Hyperparameters::default(),
            "rollout": null, "graders": [],
            "data": {
                "training_files": [], "validation": "none", "max_invalid_records": {"number": 0},
            },
            "save_model_limit": 1, "enable_trajectory": true, "on_abnormal_reward": "fail",
            "content_format": "as_is", "model_timeout": 120, "tags": null, "project": null,
        },
        "project_dir": "", "created_ms": 0, "updated_ms": 0,
    }))?;
    store.put_job(&record).await?;
    Ok(job)
}

fn sample(job: JobId, step: u32, index: u32) -> SampleId {
    SampleId {
        job,
        phase: Phase::Train,
        step,
        index,
    }
}

fn call(job: JobId, task: u32, number: u32) -> CallRecord {
    let sample = sample(job, 1 + number / 32, task);
    CallRecord {
        call: CallId::new(),
        attempt: 1,
        job,
        plugin: "reward".to_owned(),
        sample,
        trajectory: Some(sample.trajectory(number % 8)),
        started_ms: 1_700_000_000_000 + i64::from(number),
        verdict: Verdict {
            outcome: Outcome::Success,
            sub_kind: None,
            platform: false,
            message: String::new(),
            evidence: Default::default(),
            rewards: vec![1.0],
            metrics: Default::default(),
            error: String::new(),
            extra: serde_json::Value::Null,
            queue_ms: 0.5,
            run_ms: 1.25,
            model_ms: 0.0,
            peak_memory_bytes: Some(31 << 20),
            instance: "reward-1".to_owned(),
        },
    }
}

/// 20 KB of messages, and a thousand tokens. Numbers in the text, so that it isn't all repetition.
fn trajectory(job: JobId, index: u32) -> TrajectoryRecord {
    let mut seed = index.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed
    };
    let mut text = String::with_capacity(20_500);
    while text.len() < 20_000 {
        text.push_str(&format!(
            "so {} and {} make it; ",
            next() % 1000,
            next() % 97
        ));
    }
    let ids: Vec<u32> = (0..1000).map(|_| next() % 272).collect();
    TrajectoryRecord {
        id: sample(job, 1 + index / 256, index / 8 % 32).trajectory(index % 8),
        status: TrajectoryStatus::Success,
        reason: String::new(),
        source: "data/train.jsonl:1".to_owned(),
        conversation: Conversation {
            messages: vec![
                Message::text("user", "go on"),
                Message::text("assistant", &text),
            ],
            tokens: Tokens {
                mask: ids.iter().map(|id| id % 3 > 0).collect(),
                logprobs: ids.iter().map(|&id| -(id as f32) / 271.0).collect(),
                ids,
            },
            finish_reason: "stop".to_owned(),
            turns: 1,
            ..Conversation::default()
        },
        extra: serde_json::Value::Null,
        rewards: [("exact".to_owned(), 1.0)].into(),
        reward: Some(1.0),
        metrics: Default::default(),
        ended_ms: 0,
    }
}
