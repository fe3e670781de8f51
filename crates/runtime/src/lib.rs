//! Runs plugins: environments, processes, slots, calls, deadlines, verdicts.
//!
//! Plugin code never runs in this process, and nothing a plugin does may hold this crate up: every
//! wait has a limit, every length is judged, every call gets exactly one verdict.

mod call;
mod check;
mod cpu;
mod create;
mod credentials;
mod doors;
mod egress;
pub mod environment;
mod fence;
pub mod forkserver;
mod host;
mod judge;
mod keeper;
mod logs;
mod memory;
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
pub use fence::{Fence, Part, loopback_port, try_fence};
pub use logs::LogSink;
pub use memory::Quota;
pub use options::{Reaper, RuntimeOptions};
pub use plugin::{Plugin, PluginSpec};
