//! The writer over a real store.

use std::sync::Arc;
use std::time::Duration;

use paddock_store::{
    CallFilter, LogFilter, PageRequest, Store, StoreError, TrajectoryFilter, Writer, WriterOptions,
};
use paddock_types::JobId;
use paddock_types::id::Phase;

use super::fixtures::{self, call, line, sample, trajectory};

const SOON: Duration = Duration::from_secs(20);

async fn with_job(store: &Arc<dyn Store>) -> JobId {
    let job = fixtures::job("first");
    store.put_job(&job).await.expect("recorded");
    job.summary.job
}

async fn count_calls(store: &Arc<dyn Store>) -> usize {
    let mut page = PageRequest::first(1000);
    let mut count = 0;
    loop {
        let found = store.calls(&CallFilter::default(), &page).await;
        let found = found.expect("a page");
        count += found.items.len();
        page.after = found.next;
        if page.after.is_none() {
            return count;
        }
    }
}

pub(crate) async fn what_is_flushed_is_there(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let writer = Writer::start(Arc::clone(&store), WriterOptions::default());
    writer.flush().await.expect("nothing to write");
    let id = sample(job, Phase::Train, 1, 0).trajectory(0);
    writer
        .trajectory(trajectory(id, 1.0))
        .await
        .expect("accepted");
    writer.call(call(id, "reward")).await.expect("accepted");
    writer.log(job, line(1, "hello"));
    writer.flush().await.expect("written");
    assert_eq!(count_calls(&store).await, 1);
    let list = store
        .trajectories(&TrajectoryFilter::default(), &PageRequest::default())
        .await
        .expect("a page");
    assert_eq!(list.items.len(), 1);
    let logs = store
        .logs(job, &LogFilter::default(), &PageRequest::default())
        .await
        .expect("a page");
    assert_eq!(logs.items[0].line, line(1, "hello"));
}

pub(crate) async fn many_writers_lose_nothing(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let writer = Writer::start(
        Arc::clone(&store),
        WriterOptions {
            payload_bytes: 64 << 10,
            ..WriterOptions::default()
        },
    );
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..8 {
        let writer = writer.clone();
        tasks.spawn(async move {
            let id = sample(job, Phase::Train, 1, index).trajectory(0);
            for _ in 0..250 {
                writer.call(call(id, "reward")).await.expect("accepted");
            }
        });
    }
    tasks.join_all().await;
    writer.flush().await.expect("written");
    assert_eq!(count_calls(&store).await, 2000);
}

pub(crate) async fn a_failure_is_told_to_everyone(store: Arc<dyn Store>) {
    let writer = Writer::start(Arc::clone(&store), WriterOptions::default());
    let orphan = sample(JobId::new(), Phase::Train, 1, 0).trajectory(0);
    writer.call(call(orphan, "reward")).await.expect("accepted");
    let failure = writer.flush().await.expect_err("its job is unknown");
    assert!(
        matches!(&failure, StoreError::WriterFailed { source } if matches!(**source, StoreError::NoJob { .. })),
        "{failure:?}"
    );
    let told = tokio::time::timeout(SOON, writer.failed()).await;
    assert!(matches!(
        *told.expect("it has failed"),
        StoreError::NoJob { .. }
    ));
    let refused = writer.call(call(orphan, "reward")).await;
    assert!(matches!(refused, Err(StoreError::WriterFailed { .. })));
    let refused = writer.flush().await;
    assert!(matches!(refused, Err(StoreError::WriterFailed { .. })));
}

pub(crate) async fn the_last_handle_writes_what_is_queued(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let writer = Writer::start(Arc::clone(&store), WriterOptions::default());
    let id = sample(job, Phase::Train, 1, 0).trajectory(0);
    writer.call(call(id, "reward")).await.expect("accepted");
    drop(writer);
    let written = tokio::time::timeout(SOON, async {
        while count_calls(&store).await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    written.await.expect("the call was never written");
}

pub(crate) async fn a_record_larger_than_the_queue_passes(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let writer = Writer::start(
        Arc::clone(&store),
        WriterOptions {
            payload_bytes: 1024,
            ..WriterOptions::default()
        },
    );
    for generation in 0..3 {
        let id = sample(job, Phase::Train, 1, 0).trajectory(generation);
        let accepted = tokio::time::timeout(SOON, writer.trajectory(trajectory(id, 1.0))).await;
        accepted.expect("it waits for ever").expect("accepted");
    }
    writer.flush().await.expect("written");
    let last = sample(job, Phase::Train, 1, 0).trajectory(2);
    assert!(store.trajectory(last).await.expect("read").is_some());
}
