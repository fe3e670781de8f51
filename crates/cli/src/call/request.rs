//! The requests of `paddock call`: read from the command line or a file, and written as call bodies.

use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// The address given to a rollout without `--model`: it says why nothing answers there.
const NO_MODEL: &str = "http://no-model-was-given-use-paddock-call-with---model.invalid/v1";

/// One request, checked to be an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request(Map<String, Value>);

/// Reads an object or a list of them: JSON itself, or a file's name.
pub(super) fn read(text: &str) -> Result<Vec<Request>, Failure> {
    let inline = text.trim_start().starts_with(['{', '[']);
    let (found, from) = match inline {
        true => (text.as_bytes().to_vec(), "--request".to_owned()),
        false => {
            let found = std::fs::read(text)
                .map_err(|e| Failure::usage(format!("--request: \"{text}\" can't be read: {e}")))?;
            (found, format!("\"{text}\""))
        }
    };
    let value: Value = serde_json::from_slice(&found)
        .map_err(|e| Failure::usage(format!("{from} is no JSON: {e}")))?;
    let items = match value {
        Value::Array(items) if !items.is_empty() => items,
        one => vec![one],
    };
    let each = items.into_iter().map(|item| match item {
        Value::Object(fields) => Ok(Request(fields)),
        other => Err(Failure::usage(format!(
            "{from}: a request is an object with \"sample\", not {other}"
        ))),
    });
    each.collect()
}

impl Request {
    /// How many trajectories it carries.
    pub(super) fn trajectories(&self) -> usize {
        match self.0.get("trajectories") {
            Some(Value::Array(all)) => all.len(),
            _ => usize::from(self.0.contains_key("trajectory")),
        }
    }

    /// For a single grader a request for each trajectory; else itself.
    pub(super) fn split(&self, single: bool) -> Vec<Self> {
        match self.0.get("trajectories") {
            Some(Value::Array(all)) if single && all.len() > 1 => all
                .iter()
                .map(|one| {
                    let mut fields = self.0.clone();
                    fields.insert("trajectories".into(), json!([one]));
                    Self(fields)
                })
                .collect(),
            _ => vec![self.clone()],
        }
    }

    /// The body of a call, of another function of the file if one is named.
    pub(super) fn body(&self, attempt: u32, other: Option<&str>, model: Option<&str>) -> Vec<u8> {
        let mut fields = self.0.clone();
        fields.remove("function");
        if let Some(other) = other {
            fields.insert("function".into(), other.into());
        }
        let context = fields.entry("context").or_insert_with(|| json!({}));
        if let Value::Object(context) = context {
            context.entry("phase").or_insert_with(|| "test".into());
            context.entry("is_mock").or_insert(true.into());
            context.insert("attempt".into(), attempt.into());
        }
        let proxy = json!({"url": model.unwrap_or(NO_MODEL), "jwt_token": "none", "headers": {}});
        fields.entry("proxy").or_insert(proxy);
        Value::Object(fields).to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_objects_or_lists_of_them() {
        let two = read(r#"[{"sample": {}}, {"trajectories": [{}, {}]}]"#).expect("requests");
        assert_eq!(two.len(), 2);
        assert_eq!(two[0].trajectories(), 0);
        assert_eq!(two[1].trajectories(), 2);
        assert_eq!(two[1].split(true).len(), 2);
        assert_eq!(two[1].split(false), [two[1].clone()]);
        assert!(read("[1]").is_err() && read("{").is_err() && read("[]").is_err());
    }

    #[test]
    fn only_then_names_another_function() {
        let one = &read(r#"{"function": "x"}"#).expect("a request")[0];
        let body =
            |other| -> Value { serde_json::from_slice(&one.body(2, other, None)).expect("JSON") };
        assert!(body(None).get("function").is_none());
        assert_eq!(body(Some("healthy"))["function"], "healthy");
        assert_eq!(body(None)["context"]["attempt"], 2);
    }
}
