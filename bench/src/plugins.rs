//! Plugins for measuring, started on the real runtime, and calls to them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use paddock_runtime::{Call, CallClock, Environment, Fence, Plugin, PluginSpec, environment};
use paddock_types::CallId;
use paddock_types::plugin::RuntimeOverrides;
use serde_json::{Value, json};

/// The project that holds those of `bench/plugins`.
pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins")
}

/// The environment of plugins that need nothing but the SDK.
pub(crate) async fn bare_environment(cache: &Path) -> Result<Environment> {
    // Plugins run in other folders.
    let cache = std::path::absolute(cache)?;
    let found = environment::bare(&cache).await;
    found.map_err(|fault| anyhow!("{fault:#?}"))
}

/// Starts a plugin of a project.
pub(crate) async fn start(
    project: PathBuf,
    function: &str,
    environment: &Environment,
    limits: RuntimeOverrides,
) -> Result<Plugin> {
    let spec = PluginSpec {
        name: function.to_owned(),
        function: function.to_owned(),
        project,
        envs: Default::default(),
        limits,
        content_format: Default::default(),
        environment: environment.clone(),
        fence: Fence::default(),
        kind: None,
    };
    Plugin::start(spec, Arc::new(drop))
        .await
        .map_err(|fault| anyhow!("{function}: {fault:#?}"))
}

/// A grader's first attempt of a call whose row has this `extra`.
pub(crate) fn grade(extra: &Value) -> Call {
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let messages = [message("user", "2+2"), message("assistant", "4")];
    let body = json!({
        "context": {"phase": "train", "step": 1},
        "sample": {"messages": [messages[0]], "extra": extra},
        "trajectory": {"messages": messages, "finish_reason": "stop", "usage": {}, "extra": {}},
    });
    call(body.to_string().into(), 1)
}

/// A first attempt with this body, which is due so many rewards.
pub(crate) fn call(body: Bytes, trajectories: usize) -> Call {
    Call {
        id: CallId::new(),
        attempt: 1,
        body,
        trajectories,
        clock: CallClock::default(),
    }
}
