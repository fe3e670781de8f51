//! Roughly how many bytes a record holds in memory, so that the queue can be bounded by them.

use paddock_types::CallRecord;
use paddock_types::chat::Message;
use paddock_types::trajectory::TrajectoryRecord;
use serde_json::{Map, Value};

/// What a record takes before its texts.
const BASE: usize = 512;

pub(super) fn call(record: &CallRecord) -> usize {
    let verdict = &record.verdict;
    BASE + map(&verdict.evidence)
        + map(&verdict.metrics)
        + value(&verdict.extra)
        + verdict.error.len()
        + verdict.message.len()
        + verdict.rewards.len() * 8
}

pub(super) fn trajectory(record: &TrajectoryRecord) -> usize {
    let conversation = &record.conversation;
    BASE + messages(&conversation.messages)
        + messages(&conversation.dropped)
        + conversation.side.iter().map(|m| messages(m)).sum::<usize>()
        + conversation.tokens.ids.len() * 9
        + value(&record.extra)
        + record.reason.len()
}

fn messages(list: &[Message]) -> usize {
    list.iter().map(|message| map(&message.0)).sum()
}

fn map(map: &Map<String, Value>) -> usize {
    map.iter()
        .map(|(key, item)| 48 + key.len() + value(item))
        .sum()
}

fn value(of: &Value) -> usize {
    32 + match of {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value).sum(),
        Value::Object(entries) => map(entries),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
