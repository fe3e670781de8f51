//! Building a `SELECT` from the parts of a filter that are set.

use sqlx::sqlite::SqliteRow;
use sqlx::{Encode, QueryBuilder, Sqlite, SqlitePool, Type};

use crate::StoreError;

/// A `SELECT` whose conditions are added one by one. Its text is ours; values are bound.
pub(super) struct Select(QueryBuilder<Sqlite>);

impl Select {
    /// Begins with `SELECT … FROM …`.
    pub(super) fn new(head: &'static str) -> Self {
        let mut query = QueryBuilder::new(head);
        query.push(" WHERE true");
        Self(query)
    }

    /// Adds `AND condition value`, if there is a value; `condition` ends before it: `"step ="`.
    pub(super) fn and<'t, T>(&mut self, condition: &'static str, value: Option<T>) -> &mut Self
    where
        T: Encode<'t, Sqlite> + Type<Sqlite>,
    {
        if let Some(value) = value {
            self.0
                .push(" AND ")
                .push(condition)
                .push(" ")
                .push_bind(value);
        }
        self
    }

    /// Adds that the column holds a text, whatever the case of its ASCII letters.
    pub(super) fn and_contains(&mut self, column: &'static str, text: Option<&str>) -> &mut Self {
        if let Some(text) = text {
            let mut pattern = String::with_capacity(text.len() + 2);
            pattern.push('%');
            for c in text.chars() {
                if matches!(c, '%' | '_' | '\\') {
                    pattern.push('\\');
                }
                pattern.push(c);
            }
            pattern.push('%');
            self.0
                .push(" AND ")
                .push(column)
                .push(" LIKE ")
                .push_bind(pattern)
                .push(" ESCAPE '\\'");
        }
        self
    }

    /// Adds a comparison of several columns at once: `"(a, b) >"`.
    pub(super) fn and_row(&mut self, condition: &'static str, values: &[i64]) -> &mut Self {
        self.0.push(" AND ").push(condition).push(" (");
        let mut list = self.0.separated(", ");
        for &value in values {
            list.push_bind(value);
        }
        list.push_unseparated(")");
        self
    }

    /// Adds text of our own.
    pub(super) fn push(&mut self, sql: &'static str) -> &mut Self {
        self.0.push(sql);
        self
    }

    /// Adds one value.
    pub(super) fn bind<'t, T>(&mut self, value: T) -> &mut Self
    where
        T: Encode<'t, Sqlite> + Type<Sqlite>,
    {
        self.0.push_bind(value);
        self
    }

    /// Adds `LIMIT`, with one row to spare, by which the end of the list is known.
    pub(super) fn limit(&mut self, rows: u32) -> &mut Self {
        self.0.push(" LIMIT ").push_bind(i64::from(rows) + 1);
        self
    }

    /// Runs it.
    pub(super) async fn rows<T>(
        &mut self,
        pool: &SqlitePool,
        what: &'static str,
        read: impl Fn(&SqliteRow) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self
            .0
            .build()
            .fetch_all(pool)
            .await
            .map_err(|source| StoreError::database(what, source))?;
        rows.iter().map(read).collect()
    }
}
