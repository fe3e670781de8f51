//! A project with an intruder in it, and calls to it as one user or another.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::getuid;
use serde_json::{Value, json};
use tempfile::TempDir;

/// What the intruder may write.
pub(crate) const SPACE: u64 = 8 << 20;
/// Nobody.
const ORDINARY: u32 = 65534;
/// In the command line of a process of the host, so that it would be known if it were seen.
pub(crate) const MARK: &str = "paddock-isolation-mark";

/// As whom plugins are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// Whoever runs the tests.
    Same,
    /// Somebody without any right.
    Ordinary,
}

/// Everybody that can be tried here.
pub(crate) fn users() -> Vec<User> {
    match getuid().is_root() {
        true => vec![User::Same, User::Ordinary],
        false => {
            eprintln!("tried as this user only: root would try it as another one too");
            vec![User::Same]
        }
    }
}

/// One project; its folder holds `project`, and beside it what must not be seen.
pub(crate) struct Prisoner {
    pub(crate) folder: TempDir,
    user: User,
}

impl Prisoner {
    pub(crate) fn new(user: User) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let prisoner = Self { folder, user };
        let project = prisoner.project();
        fs::create_dir_all(project.join(".paddock")).expect("made");
        fs::write(project.join("intruder.py"), include_str!("intruder.py")).expect("written");
        fs::write(project.join(".paddock/paddock.db"), "secret").expect("written");
        fs::create_dir(prisoner.at("other")).expect("made");
        fs::write(prisoner.at("other/plugin.py"), "secret").expect("written");
        // Copied to where everybody may run it; by another process, since what this one starts meanwhile
        // would inherit a descriptor that writes to it, and a program that is written to can't be run.
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_paddock-reaper-test"))
            .arg(prisoner.at("host"))
            .status();
        assert!(copied.expect("it starts").success());
        prisoner.give(prisoner.folder.path());
        prisoner
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.at("project")
    }

    /// Makes a folder and all in it the user's.
    fn give(&self, path: &Path) {
        if self.user == User::Ordinary {
            chown(path, Some(ORDINARY), Some(ORDINARY)).expect("given");
        }
        if path.is_dir() {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
            for entry in fs::read_dir(path).expect("a folder").flatten() {
                self.give(&entry.path());
            }
        }
    }

    /// Makes a call and sees to it that the intruder got nowhere.
    pub(crate) fn held(&self, extra: &Value) {
        let told = self.attempt(extra);
        let rewards = &told["verdict"]["rewards"];
        assert_eq!(*rewards, json!([0.0]), "{:?}: {told:#}", self.user);
    }

    /// Makes a call.
    pub(crate) fn attempt(&self, extra: &Value) -> Value {
        self.attempt_with(extra, &json!({"mode": "full"}), &[])
    }

    /// Makes a call of a plugin with this network and these doors.
    pub(crate) fn attempt_with(&self, extra: &Value, network: &Value, doors: &[u16]) -> Value {
        let message = json!({"role": "user", "content": "?"});
        let trajectory =
            json!({"messages": [message], "finish_reason": "stop", "usage": {}, "extra": {}});
        let body = json!({
            "context": {"phase": "train", "step": 1},
            "sample": {"messages": [message], "extra": extra},
            "trajectory": trajectory,
        });
        let asked = json!({
            "project": self.project(),
            "function": "intruder:attempt",
            "cache": self.at("cache"),
            "space": SPACE,
            "network": network,
            "doors": doors,
            "bodies": [body],
        });
        let mut command = Command::new(self.at("host"));
        command
            .arg("calls")
            .arg(MARK)
            .current_dir("/")
            .env("PADDOCK_SECRET", "secret")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if self.user == User::Ordinary {
            command
                .uid(ORDINARY)
                .gid(ORDINARY)
                .env("HOME", self.at("other"));
        }
        let mut child = command.spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(asked.to_string().as_bytes()).expect("told");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?}: {problem}", self.user);
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        told[0].clone()
    }
}
