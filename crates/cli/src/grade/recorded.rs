//! A file of recorded trajectories: one JSON object a line, `{"sample": {…}, "trajectories": […]}`
//! or `{"sample": {…}, "trajectory": {…}}`.
//!
//! The whole file is checked before the first call is made, and read again line by line for the
//! calls: it may be larger than the memory.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use paddock_types::{Fault, Location};
use serde_json::{Map, Value};

/// Problems that are told at most.
const LIMIT: usize = 20;

/// One line: a sample with its trajectories.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recorded {
    /// Its line, from 1.
    pub(crate) line: u64,
    /// The dataset row.
    pub(crate) sample: Map<String, Value>,
    /// Its trajectories, at least one.
    pub(crate) trajectories: Vec<Map<String, Value>>,
}

/// The lines of a file that has been checked.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    /// Lines with a sample.
    pub(crate) samples: u64,
    /// Trajectories of all lines.
    pub(crate) trajectories: u64,
}

/// Checks a file.
pub(crate) fn open(path: &Path) -> Result<Recording, Fault> {
    let mut recording = Recording {
        path: path.to_owned(),
        samples: 0,
        trajectories: 0,
    };
    let mut faults = Vec::new();
    for item in lines(path)? {
        match item {
            Ok(recorded) => {
                recording.samples += 1;
                recording.trajectories += recorded.trajectories.len() as u64;
            }
            Err(fault) => faults.push(*fault),
        }
        if faults.len() >= LIMIT {
            break;
        }
    }
    let mut faults = faults.into_iter();
    if let Some(mut first) = faults.next() {
        first
            .also
            .extend(faults.map(|f| format!("{}: {f}", f.location)));
        return Err(first);
    }
    if recording.samples == 0 {
        return Err(Fault::invalid_data(
            format!("the file \"{}\" is empty", path.display()),
            "write one line a sample: {\"sample\": {...}, \"trajectories\": [{...}]}",
        ));
    }
    Ok(recording)
}

impl Recording {
    /// Its lines, once more.
    pub(crate) fn lines(
        &self,
    ) -> Result<impl Iterator<Item = Result<Recorded, Box<Fault>>> + use<>, Fault> {
        lines(&self.path)
    }
}

fn lines(path: &Path) -> Result<impl Iterator<Item = Result<Recorded, Box<Fault>>> + use<>, Fault> {
    let file = File::open(path).map_err(|error| {
        Fault::invalid_data(
            format!("the file \"{}\" can't be read: {error}", path.display()),
            "check the path after --recorded",
        )
        .at(Location {
            file: Some(path.display().to_string()),
            ..Location::default()
        })
    })?;
    let name = path.display().to_string();
    let numbered = BufReader::new(file).split(b'\n').zip(1u64..);
    Ok(numbered.filter_map(move |(bytes, line)| match bytes {
        Ok(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => None,
        Ok(bytes) => Some(parse(&bytes, line).map_err(|fault| {
            let field = fault.location.field.clone();
            let place = Location {
                field,
                ..Location::line(name.clone(), line)
            };
            Box::new(fault.at(place))
        })),
        Err(error) => {
            let fault = Fault::invalid_data(
                format!("\"{name}\" can't be read on: {error}"),
                "check the disk",
            );
            Some(Err(Box::new(fault.at(Location::line(name.clone(), line)))))
        }
    }))
}

const SHAPE: &str = "an object with \"sample\" and \"trajectories\" (or \"trajectory\")";

fn refused(field: &str, message: String) -> Fault {
    let fault = Fault::invalid_value(message, format!("write {SHAPE}"));
    match field {
        "" => fault,
        field => fault.at(Location::default().field(field)),
    }
}

fn parse(bytes: &[u8], line: u64) -> Result<Recorded, Fault> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        refused(
            "",
            format!("broken JSON at column {}: {error}", error.column()),
        )
    })?;
    let Value::Object(mut map) = value else {
        return Err(refused(
            "",
            format!("the line is no object; allowed: {SHAPE}"),
        ));
    };
    let sample = match map.remove("sample") {
        Some(Value::Object(sample)) => sample,
        Some(_) => return Err(refused("sample", "sample is no object".into())),
        None => {
            return Err(refused(
                "sample",
                format!("sample is missing; allowed: {SHAPE}"),
            ));
        }
    };
    let trajectories = match (map.remove("trajectories"), map.remove("trajectory")) {
        (Some(Value::Array(items)), None) if !items.is_empty() => items
            .into_iter()
            .enumerate()
            .map(|(i, item)| trajectory(item, &format!("trajectories[{i}]")))
            .collect::<Result<_, _>>()?,
        (Some(_), None) => {
            return Err(refused(
                "trajectories",
                "trajectories is no list of at least one".into(),
            ));
        }
        (None, Some(item)) => vec![trajectory(item, "trajectory")?],
        (Some(_), Some(_)) => {
            return Err(refused(
                "trajectory",
                "trajectory and trajectories exclude each other".into(),
            ));
        }
        (None, None) => {
            return Err(refused(
                "trajectories",
                format!("trajectories is missing; allowed: {SHAPE}"),
            ));
        }
    };
    Ok(Recorded {
        line,
        sample,
        trajectories,
    })
}

