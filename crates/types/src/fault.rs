//! Faults: what went wrong, whose it is, on what evidence, and what to do.
//!
//! The texts of [`FaultKind`] and [`SubKind`] are what users search for. They never change.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A job's kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum FaultKind {
    /// A fault in Paddock itself.
    #[serde(rename = "internal error")]
    Internal,
    /// A fault that no rule explains, kept raw.
    #[serde(rename = "unknown error")]
    Unknown,
    /// A plugin call failed for good.
    #[serde(rename = "Call plugin error")]
    CallPlugin,
    /// A data file is missing, empty or unreadable.
    #[serde(rename = "Invalid data")]
    InvalidData,
    /// A field, hyperparameter or signature with a wrong type, format or range; broken JSON.
    #[serde(rename = "Invalid value")]
    InvalidValue,
    /// The loss or a gradient became `nan` or `inf`.
    #[serde(rename = "Loss nan")]
    LossNan,
}

impl FaultKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 6] = [
        Self::Internal,
        Self::Unknown,
        Self::CallPlugin,
        Self::InvalidData,
        Self::InvalidValue,
        Self::LossNan,
    ];

    /// The text that users know.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Internal => "internal error",
            Self::Unknown => "unknown error",
            Self::CallPlugin => "Call plugin error",
            Self::InvalidData => "Invalid data",
            Self::InvalidValue => "Invalid value",
            Self::LossNan => "Loss nan",
        }
    }

    /// Whose it is.
    pub const fn owner(self) -> Owner {
        match self {
            Self::Internal | Self::Unknown => Owner::Platform,
            Self::CallPlugin => Owner::Plugin,
            Self::InvalidData | Self::InvalidValue | Self::LossNan => Owner::Data,
        }
    }

    /// The exit code of a command that ends with this fault.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::InvalidData | Self::InvalidValue => 3,
            Self::CallPlugin => 4,
            Self::LossNan => 5,
            Self::Internal | Self::Unknown => 6,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// Paddock, or the model's side.
    Platform,
    /// The job owner's code.
    Plugin,
    /// The job owner's data or settings.
    Data,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Platform => "platform",
            Self::Plugin => "plugin",
            Self::Data => "data",
        })
    }
}

/// The sub-kind of a plugin call's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum SubKind {
    /// The deadline passed.
    #[serde(rename = "Timeout")]
    Timeout,
    /// The process ended without answering.
    #[serde(rename = "EOF")]
    Eof,
    /// The function raised, or answered something that is not a result.
    #[serde(rename = "500")]
    Raised,
    /// The instance went over its memory size.
    #[serde(rename = "FaaS OOM")]
    Oom,
    /// No instance could be made.
    #[serde(rename = "Create faas fault")]
    Create,
    /// A reward that is not a finite number, or a wrong count of them.
    #[serde(rename = "Abnormal reward")]
    AbnormalReward,
    /// The function itself answered `failure`.
    #[serde(rename = "Returned failure")]
    ReturnedFailure,
}

impl SubKind {
    /// Every sub-kind, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::Timeout,
        Self::Eof,
        Self::Raised,
        Self::Oom,
        Self::Create,
        Self::AbnormalReward,
        Self::ReturnedFailure,
    ];

    /// The text that users know.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "Timeout",
            Self::Eof => "EOF",
            Self::Raised => "500",
            Self::Oom => "FaaS OOM",
            Self::Create => "Create faas fault",
            Self::AbnormalReward => "Abnormal reward",
            Self::ReturnedFailure => "Returned failure",
        }
    }

    /// What the plugin's author should do about it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Timeout => {
                "look at the stack for the line that held the call: bound it with a timeout of its own, use async clients in `async def`, or raise `runtime.timeout`"
            }
            Self::Eof => {
                "look at the call's last log lines: the process was ended by its own code (a crash in C code, `os._exit`) or by a signal"
            }
            Self::Raised => {
                "mend the line that the traceback names first, or catch what it raises and return a status"
            }
            Self::Oom => {
                "use less memory in a call, lower `max_concurrency`, or take a larger `runtime.instance`"
            }
            Self::Create => {
                "mend what the evidence names: the import, requirements.txt, the function's name, or the quota"
            }
            Self::AbnormalReward => {
                "guard the grader's arithmetic: return a finite number, or `status: discard` for what can't be graded"
            }
            Self::ReturnedFailure => "the function itself answered `failure`: see its `error`",
        }
    }
}

impl fmt::Display for SubKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a fault was decided: a file and line, a field, a plugin, a call, a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Location {
    /// The file, as the user named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The field's path, such as `hyperparameters.lr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The plugin's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The call that decided it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The step it happened in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
}

impl Location {
    /// A line of a file.
    pub fn line(file: impl Into<String>, line: u64) -> Self {
        Self {
            file: Some(file.into()),
            line: Some(line),
            ..Self::default()
        }
    }

    /// The same place, with the field named.
    pub fn field(self, field: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            ..self
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        match (&self.file, self.line) {
            (Some(file), Some(line)) => parts.push(format!("{file}:{line}")),
            (Some(file), None) => parts.push(file.clone()),
            (None, Some(line)) => parts.push(format!("line {line}")),
            (None, None) => {}
        }
        parts.extend(self.field.clone());
        parts.extend(self.plugin.as_ref().map(|p| format!("plugin \"{p}\"")));
        parts.extend(self.call.clone());
        parts.extend(self.step.map(|s| format!("step {s}")));
        f.write_str(&parts.join(", "))
    }
}

/// A fault with all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[error("{kind}{}: {message}", sub_kind.map(|s| format!(": {s}")).unwrap_or_default())]
pub struct Fault {
    /// What kind it is.
    pub kind: FaultKind,
    /// The call's sub-kind, for `Call plugin error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_kind: Option<SubKind>,
    /// Whose it is. Always `kind.owner()`; kept so that readers need no table.
    pub owner: Owner,
    /// One sentence: what happened, the value in quotes.
    pub message: String,
    /// Where it was decided.
    #[serde(default)]
    pub location: Location,
    /// What shows it: values, stacks, log lines.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub evidence: Map<String, Value>,
    /// What to do.
    pub advice: String,
    /// Further problems found in the same pass, as `(location, message)` texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

impl Fault {
    /// A fault of the given kind, with what to do about it.
    pub fn new(kind: FaultKind, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            kind,
            sub_kind: None,
            owner: kind.owner(),
            message: message.into(),
            location: Location::default(),
            evidence: Map::new(),
            advice: advice.into(),
            also: Vec::new(),
        }
    }

    /// `Invalid value`.
    pub fn invalid_value(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(FaultKind::InvalidValue, message, advice)
    }

    /// `Invalid data`.
    pub fn invalid_data(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(FaultKind::InvalidData, message, advice)
    }

    /// `internal error`: a fault of Paddock's own.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(
            FaultKind::Internal,
            message,
            "nothing to do for the job's owner: run the job again; if it comes back, report it with the log",
        )
    }

    /// `Call plugin error` with its sub-kind.
    pub fn call_plugin(
        sub_kind: SubKind,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            sub_kind: Some(sub_kind),
            ..Self::new(FaultKind::CallPlugin, message, advice)
        }
    }

    /// The same fault, placed.
    pub fn at(mut self, location: Location) -> Self {
        self.location = location;
        self
    }

    /// The same fault with one more piece of evidence.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.evidence.insert(key.to_owned(), value.into());
        self
    }
}
