//! Reading what jobs left behind: the store, the job that a text means, all pages of a list.

use std::future::Future;
use std::path::Path;

use paddock_store::{
    Cursor, JobFilter, JobLock, MAX_PAGE, Page, PageRequest, SqliteStore, Store, StoreError,
};
use paddock_types::JobId;
use paddock_types::job::JobRecord;

use crate::failure::Failure;

/// Runs a future to its end on this thread and a few helpers of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        paddock_types::Fault::internal(format!("no threads could be started: {error}"))
    })?;
    Ok(runtime.block_on(future))
}

/// The store of a data folder that exists.
pub(crate) async fn open(data_dir: &Path) -> Result<SqliteStore, Failure> {
    Ok(SqliteStore::open_existing(data_dir).await?)
}

/// The job that a text means: its id, the beginning of its id, or `latest`.
pub(crate) async fn job(store: &dyn Store, text: &str) -> Result<JobRecord, Failure> {
    let filter = JobFilter::default();
    if text == "latest" {
        let page = store.jobs(&filter, &PageRequest::first(1)).await?;
        let newest = page.items.into_iter().next();
        return newest
            .ok_or_else(|| Failure::usage("there is no job yet: `paddock run` makes one"));
    }
    if let Ok(id) = text.parse::<JobId>() {
        let job = store.job(id).await?;
        return job.ok_or_else(|| {
            Failure::usage(format!(
                "there is no job \"{text}\" here (`paddock jobs list` has them all)"
            ))
        });
    }
    let page = store.jobs(&filter, &PageRequest::first(MAX_PAGE)).await?;
    let begins = |job: &JobRecord| {
        let id = job.summary.job.to_string();
        id.starts_with(text) || id.trim_start_matches("job_").starts_with(text)
    };
    let mut found = page.items.into_iter().filter(begins);
    match (found.next(), found.next()) {
        (Some(job), None) => Ok(job),
        (Some(_), Some(_)) => Err(Failure::usage(format!(
            "\"{text}\" begins the ids of several jobs: give more of it"
        ))),
        (None, _) => Err(Failure::usage(format!(
            "\"{text}\" is no job: use an id, the beginning of one, or \"latest\" (`paddock jobs list`)"
        ))),
    }
}

/// True if the job should be running, and no process runs it: its own died.
pub(crate) fn left_behind(data_dir: &Path, job: &JobRecord) -> bool {
    !job.summary.state.is_final() && !JobLock::is_held(data_dir, job.summary.job)
}

/// A job as `--json` shows it: its record, and whether its process is gone.
#[derive(serde::Serialize)]
pub(crate) struct Shown {
    #[serde(flatten)]
    job: JobRecord,
    left_behind: bool,
}

/// A job for `--json`, its secrets masked.
pub(crate) fn shown(data_dir: &Path, job: &JobRecord) -> Shown {
    Shown {
        left_behind: left_behind(data_dir, job),
        job: job.clone().masked(),
    }
}

/// A job's state in words.
pub(crate) fn state(data_dir: &Path, job: &JobRecord) -> String {
    let state = job.summary.state.as_str();
    match left_behind(data_dir, job) {
        true => format!("{state} (left behind: its process is gone)"),
        false => state.to_owned(),
    }
}

/// The first `limit` rows of a list, page by page.
pub(crate) async fn rows<T, F>(
    limit: u64,
    mut page: impl FnMut(PageRequest) -> F,
) -> Result<Vec<T>, Failure>
where
    F: Future<Output = Result<Page<T>, StoreError>>,
{
    let mut rows = Vec::new();
    let mut after: Option<Cursor> = None;
    while (rows.len() as u64) < limit {
        let left = (limit - rows.len() as u64).min(u64::from(MAX_PAGE));
        let request = PageRequest {
            limit: u32::try_from(left).unwrap_or(MAX_PAGE),
            after,
        };
        let mut got = page(request).await?;
        rows.append(&mut got.items);
        match got.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    Ok(rows)
}
