//! Log lines.

use paddock_types::log::{Level, LogLine};
use paddock_types::{CallId, JobId};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};

use super::SqliteStore;
use super::insert::pieces;
use super::jobs::number;
use super::select::Select;
use super::trajectory_rows::sample_position;
use crate::{LogFilter, LogOrder, Page, PageRequest, StoreError, StoredLine};

const READ: &str = "read log lines";
const LEVELS: [Level; 4] = [Level::Debug, Level::Info, Level::Warning, Level::Error];

pub(super) async fn insert(
    transaction: &mut Transaction<'_, Sqlite>,
    logs: &[(JobId, &[LogLine])],
) -> Result<(), StoreError> {
    for &(job, lines) in logs {
        for piece in pieces(lines) {
            let mut query = QueryBuilder::<Sqlite>::new(
                "INSERT INTO logs (job, time_ms, level, logger, plugin, instance, call, attempt,
                     text) ",
            );
            query.push_values(piece, |mut row, line| {
                row.push_bind(number(job))
                    .push_bind(line.time_ms)
                    .push_bind(severity(line.level))
                    .push_bind(line.logger.as_str())
                    .push_bind(line.plugin.as_str())
                    .push_bind(line.instance.as_str())
                    .push_bind(line.call.map(|call| call.to_u64() as i64))
                    .push_bind(i64::from(line.attempt))
                    .push_bind(line.text.as_str());
            });
            query
                .build()
                .execute(&mut **transaction)
                .await
                .map_err(|source| StoreError::database("record log lines", source))?;
        }
    }
    Ok(())
}

pub(super) async fn list(
    store: &SqliteStore,
    job: JobId,
    filter: &LogFilter,
    page: &PageRequest,
) -> Result<Page<StoredLine>, StoreError> {
    let rows = page.rows();
    let mut select = Select::new(
        "SELECT id, time_ms, level, logger, plugin, instance, call, attempt, text FROM logs",
    );
    select
        .and("job =", Some(number(job)))
        .and("plugin =", filter.plugin.as_deref())
        .and("instance =", filter.instance.as_deref())
        .and("call =", filter.call.map(|call| call.to_u64() as i64))
        .and("level >=", filter.level.map(severity))
        .and_contains("text", filter.text.as_deref())
        .and("time_ms >=", filter.since)
        .and("time_ms <", filter.until);
    if let Some(id) = filter.trajectory {
        select
            .push(" AND call IN (SELECT call FROM calls WHERE true")
            .and_row("(job, phase, step, sample) =", &sample_position(id.sample))
            .push(" AND (generation IS NULL OR generation = ")
            .bind(i64::from(id.generation))
            .push("))");
    }
    turn_to(&mut select, filter.order, page)?;
    let found = select
        .limit(rows)
        .rows(&store.readers, READ, |row| {
            read(row).map_err(|source| StoreError::database(READ, source))
        })
        .await?;
    Ok(Page::cut(found, rows, |stored| stored.cursor(filter.order)))
}

/// Skips the pages before, and sorts.
fn turn_to(select: &mut Select, order: LogOrder, page: &PageRequest) -> Result<(), StoreError> {
    match order {
        LogOrder::Time => {
            if let Some(after) = &page.after {
                select.and_row("(time_ms, id) >", &after.keys::<2>()?);
            }
            select.push(" ORDER BY time_ms, id");
        }
        LogOrder::Latest => {
            if let Some(after) = &page.after {
                select.and_row("(time_ms, id) <", &after.keys::<2>()?);
            }
            select.push(" ORDER BY time_ms DESC, id DESC");
        }
        LogOrder::Arrival => {
            if let Some(after) = &page.after {
                let [id] = after.keys()?;
                select.and("id >", Some(id));
            }
            select.push(" ORDER BY id");
        }
    }
    Ok(())
}

fn severity(level: Level) -> i64 {
    LEVELS.iter().position(|&known| known == level).unwrap_or(1) as i64
}

fn read(row: &SqliteRow) -> Result<StoredLine, sqlx::Error> {
    let level: u32 = row.try_get(2)?;
    let call: Option<i64> = row.try_get(6)?;
    Ok(StoredLine {
        id: row.try_get(0)?,
        line: LogLine {
            time_ms: row.try_get(1)?,
            level: LEVELS.get(level as usize).copied().unwrap_or(Level::Error),
            logger: row.try_get(3)?,
            plugin: row.try_get(4)?,
            instance: row.try_get(5)?,
            call: call.map(|call| CallId::from_u64(call as u64)),
            attempt: row.try_get(7)?,
            text: row.try_get(8)?,
        },
    })
}
