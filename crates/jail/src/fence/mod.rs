//! What a plugin's processes may do and see: nothing that needs a privilege, no system call that only an
//! attacker makes, no process and no file but their own and what Python needs.
//!
//! Two halves. The reaper itself goes behind the namespaces and the private root ([`enter`]) and stays there
//! with what it needs to end processes. What it starts is bound further ([`Bounds`]), between fork and exec,
//! for good. Where the host refuses namespaces, the bounds alone are left: [`Part`] says which part stands.

mod bounds;
mod etc;
mod landlock;
mod mounts;
mod namespaces;
mod network;
mod plan;
mod root;
mod seccomp;
mod view;

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

pub use self::bounds::Bounds;
pub use self::namespaces::{Side, enter};
pub use self::plan::Plan;

/// One part of the fence, and whether this machine gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// What it is.
    pub name: String,
    /// Why it is missing, and what to do; `None` if it stands.
    pub missing: Option<String>,
}

impl Part {
    fn new(name: &str, missing: Option<String>) -> Self {
        Self {
            name: name.to_owned(),
            missing,
        }
    }
}

/// What stands, and what it means for what is started behind it.
#[derive(Debug)]
pub struct Standing {
    /// Every part.
    pub parts: Vec<Part>,
    /// Where a network of its own is listened on, in the order of the ports asked for.
    pub listeners: Vec<OwnedFd>,
    /// True if the root is private: what isn't in it can't be named at all.
    pub(crate) private_root: bool,
}
