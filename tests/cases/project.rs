//! A case's own project: a copy of its plugins, in a folder that nothing else uses.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Put at the end of the case's module, where it moves no line: a last call that holds the runtime
/// open until it is let go, so that what the calls before it left behind can be looked for.
const HOLDS_OPEN: &str = "


import paddock as _sdk


@_sdk.DECORATOR
def holds_open(PARAMETERS):
    import os, socket
    host, _, port = os.environ['PADDOCK_CASE_PEER'].rpartition(':')
    with socket.create_connection((host, int(port)), 10) as peer:
        peer.sendall(b'hold\\n')
        peer.recv(1)
    return {'status': 'success', 'rewards': [1.0] * RESULTS}
";

/// A copy of a folder of plugins, with a folder for temporary files beside it.
pub(crate) struct Project {
    root: TempDir,
}

impl Project {
    pub(crate) fn of(plugins: &Path) -> Self {
        let root = tempfile::Builder::new()
            .prefix("paddock-case-")
            .tempdir()
            .expect("a folder");
        let project = Self { root };
        fs::create_dir(project.temporary()).expect("a folder");
        copy(plugins, &project.dir());
        project
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// Where the executable puts its temporary files.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    /// Adds `holds_open` to a module.
    pub(crate) fn hold_open(&self, module: &str, rollout: bool) {
        let file = self.dir().join(module.replace('.', "/") + ".py");
        let (decorator, parameters, results) = match rollout {
            true => ("rollout", "context, proxy, sample", "0"),
            false => (
                "group_grader",
                "context, sample, trajectories",
                "len(trajectories)",
            ),
        };
        let added = HOLDS_OPEN
            .replace("DECORATOR", decorator)
            .replace("PARAMETERS", parameters)
            .replace("RESULTS", results);
        let text = fs::read_to_string(&file).expect("the case's module");
        fs::write(&file, text + &added).expect("written");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true if entry.file_name() != "__pycache__" => copy(&entry.path(), &target),
            true => {}
            // The text alone: what is copied may be nobody's to write.
            false => {
                let text = fs::read(entry.path()).expect("a plugin");
                fs::write(target, text).expect("copied");
            }
        }
    }
}