/// A trajectory with the fields that may be left out filled in.
fn trajectory(value: Value, field: &str) -> Result<Map<String, Value>, Fault> {
    let Value::Object(mut map) = value else {
        return Err(refused(field, format!("{field} is no object")));
    };
    match map.get("messages") {
        Some(Value::Array(items)) if !items.is_empty() && items.iter().all(Value::is_object) => {}
        Some(_) => {
            let field = format!("{field}.messages");
            return Err(refused(
                &field,
                "messages is no list of at least one message".into(),
            ));
        }
        None => {
            return Err(refused(
                &format!("{field}.messages"),
                "messages is missing".into(),
            ));
        }
    }
    let usage = serde_json::json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
    for (key, default) in [
        ("finish_reason", "stop".into()),
        ("usage", usage),
        ("extra", Map::new().into()),
    ] {
        let entry = map.entry(key).or_insert(Value::Null);
        if entry.is_null() {
            *entry = default;
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        file
    }

    #[test]
    fn both_shapes_read_alike() {
        let file = file(
            "{\"sample\":{\"a\":1},\"trajectory\":{\"messages\":[{\"role\":\"user\"}]}}\n\n{\"sample\":{},\"trajectories\":[{\"messages\":[{}],\"extra\":{\"model\":\"m\"}},{\"messages\":[{}]}]}\n",
        );
        let recording = open(file.path()).expect("a good file");
        assert_eq!((recording.samples, recording.trajectories), (2, 3));
        let lines: Vec<_> = recording
            .lines()
            .expect("there")
            .map(|l| l.expect("good"))
            .collect();
        assert_eq!((lines[0].line, lines[1].line), (1, 3));
        assert_eq!(lines[1].trajectories[0]["extra"]["model"], "m");
        assert_eq!(lines[1].trajectories[1]["usage"]["total_tokens"], 0);
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_field() {
        let good = "{\"sample\":{},\"trajectory\":{\"messages\":[{}]}}\n";
        let cases = [
            ("{\"sample\":", None, "broken JSON"),
            ("[]", None, "no object"),
            ("{\"trajectory\":{}}", Some("sample"), "missing"),
            ("{\"sample\":{}}", Some("trajectories"), "missing"),
            (
                "{\"sample\":{},\"trajectories\":[]}",
                Some("trajectories"),
                "at least one",
            ),
            (
                "{\"sample\":{},\"trajectories\":[{}]}",
                Some("trajectories[0].messages"),
                "missing",
            ),
            (
                "{\"sample\":{},\"trajectory\":{\"messages\":[]}}",
                Some("trajectory.messages"),
                "at least one",
            ),
        ];
        for (bad, field, says) in cases {
            let fault = open(file(&format!("{good}{bad}\n")).path()).expect_err(bad);
            assert_eq!(fault.location.line, Some(2), "{bad}");
            assert_eq!(fault.location.field.as_deref(), field, "{bad}");
            assert!(fault.message.contains(says), "{bad}: {}", fault.message);
        }
        assert!(
            open(file("\n").path())
                .expect_err("empty")
                .message
                .contains("empty")
        );
    }
}
