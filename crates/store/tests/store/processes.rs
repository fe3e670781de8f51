//! SQLite between processes: readers beside a writer, several writers, a writer that is killed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::conformance::fixtures::{self, call, sample, trajectory};
use paddock_store::{
    CallFilter, PageRequest, SqliteStore, Store, StoreError, Writer, WriterOptions,
};
use paddock_types::JobId;
use paddock_types::id::Phase;

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn without_a_store_a_reader_is_told_where_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("nowhere");
    let error = SqliteStore::open_existing(&missing)
        .await
        .expect_err("there is none");
    assert!(matches!(error, StoreError::NoStore { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("nowhere") && text.contains("--data-dir"),
        "{text}"
    );
    assert!(!missing.exists(), "a reader makes nothing");
}

#[tokio::test]
async fn a_store_opens_again_with_all_that_is_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = fixtures::job("first");
    let store = SqliteStore::open(folder.path()).await.expect("it opens");
    store.put_job(&job).await.expect("recorded");
    store.close().await;
    drop(store);
    let reader = SqliteStore::open_existing(folder.path())
        .await
        .expect("it opens");
    assert_eq!(
        reader.job(job.summary.job).await.expect("read").as_ref(),
        Some(&job)
    );
    let refused = reader.put_job(&job).await.expect_err("it only reads");
    assert!(
        matches!(refused, StoreError::ReadOnly { .. }),
        "{refused:?}"
    );
    let store = SqliteStore::open(folder.path()).await.expect("it opens");
    store.put_job(&job).await.expect("recorded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_whole_batches_while_a_job_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path()).await.expect("it opens");
    let job = fixtures::job("first");
    store.put_job(&job).await.expect("recorded");
    let job = job.summary.job;
    let reader = SqliteStore::open_existing(folder.path())
        .await
        .expect("it opens");
    let writing = tokio::spawn(async move {
        for index in 0..40 {
            let sample = sample(job, Phase::Train, 1, index);
            let group: Vec<_> = (0..8)
                .map(|g| trajectory(sample.trajectory(g), 1.0))
                .collect();
            store.put_trajectories(&group).await.expect("recorded");
        }
    });
    let deadline = Instant::now() + DEADLINE;
    loop {
        let page = reader
            .trajectories(&Default::default(), &PageRequest::first(1000))
            .await
            .expect("a reader is never in the way");
        assert_eq!(page.items.len() % 8, 0, "half a batch was seen");
        if page.items.len() == 320 {
            break;
        }
        assert!(Instant::now() < deadline, "saw {}", page.items.len());
    }
    writing.await.expect("the writer ends well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writers_take_turns() {
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = tokio::join!(
        SqliteStore::open(folder.path()),
        SqliteStore::open(folder.path())
    );
    let mut tasks = tokio::task::JoinSet::new();
    for store in [a.expect("it opens"), b.expect("it opens")] {
        let store: Arc<dyn Store> = Arc::new(store);
        tasks.spawn(async move {
            let job = fixtures::job("beside another");
            store.put_job(&job).await.expect("recorded");
            let writer = Writer::start(Arc::clone(&store), WriterOptions::default());
            let id = sample(job.summary.job, Phase::Train, 1, 0).trajectory(0);
            for _ in 0..1000 {
                writer.call(call(id, "reward")).await.expect("accepted");
            }
            writer.flush().await.expect("written");
        });
    }
    tasks.join_all().await;
    let reader = SqliteStore::open_existing(folder.path())
        .await
        .expect("it opens");
    assert_eq!(calls_of(&reader, None).await, 2000);
}

#[tokio::test]
async fn a_store_of_a_later_version_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    SqliteStore::open(folder.path())
        .await
        .expect("it opens")
        .close()
        .await;
    let file = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.path().join("paddock.db"));
    let pool = sqlx::SqlitePool::connect_with(file)
        .await
        .expect("it opens");
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', 1, x'00', 0)",
    )
    .execute(&pool)
    .await
    .expect("a later version was here");
    pool.close().await;
    for opened in [
        SqliteStore::open(folder.path()).await,
        SqliteStore::open_existing(folder.path()).await,
    ] {
        let error = opened.expect_err("it is not ours to read");
        assert!(
            matches!(error, StoreError::Schema { found: 9999, .. }),
            "{error:?}"
        );
    }
}

/// Not a test of its own: the process that the next test kills. It does nothing in a usual run.
#[tokio::test]
async fn writer_to_be_killed() {
    let Ok(folder) = std::env::var("PADDOCK_STORE_TEST_FOLDER") else {
        return;
    };
    let store = SqliteStore::open(Path::new(&folder))
        .await
        .expect("it opens");
    let store: Arc<dyn Store> = Arc::new(store);
    let job = fixtures::job("to be killed");
    store.put_job(&job).await.expect("recorded");
    let writer = Writer::start(Arc::clone(&store), WriterOptions::default());
    let marker = Path::new(&folder).join("flushed");
    for round in 1.. {
        let id = sample(job.summary.job, Phase::Train, round, 0).trajectory(0);
        for _ in 0..100 {
            writer.call(call(id, "reward")).await.expect("accepted");
        }
        writer
            .trajectory(trajectory(id, 1.0))
            .await
            .expect("accepted");
        writer.flush().await.expect("written");
        std::fs::write(&marker, round.to_string()).expect("the marker is written");
    }
}

#[tokio::test]
async fn what_was_flushed_outlives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(std::env::current_exe().expect("this test's file"))
        .args(["--exact", "processes::writer_to_be_killed"])
        .env("PADDOCK_STORE_TEST_FOLDER", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the writer starts");
    let deadline = Instant::now() + DEADLINE;
    let flushed = || -> u32 {
        let text = std::fs::read_to_string(folder.path().join("flushed")).unwrap_or_default();
        text.parse().unwrap_or(0)
    };
    while flushed() < 5 {
        assert!(Instant::now() < deadline, "flushed {}", flushed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().expect("it is killed");
    child.wait().expect("it is gone");
    let rounds = flushed();

    let store = SqliteStore::open(folder.path())
        .await
        .expect("it opens again at once");
    let jobs = store
        .jobs(&Default::default(), &PageRequest::default())
        .await
        .expect("read");
    let job = jobs.items[0].summary.job;
    let calls = calls_of(&store, Some(job)).await;
    assert!(calls >= rounds as usize * 100, "{calls} of {rounds} rounds");
    for round in 1..=rounds {
        let id = sample(job, Phase::Train, round, 0).trajectory(0);
        let read = store.trajectory(id).await.expect("it reads back whole");
        assert_eq!(read, Some(trajectory(id, 1.0)), "round {round}");
    }
    store
        .put_calls(&[call(
            sample(job, Phase::Train, 1, 1).trajectory(0),
            "reward",
        )])
        .await
        .expect("it goes on");
}

async fn calls_of(store: &SqliteStore, job: Option<JobId>) -> usize {
    let filter = CallFilter {
        job,
        ..CallFilter::default()
    };
    let mut page = PageRequest::first(1000);
    let mut count = 0;
    loop {
        let found = store.calls(&filter, &page).await.expect("a page");
        count += found.items.len();
        page.after = found.next;
        if page.after.is_none() {
            return count;
        }
    }
}
