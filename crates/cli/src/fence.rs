//! What the command line says of the fence around plugins.

use std::path::PathBuf;

use paddock_runtime::Fence;

/// The fence of a command that runs plugins.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FenceArgs {
    /// Run plugins without the fence: with your own rights, files and processes
    #[arg(long)]
    no_fence: bool,
    /// Share a folder of yours with plugins, writable; may be given again
    #[arg(long, value_name = "DIR", conflicts_with = "no_fence")]
    share: Vec<PathBuf>,
}

impl FenceArgs {
    pub(crate) fn fence(&self) -> Fence {
        Fence {
            on: !self.no_fence,
            shared: self.share.clone(),
            ..Fence::default()
        }
    }
}
