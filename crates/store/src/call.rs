//! Which calls a list holds.

use paddock_types::{CallId, JobId, Outcome, SubKind, TrajectoryId};

/// Attempts in the order of their calls, then of their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Of this job.
    pub job: Option<JobId>,
    /// Of this plugin.
    pub plugin: Option<String>,
    /// Made for this trajectory alone: its rollout and its single graders.
    pub trajectory: Option<TrajectoryId>,
    /// With this outcome.
    pub outcome: Option<Outcome>,
    /// With this sub-kind of fault.
    pub sub_kind: Option<SubKind>,
    /// Of this call: all its attempts.
    pub call: Option<CallId>,
}
