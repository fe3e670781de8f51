//! How the verdict of a call is printed.

use paddock_types::Outcome;
use serde_json::{Value, json};

use super::Ended;
use super::wrap::wrapped;
use crate::failure::Failure;
use crate::output::{Out, facts};
use crate::time;

/// Lines of one piece of evidence shown to people; `--json` has all.
const MAX_LINES: usize = 40;
/// Columns before a text: two blanks, the label, a blank.
const INDENT: usize = 13;

/// Prints a call as soon as it is over.
pub(super) fn print(out: &mut Out, ended: &Ended, as_json: bool) -> Result<(), Failure> {
    match as_json {
        true => out.line(one_line(&object(ended)))?,
        false => text(out, ended)?,
    }
    out.flush()
}

/// JSON on one line, whatever its reader takes for a line's end.
fn one_line(value: &Value) -> String {
    let ends = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let mut out = String::new();
    for c in value.to_string().chars() {
        match ends(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

fn object(ended: &Ended) -> Value {
    let verdict = &ended.verdict;
    let logs = ended.logs.iter().map(|line| {
        json!({
            "time": line.time_ms,
            "level": line.level,
            "logger": line.logger,
            "text": line.text,
        })
    });
    json!({
        "call": ended.call.to_string(),
        "attempt": ended.attempt,
        "outcome": verdict.outcome,
        "sub_kind": verdict.sub_kind,
        "message": verdict.message,
        "evidence": verdict.evidence,
        "rewards": verdict.rewards,
        "metrics": verdict.metrics,
        "error": verdict.error,
        "queue_ms": verdict.queue_ms,
        "run_ms": verdict.run_ms,
        "peak_memory_bytes": verdict.peak_memory_bytes,
        "instance": verdict.instance,
        "logs": logs.collect::<Vec<_>>(),
    })
}

fn text(out: &mut Out, ended: &Ended) -> Result<(), Failure> {
    let verdict = &ended.verdict;
    let kind = verdict.sub_kind.map(|k| format!(" ({k})"));
    let outcome = verdict.outcome.as_str();
    out.line(format!(
        "{} {outcome}{}",
        ended.call,
        kind.unwrap_or_default()
    ))?;
    part(out, "message", &verdict.message)?;
    if !verdict.rewards.is_empty() {
        part(out, "rewards", &json!(verdict.rewards).to_string())?;
    }
    if !verdict.metrics.is_empty() {
        part(out, "metrics", &json!(verdict.metrics).to_string())?;
    }
    let (queue, run) = (verdict.queue_ms, verdict.run_ms);
    let mut ran = format!(
        "queue {queue:.1} ms, run {run:.1} ms, attempt {}",
        ended.attempt
    );
    if let Some(peak) = verdict.peak_memory_bytes {
        ran.push_str(&format!(", peak memory {} MiB", peak >> 20));
    }
    if !verdict.instance.is_empty() {
        ran.push_str(&format!(", instance {}", verdict.instance));
    }
    part(out, "ran", &ran)?;
    for (key, value) in verdict.evidence.iter().filter(|(key, _)| *key != "logs") {
        match value {
            Value::String(text) => part(out, key, text)?,
            other => part(out, key, &other.to_string())?,
        }
    }
    let shown = verdict.evidence.values().any(|v| v == &verdict.error);
    if !shown && verdict.error != verdict.message {
        part(out, "error", &verdict.error)?;
    }
    if verdict.outcome == Outcome::Failure {
        part(out, "do", verdict.advice().unwrap_or_default())?;
    }
    let logs = ended.logs.iter().map(|line| {
        let (clock, level) = (time::clock(line.time_ms), line.level.as_str());
        format!("{clock} {level:<7} {}: {}", line.logger, line.text)
    });
    part(out, "logs", &logs.collect::<Vec<_>>().join("\n"))
}

/// A label with a text that may have several lines; long ones are wrapped to the terminal.
fn part(out: &mut Out, label: &str, text: &str) -> Result<(), Failure> {
    // Where the output is no terminal, lines stay whole.
    let width = facts()
        .width()
        .map(|w| usize::from(w).saturating_sub(INDENT));
    let mut label = label;
    let lines = text.lines().count();
    for line in text.lines().take(MAX_LINES) {
        for piece in wrapped(line, width) {
            out.line(format!("  {label:<10} {piece}"))?;
            label = "";
        }
    }
    if lines > MAX_LINES {
        out.line(format!(
            "  {label:<10} … {} more lines: --json has them",
            lines - MAX_LINES
        ))?;
    }
    Ok(())
}
