//! What stands between a plugin and the machine: the settings, and what they mean for one plugin.

use std::path::PathBuf;
use std::time::Duration;

pub use paddock_jail::fence::Part;
use paddock_jail::fence::Plan;

use crate::create;
use crate::forkserver::Program;
use crate::options::Reaper;
use crate::reaper::ReaperProcess;

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
}

impl Default for Fence {
    fn default() -> Self {
        Self {
            on: true,
            space: 1 << 30,
            hidden: Vec::new(),
            shared: Vec::new(),
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
            space: self.space,
        })
    }
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
    let (process, handle, parts) = ReaperProcess::start(&Reaper::default(), Some(plan)).await?;
    process.end(&handle, PATIENCE).await;
    Ok(parts)
}
