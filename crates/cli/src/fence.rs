//! What the command line says of the fence around plugins.

use std::path::PathBuf;

use paddock_runtime::{Fence, loopback_port};
use paddock_types::job::Network;
use paddock_types::job_file::is_host;

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

/// What a job file says with `network` and `network_allow`, where there is none.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NetworkArgs {
    /// What plugins reach: all that this machine does, only the hosts of --allow, or nothing
    #[arg(long, value_enum, default_value = "full", conflicts_with = "no_fence")]
    network: Mode,
    /// A host that plugins may reach under --network proxy: host, host:port, *.domain; may be given again
    #[arg(long, value_name = "HOST", value_parser = host, required_if_eq("network", "proxy"))]
    allow: Vec<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Mode {
    Full,
    Proxy,
    None,
}

impl NetworkArgs {
    /// The fence with this network. A model on this host is always reached.
    pub(crate) fn of(&self, fence: Fence, model: Option<&str>) -> Fence {
        Fence {
            network: match self.network {
                Mode::Full => Network::Full,
                Mode::None => Network::None,
                Mode::Proxy => Network::Proxy {
                    allow: self.allow.clone(),
                },
            },
            doors: model.and_then(loopback_port).into_iter().collect(),
            ..fence
        }
    }
}

fn host(text: &str) -> Result<String, String> {
    match is_host(text) {
        true => Ok(text.to_owned()),
        false => Err("write a host, host:port or *.domain".into()),
    }
}
