//! What the runtime asks of a fence.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What one plugin's fence is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The interpreter: its folders can be read.
    pub program: PathBuf,
    /// Further files and folders that can be read, with all below them.
    pub readable: Vec<PathBuf>,
    /// Folders that are shared with the host, writable. None unless somebody names one.
    pub shared: Vec<PathBuf>,
    /// The project: a private working copy of it stands in its place.
    pub project: PathBuf,
    /// Folders that aren't there, whatever else is said.
    pub hidden: Vec<PathBuf>,
    /// The plugin's home and temporary folder, on the host's disk where there is no private root.
    /// Removed at the end.
    pub scratch: PathBuf,
    /// A network of its own, with loopback only: it listens there on these ports, and the sockets are
    /// handed out. `None`: the host's network.
    pub network: Option<Vec<u16>>,
    /// How many bytes the plugin may write, in all: to its working copy, `/tmp` and `/dev/shm`.
    pub space: u64,
}
