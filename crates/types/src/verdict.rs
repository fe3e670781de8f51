//! The verdict of one attempt of one call.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fault::SubKind;
use crate::id::{CallId, JobId, SampleId, TrajectoryId};

/// What came of a call, in the contract's words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It answered, and the answer counts.
    #[default]
    Success,
    /// It is called again, and then ends the job.
    Failure,
    /// It is called again, and then its sample is dropped.
    Retry,
    /// Its sample is dropped at once.
    Discard,
}

impl Outcome {
    /// The contract's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Retry => "retry",
            Self::Discard => "discard",
        }
    }
}

/// All that is known of an attempt once it is over. The default is a success that says nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Verdict {
    /// What came of it.
    pub outcome: Outcome,
    /// Why it failed; `None` unless the outcome is `failure`.
    pub sub_kind: Option<SubKind>,
    /// True if the fault is the platform's (the model's side, Paddock itself): called again uncharged.
    #[serde(default)]
    pub platform: bool,
    /// One sentence on what happened; empty on success.
    #[serde(default)]
    pub message: String,
    /// What shows it: `stack`, `traceback`, `exit_code`, `signal`, `logs`, `value`, `trajectory`, …
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub evidence: Map<String, Value>,
    /// Finite rewards of a successful grader, one a trajectory, in their order.
    #[serde(default)]
    pub rewards: Vec<f64>,
    /// Finite metrics of a grader.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub metrics: Map<String, Value>,
    /// The plugin's own `error` text, or the traceback of what it raised.
    #[serde(default)]
    pub error: String,
    /// What a rollout returned for the graders.
    #[serde(default)]
    pub extra: Value,
    /// Milliseconds it waited for a slot.
    pub queue_ms: f64,
    /// Milliseconds it ran, model time included.
    pub run_ms: f64,
    /// Milliseconds of the run spent waiting for the policy.
    #[serde(default)]
    pub model_ms: f64,
    /// Peak resident memory of its process, where it is known.
    #[serde(default)]
    pub peak_memory_bytes: Option<u64>,
    /// The instance that ran it; empty if it never reached one.
    #[serde(default)]
    pub instance: String,
}

impl Verdict {
    /// What the plugin's author should do about it; nothing if it didn't fail.
    pub fn advice(&self) -> Option<&'static str> {
        let kind = self.sub_kind?;
        Some(match kind {
            // Nothing was raised: there is no traceback to look at.
            SubKind::Raised if !self.evidence.contains_key("traceback") => {
                "answer what the message asks for, on each path of the function"
            }
            kind => kind.advice(),
        })
    }
}

/// A call as the store keeps it: one record an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CallRecord {
    /// The call.
    pub call: CallId,
    /// Which try, from 1.
    pub attempt: u32,
    /// Its job.
    pub job: JobId,
    /// Its plugin's name.
    pub plugin: String,
    /// The sample it was made for.
    pub sample: SampleId,
    /// The trajectory, for rollouts and single graders.
    pub trajectory: Option<TrajectoryId>,
    /// When it was asked for, in milliseconds since 1970.
    pub started_ms: i64,
    /// What came of it.
    pub verdict: Verdict,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traceback_is_named_where_there_is_one() {
        let mut verdict = Verdict {
            outcome: Outcome::Failure,
            sub_kind: Some(SubKind::Raised),
            ..Verdict::default()
        };
        assert!(!verdict.advice().is_some_and(|a| a.contains("traceback")));
        verdict.evidence.insert("traceback".into(), "…".into());
        assert!(verdict.advice().is_some_and(|a| a.contains("traceback")));
        assert_eq!(Verdict::default().advice(), None);
    }
}
