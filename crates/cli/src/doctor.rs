//! `paddock doctor`: what this machine has, what it lacks, and what that means.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use paddock_jail::cgroup;
use paddock_runtime::Part;
use serde::Serialize;

use crate::failure::Done;
use crate::output::{Out, facts, text};
use crate::places::{self, CacheDir};
use crate::reader;

/// `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheDir,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    version: &'static str,
    python: Option<String>,
    uv: Option<String>,
    cores: usize,
    memory_bytes: Option<u64>,
    memory_free_bytes: Option<u64>,
    cache: PathBuf,
    memory_limit: MemoryLimit,
    /// Every part of the fence; nothing if none could be put up.
    fence: Vec<Part>,
    /// Why not.
    fence_failed: Option<String>,
}

/// Who sees to it that a plugin keeps to its memory.
#[derive(Debug, Serialize)]
struct MemoryLimit {
    /// `cgroup-v2`, `cgroup-v1` or `polling`.
    by: &'static str,
    /// Whether groups limit processor time as well.
    cpu: bool,
    /// Whether groups limit the number of processes as well.
    pids: bool,
    /// Why there are no groups.
    problem: Option<String>,
}

impl MemoryLimit {
    fn here() -> Self {
        let probe = cgroup::probe();
        let by = match probe.version {
            Some(2) if probe.memory => "cgroup-v2",
            Some(1) if probe.memory => "cgroup-v1",
            _ => "polling",
        };
        Self {
            by,
            cpu: probe.cpu,
            pids: probe.pids,
            problem: Some(probe.problem).filter(|problem| !problem.is_empty()),
        }
    }

    fn shown(&self) -> String {
        let missing = |has: bool, what| if has { "" } else { what };
        match &self.problem {
            Some(problem) => format!("by {}, 20 times a second: {problem}", self.by),
            None => format!(
                "by {}{}{}",
                self.by,
                missing(self.cpu, ", without processor time"),
                missing(self.pids, ", without the number of processes")
            ),
        }
    }
}

/// Pythons to try, best first.
const PYTHONS: [&str; 6] = [
    "python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python",
];

/// Does what is asked. The exit code is 0 whatever was found: nothing was asked to run.
pub(crate) fn run(args: &Args) -> Done {
    let tried = reader::block_on(async { paddock_runtime::try_fence().await })?;
    let (fence, fence_failed) = match tried {
        Ok(parts) => (parts, None),
        Err(message) => (Vec::new(), Some(message)),
    };
    let found = Found {
        version: env!("CARGO_PKG_VERSION"),
        python: match places::python() {
            Some(chosen) => python(&chosen),
            None => PYTHONS.into_iter().find_map(python),
        },
        uv: said("uv", &["--version"]),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        memory_bytes: memory("MemTotal:"),
        memory_free_bytes: memory("MemAvailable:"),
        cache: args.cache.path(),
        memory_limit: MemoryLimit::here(),
        fence,
        fence_failed,
    };
    let mut out = Out::new();
    match args.json {
        true => out.json(&found)?,
        false => out.line(shown(&found))?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn shown(found: &Found) -> String {
    let gib = |bytes: Option<u64>| {
        bytes.map_or_else(
            || "unknown".into(),
            |b| format!("{:.1} GiB", b as f64 / f64::from(1 << 30)),
        )
    };
    let mut rows = facts();
    let mut fact = |name: &str, value: String| {
        rows.add_row([name.to_owned(), value]);
    };
    fact("paddock", found.version.into());
    fact(
        "python",
        found
            .python
            .clone()
            .unwrap_or_else(|| "none of 3.11 or newer: plugins can't run; install Python".into()),
    );
    fact(
        "uv",
        found
            .uv
            .clone()
            .unwrap_or_else(|| "not found: venv and pip make the environments, more slowly".into()),
    );
    fact("cores", found.cores.to_string());
    fact(
        "memory",
        format!(
            "{}, {} free",
            gib(found.memory_bytes),
            gib(found.memory_free_bytes)
        ),
    );
    fact("cache", found.cache.display().to_string());
    fact("memory limits", found.memory_limit.shown());
    if let Some(message) = &found.fence_failed {
        let advice = "plugins don't start; --no-fence runs them with your rights and files";
        fact("fence", format!("can't be put up: {message}; {advice}"));
    }
    for part in &found.fence {
        let state = match &part.missing {
            None => "stands".to_owned(),
            Some(missing) => format!("missing: {missing}"),
        };
        fact(&format!("fence: {}", part.name), state);
    }
    text(&mut rows)
}

/// A Python of 3.11 or newer, with its version and place.
fn python(name: &str) -> Option<String> {
    const ASK: &str = "import sys
if sys.version_info < (3, 11): sys.exit(1)
print('%d.%d.%d (%s)' % (*sys.version_info[:3], sys.executable))";
    said(name, &["-c", ASK])
}

/// What a program says, if it can be started and is well.
fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// A number of `/proc/meminfo`, in bytes.
fn memory(key: &str) -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|line| line.starts_with(key))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
