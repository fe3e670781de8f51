//! From bytes to a JSON object: encodings and broken JSON, told apart.

use serde_json::{Map, Value};

use super::{Problem, RowLimits};

/// The object that a line holds.
pub(super) fn object(line: &[u8], limits: &RowLimits) -> Result<Map<String, Value>, Problem> {
    if line.len() > limits.max_bytes {
        let message = format!(
            "the line has {} bytes; {} are allowed",
            line.len(),
            limits.max_bytes
        );
        return Err(Problem::new("", message, "shorten the row, or split it"));
    }
    let text = text(line)?;
    if text.trim().is_empty() {
        return Err(Problem::new("", "the line is empty", "remove it"));
    }
    let value: Value = serde_json::from_str(text).map_err(|e| broken(text, &e))?;
    match value {
        Value::Object(map) => Ok(map),
        other => {
            let message = format!(
                "the row is {}; allowed: an object with `messages`",
                what(&other)
            );
            Err(Problem::new(
                "",
                message,
                "write one object a line: {\"messages\": [...]}",
            ))
        }
    }
}

fn text(line: &[u8]) -> Result<&str, Problem> {
    if line.starts_with(&[0xef, 0xbb, 0xbf]) {
        return Err(Problem::new(
            "",
            "the line begins with a byte order mark",
            "save the file as UTF-8 without BOM",
        ));
    }
    if line.starts_with(&[0xff, 0xfe]) || line.starts_with(&[0xfe, 0xff]) || wide(line) {
        return Err(Problem::new(
            "",
            "the line is UTF-16; allowed: UTF-8",
            "convert the file: iconv -f UTF-16 -t UTF-8",
        ));
    }
    std::str::from_utf8(line).map_err(|e| {
        let at = e.valid_up_to();
        let byte = line.get(at).copied().unwrap_or_default();
        Problem::new(
            "",
            format!(
                "the line is not UTF-8: byte 0x{byte:02x} at column {}",
                at + 1
            ),
            "convert the file to UTF-8; from GBK, for example: iconv -f GBK -t UTF-8",
        )
        .at_column(at + 1)
    })
}

/// Text in two-byte units without a mark: every second byte of its beginning is 0.
fn wide(line: &[u8]) -> bool {
    let start = &line[..line.len().min(16)];
    let zeros = |odd: usize| start.iter().skip(odd).step_by(2).all(|&b| b == 0);
    start.len() >= 4 && (zeros(0) || zeros(1))
}

fn broken(text: &str, error: &serde_json::Error) -> Problem {
    let column = error.column().max(1);
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    let rest = text.get(column - 1..).unwrap_or_default();
    let advice = if error.is_eof() {
        "the line ends too early: keep each row on one line, without line breaks in it"
    } else if reason.starts_with("trailing characters") {
        "one object a line: put what follows on a line of its own"
    } else if reason.contains("surrogate") {
        "write the character itself, or both halves of its escape"
    } else if ["NaN", "Infinity", "-Infinity"]
        .iter()
        .any(|n| rest.starts_with(n))
    {
        "JSON has no NaN or Infinity: write null, or leave the field out"
    } else if rest.starts_with('\'')
        || ["True", "False", "None"]
            .iter()
            .any(|n| rest.starts_with(n))
    {
        "this looks like Python: write the row with json.dumps"
    } else if rest.starts_with('}') || rest.starts_with(']') {
        "remove the comma in front of it"
    } else {
        "check the quotes, commas and brackets before this column"
    };
    Problem::new(
        "",
        format!("broken JSON at column {column}: {reason}"),
        advice,
    )
    .at_column(column)
}

/// A JSON value in words.
pub(super) fn what(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
