//! What commands print: lines, tables and JSON on standard output.
//!
//! Whoever reads may go away at any time (`| head`): that is no failure.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, StdoutLock, Write};

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::failure::Failure;

/// Standard output, locked and buffered.
#[derive(Debug)]
pub(crate) struct Out(io::BufWriter<StdoutLock<'static>>);

impl Out {
    pub(crate) fn new() -> Self {
        Self(io::BufWriter::new(io::stdout().lock()))
    }

    /// A line of text, or several.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        Ok(writeln!(self.0, "{}", harmless(&text.to_string()))?)
    }

    /// One value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.0, value).map_err(io::Error::from)?;
        Ok(writeln!(self.0)?)
    }

    /// Values as one JSON list, a line each.
    pub(crate) fn json_list<T: Serialize>(&mut self, items: &[T]) -> Result<(), Failure> {
        write!(self.0, "[")?;
        for (i, item) in items.iter().enumerate() {
            write!(self.0, "{}", if i == 0 { "\n" } else { ",\n" })?;
            serde_json::to_writer(&mut self.0, item).map_err(io::Error::from)?;
        }
        Ok(writeln!(
            self.0,
            "{}]",
            if items.is_empty() { "" } else { "\n" }
        )?)
    }

    /// Hands on what is buffered.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.0.flush()?)
    }
}

/// The text without control characters: what models and plugins say must not steer the terminal.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().map(|c| match steers(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    });
    Cow::Owned(escaped.collect())
}

/// A table that fits the terminal. Columns whose header begins with `#` are numbers.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(
            header
                .iter()
                .map(|name| Cell::new(name.trim_start_matches('#').to_uppercase())),
        );
    for (i, name) in header.iter().enumerate() {
        if let Some(column) = table.column_mut(i)
            && name.starts_with('#')
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A table of two columns without a header: names and what they are.
pub(crate) fn facts() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// The text of a table, from the first column on and without spaces at its line ends.
pub(crate) fn text(table: &mut Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// A number with three decimals, or a dash.
pub(crate) fn number(x: Option<f64>) -> String {
    x.map_or_else(|| "-".into(), |x| format!("{x:.3}"))
}

/// `first → last`, or a dash.
pub(crate) fn change(first: Option<f64>, last: Option<f64>) -> String {
    match (first, last) {
        (None, None) => "-".into(),
        _ => format!("{} → {}", number(first), number(last)),
    }
}

/// Counts by name: `3 (Timeout 2, EOF 1)`.
pub(crate) fn counted<'a>(counts: impl IntoIterator<Item = (&'a String, &'a u64)>) -> String {
    let counts: Vec<_> = counts.into_iter().collect();
    let total: u64 = counts.iter().map(|(_, n)| **n).sum();
    if total == 0 {
        return "0".into();
    }
    let each: Vec<_> = counts
        .iter()
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    format!("{total} ({})", each.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(Some(0.12345)), "0.123");
        assert_eq!(change(Some(0.5), None), "0.500 → -");
        assert_eq!(change(None, None), "-");
        let counts = BTreeMap::from([("EOF".to_owned(), 1), ("Timeout".to_owned(), 2)]);
        assert_eq!(counted(&counts), "3 (EOF 1, Timeout 2)");
        assert_eq!(counted(&BTreeMap::new()), "0");
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(harmless("a\tb\nc — ✓"), "a\tb\nc — ✓");
        assert_eq!(harmless("a\u{1b}[31mb\rc"), "a\\u{1b}[31mb\\rc");
    }

    #[test]
    fn tables_are_plain() {
        let mut t = table(&["name", "#n"]);
        t.add_row(["a", "1"]).add_row(["bcd", "20"]);
        insta::assert_snapshot!(text(&mut t), @r"
        NAME   N
        a      1
        bcd   20
        ");
    }
}
