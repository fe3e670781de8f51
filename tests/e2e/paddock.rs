//! One way to start the real binary, and one small project to start it on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A project in a folder of its own, with a data folder beside it.
pub(crate) struct Project {
    root: TempDir,
}

/// A finished command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The command's success, or a panic with all it said.
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:#?}");
        self
    }

    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }

    /// The last line of standard output as JSON.
    pub(crate) fn last_json(&self) -> Value {
        let last = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }
}

pub(crate) const JOB: &str = "\
name: small
customization_type: GRPO
model_reference:
  foundation_model: {name: paddock-base, model_version: \"1\"}
hyperparameters:
  batch_size: 2
  num_generations: 2
  num_steps: 2
  max_new_tokens: 4
  test_every_n_steps: 2
  lr: \"1e-5\"
custom_rl_pipeline:
  graders:
    - plugin: {name: even, python_func: \"plugins.reward:even\"}
data:
  training_set: {local_files: [./data/train.jsonl]}
  validation_set: {local_files: [./data/test.jsonl]}
";

const REWARD: &str = "\
import logging

from paddock import SingleGraderResult, single_grader

log = logging.getLogger(\"reward\")


@single_grader
def even(context, sample, trajectory):
    \"\"\"1 if the answer has an even length.\"\"\"
    text = trajectory[\"messages\"][-1][\"content\"]
    log.info(\"graded %r\", text)
    return SingleGraderResult(reward=float(len(text) % 2 == 0), metrics={\"length\": len(text)})


def undecorated(context, sample, trajectory):
    return SingleGraderResult(reward=1.0)


@single_grader
def misnamed(context, sample, trajectorys):
    return SingleGraderResult(reward=1.0)
";

pub(crate) fn row(text: &str) -> String {
    serde_json::json!({"messages": [{"role": "user", "content": text}]}).to_string() + "\n"
}

impl Project {
    /// A project whose job runs through.
    pub(crate) fn new() -> Self {
        let project = Self {
            root: TempDir::new().expect("a folder"),
        };
        project.write("job.yaml", JOB);
        project.write("plugins/__init__.py", "");
        project.write("plugins/reward.py", REWARD);
        let rows: String = (1..=6).map(|n| row(&format!("{n}+{n}="))).collect();
        project.write("data/train.jsonl", &rows);
        project.write("data/test.jsonl", row("7+7="));
        project
    }

    /// The project's folder.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// The data folder of its jobs.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.root.path().join("state")
    }

    /// Writes a file of the project.
    pub(crate) fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        let path = self.dir().join(file);
        let folder = path.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Puts one text for another in a file of the project.
    pub(crate) fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.dir().join(file);
        let text = fs::read_to_string(&path).expect("a file of the project");
        assert!(text.contains(from), "{file} has no {from}");
        fs::write(path, text.replacen(from, to, 1)).expect("a file");
    }

    /// The binary with this project's data folder, ready to be started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = binary(args);
        command
            .current_dir(self.root.path())
            .env("PADDOCK_DATA_DIR", self.data_dir());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn paddock(&self, args: &[&str]) -> Ended {
        run(self.command(args))
    }

    /// Runs the job with `--json` and more arguments.
    pub(crate) fn job(&self, more: &[&str]) -> Ended {
        self.paddock(&[&["run", "project", "--json"], more].concat())
    }

    /// Every file of the project and of its data folder, with its size.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, u64> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.root.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder").flatten() {
                let path = entry.path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => {
                        let size = entry.metadata().map_or(0, |m| m.len());
                        found.insert(path, size);
                    }
                }
            }
        }
        found
    }
}

/// The binary. Environments are kept under `target`, so that they are made once.
pub(crate) fn binary(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paddock"));
    command
        .args(args)
        .env(
            "PADDOCK_CACHE",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e-cache"),
        )
        .env_remove("PADDOCK_DATA_DIR")
        .env_remove("COLUMNS")
        .stdin(Stdio::null());
    command
}

/// Runs a command to its end, within [`PATIENCE`].
pub(crate) fn run(mut command: Command) -> Ended {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    wait(child.expect("the binary starts"))
}

/// Waits for a process to end, within [`PATIENCE`].
pub(crate) fn wait(child: Child) -> Ended {
    let pid = Pid::from_child(&child);
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait_with_output()));
    match end.recv_timeout(PATIENCE) {
        Ok(output) => Ended::of(output.expect("its output")),
        Err(_) => {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            panic!("it did not end within {PATIENCE:?}");
        }
    }
}

/// Waits until something is there, and says what it last saw if it never is.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if Instant::now() > deadline => {
                panic!("waited for {what}; last seen: {seen}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Processes whose working directory is inside a folder.
pub(crate) fn processes_in(folder: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| {
        let cwd = fs::read_link(entry.path().join("cwd")).ok()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        cwd.to_string_lossy().starts_with(folder).then_some(name)
    })
    .collect()
}

/// A job that runs, with its grader at work in a call that doesn't end by itself.
pub(crate) fn at_work() -> (Project, Child, Pid) {
    let project = Project::new();
    project.edit(
        "plugins/reward.py",
        "    log.info",
        "    import time\n    print('here', flush=True)\n    time.sleep(600)\n    log.info",
    );
    let job = project
        .command(&["run", "project", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let pid = Pid::from_child(&job);
    until("a grader at work", || {
        let ended = project.paddock(&["logs", "--text", "here"]);
        match ended.code == 0 && ended.stdout.contains("here") {
            true => Ok(()),
            false => Err(format!("{ended:?}")),
        }
    });
    (project, job, pid)
}
