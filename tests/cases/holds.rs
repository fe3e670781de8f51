//! Whether a case holds: its outcome, sub-kind, evidence and rewards, and that it came in time.

use serde_json::Value;

use crate::caller::{Ended, Line};
use crate::case::Case;

/// Where an import must be told once, however many instances there are.
const TOLD_ONCE: [(&str, &str); 2] = [
    ("imports.slow_import:grader", "importing now"),
    // Whoever waits is told for what.
    (
        "imports.slow_import:grader",
        "importing imports.slow_import:grader …",
    ),
];
/// Seconds that a call beside a slow one may take.
const BESIDE: f64 = 1.0;
/// The fields that every verdict has.
const FIELDS: [&str; 14] = [
    "call",
    "attempt",
    "outcome",
    "sub_kind",
    "message",
    "evidence",
    "rewards",
    "metrics",
    "error",
    "queue_ms",
    "run_ms",
    "peak_memory_bytes",
    "instance",
    "logs",
];

/// What doesn't hold, each as a line.
pub(crate) fn complaints(case: &Case, ended: &Ended) -> Vec<String> {
    let mut out = Vec::new();
    let then = if case.is_import() { 0 } else { 2 };
    let Some(count) = ended.lines.len().checked_sub(then).filter(|&n| n > 0) else {
        let (code, lines) = (ended.code, &ended.lines);
        out.push(format!(
            "too few verdicts: exit code {code:?}, {lines:?}, standard error: {}",
            ended.stderr
        ));
        return out;
    };
    let (calls, then) = ended.lines.split_at(count);
    for (n, line) in calls.iter().enumerate() {
        let beside = case.slow_calls > 0 && n >= case.slow_calls;
        let found = match beside {
            true => innocent(line),
            false => verdict(case, line, ended),
        };
        let which = |text| match calls.len() {
            1 => text,
            _ => format!("call {n}: {text}"),
        };
        out.extend(found.into_iter().map(which));
    }
    if let Some(healthy) = then
        .first()
        .filter(|l| text(&l.value, "outcome") != "success")
    {
        out.push(format!("healthy, called next: {}", shown(healthy)));
    }
    for (function, mark) in TOLD_ONCE {
        let told = ended.stderr.matches(mark).count();
        if function == case.function && told != 1 {
            out.push(format!("\"{mark}\" was told {told} times"));
        }
    }
    let failed = ended
        .lines
        .iter()
        .any(|l| text(&l.value, "outcome") == "failure");
    let code = if failed { 4 } else { 0 };
    if ended.code != Some(code) {
        out.push(format!("exit code {:?}, not {code}", ended.code));
    }
    out
}

fn verdict(case: &Case, line: &Line, ended: &Ended) -> Vec<String> {
    let value = &line.value;
    let mut out = Vec::new();
    for field in FIELDS.iter().filter(|field| value.get(**field).is_none()) {
        out.push(format!("the verdict has no \"{field}\": {value}"));
    }
    let outcome = text(value, "outcome");
    if !case.outcome.allows(outcome) {
        out.push(format!(
            "outcome: expected {:?}, got {}",
            case.outcome,
            shown(line)
        ));
    }
    let sub_kind = text(value, "sub_kind");
    match &case.sub_kind {
        Some(wanted) if outcome == "failure" && !wanted.allows(sub_kind) => {
            out.push(format!(
                "sub-kind: expected {wanted:?}, got {}",
                shown(line)
            ));
        }
        _ => {}
    }
    let recorded = match outcome {
        "success" => strings(&value["logs"]),
        _ => strings(value),
    };
    for evidence in case.evidence.iter().filter(|e| !recorded.contains(*e)) {
        out.push(format!("evidence: no {evidence:?} in {}", shown(line)));
    }
    for text in case.lacks.iter().filter(|text| recorded.contains(*text)) {
        out.push(format!("{text:?} is in {}", shown(line)));
    }
    let rewards: Vec<f64> = numbers(&value["rewards"]);
    let due = match rewards.len() {
        // Of a single grader, which is called for each trajectory.
        1 => &case.rewards[..case.rewards.len().min(1)],
        _ => &case.rewards[..],
    };
    if !case.rewards.is_empty() && rewards != due {
        out.push(format!("rewards: expected {due:?}, got {rewards:?}"));
    }
    let took = match case.is_import() {
        true => line.at.duration_since(ended.begun).as_secs_f64(),
        false => took(value),
    };
    if took > case.within_s {
        out.push(format!(
            "it took {took:.1} s: within {} s is due",
            case.within_s
        ));
    }
    out
}

fn innocent(line: &Line) -> Vec<String> {
    let mut out = Vec::new();
    if text(&line.value, "outcome") != "success" {
        out.push(format!("beside the slow one: {}", shown(line)));
    }
    let took = took(&line.value);
    if took > BESIDE {
        out.push(format!("beside the slow one it took {took:.1} s"));
    }
    out
}

/// Queue and run, in seconds.
fn took(value: &Value) -> f64 {
    let of = |key: &str| value[key].as_f64().unwrap_or(f64::INFINITY);
    (of("queue_ms") + of("run_ms")) / 1e3
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn numbers(value: &Value) -> Vec<f64> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(Value::as_f64).collect()
}

/// Every text in a value, each on lines of its own.
pub(crate) fn strings(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(all) => all.iter().map(strings).collect(),
        Value::Object(all) => all.values().map(strings).collect(),
        _ => String::new(),
    }
}

fn shown(line: &Line) -> String {
    let value = &line.value;
    let logs = value["logs"].as_array().into_iter().flatten();
    let logs: Vec<String> = logs
        .rev()
        .take(5)
        .map(|l| text(l, "text").chars().take(200).collect())
        .collect();
    format!(
        "{} ({}): {} | evidence {} | last log lines, newest first: {logs:?}",
        text(value, "outcome"),
        value["sub_kind"].as_str().unwrap_or("no sub-kind"),
        text(value, "message"),
        value["evidence"]
            .to_string()
            .chars()
            .take(1500)
            .collect::<String>(),
    )
}
