//! A trajectory as rows, and back: shared by what reads it whole and what lists it.

use paddock_types::chat::Usage;
use paddock_types::id::{Phase, SampleId, TrajectoryId};
use paddock_types::job::JobState;
use paddock_types::trajectory::{TrajectoryStatus, TrajectorySummary};
use paddock_types::{JobId, Outcome, SubKind};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::jobs::number;
use crate::StoreError;

/// The columns of a summary, in the order that [`summary`] reads them.
pub(super) const SUMMARY: &str = "SELECT job, phase, step, sample, generation, status, reason, \
     source, excerpt, finish_reason, turns, prompt_tokens, completion_tokens, total_tokens, \
     rewards, reward, metrics, ended_ms FROM trajectories";

/// The numbers that make a trajectory's position, in the order they sort by.
pub(super) fn position(id: TrajectoryId) -> [i64; 5] {
    let [job, phase, step, sample] = sample_position(id.sample);
    [job, phase, step, sample, i64::from(id.generation)]
}

/// The same, of a sample.
pub(super) fn sample_position(sample: SampleId) -> [i64; 4] {
    [
        number(sample.job),
        phase_number(sample.phase),
        i64::from(sample.step),
        i64::from(sample.index),
    ]
}

/// A phase as its column has it.
pub(super) fn phase_number(phase: Phase) -> i64 {
    match phase {
        Phase::Train => 0,
        Phase::Test => 1,
    }
}

/// The sample whose position stands in four columns from `at`.
pub(super) fn sample(row: &SqliteRow, at: usize) -> Result<SampleId, sqlx::Error> {
    Ok(SampleId {
        job: JobId::from_u64(row.try_get::<i64, _>(at)? as u64),
        phase: match row.try_get::<i64, _>(at + 1)? {
            0 => Phase::Train,
            _ => Phase::Test,
        },
        step: row.try_get(at + 2)?,
        index: row.try_get(at + 3)?,
    })
}

/// A summary from a row of [`SUMMARY`].
pub(super) fn summary(row: &SqliteRow) -> Result<TrajectorySummary, StoreError> {
    let id = sample(row, 0)
        .and_then(|sample| Ok(sample.trajectory(row.try_get(4)?)))
        .map_err(failed)?;
    fields(id, row).map_err(failed)
}

fn fields(id: TrajectoryId, row: &SqliteRow) -> Result<TrajectorySummary, sqlx::Error> {
    Ok(TrajectorySummary {
        id,
        status: word::<TrajectoryStatus>(row, 5)?,
        reason: row.try_get(6)?,
        source: row.try_get(7)?,
        excerpt: row.try_get(8)?,
        finish_reason: row.try_get(9)?,
        turns: row.try_get(10)?,
        usage: Usage {
            prompt_tokens: count(row, 11)?,
            completion_tokens: count(row, 12)?,
            total_tokens: count(row, 13)?,
        },
        rewards: json(row, 14)?,
        reward: row.try_get(15)?,
        metrics: json(row, 16)?,
        ended_ms: row.try_get(17)?,
    })
}

/// A whole number that is never negative.
pub(super) fn count(row: &SqliteRow, at: usize) -> Result<u64, sqlx::Error> {
    Ok(row.try_get::<i64, _>(at)? as u64)
}

/// JSON in a text column.
fn json<T: for<'de> Deserialize<'de>>(row: &SqliteRow, at: usize) -> Result<T, sqlx::Error> {
    serde_json::from_str(row.try_get(at)?).map_err(|error| column(at, error))
}

/// An enum by its word.
pub(super) fn word<T: Word>(row: &SqliteRow, at: usize) -> Result<T, sqlx::Error> {
    let text: &str = row.try_get(at)?;
    let deserializer: StrDeserializer<'_, ValueError> = text.into_deserializer();
    T::deserialize(deserializer).map_err(|error| column(at, error))
}

/// Enums that are kept as their words.
pub(super) trait Word: for<'de> Deserialize<'de> {}
impl Word for TrajectoryStatus {}
impl Word for Outcome {}
impl Word for SubKind {}
impl Word for JobState {}

fn column(at: usize, error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::ColumnDecode {
        index: at.to_string(),
        source: Box::new(error),
    }
}

fn failed(source: sqlx::Error) -> StoreError {
    StoreError::database("read trajectories", source)
}
