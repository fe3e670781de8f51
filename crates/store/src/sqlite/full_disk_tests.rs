//! A full disk: SQLite is given as little room as a disk would, by its own limit of pages.

use std::sync::Arc;
use std::time::Duration;

use paddock_types::id::{Phase, SampleId};
use paddock_types::log::{Level, LogLine};
use paddock_types::{FaultKind, JobId};

use super::SqliteStore;
use crate::{LogFilter, PageRequest, Store, StoreError, Writer, WriterOptions};

const SOON: Duration = Duration::from_secs(30);

async fn with_pages(store: &SqliteStore, most: &'static str) {
    let writer = store.writer.as_ref().expect("it was opened for writing");
    sqlx::query(most)
        .execute(writer)
        .await
        .expect("a limit can be set");
}

async fn record_job(store: &SqliteStore, job: JobId) {
    let hyperparameters = paddock_types::job::Hyperparameters::default();
    let record = serde_json::from_value(serde_json::json!({
        "summary": {
            "job": job, "name": "big", "state": "running", "fault": null, "steps": 0,
            "reward": {"first": null, "last": null}, "validation": {"before": null, "after": null},
            "samples": {}, "calls": {}, "seconds": 0.0, "checkpoint": null,
        },
        "config": {
            "name": "big", "model": {"custom": "x"}, "hyperparameters": hyperparameters,
            "rollout": null, "graders": [],
            "data": {
                "training_files": [], "validation": "none", "max_invalid_records": {"number": 0},
            },
            "save_model_limit": 1, "enable_trajectory": true, "on_abnormal_reward": "fail",
            "content_format": "as_is", "model_timeout": 120, "tags": null, "project": null,
        },
        "project_dir": "", "created_ms": 0, "updated_ms": 0,
    }))
    .expect("it is a job");
    store.put_job(&record).await.expect("recorded");
}

fn line(number: i64) -> LogLine {
    LogLine {
        time_ms: number,
        level: Level::Info,
        logger: "stdout".to_owned(),
        text: "x".repeat(4000),
        plugin: String::new(),
        instance: String::new(),
        call: None,
        attempt: 0,
    }
}

#[tokio::test]
async fn the_job_is_told_and_nothing_half_written_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(SqliteStore::open(folder.path()).await.expect("it opens"));
    let job = JobId::new();
    record_job(&store, job).await;
    with_pages(&store, "PRAGMA max_page_count = 200").await;
    let shared: Arc<dyn Store> = store.clone();
    let writer = Writer::start(Arc::clone(&shared), WriterOptions::default());
    let mut kept = 0;
    let failure = loop {
        for number in 0..20 {
            writer.log(job, line(kept + number));
        }
        match writer.flush().await {
            Ok(()) => kept += 20,
            Err(error) => break error,
        }
        assert!(kept < 1000, "it never gets full");
    };
    assert!(failure.is_disk_full(), "{}", failure.chain());
    let told = tokio::time::timeout(SOON, writer.failed()).await;
    let fault = told.expect("it has failed").to_fault();
    assert_eq!(fault.kind, FaultKind::Internal);
    assert!(
        fault.message.contains("the disk is full"),
        "{}",
        fault.message
    );
    assert!(fault.advice.contains("free some space"), "{}", fault.advice);

    let page = shared
        .logs(job, &LogFilter::default(), &PageRequest::first(1000))
        .await
        .expect("what was kept reads back");
    assert_eq!(page.items.len() as i64, kept);

    // With room again, it goes on.
    with_pages(&store, "PRAGMA max_page_count = 100000").await;
    let sample = SampleId {
        job,
        phase: Phase::Train,
        step: 1,
        index: 0,
    };
    let missing = store.trajectory(sample.trajectory(0)).await;
    assert_eq!(missing.expect("it reads"), None);
    shared
        .put_logs(job, &[line(0)])
        .await
        .expect("there is room");
    let refused = writer.flush().await.expect_err("this writer has ended");
    assert!(matches!(refused, StoreError::WriterFailed { .. }));
}
