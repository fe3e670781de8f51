//! The end of a group: nobody in it may start anything more, all are killed until it is empty, and it is removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::Group;
use super::files::{members, write_if_there};

/// Between two looks at a group that is being ended.
const PACE: Duration = Duration::from_millis(2);

impl Group {
    /// Kills all that is in it and in the groups below it, once. What forks away meanwhile is still in it.
    pub fn kill(&self) {
        let folders = self.folders();
        stop_forks(&folders);
        // The same processes are in each of a version 1 group's folders.
        if let Some(folder) = folders.first() {
            kill_below(folder);
        }
    }

    /// Kills all that is in it, and removes it if nobody is left. True once it is gone.
    #[must_use]
    pub fn try_end(&self) -> bool {
        round(&self.folders())
    }

    /// Ends all that is in it and removes it, waiting for that. False if somebody is left after `patience`.
    #[must_use]
    pub fn end(&self, patience: Duration) -> bool {
        end(&self.folders(), patience)
    }
}

/// Ends the group that these folders are.
pub(super) fn end(folders: &[PathBuf], patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while !round(folders) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(PACE);
    }
    true
}

fn round(folders: &[PathBuf]) -> bool {
    stop_forks(folders);
    // Every folder is tried, whatever the others say.
    folders.iter().fold(true, |gone, folder| {
        kill_below(folder);
        remove_below(folder) && gone
    })
}

/// No new processes from now on, where the host can say so: who forks while it is being killed can't get away.
fn stop_forks(folders: &[PathBuf]) {
    for folder in folders {
        // Where it can't be said, killing is repeated until nobody is left.
        let _ = write_if_there(folder, "pids.max", "0");
    }
}

fn kill_below(folder: &Path) {
    // Version 2's own way can't be outrun by forks, and takes in the groups below.
    if let Ok(true) = write_if_there(folder, "cgroup.kill", "1") {
        return;
    }
    for group in groups_in(folder) {
        kill_below(&group);
    }
    kill_members(folder);
}

/// Kills those who are in a group by name. An id may have been given to somebody else by the time the signal is
/// sent; so the process is held first, and then looked up once more.
fn kill_members(folder: &Path) {
    let held: Vec<_> = members(folder)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|pid| {
            Some((
                pid,
                pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?,
            ))
        })
        .collect();
    if held.is_empty() {
        return;
    }
    let still = members(folder).unwrap_or_default();
    for (pid, process) in held {
        if still.contains(&pid) {
            // It may have ended meanwhile: so much the better.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

/// Removes a group and those below it, the innermost first. False if one of them isn't empty.
fn remove_below(folder: &Path) -> bool {
    for group in groups_in(folder) {
        remove_below(&group);
    }
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Only the folders in a group's folder are groups.
fn groups_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
