//! When no instance can be made: `Create faas fault`, with what shows why.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use paddock_jail::message::Exit;
use paddock_types::{CallId, Fault, Location, SubKind};
use serde_json::json;

use crate::forkserver::ForkserverError;
use crate::memory::Shortage;
use crate::memory::shown::Bytes;
use crate::slot::ending::{exit_evidence, exit_words};

/// The fault of a forkserver that can't be used.
pub(crate) fn fault(
    error: &ForkserverError,
    plugin: &str,
    function: &str,
    last_lines: Vec<String>,
) -> Fault {
    let (message, advice) = match error {
        ForkserverError::Load { stage, message, .. } => (
            message.clone(),
            match stage.as_str() {
                "import" => {
                    "make the module importable on its own: add what it imports to requirements.txt, and keep work out of module level"
                }
                "reference" => {
                    "name the function as \"module.path:function\", from the project's folder"
                }
                _ => "give the function the parameters of its kind, and one of the decorators",
            },
        ),
        ForkserverError::Slow { .. } => (
            format!("importing \"{function}\": {error}"),
            "keep downloads, model loading and waiting out of module level: do them at the first call",
        ),
        ForkserverError::Ended(_) => (
            format!("importing or forking \"{function}\": {error}"),
            "see the last log lines: something at module level ends the process",
        ),
        ForkserverError::Start(_) | ForkserverError::Confused(_) | ForkserverError::Io(_) => (
            error.to_string(),
            "see the last log lines; if they don't say it, run the job again",
        ),
    };
    let mut fault = Fault::call_plugin(SubKind::Create, message, advice).at(at(plugin));
    if let ForkserverError::Load {
        stage, traceback, ..
    } = error
    {
        fault = fault.with("stage", stage.as_str());
        if !traceback.is_empty() {
            fault = fault.with("traceback", traceback.as_str());
        }
    }
    with_lines(fault, last_lines)
}

/// The fault of a fence that can't be put up, or a reaper that can't be started.
pub(crate) fn no_fence(message: &str) -> Fault {
    let mut fault = Fault::internal(format!("the plugin's fence could not be put up: {message}"));
    fault.advice = "run \"paddock doctor\" to see what this host gives; --no-fence runs plugins without it, with your own rights and files".to_owned();
    fault
}

/// The fault with how the forkserver's process ended, where that is known.
pub(crate) fn with_exit(mut fault: Fault, exit: Option<Exit>) -> Fault {
    let Some(exit) = exit else { return fault };
    fault.message = format!("{}: {}", fault.message, exit_words(exit));
    fault.evidence.extend(exit_evidence(exit));
    fault
}

/// The fault of slots that don't come up.
pub(crate) fn slot_fault(problem: &str, plugin: &str, last_lines: Vec<String>) -> Fault {
    let fault = Fault::call_plugin(
        SubKind::Create,
        format!("no process for a call could be made: {problem}"),
        "see the last log lines; fewer instances (max_replicas) or a smaller max_concurrency need fewer processes",
    );
    with_lines(fault.at(at(plugin)), last_lines)
}

/// The fault of an import that used more memory than an instance has.
pub(crate) fn import_ran_out(fault: Fault, function: &str, limit: u64) -> Fault {
    let limit = Bytes(limit);
    Fault {
        message: format!("importing \"{function}\" went over the memory size of {limit}"),
        advice: format!(
            "load less at module level, or choose a larger size than {limit} (runtime.instance)"
        ),
        ..fault
    }
}

/// The fault of an instance that is to be kept and can't be admitted.
pub(crate) fn quota_fault(shortage: &Shortage, plugin: &str) -> Fault {
    let fault = Fault::call_plugin(
        SubKind::Create,
        shortage.to_string(),
        "choose a smaller size (runtime.instance) or fewer instances (min_replicas), or wait until others have ended",
    );
    let held = shortage.held.iter().map(|(plugin, sizes)| {
        let bytes: u64 = sizes.iter().sum();
        json!({"plugin": plugin.as_ref(), "instances": sizes.len(), "bytes": bytes})
    });
    fault
        .at(at(plugin))
        .with("quota", "memory")
        .with("wanted_bytes", shortage.wanted)
        .with("quota_bytes", shortage.total)
        .with("held", held.collect::<Vec<_>>())
}

/// The place of a plugin.
pub(crate) fn at(plugin: &str) -> Location {
    Location {
        plugin: Some(plugin.to_owned()),
        ..Location::default()
    }
}

fn with_lines(fault: Fault, lines: Vec<String>) -> Fault {
    if lines.is_empty() {
        fault
    } else {
        fault.with("logs", lines)
    }
}

/// A new folder for what a plugin writes, that only its owner may read.
pub(crate) fn scratch() -> io::Result<PathBuf> {
    let name = CallId::new().to_string().replace("call_", "paddock-");
    let folder = std::env::temp_dir().join(name);
    std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

/// The same folder once more, if it is gone.
pub(crate) fn scratch_at(folder: &Path) -> io::Result<()> {
    let made = std::fs::DirBuilder::new().mode(0o700).create(folder);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
