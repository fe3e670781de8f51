//! What stands between a plugin and the machine: the settings, and what they mean for one plugin.

use std::path::PathBuf;
use std::time::Duration;

pub use paddock_jail::fence::Part;
use paddock_jail::fence::Plan;

use paddock_types::job::Network;

use crate::create;
use crate::forkserver::Program;
use crate::options::Reaper;
use crate::reaper::ReaperProcess;

/// The usual port of HTTP proxies.
const EGRESS_PORT: u16 = 3128;
/// How long a fence that was only tried may take to come down.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of the environment, what names folders that a program reads.
const PATHS: [&str; 2] = ["PYTHONPATH", "LD_LIBRARY_PATH"];

/// What stands between a plugin and the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// False only if somebody turned it off by name: then a plugin has the rights, files and processes of
    /// whoever runs Paddock.
    pub on: bool,
    /// How many bytes a plugin may write in all, to its working copy, `/tmp` and `/dev/shm`: they are in
    /// memory.
    pub space: u64,
    /// Folders that can't be seen, even within a project.
    pub hidden: Vec<PathBuf>,
    /// Folders that are shared with the host, writable.
    pub shared: Vec<PathBuf>,
    /// What of the network a plugin reaches.
    pub network: Network,
    /// Ports of this host's loopback that a plugin reaches whatever its network is: the model proxy's.
    pub doors: Vec<u16>,
}

impl Default for Fence {
    fn default() -> Self {
        Self {
            on: true,
            space: 1 << 30,
            hidden: Vec::new(),
            shared: Vec::new(),
            network: Network::default(),
            doors: Vec::new(),
        }
    }
}

impl Fence {
    /// The fence of one program; none if it is off.
    pub(crate) fn plan(&self, program: &Program) -> Option<Plan> {
        if !self.on {
            return None;
        }
        let values = program
            .env
            .iter()
            .filter(|(key, _)| PATHS.contains(&key.as_str()));
        let named = values.flat_map(|(_, value)| value.split(':'));
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Some(Plan {
            program: program.argv.first().map(PathBuf::from).unwrap_or_default(),
            readable: named.map(PathBuf::from).collect(),
            shared: self.shared.iter().map(absolute).collect(),
            project: program.project.clone(),
            // What Paddock itself keeps there, under its usual name and under others.
            hidden: [program.project.join(".paddock")]
                .into_iter()
                .chain(self.hidden.iter().map(absolute))
                .collect(),
            scratch: program.scratch.clone(),
            network: self.ports(),
            space: self.space,
        })
    }
}

impl Fence {
    /// The ports that are listened on behind the fence: the doors, then the egress proxy.
    fn ports(&self) -> Option<Vec<u16>> {
        let mut ports = self.doors.clone();
        match self.network {
            Network::Full => return None,
            Network::None => {}
            Network::Proxy { .. } => ports.push(self.egress_port()),
        }
        Some(ports)
    }

    /// Where the egress proxy is found behind the fence. All ports there are free but the doors.
    fn egress_port(&self) -> u16 {
        let mut ports = EGRESS_PORT..;
        let free = ports.find(|port| !self.doors.contains(port));
        free.unwrap_or(EGRESS_PORT)
    }

    /// The variables that name the egress proxy to HTTP clients.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        if !self.on || !matches!(self.network, Network::Proxy { .. }) {
            return Vec::new();
        }
        let url = format!("http://127.0.0.1:{}", self.egress_port());
        let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
        let proxies = proxies.map(|name| (name.to_owned(), url.clone()));
        let around = ["NO_PROXY", "no_proxy"];
        let around = around.map(|name| (name.to_owned(), "127.0.0.1,localhost".to_owned()));
        proxies.into_iter().chain(around).collect()
    }
}

/// The port of an address on this host's loopback.
pub fn loopback_port(url: &str) -> Option<u16> {
    let rest = url.strip_prefix("http://")?;
    let place = rest.split(['/', '?']).next()?;
    let (host, port) = place.rsplit_once(':').unwrap_or((place, "80"));
    matches!(host, "127.0.0.1" | "localhost")
        .then(|| port.parse().ok())
        .flatten()
}

/// Tells what this host doesn't give, where someone reads it.
pub(crate) fn tell_missing(parts: &[Part]) {
    for part in parts {
        if let Some(missing) = &part.missing {
            tracing::warn!("the fence lacks \"{}\": {missing}", part.name);
        }
    }
}

/// Puts a fence up around nothing, to see what this host gives of it.
pub async fn try_fence() -> Result<Vec<Part>, String> {
    let folder = create::scratch().map_err(|error| error.to_string())?;
    let [project, scratch] = ["project", "scratch"].map(|name| folder.join(name));
    let made = std::fs::create_dir(&project).and_then(|()| std::fs::create_dir(&scratch));
    let outcome = match made {
        Err(error) => Err(error.to_string()),
        Ok(()) => {
            let plan = Plan {
                program: PathBuf::new(),
                readable: Vec::new(),
                shared: Vec::new(),
                project,
                hidden: Vec::new(),
                scratch,
                network: None,
                space: 1 << 20,
            };
            tried(plan).await
        }
    };
    // What is left of it is in a temporary folder.
    let _ = std::fs::remove_dir_all(folder);
    outcome
}

async fn tried(plan: Plan) -> Result<Vec<Part>, String> {
    let started = ReaperProcess::start(&Reaper::default()).map_err(|error| error.to_string())?;
    let (process, handle) = started;
    let standing = handle.fence(Some(plan)).await;
    process.end(&handle, PATIENCE).await;
    Ok(standing?.parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_a_port_of_loopback() {
        assert_eq!(loopback_port("http://127.0.0.1:8123/v1"), Some(8123));
        assert_eq!(loopback_port("http://localhost/v1"), Some(80));
        assert_eq!(loopback_port("http://10.0.0.1:80/v1"), None);
        assert_eq!(loopback_port("https://127.0.0.1:80/v1"), None);
    }

    #[test]
    fn the_egress_proxy_is_named_to_http_clients_where_there_is_one() {
        let proxied = Fence {
            network: Network::Proxy { allow: Vec::new() },
            doors: vec![EGRESS_PORT],
            ..Fence::default()
        };
        assert_eq!(proxied.ports(), Some(vec![EGRESS_PORT, EGRESS_PORT + 1]));
        let variables = proxied.variables();
        assert!(variables.contains(&("HTTPS_PROXY".into(), "http://127.0.0.1:3129".into())));
        assert!(Fence::default().variables().is_empty());
        assert_eq!(Fence::default().ports(), None);
    }
}
