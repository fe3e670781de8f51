//! Whether the prompts fit the model: known before the job starts, for jobs whose rollout is the
//! model's single turn. A rollout plugin makes its own prompts.

use paddock_policy::template::{self, Thinking};
use paddock_types::fault::{Fault, Location};

use crate::dataset::{Dataset, Row};

/// Every row whose prompt leaves the model no token of its context to answer with.
pub fn too_long(data: &Dataset, context: usize) -> Vec<Fault> {
    let rows = data.training.iter().chain(&data.validation);
    rows.filter_map(|row| check(row, context)).collect()
}

fn check(row: &Row, context: usize) -> Option<Fault> {
    let thinking = Thinking::from_value(row.thinking.as_ref());
    let prompt = template::render(&row.messages, row.tools.as_ref()).len()
        + template::generation_prompt(thinking).len();
    if prompt < context {
        return None;
    }
    let location = match row.source.rsplit_once(':') {
        Some((file, line)) => Location::line(file, line.parse().unwrap_or_default()),
        None => Location::default(),
    };
    let message = format!(
        "the prompt has {prompt} tokens, and the model's context {context}: no room for an answer"
    );
    let advice = format!("shorten it to fewer than {context} tokens, or leave the row out");
    let fault = Fault::invalid_value(message, advice).at(location.field("messages"));
    Some(
        fault
            .with("tokens", prompt as u64)
            .with("context", context as u64),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_prompt_that_fills_the_context_is_named_by_its_line() {
        let row = |text: &str, line: u32| {
            let row = serde_json::json!({"messages": [{"role": "user", "content": text}]});
            let row = row.as_object().cloned().unwrap_or_default();
            Arc::new(Row::new(format!("a.jsonl:{line}"), row))
        };
        let data = Dataset {
            training: vec![row("hi", 1), row(&"x".repeat(80), 2)],
            ..Dataset::default()
        };
        let faults = too_long(&data, 64);
        assert_eq!(faults.len(), 1);
        assert_eq!(
            faults[0].location,
            Location::line("a.jsonl", 2).field("messages")
        );
        assert!(too_long(&data, 2048).is_empty());
    }
}
