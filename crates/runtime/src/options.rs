//! The runtime's settings, with their defaults.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::memory::Quota;

/// How the reaper is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaper {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

static USED: OnceLock<Reaper> = OnceLock::new();

impl Reaper {
    /// Sets what [`Reaper::default`] gives in this process; for programs that don't carry the
    /// reaper themselves. The first word counts.
    pub fn use_for_this_process(self) {
        // A second word is ignored on purpose: plugins may have been started with the first.
        let _ = USED.set(self);
    }
}

impl Default for Reaper {
    /// This executable, re-executed as `__reaper`.
    fn default() -> Self {
        USED.get().cloned().unwrap_or_else(|| Self {
            program: "/proc/self/exe".into(),
            args: vec!["__reaper".into()],
        })
    }
}

/// What the runtime can be told.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// How the reaper is started.
    pub reaper: Reaper,
    /// Longest frame accepted, in bytes.
    pub frame_limit: usize,
    /// How long importing a plugin may take.
    pub import_timeout: Duration,
    /// How long a slot may take to say its first word; one that can't be forked imports anew.
    pub slot_timeout: Duration,
    /// How long evidence of an overdue call is waited for.
    pub evidence_wait: Duration,
    /// How long a cancelled call may take to end by itself.
    pub cancel_grace: Duration,
    /// How long the end of a killed process is waited for before the verdict is given.
    pub kill_wait: Duration,
    /// A slot process is replaced after this many calls.
    pub calls_per_slot: u64,
    /// Slots that were idle all this time are given up, half of them at once.
    pub scale_in_after: Duration,
    /// Log bytes kept for one call.
    pub log_bytes_per_call: usize,
    /// Last lines kept as evidence.
    pub evidence_lines: usize,
    /// Memory of an instance in bytes, in place of its size's.
    pub instance_memory: Option<u64>,
    /// Look at what processes have resident even where control groups can be had.
    pub poll_memory: bool,
    /// Processes and threads of one slot, where they can be limited.
    pub pids_per_slot: u32,
    /// The memory that instances are admitted to.
    pub quota: Quota,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            reaper: Reaper::default(),
            frame_limit: paddock_wire::DEFAULT_LIMIT,
            import_timeout: Duration::from_secs(60),
            slot_timeout: Duration::from_secs(60),
            evidence_wait: Duration::from_millis(240),
            cancel_grace: Duration::from_millis(300),
            kill_wait: Duration::from_millis(300),
            calls_per_slot: 10_000,
            scale_in_after: Duration::from_secs(30),
            log_bytes_per_call: 1 << 20,
            evidence_lines: 20,
            instance_memory: None,
            poll_memory: false,
            pids_per_slot: 2048,
            quota: Quota::machine(),
        }
    }
}
