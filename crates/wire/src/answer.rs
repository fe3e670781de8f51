//! The answer of a call: what the function returned or raised, as the slot saw it.
//!
//! Nothing is judged here. A number keeps what Python had: `nan` stays `nan`, and what was no
//! number at all keeps its text and type, so that the verdict can name it.

use std::fmt;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// What the function says came of the call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It counts.
    #[default]
    Success,
    /// Try again, then fail.
    Failure,
    /// Try again, then drop.
    Retry,
    /// Drop at once.
    Discard,
}

/// What a slot answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// What the function says came of it.
    pub status: Status,
    /// Its own words on it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// A grader's rewards, in the order of the trajectories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rewards: Vec<Number>,
    /// A grader's metrics.
    #[serde(skip_serializing_if = "Metrics::is_empty")]
    pub metrics: Metrics,
    /// What a rollout hands to the graders.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub extra: Value,
    /// What it raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised: Option<Raised>,
    /// Why what it returned is not a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_result: Option<String>,
    /// What the call left in its process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub residue: Vec<String>,
}

impl Answer {
    /// Reads the body of an ANSWER frame.
    pub fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }
}

/// An exception that the function let escape.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Raised {
    /// The exception's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its message.
    pub message: String,
    /// The whole traceback as text.
    pub traceback: String,
    /// The traceback's frames in the plugin's own files, outermost first.
    pub frames: Vec<StackFrame>,
}

/// A line of a traceback.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackFrame {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The function.
    pub function: String,
    /// The source line.
    pub code: String,
}

/// A grader's metrics by key, in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics(pub Vec<(String, Number)>);

impl Metrics {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What stands where a number is due.
#[derive(Debug, Clone, PartialEq)]
pub enum Number {
    /// A number, finite or not.
    Float(f64),
    /// No number at all.
    Other {
        /// Its Python text.
        repr: String,
        /// Its Python type.
        kind: String,
    },
}

impl Number {
    /// The number, if it is a finite one.
    pub fn finite(&self) -> Option<f64> {
        match self {
            Self::Float(x) if x.is_finite() => Some(*x),
            _ => None,
        }
    }

    fn other(repr: impl Into<String>, kind: &str) -> Self {
        Self::Other {
            repr: repr.into(),
            kind: kind.to_owned(),
        }
    }
}

/// As a message names it: `nan`, `-inf`, `'text' (str)`.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(x) if x.is_nan() => f.write_str("nan"),
            Self::Float(x) => write!(f, "{x}"),
            Self::Other { repr, kind } if kind == "NoneType" => f.write_str(repr),
            Self::Other { repr, kind } => write!(f, "{repr} ({kind})"),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Float(x) if x.is_finite() => s.serialize_f64(*x),
            Self::Float(x) => {
                let text = if x.is_nan() {
                    "nan"
                } else if *x > 0.0 {
                    "inf"
                } else {
                    "-inf"
                };
                serde_json::json!({ "$float": text }).serialize(s)
            }
            Self::Other { repr, kind } => {
                serde_json::json!({ "$value": repr, "type": kind }).serialize(s)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, {\"$float\": …} or {\"$value\": …, \"type\": …}")
    }

    fn visit_f64<E>(self, x: f64) -> Result<Number, E> {
        Ok(Number::Float(x))
    }

    fn visit_u64<E>(self, x: u64) -> Result<Number, E> {
        Ok(Number::Float(x as f64))
    }

    fn visit_i64<E>(self, x: i64) -> Result<Number, E> {
        Ok(Number::Float(x as f64))
    }

    fn visit_bool<E>(self, x: bool) -> Result<Number, E> {
        Ok(Number::Float(f64::from(x)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Number, E> {
        Ok(Number::other(format!("{text:?}"), "str"))
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number::other("None", "NoneType"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Number, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Value>()? {
            items.push(item);
        }
        Ok(Number::other(Value::Array(items).to_string(), "list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
        let mut fields = Map::new();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            fields.insert(key, value);
        }
        if let Some(Value::String(text)) = fields.get("$float") {
            return match text.as_str() {
                "nan" => Ok(Number::Float(f64::NAN)),
                "inf" => Ok(Number::Float(f64::INFINITY)),
                "-inf" => Ok(Number::Float(f64::NEG_INFINITY)),
                _ => Err(de::Error::custom("\"$float\" must be nan, inf or -inf")),
            };
        }
        if let Some(Value::String(repr)) = fields.get("$value") {
            let kind = fields.get("type").and_then(Value::as_str).unwrap_or("?");
            return Ok(Number::other(repr.as_str(), kind));
        }
        Ok(Number::other(Value::Object(fields).to_string(), "dict"))
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.0.iter().map(|(key, number)| (key, number)))
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct MetricsVisitor;

        impl<'de> Visitor<'de> for MetricsVisitor {
            type Value = Metrics;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metrics, A::Error> {
                let mut out = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    out.push(entry);
                }
                Ok(Metrics(out))
            }
        }

        d.deserialize_map(MetricsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_python_had_is_what_the_verdict_sees() {
        let answer = Answer::parse(
            br#"{"status":"success","rewards":[1,0.5,true,{"$float":"nan"},{"$float":"-inf"},
                 {"$value":"'x'","type":"str"},{"$value":"None","type":"NoneType"},null,[1]],
                 "metrics":{"a":1,"b":{"$float":"inf"}},"unknown":1}"#,
        )
        .expect("an answer");
        let names: Vec<String> = answer.rewards.iter().map(Number::to_string).collect();
        let expected = [
            "1",
            "0.5",
            "1",
            "nan",
            "-inf",
            "'x' (str)",
            "None",
            "None",
            "[1] (list)",
        ];
        assert_eq!(names, expected);
        assert_eq!(answer.rewards[0].finite(), Some(1.0));
        assert_eq!(answer.rewards[3].finite(), None);
        assert_eq!(answer.metrics.0.len(), 2);
    }

    #[test]
    fn left_out_fields_have_their_defaults() {
        let answer = Answer::parse(b"{}").expect("an answer");
        assert_eq!(answer, Answer::default());
        assert!(Answer::parse(br#"{"status":"maybe"}"#).is_err());
        assert!(Answer::parse(b"").is_err());
    }
}
