//! What a list can be asked for, as query parameters. A parameter that isn't known is an error:
//! a misspelt filter must not look like an empty one.

use paddock_types::id::Phase;
use paddock_types::job::JobState;
use paddock_types::log::Level;
use paddock_types::trajectory::TrajectoryStatus;
use paddock_types::{CallId, Outcome, SubKind, TrajectoryId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which jobs; newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct JobQuery {
    /// In this state.
    pub state: Option<JobState>,
    /// With this name, exactly.
    pub name: Option<String>,
    /// Items a page, 1 to 1000; 100 if left out.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    pub after: Option<String>,
}

/// Which trajectories; in the order of their ids: training first, then step, sample, generation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct TrajectoryQuery {
    /// Of this step.
    pub step: Option<u32>,
    /// Of this phase.
    #[param(inline)]
    pub phase: Option<Phase>,
    /// Of this sample of its step, from 0.
    pub sample: Option<u32>,
    /// Of this status.
    pub status: Option<TrajectoryStatus>,
    /// With at least this reward.
    pub min_reward: Option<f64>,
    /// With at most this reward.
    pub max_reward: Option<f64>,
    /// With this text in the excerpt; case of ASCII letters is no difference.
    pub text: Option<String>,
    /// Items a page, 1 to 1000; 100 if left out.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    pub after: Option<String>,
}

/// What a trajectory's detail holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct TrajectoryOptions {
    /// Token ids, mask and log-probabilities too.
    pub tokens: bool,
}

/// Which attempts; in the order of their calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct CallQuery {
    /// Of this plugin.
    pub plugin: Option<String>,
    /// Made for this trajectory alone: its rollout and its single graders.
    pub trajectory: Option<TrajectoryId>,
    /// With this outcome.
    pub outcome: Option<Outcome>,
    /// With this sub-kind of fault.
    pub sub_kind: Option<SubKind>,
    /// Items a page, 1 to 1000; 100 if left out.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    pub after: Option<String>,
}

/// How log lines are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogOrder {
    /// By time.
    #[default]
    Time,
    /// By time, the latest first.
    Latest,
    /// As they arrived: to follow a log.
    Arrival,
}

/// Which log lines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct LogQuery {
    /// Of this plugin; empty means the job's own lines.
    pub plugin: Option<String>,
    /// Of this instance.
    pub instance: Option<String>,
    /// Of this call.
    pub call: Option<CallId>,
    /// Of the calls of this trajectory.
    pub trajectory: Option<TrajectoryId>,
    /// Of at least this severity.
    pub level: Option<Level>,
    /// With this text; case of ASCII letters is no difference.
    pub text: Option<String>,
    /// From this time on, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Before this time, in milliseconds since 1970.
    pub until: Option<i64>,
    /// How they are sorted; by time if left out.
    #[param(inline)]
    pub order: Option<LogOrder>,
    /// Items a page, 1 to 1000; 100 if left out.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before, or the `cursor` of a line.
    pub after: Option<String>,
}

/// Which measured numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct MetricQuery {
    /// Of this plugin; empty means the job's own numbers.
    pub plugin: Option<String>,
    /// Of this metric.
    pub name: Option<String>,
    /// From this time on, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Before this time, in milliseconds since 1970.
    pub until: Option<i64>,
}
