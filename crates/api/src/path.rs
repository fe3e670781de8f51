//! The paths of the API, as the router takes them. A name in braces is an id.

/// Whether the server can answer.
pub const HEALTH: &str = "/api/v1/health";
/// Which version answers.
pub const VERSION: &str = "/api/v1/version";
/// This API's document.
pub const OPENAPI: &str = "/api/v1/openapi.json";
/// Jobs.
pub const JOBS: &str = "/api/v1/jobs";
/// A job.
pub const JOB: &str = "/api/v1/jobs/{job}";
/// A job's steps.
pub const JOB_STEPS: &str = "/api/v1/jobs/{job}/steps";
/// A job's validations.
pub const JOB_VALIDATIONS: &str = "/api/v1/jobs/{job}/validations";
/// A job's trajectories.
pub const JOB_TRAJECTORIES: &str = "/api/v1/jobs/{job}/trajectories";
/// A job's calls.
pub const JOB_CALLS: &str = "/api/v1/jobs/{job}/calls";
/// A job's log lines.
pub const JOB_LOGS: &str = "/api/v1/jobs/{job}/logs";
/// A job's measured numbers.
pub const JOB_METRICS: &str = "/api/v1/jobs/{job}/metrics";
/// A trajectory.
pub const TRAJECTORY: &str = "/api/v1/trajectories/{trajectory}";
/// The calls of a trajectory.
pub const TRAJECTORY_CALLS: &str = "/api/v1/trajectories/{trajectory}/calls";
/// A call: all its attempts.
pub const CALL: &str = "/api/v1/calls/{call}";

/// The model proxy's chat completions, in OpenAI's shape.
pub const CHAT_COMPLETIONS: &str = "/v1/chat/completions";
/// The model proxy's list of models.
pub const MODELS: &str = "/v1/models";
