//! A fault as people read it: what happened, where, what shows it, what to do.

use std::fmt::Write;

use paddock_types::Fault;
use serde_json::Value;

use crate::output::harmless;

/// Lines of one piece of evidence at most.
const MAX_LINES: usize = 40;

/// The whole report, with its line ends.
pub(crate) fn report(fault: &Fault) -> String {
    let mut out = format!("{fault}\n");
    let place = fault.location.to_string();
    part(&mut out, "where", &place);
    let shown = fault
        .evidence
        .iter()
        .filter(|(_, value)| !is_said(fault, value));
    for (i, (key, value)) in shown.enumerate() {
        let label = if i == 0 { "evidence" } else { "" };
        part(&mut out, label, &evidence(key, value));
    }
    part(&mut out, "do", &fault.advice);
    for (i, other) in fault.also.iter().enumerate() {
        part(&mut out, if i == 0 { "also" } else { "" }, other);
    }
    let topic = fault
        .sub_kind
        .map_or(fault.kind.as_str(), |sub| sub.as_str());
    part(&mut out, "more", &format!("paddock explain \"{topic}\""));
    harmless(&out).into_owned()
}

/// True for evidence that the message or the advice has word for word.
fn is_said(fault: &Fault, value: &Value) -> bool {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().filter_map(Value::as_str).collect();
            items.join(", ")
        }
        _ => return false,
    };
    fault.message.contains(&text) || fault.advice.contains(&text)
}

/// A label with a text that may have several lines.
fn part(out: &mut String, label: &str, text: &str) {
    let mut label = label;
    for line in text.lines() {
        // Writing to a String can't fail.
        let _ = writeln!(out, "  {label:<9} {line}");
        label = "";
    }
}

fn evidence(key: &str, value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<_> = items.iter().filter_map(Value::as_str).collect();
            items.join(if items.iter().any(|i| i.contains(' ')) {
                "\n"
            } else {
                ", "
            })
        }
        other => other.to_string(),
    };
    let lines: Vec<_> = text.trim_end().lines().collect();
    if lines.len() <= 1 {
        return format!("{key}: {}", text.trim_end());
    }
    let cut = lines.len().saturating_sub(MAX_LINES);
    let mut out = format!("{key}:");
    if cut > 0 {
        let _ = write!(out, "\n  … {cut} lines before");
    }
    for line in &lines[cut..] {
        let _ = write!(out, "\n  {line}");
    }
    out
}

#[cfg(test)]
mod tests {
    use paddock_types::{Location, SubKind};

    use super::*;

    #[test]
    fn a_report_has_all_its_parts() {
        let mut fault =
            Fault::invalid_value("lr is \"fast\"; allowed: a number", "set it to a number")
                .at(Location::line("job.yaml", 9).field("hyperparameters.lr"))
                .with("value", "fast")
                .with("allowed", vec!["a", "b"]);
        fault
            .also
            .push("job.yaml:12: Invalid value: temperature is \"0\"".into());
        insta::assert_snapshot!(report(&fault), @r#"
        Invalid value: lr is "fast"; allowed: a number
          where     job.yaml:9, hyperparameters.lr
          evidence  allowed: a, b
          do        set it to a number
          also      job.yaml:12: Invalid value: temperature is "0"
          more      paddock explain "Invalid value"
        "#);
    }

    #[test]
    fn stacks_keep_their_lines() {
        let fault = Fault::call_plugin(SubKind::Timeout, "it took 5 s", "look")
            .with("stack", "File \"a.py\", line 3, in f\n  while True: pass\n");
        insta::assert_snapshot!(report(&fault), @r#"
        Call plugin error: Timeout: it took 5 s
          evidence  stack:
                      File "a.py", line 3, in f
                        while True: pass
          do        look
          more      paddock explain "Timeout"
        "#);
    }
}
