//! Measured numbers.

use paddock_types::JobId;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

use super::SqliteStore;
use super::insert::pieces;
use super::jobs::number;
use super::select::Select;
use crate::{MetricFilter, MetricPoint, MetricSeries, StoreError};

const READ: &str = "read metrics";
const WRITE: &str = "record metrics";

pub(super) async fn put(
    store: &SqliteStore,
    job: JobId,
    plugin: &str,
    points: &[MetricPoint],
) -> Result<(), StoreError> {
    if let Some(point) = points.iter().find(|point| !point.value.is_finite()) {
        return Err(StoreError::NotFinite {
            what: format!("\"{}\"", point.name),
            value: point.value,
        });
    }
    let mut transaction = store.begin(WRITE).await?;
    for piece in pieces(points) {
        let mut query = QueryBuilder::<Sqlite>::new(
            "INSERT OR REPLACE INTO metrics (job, plugin, name, time_ms, value) ",
        );
        query.push_values(piece, |mut row, point| {
            row.push_bind(number(job))
                .push_bind(plugin)
                .push_bind(point.name.as_str())
                .push_bind(point.time_ms)
                .push_bind(point.value);
        });
        query
            .build()
            .execute(&mut *transaction)
            .await
            .map_err(|source| StoreError::database(WRITE, source))?;
    }
    transaction
        .commit()
        .await
        .map_err(|source| StoreError::database(WRITE, source))
}

pub(super) async fn list(
    store: &SqliteStore,
    job: JobId,
    filter: &MetricFilter,
) -> Result<Vec<MetricSeries>, StoreError> {
    let rows = Select::new("SELECT plugin, name, time_ms, value FROM metrics")
        .and("job =", Some(number(job)))
        .and("plugin =", filter.plugin.as_deref())
        .and("name =", filter.name.as_deref())
        .and("time_ms >=", filter.since)
        .and("time_ms <", filter.until)
        .push(" ORDER BY plugin, name, time_ms")
        .rows(&store.readers, READ, |row| {
            read(row).map_err(|source| StoreError::database(READ, source))
        })
        .await?;
    let mut series: Vec<MetricSeries> = Vec::new();
    for (plugin, name, point) in rows {
        match series.last_mut() {
            Some(last) if last.plugin == plugin && last.name == name => last.points.push(point),
            _ => series.push(MetricSeries {
                plugin,
                name,
                points: vec![point],
            }),
        }
    }
    Ok(series)
}

type PointRow = (String, String, (i64, f64));

fn read(row: &SqliteRow) -> Result<PointRow, sqlx::Error> {
    Ok((
        row.try_get(0)?,
        row.try_get(1)?,
        (row.try_get(2)?, row.try_get(3)?),
    ))
}
