//! The bodies of plugin calls, as `docs/design/wire.md` describes them.
//!
//! Rows go in as the text they were read as: a plugin sees what the data set says.

use bytes::Bytes;
use paddock_types::id::{Phase, SampleId, TrajectoryId};
use paddock_types::job::{JobConfig, ModelReference};
use paddock_types::trajectory::Conversation;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What a plugin sees of the job: the fields of `PluginContext`.
#[derive(Debug, Clone, Serialize)]
pub struct Context {
    model_customization_job_id: String,
    foundation_model_name: String,
    foundation_model_version: String,
    customization_type: &'static str,
    phase: &'static str,
    is_mock: bool,
    step: u32,
    sample_id: String,
    trajectory_id: Option<String>,
    attempt: u32,
}

impl Context {
    /// The context of a call for a sample, or for one of its trajectories.
    pub fn new(
        config: &JobConfig,
        sample: SampleId,
        trajectory: Option<TrajectoryId>,
        attempt: u32,
    ) -> Self {
        let (name, version) = match &config.model {
            ModelReference::Foundation { name, version } => (name.clone(), version.clone()),
            ModelReference::Custom(path) => (path.clone(), String::new()),
        };
        Self {
            model_customization_job_id: sample.job.to_string(),
            foundation_model_name: name,
            foundation_model_version: version,
            customization_type: "GRPO",
            phase: Phase::as_str(sample.phase),
            is_mock: false,
            step: sample.step,
            sample_id: sample.to_string(),
            trajectory_id: trajectory.map(|t| t.to_string()),
            attempt,
        }
    }
}

/// How a rollout reaches the policy.
#[derive(Debug, Clone, Serialize)]
pub struct Proxy {
    /// Base URL, ending in `/v1`.
    pub url: String,
    /// Good for this one attempt of this one trajectory.
    pub jwt_token: String,
}

/// A trajectory as graders see it.
#[derive(Debug, Clone, Serialize)]
struct Graded<'a> {
    messages: &'a [paddock_types::chat::Message],
    finish_reason: &'a str,
    usage: paddock_types::chat::Usage,
    extra: &'a Value,
}

#[derive(Serialize)]
struct Request<'a> {
    context: &'a Context,
    sample: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<&'a Proxy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trajectories: Option<Vec<Graded<'a>>>,
}

fn write(request: &Request<'_>) -> Bytes {
    // Maps with text keys and finite numbers only: there is nothing in it that JSON can't hold.
    serde_json::to_vec(request).unwrap_or_default().into()
}

/// The row as raw JSON. Rows were parsed when the data was checked, so this never fails on them.
fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).unwrap_or(RawValue::NULL)
}

/// The body of a rollout's call.
pub fn rollout(context: &Context, sample: &str, proxy: &Proxy) -> Bytes {
    let (sample, proxy) = (raw(sample), Some(proxy));
    write(&Request {
        context,
        sample,
        proxy,
        trajectories: None,
    })
}

/// The body of a grader's call. A single grader takes its one trajectory from the list.
pub fn grade<'a>(
    context: &Context,
    sample: &str,
    trajectories: impl IntoIterator<Item = (&'a Conversation, &'a Value)>,
) -> Bytes {
    let list = trajectories
        .into_iter()
        .map(|(conversation, extra)| Graded {
            messages: &conversation.messages,
            finish_reason: &conversation.finish_reason,
            usage: conversation.usage,
            extra,
        });
    let trajectories = Some(list.collect());
    write(&Request {
        context,
        sample: raw(sample),
        proxy: None,
        trajectories,
    })
}
