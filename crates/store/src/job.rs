//! Which jobs a list holds.

use paddock_types::job::JobState;

/// Jobs, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// In this state.
    pub state: Option<JobState>,
    /// With this name, exactly.
    pub name: Option<String>,
}
