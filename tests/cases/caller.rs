//! `paddock call` on a case's function, and each of its lines with the time at which it came.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::processes;
use crate::project::Project;

/// Longer than any command takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A line of standard output.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) at: Instant,
    pub(crate) value: Value,
}

/// A command that runs.
pub(crate) struct Calls {
    pub(crate) begun: Instant,
    pub(crate) pid: i32,
    child: Child,
    lines: Receiver<(Instant, String)>,
    stderr: Receiver<String>,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) begun: Instant,
    /// `None`: it had to be killed.
    pub(crate) code: Option<i32>,
    pub(crate) lines: Vec<Line>,
    pub(crate) stderr: String,
}

/// The executable. Environments are kept under `target`, so that they are made once.
pub(crate) fn paddock() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paddock"));
    command
        .env(
            "PADDOCK_CACHE",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e-cache"),
        )
        .env_remove("COLUMNS")
        .stdin(Stdio::null());
    command
}

/// Starts calls in a project; what they leave in their environment is `mark`.
pub(crate) fn start(project: &Project, mark: &str, function: &str, args: &[String]) -> Calls {
    let mut command = paddock();
    command
        .args(["call", function, "--project"])
        .arg(project.dir())
        .args(["--env", &format!("PADDOCK_CASE_MARK={mark}")])
        .args(args)
        .current_dir(project.root())
        .env("TMPDIR", project.temporary())
        .env("PADDOCK_CASE_MARK", mark)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = processes::start(&mut command);
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut errors = child.stderr.take().expect("a pipe");
    let (line, lines) = channel();
    std::thread::spawn(move || {
        for text in stdout.lines().map_while(Result::ok) {
            // The test may have given up.
            let _ = line.send((Instant::now(), text));
        }
    });
    let (said, stderr) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error counts.
        let _ = errors.read_to_end(&mut bytes);
        let _ = said.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    Calls {
        begun,
        pid: child.id() as i32,
        child,
        lines,
        stderr,
    }
}

impl Calls {
    /// True once the command is over, without waiting for it.
    pub(crate) fn is_over(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Ended {
        let until = Instant::now() + PATIENCE;
        let code = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status.code(),
                _ if Instant::now() > until => {
                    let pid = Pid::from_child(&self.child);
                    let _ = kill_process(pid, Signal::KILL);
                    let _ = self.child.wait();
                    break None;
                }
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        processes::ended(self.pid);
        // A process that is left and holds its standard error would hold this up.
        let stderr = self.stderr.recv_timeout(Duration::from_secs(10));
        let lines = self.lines.iter().map(|(at, text)| Line {
            at,
            value: serde_json::from_str(&text).unwrap_or(Value::String(text)),
        });
        Ended {
            begun: self.begun,
            code,
            lines: lines.collect(),
            stderr: stderr.unwrap_or_else(|_| "(its standard error stays open)".to_owned()),
        }
    }
}
