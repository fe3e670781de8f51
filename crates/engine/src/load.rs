//! Reads a job's data files, row by row, and names every problem by file and line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use paddock_types::fault::{Fault, FaultKind, Location};
use paddock_types::job::{DataConfig, InvalidRecords, ValidationSet};
use paddock_types::rows::{self, RowLimits};

use crate::dataset::{Dataset, Row};

/// What some editors write at the head of a UTF-8 file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Problems that are listed before the rest is only counted.
const LISTED: usize = 20;

struct Loader<'a> {
    project: &'a Path,
    problems: Vec<Fault>,
    rows: u64,
    invalid: u64,
    training: bool,
}

/// Reads and checks every row. All problems of all files are found in one pass.
pub fn load(project: &Path, data: &DataConfig, seed: u64) -> Result<Dataset, Fault> {
    let mut loader = Loader {
        project,
        problems: vec![],
        rows: 0,
        invalid: 0,
        training: true,
    };
    let mut dataset = Dataset {
        training: loader.files(&data.training_files, "data.training_set.local_files"),
        ..Dataset::default()
    };
    if let ValidationSet::Files(files) = &data.validation {
        loader.training = false;
        dataset.validation = loader.files(files, "data.validation_set.local_files");
    }
    dataset.invalid_rows = loader.invalid;
    loader.judge(data.max_invalid_records)?;
    if dataset.training.is_empty() {
        let files = data.training_files.join(", ");
        return Err(Fault::invalid_data(
            format!("the training set has no rows: \"{files}\""),
            "add at least one row: a JSON object a line, with `messages`",
        ));
    }
    if let ValidationSet::Percentage(percent) = data.validation {
        dataset.set_aside(percent, seed);
    }
    Ok(dataset)
}

impl Loader<'_> {
    fn files(&mut self, files: &[String], field: &str) -> Vec<Arc<Row>> {
        let mut rows = vec![];
        for (index, file) in files.iter().enumerate() {
            let place = Location {
                file: Some(file.clone()),
                ..Location::default()
            }
            .field(format!("{field}[{index}]"));
            let before = self.rows;
            match File::open(self.project.join(file)) {
                Ok(open) if open.metadata().is_ok_and(|m| m.is_dir()) => self.hard(
                    Fault::invalid_data(
                        format!("the data file \"{file}\" is a folder"),
                        "name the files in it one by one",
                    )
                    .at(place),
                ),
                Ok(open) => {
                    self.file(file, BufReader::new(open), &mut rows);
                    if self.rows == before {
                        self.hard(
                            Fault::invalid_data(
                                format!("the data file \"{file}\" is empty"),
                                "add at least one row: a JSON object a line, with `messages`",
                            )
                            .at(place),
                        );
                    }
                }
                Err(error) => self.hard(
                    Fault::invalid_data(
                        format!("the data file \"{file}\" can't be read: {}", plain(&error)),
                        self.nearest(file),
                    )
                    .at(place),
                ),
            }
        }
        rows
    }

    fn file(&mut self, name: &str, mut reader: impl BufRead, rows: &mut Vec<Arc<Row>>) {
        let mut line = vec![];
        let limits = RowLimits {
            training: self.training,
            ..RowLimits::default()
        };
        let longest = limits.max_bytes as u64;
        for number in 1.. {
            line.clear();
            let mut limited = (&mut reader).take(longest + 1);
            let read = match limited.read_until(b'\n', &mut line) {
                Ok(read) => read,
                Err(error) => {
                    let message = format!("\"{name}\" can't be read on: {}", plain(&error));
                    let fault = Fault::invalid_data(message, "check the file and its disk");
                    return self.hard(fault.at(Location::line(name, number)));
                }
            };
            if read == 0 {
                return;
            }
            if read as u64 > longest {
                let message = format!("the row is longer than {} MiB", longest >> 20);
                let fault = Fault::invalid_value(message, "split it, or leave its payload out");
                return self.hard(fault.at(Location::line(name, number)));
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if number == 1 && line.starts_with(BYTE_ORDER_MARK) {
                line.drain(..BYTE_ORDER_MARK.len());
            }
            if rows::is_blank(&line) {
                continue;
            }
            self.rows += 1;
            match rows::check(&line, &limits) {
                Ok(row) => rows.push(Arc::new(Row::new(format!("{name}:{number}"), row))),
                Err(problems) => {
                    self.invalid += 1;
                    let faults = problems.into_iter().map(|p| p.into_fault(name, number));
                    faults.for_each(|fault| self.soft(fault));
                }
            }
        }
    }

    /// A problem of a file: no number of broken rows excuses it.
    fn hard(&mut self, fault: Fault) {
        self.problems.insert(0, fault);
    }

    /// A problem of a row: `max_invalid_records_*` may excuse it.
    fn soft(&mut self, fault: Fault) {
        if self.problems.len() <= LISTED {
            self.problems.push(fault);
        }
    }

    /// What to write instead of a path that isn't there.
    fn nearest(&self, file: &str) -> String {
        let path = Path::new(file);
        let folder = self.project.join(path.parent().unwrap_or(Path::new("")));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let there: Vec<String> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        match paddock_types::suggest::nearest(&name, there.iter().map(String::as_str)) {
            Some(near) => {
                let near = path.with_file_name(near);
                format!(
                    "paths are relative to the project; did you mean \"{}\"?",
                    near.display()
                )
            }
            None => "paths are relative to the project: check that the file is there".to_owned(),
        }
    }

    fn judge(self, allowed: InvalidRecords) -> Result<(), Fault> {
        let within = match allowed {
            InvalidRecords::Number(most) => self.invalid <= most,
            InvalidRecords::Ratio(most) => self.invalid as f64 <= most * self.rows as f64,
        };
        let mut problems = self.problems.into_iter();
        if within {
            // Broken rows are excused; a file that can't be read never is.
            problems = problems
                .filter(|fault| fault.kind == FaultKind::InvalidData)
                .collect::<Vec<_>>()
                .into_iter();
        }
        let Some(first) = problems.next() else {
            return Ok(());
        };
        let fault = with_others(first, problems);
        Err(match self.invalid {
            0 => fault,
            invalid => fault.with("invalid_rows", invalid).with("rows", self.rows),
        })
    }
}

/// A fault with the others that were found in the same pass.
pub fn with_others(mut first: Fault, others: impl IntoIterator<Item = Fault>) -> Fault {
    let text = |fault: Fault| format!("{}: {}: {}", fault.location, fault.kind, fault.message);
    first.also.extend(others.into_iter().map(text));
    first
}

fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
