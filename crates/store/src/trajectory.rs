//! Which trajectories a list holds.

use paddock_types::JobId;
use paddock_types::id::Phase;
use paddock_types::trajectory::TrajectoryStatus;

/// Trajectories in the order of their ids: job, phase (training first), step, sample, generation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrajectoryFilter {
    /// Of this job.
    pub job: Option<JobId>,
    /// Of this step.
    pub step: Option<u32>,
    /// Of this phase.
    pub phase: Option<Phase>,
    /// Of this sample of its step.
    pub sample: Option<u32>,
    /// Of this status.
    pub status: Option<TrajectoryStatus>,
    /// With at least this reward.
    pub min_reward: Option<f64>,
    /// With at most this reward.
    pub max_reward: Option<f64>,
    /// With this text in the excerpt; case of ASCII letters is no difference.
    pub text: Option<String>,
}
