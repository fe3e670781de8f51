//! The shape of a row: what each known field must be. Unknown fields are nobody's business here.

use serde_json::{Map, Value};

use super::json::what;
use super::{Problem, RowLimits};
use crate::job_file::setting::{Bounds, shown};
use crate::suggest;

const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];
const THINKING: [&str; 3] = ["enabled", "disabled", "auto"];
const PARTS: [&str; 4] = ["text", "image_url", "video_url", "input_audio"];

/// Everything wrong with a row.
pub(super) fn problems(row: &Map<String, Value>, limits: &RowLimits) -> Vec<Problem> {
    let mut shape = Shape {
        found: Vec::new(),
        limits,
    };
    shape.row(row);
    shape.found
}

struct Shape<'l> {
    found: Vec<Problem>,
    limits: &'l RowLimits,
}

impl Shape<'_> {
    fn refuse(&mut self, field: &str, is: impl AsRef<str>, allowed: &str) {
        let message = format!("{} {}; allowed: {allowed}", last(field), is.as_ref());
        self.found
            .push(Problem::new(field, message, format!("write {allowed}")));
    }

    fn wrong(&mut self, field: &str, value: &Value, allowed: &str) {
        let is = match value {
            Value::String(text) => format!("is {}", shown(text)),
            Value::Number(n) => format!("is {n}"),
            other => format!("is {}", what(other)),
        };
        self.refuse(field, is, allowed);
    }

    fn row(&mut self, row: &Map<String, Value>) {
        match row.get("messages") {
            None => {
                let near = row.keys().map(String::as_str);
                let near = suggest::nearest("messages", near);
                let message = match near {
                    Some(key) => format!("messages is missing; is {} meant?", shown(key)),
                    None => "messages is missing".into(),
                };
                let advice =
                    "each row needs `messages`: [{\"role\": \"user\", \"content\": \"...\"}]";
                self.found.push(Problem::new("messages", message, advice));
            }
            Some(Value::Array(items)) if items.is_empty() => {
                self.refuse("messages", "is empty", "at least one message");
            }
            Some(Value::Array(items)) => {
                for (i, item) in items.iter().enumerate() {
                    self.message(&format!("messages[{i}]"), item);
                }
            }
            Some(other) => self.wrong("messages", other, "a list of messages"),
        }
        for (key, value) in row.iter().filter(|(_, value)| !value.is_null()) {
            self.field(key, value);
        }
    }

    fn field(&mut self, key: &str, value: &Value) {
        let lowest = Bounds::closed(0.0, 10.0);
        let temperature = match self.limits.training {
            true => Bounds::above(0.0, 10.0),
            false => lowest,
        };
        match key {
            "tools" => self.tools(value),
            "thinking" => self.thinking(value),
            "extra" if !value.is_object() => self.wrong(key, value, "an object"),
            "model" if !value.is_string() => self.wrong(key, value, "a text"),
            "n" => self.whole(key, value, 1, 1024),
            "max_new_tokens" => self.whole(key, value, 1, 1_048_576),
            "top_k" => self.whole(key, value, 0, 1_000_000),
            "top_p" => self.number(key, value, Bounds::above(0.0, 1.0)),
            "temperature" => self.number(key, value, temperature),
            _ => {}
        }
    }

    fn whole(&mut self, field: &str, value: &Value, min: u64, max: u64) {
        if !value.as_u64().is_some_and(|n| (min..=max).contains(&n)) {
            self.wrong(field, value, &format!("a whole number from {min} to {max}"));
        }
    }

    fn number(&mut self, field: &str, value: &Value, bounds: Bounds) {
        if !value.as_f64().is_some_and(|x| bounds.holds(x)) {
            self.wrong(field, value, &bounds.describe());
        }
    }

    fn message(&mut self, field: &str, value: &Value) {
        let Some(message) = value.as_object() else {
            return self.wrong(field, value, "an object with role and content");
        };
        let role = match message.get("role") {
            Some(Value::String(role)) if ROLES.contains(&role.as_str()) => role.as_str(),
            Some(Value::String(role)) => {
                let near = suggest::nearest(role, ROLES);
                let is = format!("is {}{}", shown(role), suggest::hint(near));
                self.refuse(&format!("{field}.role"), is, &ROLES.join(", "));
                ""
            }
            Some(other) => {
                self.wrong(&format!("{field}.role"), other, &ROLES.join(", "));
                ""
            }
            None => {
                self.refuse(&format!("{field}.role"), "is missing", &ROLES.join(", "));
                ""
            }
        };
        let calls = message.get("tool_calls").filter(|calls| !calls.is_null());
        self.content(
            field,
            message.get("content"),
            role == "assistant" && calls.is_some(),
        );
        if let Some(calls) = calls {
            self.tool_calls(&format!("{field}.tool_calls"), calls, role);
        }
        for key in ["reasoning_content", "tool_call_id", "name"] {
            match message.get(key) {
                None | Some(Value::Null | Value::String(_)) => {}
                Some(other) => self.wrong(&format!("{field}.{key}"), other, "a text"),
            }
        }
    }

    fn content(&mut self, field: &str, content: Option<&Value>, optional: bool) {
        let field = format!("{field}.content");
        match content {
            Some(Value::String(_)) => {}
            Some(Value::Array(parts)) => {
                for (i, part) in parts.iter().enumerate() {
                    self.part(&format!("{field}[{i}]"), part);
                }
            }
            None | Some(Value::Null) if optional => {}
            None => self.refuse(&field, "is missing", "a text or a list of parts"),
            Some(other) => self.wrong(&field, other, "a text or a list of parts"),
        }
    }

    fn part(&mut self, field: &str, part: &Value) {
        let Some(object) = part.as_object() else {
            return self.wrong(
                field,
                part,
                "a part such as {\"type\": \"text\", \"text\": \"...\"}",
            );
        };
        match object.get("type").and_then(Value::as_str) {
            Some("text") => {
                if !object.get("text").is_some_and(Value::is_string) {
                    self.refuse(&format!("{field}.text"), "is missing", "a text");
                }
            }
            Some("image_url") if self.limits.images => {}
            Some(kind) if PARTS.contains(&kind) => {
                let message =
                    format!("type is \"{kind}\", which the model does not take; allowed: text");
                let advice = "leave such rows out, or choose a model that takes them";
                self.found
                    .push(Problem::new(format!("{field}.type"), message, advice));
            }
            Some(kind) => {
                let near = suggest::nearest(kind, PARTS);
                let is = format!("is {}{}", shown(kind), suggest::hint(near));
                self.refuse(&format!("{field}.type"), is, "text");
            }
            None => self.refuse(&format!("{field}.type"), "is missing", "text"),
        }
    }

    fn tool_calls(&mut self, field: &str, calls: &Value, role: &str) {
        let Some(calls) = calls.as_array() else {
            return self.wrong(field, calls, "a list of tool calls");
        };
        if !calls.is_empty() && !matches!(role, "assistant" | "") {
            self.refuse(
                field,
                format!("stands in a message of role \"{role}\""),
                "role assistant",
            );
        }
        for (i, call) in calls.iter().enumerate() {
            let field = format!("{field}[{i}]");
            let Some(call) = call.as_object() else {
                self.wrong(&field, call, "an object with id and function");
                continue;
            };
            match call.get("id") {
                None | Some(Value::Null | Value::String(_)) => {}
                Some(other) => self.wrong(&format!("{field}.id"), other, "a text"),
            }
            let function = self.function(&field, call.get("function"));
            match function.and_then(|f| f.get("arguments")) {
                None | Some(Value::Null | Value::String(_) | Value::Object(_)) => {}
                Some(other) => {
                    let field = format!("{field}.function.arguments");
                    self.wrong(&field, other, "a text of JSON, or an object");
                }
            }
        }
    }

    /// The `function` of a tool call or of a tool: an object with a name.
    fn function<'v>(
        &mut self,
        field: &str,
        value: Option<&'v Value>,
    ) -> Option<&'v Map<String, Value>> {
        let field = format!("{field}.function");
        let Some(value) = value else {
            self.refuse(&field, "is missing", "an object with name");
            return None;
        };
        let Some(function) = value.as_object() else {
            self.wrong(&field, value, "an object with name");
            return None;
        };
        match function.get("name") {
            Some(Value::String(name)) if !name.is_empty() => {}
            Some(other) => self.wrong(&format!("{field}.name"), other, "a text that isn't empty"),
            None => self.refuse(
                &format!("{field}.name"),
                "is missing",
                "a text that isn't empty",
            ),
        }
        Some(function)
    }

    fn tools(&mut self, tools: &Value) {
        let Some(items) = tools.as_array() else {
            return self.wrong("tools", tools, "a list of tools");
        };
        for (i, tool) in items.iter().enumerate() {
            let field = format!("tools[{i}]");
            let Some(tool) = tool.as_object() else {
                self.wrong(&field, tool, "an object with type and function");
                continue;
            };
            match tool.get("type") {
                Some(Value::String(kind)) if kind == "function" => {}
                Some(other) => self.wrong(&format!("{field}.type"), other, "function"),
                None => self.refuse(&format!("{field}.type"), "is missing", "function"),
            }
            let function = self.function(&field, tool.get("function"));
            match function.and_then(|f| f.get("parameters")) {
                None | Some(Value::Null | Value::Object(_)) => {}
                Some(other) => {
                    let field = format!("{field}.function.parameters");
                    self.wrong(&field, other, "an object (a JSON schema)");
                }
            }
        }
    }

    fn thinking(&mut self, thinking: &Value) {
        let Some(object) = thinking.as_object() else {
            return self.wrong(
                "thinking",
                thinking,
                "an object such as {\"type\": \"enabled\"}",
            );
        };
        let field = "thinking.type";
        match object.get("type") {
            Some(Value::String(kind)) if THINKING.contains(&kind.as_str()) => {}
            Some(Value::String(kind)) => {
                let near = suggest::nearest(kind, THINKING);
                let is = format!("is {}{}", shown(kind), suggest::hint(near));
                self.refuse(field, is, &THINKING.join(", "));
            }
            Some(other) => self.wrong(field, other, &THINKING.join(", ")),
            None => self.refuse(field, "is missing", &THINKING.join(", ")),
        }
    }
}

/// The last part of a path.
fn last(field: &str) -> &str {
    field.rsplit('.').next().unwrap_or(field)
}
