//! A project in a temporary folder, a plugin of it, and calls to that plugin.

#![expect(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use paddock_runtime::{
    Call, CallClock, Fence, LogSink, Plugin, PluginSpec, Reaper, RuntimeOptions, environment,
};
use paddock_types::log::LogLine;
use paddock_types::plugin::RuntimeOverrides;
use paddock_types::{CallId, Fault, Verdict};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A project folder with one module, `acts`.
pub(crate) struct Project {
    pub(crate) folder: TempDir,
    pub(crate) logs: Arc<Mutex<Vec<LogLine>>>,
    pub(crate) envs: BTreeMap<String, String>,
    pub(crate) options: RuntimeOptions,
    pub(crate) fence: Fence,
}

impl Project {
    pub(crate) fn new(source: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("acts.py"), source).expect("written");
        let options = RuntimeOptions {
            reaper: Reaper {
                program: env!("CARGO_BIN_EXE_paddock-reaper-test").into(),
                args: Vec::new(),
            },
            ..RuntimeOptions::default()
        };
        // What plugins write, tests read.
        let fence = Fence {
            shared: vec![folder.path().to_owned()],
            ..Fence::default()
        };
        Self {
            folder,
            fence,
            logs: Arc::default(),
            envs: BTreeMap::new(),
            options,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.path().join(".cache")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) async fn try_start(
        &self,
        function: &str,
        limits: RuntimeOverrides,
    ) -> Result<Plugin, Fault> {
        let logs = self.logs.clone();
        let sink: LogSink = Arc::new(move |line| logs.lock().expect("no panic").push(line));
        let spec = PluginSpec {
            name: function.to_owned(),
            function: format!("acts:{function}"),
            project: self.path().to_owned(),
            envs: self.envs.clone(),
            limits,
            content_format: Default::default(),
            environment: environment::bare(&self.cache()).await.expect("a Python"),
            fence: self.fence.clone(),
            kind: None,
        };
        let start = Plugin::start_with(spec, sink, self.options.clone());
        tokio::time::timeout(PATIENCE, start)
            .await
            .expect("a start ends")
    }

    pub(crate) async fn start(&self, function: &str, limits: RuntimeOverrides) -> Plugin {
        self.try_start(function, limits).await.expect("it starts")
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        let logs = self.logs.lock().expect("no panic");
        logs.iter().map(|line| line.text.clone()).collect()
    }

    /// The process whose id a plugin has written into a file: as the host knows it, whatever it is
    /// behind the fence.
    pub(crate) async fn pid_in(&self, name: &str) -> i32 {
        let file = self.file(name);
        eventually("a process id is written", || {
            let inner = std::fs::read_to_string(&file).ok()?.trim().parse().ok()?;
            self.on_host(inner)
        })
        .await
    }

    /// A process of this project by the id that it has behind the fence.
    fn on_host(&self, inner: i32) -> Option<i32> {
        let all = paddock_jail::process::scan();
        let here = all.iter().filter(|p| {
            let cwd = std::fs::read_link(format!("/proc/{}/cwd", p.pid));
            !p.ended && cwd.is_ok_and(|cwd| cwd == self.path())
        });
        // The reaper is where the plugin isn't, but its parent.
        let mut pids = here.flat_map(|p| [p.pid, p.parent]);
        pids.find(|pid| ids(*pid).last() == Some(&inner))
    }

    /// Waits until a process whose id a plugin has written is no more, if it still was.
    pub(crate) async fn gone(&self, name: &str) {
        let file = self.file(name);
        eventually("a process ends", || {
            let inner = std::fs::read_to_string(&file).ok()?.trim().parse().ok()?;
            self.on_host(inner).is_none().then_some(())
        })
        .await
    }

    /// Waits for a file that a plugin writes.
    pub(crate) async fn written(&self, name: &str) {
        let file = self.file(name);
        eventually("a file is written", || file.exists().then_some(())).await;
    }
}

/// The ids of a process, from the host's inwards.
pub(crate) fn ids(pid: i32) -> Vec<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.map(|ids| {
        ids.split_whitespace()
            .filter_map(|id| id.parse().ok())
            .collect()
    })
    .unwrap_or_default()
}

/// Limits with this timeout in seconds.
pub(crate) fn timeout(seconds: u32) -> RuntimeOverrides {
    RuntimeOverrides {
        timeout: Some(seconds),
        ..RuntimeOverrides::default()
    }
}

/// A call whose sample has this `extra`.
pub(crate) fn call(extra: &Value) -> Call {
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let messages = json!([message("user", "2+2"), message("assistant", "4")]);
    let trajectory =
        json!({"messages": messages, "finish_reason": "stop", "usage": {}, "extra": {}});
    let body = json!({
        "context": {"phase": "train", "step": 1},
        "sample": {"messages": [message("user", "2+2")], "extra": extra},
        "trajectory": trajectory,
        "proxy": {"url": "http://127.0.0.1:1/v1", "jwt_token": "t", "headers": {}},
    });
    Call {
        id: CallId::new(),
        attempt: 1,
        body: body.to_string().into(),
        trajectories: 1,
        clock: CallClock::default(),
    }
}

/// A call of a group grader with so many trajectories, of which `due` rewards are expected.
pub(crate) fn group_call(trajectories: usize, due: usize) -> Call {
    let mut call = call(&json!({}));
    let mut body: Value = serde_json::from_slice(&call.body).expect("JSON");
    let one = body["trajectory"].take();
    body["trajectories"] = vec![one; trajectories].into();
    body.as_object_mut()
        .expect("an object")
        .remove("trajectory");
    call.body = body.to_string().into();
    call.trajectories = due;
    call
}

/// Calls a plugin and waits for the verdict, but not forever.
pub(crate) async fn verdict(plugin: &Plugin, call: Call) -> Verdict {
    tokio::time::timeout(PATIENCE, plugin.call(call))
        .await
        .expect("a verdict comes")
}

/// Waits until `look` finds something.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "still waiting: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a process is gone.
pub(crate) async fn gone(pid: i32) {
    eventually(&format!("process {pid} ends"), || {
        paddock_jail::process::read(pid)
            .is_none_or(|p| p.ended)
            .then_some(())
    })
    .await;
}
