//! What a runtime that has closed may not leave behind: processes, mounts, control groups, open
//! descriptors, temporary files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// The reapers' own end may take this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// What there was before. Counts are this process's own, so other work on the machine doesn't
/// show.
pub(super) struct Before {
    temporary: BTreeSet<String>,
    descriptors: usize,
    mounts: usize,
}

impl Before {
    pub(super) fn look() -> Result<Self> {
        Ok(Self {
            temporary: ours(&std::env::temp_dir()),
            descriptors: descriptors().context("/proc/self/fd")?,
            mounts: mounts(),
        })
    }

    /// What is there now and wasn't, once it has had time to go.
    pub(super) fn what_is_left(&self) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.look_again();
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn look_again(&self) -> Vec<String> {
        let mut left = Vec::new();
        let children = children();
        if !children.is_empty() {
            left.push(format!("processes {children:?}"));
        }
        let files: Vec<_> = ours(&std::env::temp_dir())
            .difference(&self.temporary)
            .cloned()
            .collect();
        if !files.is_empty() {
            left.push(format!("temporary files {files:?}"));
        }
        if let Some(now) = descriptors().filter(|&now| now > self.descriptors) {
            left.push(format!(
                "{} open descriptors",
                now.saturating_sub(self.descriptors)
            ));
        }
        if mounts() > self.mounts {
            left.push(format!("{} mounts", mounts() - self.mounts));
        }
        let groups = groups(Path::new("/sys/fs/cgroup"), 0);
        if !groups.is_empty() {
            left.push(format!("control groups {groups:?}"));
        }
        left
    }
}

/// Names that begin as Paddock's temporary folders do.
fn ours(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("paddock"))
        .collect()
}

fn descriptors() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count())
}

fn mounts() -> usize {
    fs::read_to_string("/proc/self/mounts").map_or(0, |text| text.lines().count())
}

/// Processes whose parent is this one: what its reapers left comes to nobody else.
fn children() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Control groups that bear this process's number.
fn groups(folder: &Path, depth: usize) -> Vec<String> {
    let mark = format!("paddock-{}", std::process::id());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .flat_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == mark || name.starts_with(&format!("{mark}-")) {
                vec![entry.path().display().to_string()]
            } else if depth < 4 {
                groups(&entry.path(), depth + 1)
            } else {
                Vec::new()
            }
        })
        .collect()
}
