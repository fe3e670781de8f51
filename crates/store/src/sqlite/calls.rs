//! Calls: one row an attempt, its evidence in a payload.

use paddock_types::{CallId, CallRecord, TrajectoryId, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};

use super::SqliteStore;
use super::insert::pieces;
use super::jobs::number;
use super::payload::{Packer, read_json};
use super::select::Select;
use super::trajectory_rows::{count, position, sample, sample_position, word};
use crate::{CallFilter, Cursor, Page, PageRequest, StoreError};

const READ: &str = "read calls";
const WRITE: &str = "record calls";
const COLUMNS: &str = "SELECT call, attempt, job, phase, step, sample, generation, plugin, \
     started_ms, outcome, sub_kind, platform, message, queue_ms, run_ms, model_ms, \
     peak_memory_bytes, instance, payload FROM calls";

/// The parts of a verdict that no filter asks for. What is empty isn't written.
#[derive(Serialize)]
struct Rest<'a> {
    #[serde(skip_serializing_if = "Map::is_empty")]
    evidence: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "<[f64]>::is_empty")]
    rewards: &'a [f64],
    #[serde(skip_serializing_if = "Map::is_empty")]
    metrics: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
    #[serde(skip_serializing_if = "Value::is_null")]
    extra: &'a Value,
}

/// The same, read back.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OwnedRest {
    evidence: Map<String, Value>,
    rewards: Vec<f64>,
    metrics: Map<String, Value>,
    error: String,
    extra: Value,
}

pub(super) async fn insert(
    transaction: &mut Transaction<'_, Sqlite>,
    records: &[CallRecord],
) -> Result<(), StoreError> {
    let mut packer = Packer::default();
    for piece in pieces(records) {
        let payloads = piece
            .iter()
            .map(|record| rest(&mut packer, record))
            .collect::<Result<Vec<_>, _>>()?;
        let mut query = QueryBuilder::<Sqlite>::new(
            "INSERT INTO calls (call, attempt, job, phase, step, sample, generation, plugin,
                 started_ms, outcome, sub_kind, platform, message, queue_ms, run_ms, model_ms,
                 peak_memory_bytes, instance, payload) ",
        );
        query.push_values(piece.iter().zip(payloads), |mut row, (record, payload)| {
            let verdict = &record.verdict;
            row.push_bind(record.call.to_u64() as i64)
                .push_bind(i64::from(record.attempt));
            for number in sample_position(record.sample) {
                row.push_bind(number);
            }
            row.push_bind(record.trajectory.map(|t| i64::from(t.generation)))
                .push_bind(record.plugin.as_str())
                .push_bind(record.started_ms)
                .push_bind(verdict.outcome.as_str())
                .push_bind(verdict.sub_kind.map(|kind| kind.as_str()))
                .push_bind(verdict.platform)
                .push_bind(verdict.message.as_str())
                .push_bind(verdict.queue_ms)
                .push_bind(verdict.run_ms)
                .push_bind(verdict.model_ms)
                .push_bind(verdict.peak_memory_bytes.map(|bytes| bytes as i64))
                .push_bind(verdict.instance.as_str())
                .push_bind(payload);
        });
        query
            .push(" ON CONFLICT (call, attempt) DO NOTHING")
            .build()
            .execute(&mut **transaction)
            .await
            .map_err(|source| StoreError::database(WRITE, source))?;
    }
    Ok(())
}

fn rest(packer: &mut Packer, record: &CallRecord) -> Result<Vec<u8>, StoreError> {
    let verdict = &record.verdict;
    let times = [verdict.queue_ms, verdict.run_ms, verdict.model_ms];
    let numbers = times.into_iter().chain(verdict.rewards.iter().copied());
    if let Some(value) = numbers.into_iter().find(|n| !n.is_finite()) {
        let what = format!("a number of {}, attempt {}", record.call, record.attempt);
        return Err(StoreError::NotFinite { what, value });
    }
    packer.json(
        "a call",
        &Rest {
            evidence: &verdict.evidence,
            rewards: &verdict.rewards,
            metrics: &verdict.metrics,
            error: &verdict.error,
            extra: &verdict.extra,
        },
    )
}

pub(super) async fn of_trajectory(
    store: &SqliteStore,
    id: TrajectoryId,
) -> Result<Vec<CallRecord>, StoreError> {
    let [_, _, _, _, generation] = position(id);
    Select::new(COLUMNS)
        .and_row("(job, phase, step, sample) =", &sample_position(id.sample))
        .push(" AND (generation IS NULL OR generation = ")
        .bind(generation)
        .push(") ORDER BY call, attempt")
        .rows(&store.readers, READ, read)
        .await
}

pub(super) async fn list(
    store: &SqliteStore,
    filter: &CallFilter,
    page: &PageRequest,
) -> Result<Page<CallRecord>, StoreError> {
    let rows = page.rows();
    let mut select = Select::new(COLUMNS);
    select
        .and("job =", filter.job.map(number))
        .and("plugin =", filter.plugin.as_deref())
        .and("outcome =", filter.outcome.map(|outcome| outcome.as_str()))
        .and("sub_kind =", filter.sub_kind.map(|kind| kind.as_str()))
        .and("call =", filter.call.map(|call| call.to_u64() as i64));
    if let Some(id) = filter.trajectory {
        select.and_row("(job, phase, step, sample, generation) =", &position(id));
    }
    if let Some(after) = &page.after {
        select.and_row("(call, attempt) >", &after.keys::<2>()?);
    }
    let found = select
        .push(" ORDER BY call, attempt")
        .limit(rows)
        .rows(&store.readers, READ, read)
        .await?;
    Ok(Page::cut(found, rows, |record| {
        Cursor::at([record.call.to_u64() as i64, i64::from(record.attempt)])
    }))
}

fn read(row: &SqliteRow) -> Result<CallRecord, StoreError> {
    let failed = |source| StoreError::database(READ, source);
    let call = CallId::from_u64(count(row, 0).map_err(failed)?);
    let packed = row.try_get(18).map_err(failed)?;
    let rest: OwnedRest = read_json(|| call.to_string(), packed)?;
    record(row, call, rest).map_err(failed)
}

fn record(row: &SqliteRow, call: CallId, rest: OwnedRest) -> Result<CallRecord, sqlx::Error> {
    let sample = sample(row, 2)?;
    let generation: Option<u32> = row.try_get(6)?;
    let sub_kind = match row.try_get::<Option<&str>, _>(10)? {
        Some(_) => Some(word(row, 10)?),
        None => None,
    };
    Ok(CallRecord {
        call,
        attempt: row.try_get(1)?,
        job: sample.job,
        plugin: row.try_get(7)?,
        sample,
        trajectory: generation.map(|generation| sample.trajectory(generation)),
        started_ms: row.try_get(8)?,
        verdict: Verdict {
            outcome: word(row, 9)?,
            sub_kind,
            platform: row.try_get(11)?,
            message: row.try_get(12)?,
            evidence: rest.evidence,
            rewards: rest.rewards,
            metrics: rest.metrics,
            error: rest.error,
            extra: rest.extra,
            queue_ms: row.try_get(13)?,
            run_ms: row.try_get(14)?,
            model_ms: row.try_get(15)?,
            peak_memory_bytes: row.try_get::<Option<i64>, _>(16)?.map(|bytes| bytes as u64),
            instance: row.try_get(17)?,
        },
    })
}
