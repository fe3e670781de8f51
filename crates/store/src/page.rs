//! Pages of a list, and the cursor from one to the next.
//!
//! A cursor names the last row seen, never a count of rows: a list stays whole while rows are added.

use std::fmt;
use std::str::FromStr;

use crate::StoreError;

/// Rows that one page holds at most.
pub const MAX_PAGE: u32 = 1000;

/// The place where a page ended. Its text is opaque to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(Vec<i64>);

impl Cursor {
    /// The cursor of a row, by the numbers that its list is sorted by.
    pub(crate) fn at(keys: impl Into<Vec<i64>>) -> Self {
        Self(keys.into())
    }

    /// Its numbers, if it is a cursor of a list that is sorted by so many.
    pub(crate) fn keys<const N: usize>(&self) -> Result<[i64; N], StoreError> {
        <[i64; N]>::try_from(self.0.as_slice()).map_err(|_| StoreError::BadCursor {
            text: self.to_string(),
        })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, key) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "-" };
            write!(f, "{separator}{key:x}")?;
        }
        Ok(())
    }
}

impl FromStr for Cursor {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let key = |part: &str| u64::from_str_radix(part, 16).map(|bits| bits as i64);
        text.split('-')
            .map(key)
            .collect::<Result<Vec<i64>, _>>()
            .map(Self)
            .map_err(|_| StoreError::BadCursor { text: text.into() })
    }
}

/// Which page of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Rows at most, 1 to [`MAX_PAGE`]; more is cut down to it.
    pub limit: u32,
    /// The end of the page before; `None` for the first.
    pub after: Option<Cursor>,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self::first(100)
    }
}

impl PageRequest {
    /// The first page, of so many rows.
    pub const fn first(limit: u32) -> Self {
        Self { limit, after: None }
    }

    /// The limit in force.
    pub(crate) fn rows(&self) -> u32 {
        self.limit.clamp(1, MAX_PAGE)
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where the next page begins; `None` at the end of the list.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// A page from one row more than was asked for: the surplus row only says that there is more.
    pub(crate) fn cut(mut items: Vec<T>, rows: u32, cursor: impl Fn(&T) -> Cursor) -> Self {
        let more = items.len() > rows as usize;
        items.truncate(rows as usize);
        let next = if more { items.last().map(cursor) } else { None };
        Self { items, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back() {
        let cursor = Cursor::at([i64::MAX, 0, -5]);
        let read: Cursor = cursor.to_string().parse().expect("its own text");
        assert_eq!(read, cursor);
        assert_eq!(read.keys().expect("three numbers"), [i64::MAX, 0, -5]);
        assert!(read.keys::<2>().is_err(), "a cursor of another list");
    }

    #[test]
    fn a_made_up_cursor_is_refused() {
        for text in ["", "-", "x", "1-", "1--2", "11111111111111111111"] {
            assert!(text.parse::<Cursor>().is_err(), "\"{text}\"");
        }
    }
}
