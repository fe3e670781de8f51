//! The fence around a plugin: the small program that is parent to all of a plugin's processes.
//!
//! The executable re-executes itself as this program ([`reaper::main`]). It is synchronous, has
//! one thread, and does little: it starts the forkserver, tells of every exit, ends processes with
//! all that they left behind, and ends everything when Paddock is gone. It never reads what a
//! plugin writes, and it never decides anything about a call.
//!
//! The fence itself is [`fence`]: the reaper goes behind it before it starts anything.
//! Control groups ([`cgroup`]) are made and read by Paddock itself, from outside.

pub mod cgroup;
pub mod channel;
pub mod fence;
pub mod killer;
pub mod message;
pub mod process;
pub mod reaper;

pub use message::{Report, Request};
