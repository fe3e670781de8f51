//! One line of a data file: from its bytes to a checked row, or to everything wrong with it.
//!
//! A row is passed on as it came: unknown fields are kept, and nothing is turned into something
//! else. Pure: the caller reads the file, counts the lines and decides how many may be broken.

mod json;
mod shape;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::chat::{Message, Sampling};
use crate::fault::{Fault, Location};

/// What a row may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLimits {
    /// Bytes of a line at most.
    pub max_bytes: usize,
    /// Whether the model takes images.
    pub images: bool,
    /// Whether the row is trained on: then its temperature may not be 0.
    pub training: bool,
}

impl Default for RowLimits {
    fn default() -> Self {
        Self {
            max_bytes: 16 << 20,
            images: false,
            training: true,
        }
    }
}

/// One thing that is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field's path, such as `messages[0].role`; empty for the line as a whole.
    pub field: String,
    /// What it is, with the value in quotes and what is allowed.
    pub message: String,
    /// What to do.
    pub advice: String,
    /// The column it begins at, from 1, where that is known.
    pub column: Option<usize>,
}

impl Problem {
    fn new(
        field: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
            advice: advice.into(),
            column: None,
        }
    }

    fn at_column(self, column: usize) -> Self {
        Self {
            column: Some(column),
            ..self
        }
    }

    /// The `Invalid value` it is at a line of a file.
    pub fn into_fault(self, file: &str, line: u64) -> Fault {
        let mut place = Location::line(file, line);
        if !self.field.is_empty() {
            place = place.field(self.field);
        }
        let fault = Fault::invalid_value(self.message, self.advice).at(place);
        match self.column {
            Some(column) => fault.with("column", column),
            None => fault,
        }
    }
}

/// Problems of one row at most.
const LIMIT: usize = 20;

/// True for a line of nothing but white space: data files may end with some.
pub fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// Checks one line, without its line end.
///
/// # Errors
/// Every problem of the row, up to twenty; a line that is no JSON has one.
pub fn check(line: &[u8], limits: &RowLimits) -> Result<Map<String, Value>, Vec<Problem>> {
    let row = json::object(line, limits).map_err(|problem| vec![problem])?;
    let mut problems = shape::problems(&row, limits);
    problems.truncate(LIMIT);
    match problems.is_empty() {
        true => Ok(row),
        false => Err(problems),
    }
}

/// The messages of a checked row.
pub fn messages(row: &Map<String, Value>) -> Vec<Message> {
    let items = row.get("messages").and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(|item| item.as_object().cloned().map(Message))
        .collect()
}

/// The sampling settings that a checked row names itself; `null` names nothing.
pub fn sampling(row: &Map<String, Value>) -> Sampling {
    let whole = |key: &str| row.get(key).and_then(Value::as_u64);
    Sampling {
        max_new_tokens: whole("max_new_tokens").and_then(|n| u32::try_from(n).ok()),
        temperature: row.get("temperature").and_then(Value::as_f64),
        top_p: row.get("top_p").and_then(Value::as_f64),
        top_k: whole("top_k").and_then(|n| u32::try_from(n).ok()),
    }
}
