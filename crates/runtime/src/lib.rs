//! Runs plugins: environments, processes, slots, calls, deadlines, verdicts.
//!
//! Plugin code never runs in this process, and nothing a plugin does may hold this crate up: every
//! wait has a limit, every length is judged, every call gets exactly one verdict.

mod call;
mod check;
mod cpu;
mod create;
mod credentials;
pub mod environment;
pub mod forkserver;
mod judge;
mod keeper;
mod logs;
mod messages;
mod options;
mod plugin;
mod pool;
mod reaper;
mod scaling;
mod size;
mod slot;

pub use call::{Call, CallClock, PauseGuard};
pub use check::check_functions;
pub use environment::Environment;
pub use logs::LogSink;
pub use options::{Reaper, RuntimeOptions};
pub use plugin::{Plugin, PluginSpec};
