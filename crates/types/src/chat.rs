//! Messages in the OpenAI chat shape, kept as they came.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A message: an object with a `role`. Unknown fields are kept, in their order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = Object))]
#[serde(transparent)]
pub struct Message(pub Map<String, Value>);

impl Message {
    /// A message with a role and a text.
    pub fn text(role: &str, content: &str) -> Self {
        let mut map = Map::new();
        map.insert("role".into(), role.into());
        map.insert("content".into(), content.into());
        Self(map)
    }

    /// Its role; empty if it has none.
    pub fn role(&self) -> &str {
        self.0
            .get("role")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Its content as text: a string as it is, the texts of a list of parts joined.
    pub fn content(&self) -> String {
        match self.0.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => parts
                .iter()
                .filter_map(|p| p.get("text").and_then(Value::as_str))
                .collect(),
            _ => String::new(),
        }
    }

    /// Its normal form: null, default and unknown keys dropped, text equal to one text part,
    /// tool arguments as parsed JSON. Two messages with one normal form are the same message.
    /// `reasoning_content` is left out of it: leaving it away is no edit.
    pub fn normal(&self) -> Value {
        let mut out = Map::new();
        out.insert("role".into(), self.role().into());
        let text = self.content();
        match self.0.get("content") {
            Some(Value::Array(parts)) if !parts.iter().all(is_text) => {
                out.insert("content".into(), Value::Array(parts.clone()));
            }
            _ if !text.is_empty() => {
                out.insert("content".into(), text.into());
            }
            _ => {}
        }
        if let Some(Value::Array(calls)) = self.0.get("tool_calls")
            && !calls.is_empty()
        {
            out.insert("tool_calls".into(), calls.iter().map(normal_call).collect());
        }
        if let Some(Value::String(id)) = self.0.get("tool_call_id") {
            out.insert("tool_call_id".into(), id.as_str().into());
        }
        Value::Object(out)
    }
}

fn is_text(part: &Value) -> bool {
    part.get("type").and_then(Value::as_str) == Some("text")
}

fn normal_call(call: &Value) -> Value {
    let function = call.get("function").cloned().unwrap_or_default();
    let arguments = match function.get("arguments") {
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Some(other) => other.clone(),
        None => Value::Null,
    };
    serde_json::json!({
        "id": call.get("id").cloned().unwrap_or_default(),
        "name": function.get("name").cloned().unwrap_or_default(),
        "arguments": sorted(arguments),
    })
}

/// The same JSON with every object's keys in order, so that key order is no difference.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

/// Token counts of a request or a trajectory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Usage {
    /// Tokens the model was given.
    pub prompt_tokens: u64,
    /// Tokens it sampled.
    pub completion_tokens: u64,
    /// Both.
    pub total_tokens: u64,
}

/// Sampling settings that a request or a row may name; what is left out is not set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Sampling {
    /// Tokens at most, per model call.
    pub max_new_tokens: Option<u32>,
    /// Divides the logits; 0 takes the most likely token.
    pub temperature: Option<f64>,
    /// Nucleus mass in (0, 1].
    pub top_p: Option<f64>,
    /// Most likely tokens kept; 0 keeps all.
    pub top_k: Option<u32>,
}

impl Sampling {
    /// These settings, with gaps filled from `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            max_new_tokens: self.max_new_tokens.or(other.max_new_tokens),
            temperature: self.temperature.or(other.temperature),
            top_p: self.top_p.or(other.top_p),
            top_k: self.top_k.or(other.top_k),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(json: &str) -> Message {
        serde_json::from_str(json).expect("valid JSON")
    }

    #[test]
    fn a_dumped_message_is_the_same_message() {
        let sent = message(
            r#"{"role":"assistant","content":"hi","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1,\"y\":2}"}}]}"#,
        );
        let dumped = message(
            r#"{"content":[{"type":"text","text":"hi"}],"refusal":null,"role":"assistant","annotations":[],"audio":null,"function_call":null,"reasoning_content":"hm","tool_calls":[{"id":"a","function":{"arguments":"{\"y\": 2, \"x\": 1}","name":"f"},"type":"function","index":0}]}"#,
        );
        assert_eq!(sent.normal(), dumped.normal());
    }

    #[test]
    fn an_edit_is_another_message() {
        let a = message(r#"{"role":"assistant","content":"hi"}"#);
        let b = message(r#"{"role":"assistant","content":"hi!"}"#);
        assert_ne!(a.normal(), b.normal());
    }
}
