//! Log lines.

use std::sync::Arc;

use paddock_store::{LogFilter, LogOrder, PageRequest, Store, StoreError};
use paddock_types::JobId;
use paddock_types::id::Phase;
use paddock_types::log::{Level, LogLine};

use super::fixtures::{self, call, line, sample};

async fn with_job(store: &Arc<dyn Store>) -> JobId {
    let job = fixtures::job("first");
    store.put_job(&job).await.expect("recorded");
    job.summary.job
}

async fn texts(store: &Arc<dyn Store>, job: JobId, filter: LogFilter) -> Vec<String> {
    let page = store.logs(job, &filter, &PageRequest::default()).await;
    let items = page.expect("a page").items;
    items.into_iter().map(|stored| stored.line.text).collect()
}

pub(crate) async fn lines_read_back_in_order_of_time(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let full = LogLine {
        level: Level::Error,
        call: Some(paddock_types::CallId::new()),
        attempt: 2,
        ..line(20, "羊 \u{0} \\ud83d tab\tend")
    };
    let lines = [line(30, "c"), full.clone(), line(10, "a"), line(20, "b")];
    store.put_logs(job, &lines).await.expect("recorded");
    let mut page = PageRequest::first(3);
    let mut seen = Vec::new();
    loop {
        let found = store
            .logs(job, &LogFilter::default(), &page)
            .await
            .expect("a page");
        seen.extend(found.items.into_iter().map(|stored| stored.line));
        page.after = found.next;
        if page.after.is_none() {
            break;
        }
    }
    assert_eq!(seen, [line(10, "a"), full, line(20, "b"), line(30, "c")]);
}

pub(crate) async fn filters_choose(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let other = with_job(&store).await;
    let mine = sample(job, Phase::Train, 1, 0);
    let of_trajectory = call(mine.trajectory(0), "reward");
    let of_sibling = call(mine.trajectory(1), "reward");
    store
        .put_calls(&[of_trajectory.clone(), of_sibling.clone()])
        .await
        .expect("recorded");
    let lines = [
        LogLine {
            level: Level::Debug,
            ..line(1, "debug")
        },
        LogLine {
            plugin: String::new(),
            ..line(2, "the job's own")
        },
        LogLine {
            level: Level::Warning,
            instance: "reward-2".to_owned(),
            ..line(3, "Warned 100%")
        },
        LogLine {
            call: Some(of_trajectory.call),
            ..line(4, "in the call")
        },
        LogLine {
            call: Some(of_sibling.call),
            level: Level::Error,
            ..line(5, "in the sibling's call")
        },
    ];
    store.put_logs(job, &lines).await.expect("recorded");
    store
        .put_logs(other, &[line(3, "elsewhere")])
        .await
        .expect("recorded");
    let none = LogFilter::default();
    let cases: Vec<(LogFilter, &[usize])> = vec![
        (none.clone(), &[0, 1, 2, 3, 4]),
        (
            LogFilter {
                plugin: Some(String::new()),
                ..none.clone()
            },
            &[1],
        ),
        (
            LogFilter {
                instance: Some("reward-2".to_owned()),
                ..none.clone()
            },
            &[2],
        ),
        (
            LogFilter {
                level: Some(Level::Warning),
                ..none.clone()
            },
            &[2, 4],
        ),
        (
            LogFilter {
                text: Some("warned 100%".to_owned()),
                ..none.clone()
            },
            &[2],
        ),
        (
            LogFilter {
                call: Some(of_sibling.call),
                ..none.clone()
            },
            &[4],
        ),
        (
            LogFilter {
                trajectory: Some(mine.trajectory(0)),
                ..none.clone()
            },
            &[3],
        ),
        (
            LogFilter {
                since: Some(2),
                until: Some(4),
                ..none
            },
            &[1, 2],
        ),
    ];
    for (filter, wanted) in cases {
        let wanted: Vec<_> = wanted.iter().map(|&n| lines[n].text.clone()).collect();
        assert_eq!(
            texts(&store, job, filter.clone()).await,
            wanted,
            "{filter:?}"
        );
    }
}

pub(crate) async fn following_misses_nothing(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let follow = LogFilter {
        order: LogOrder::Arrival,
        ..LogFilter::default()
    };
    store
        .put_logs(job, &[line(50, "one")])
        .await
        .expect("recorded");
    let first = store
        .logs(job, &follow, &PageRequest::default())
        .await
        .expect("a page");
    let last = first.items.last().expect("a line");
    assert_eq!(last.line.text, "one");
    // A line that arrives later with an earlier time.
    store
        .put_logs(job, &[line(40, "late"), line(60, "two")])
        .await
        .expect("recorded");
    let page = PageRequest {
        limit: 10,
        after: Some(last.cursor(LogOrder::Arrival)),
    };
    let next = store.logs(job, &follow, &page).await.expect("a page");
    let texts: Vec<_> = next.items.iter().map(|s| s.line.text.as_str()).collect();
    assert_eq!(texts, ["late", "two"]);
}

pub(crate) async fn the_latest_come_first_when_asked(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let lines = [line(1, "a"), line(2, "b"), line(2, "c")];
    store.put_logs(job, &lines).await.expect("recorded");
    let latest = LogFilter {
        order: LogOrder::Latest,
        ..LogFilter::default()
    };
    let first = store
        .logs(job, &latest, &PageRequest::first(2))
        .await
        .expect("a page");
    let texts: Vec<_> = first.items.iter().map(|s| s.line.text.as_str()).collect();
    assert_eq!(texts, ["c", "b"]);
    let rest = store
        .logs(
            job,
            &latest,
            &PageRequest {
                limit: 2,
                after: first.next,
            },
        )
        .await
        .expect("a page");
    assert_eq!(rest.items.len(), 1);
    assert_eq!(rest.items[0].line.text, "a");
}

pub(crate) async fn a_cursor_of_another_list_is_refused(store: Arc<dyn Store>) {
    let job = with_job(&store).await;
    let page = PageRequest {
        limit: 1,
        after: Some("1-2-3".parse().expect("it looks like a cursor")),
    };
    let refused = store.logs(job, &LogFilter::default(), &page).await;
    let refused = refused.expect_err("it is another list's");
    assert!(
        matches!(refused, StoreError::BadCursor { .. }),
        "{refused:?}"
    );
}
