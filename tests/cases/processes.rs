//! Which processes are left, and whose they are.
//!
//! This process makes itself a child subreaper: whatever loses its parent below it, however it has
//! changed its session, working directory or environment, becomes its child and nobody else's. So
//! nothing can get away from here as long as it has not been started by another process of the
//! machine on request. While a runtime runs, its own processes are told from what plugins have
//! started by their program and by the sockets that a slot alone holds; a child that was forked
//! past Python (a bare `fork` in C) has those too, and is noticed only once the runtime has closed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use paddock_jail::process::{Process, scan};
use rustix::process::{getpid, set_child_subreaper};

/// Runtimes that were started here and have not ended.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
static REAPS: Once = Once::new();

/// A slot's sockets have at least this number, unless descriptors are scarcer than usual.
const SLOT_SOCKETS: i32 = 900;
/// What can't be told whose it is may be another case's that just ends.
const PATIENCE: Duration = Duration::from_secs(5);

fn running() -> MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a runtime that is known here until `ended` is told.
pub(crate) fn start(command: &mut Command) -> Child {
    REAPS.call_once(|| set_child_subreaper(Some(getpid())).expect("Linux 3.4"));
    let mut running = running();
    let child = command.spawn().expect("the executable starts");
    running.insert(child.id() as i32);
    child
}

/// The runtime has been waited for.
pub(crate) fn ended(pid: i32) {
    running().remove(&pid);
}

/// What runs below a runtime and isn't the runtime's own.
pub(crate) fn extras(runtime: i32) -> Vec<String> {
    let all = scan();
    let below = descendants(&all, &[runtime]);
    let extra = below.iter().filter(|p| !p.ended && !is_runtimes_own(p.pid));
    extra.map(|p| described(p.pid)).collect()
}

/// What is left of a run that has ended: processes that have its mark in their environment or are
/// in its folder, and those of whom nobody knows whose they are.
pub(crate) fn left_of(mark: &str, folder: &Path, limit: Duration) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let left: Vec<(i32, bool)> = orphans()
            .into_iter()
            .filter_map(|pid| Some((pid, whose(pid, mark, folder)?)))
            .collect();
        let own = left.iter().any(|&(_, own)| own);
        let spent = begun.elapsed();
        if left.is_empty() || (own && spent > limit) || spent > PATIENCE {
            return left.into_iter().map(|(pid, _)| described(pid)).collect();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until nothing but the runtime's own runs below it, for `limit` at most.
pub(crate) fn extras_after(runtime: i32, limit: Duration) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let extra = extras(runtime);
        if extra.is_empty() || begun.elapsed() > limit {
            return extra;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Living processes below this one that belong to no runtime.
fn orphans() -> Vec<i32> {
    let running = running();
    let all = scan();
    let known: Vec<i32> = running.iter().copied().collect();
    let me = getpid().as_raw_nonzero().get();
    let of_runtimes: BTreeSet<i32> = descendants(&all, &known).iter().map(|p| p.pid).collect();
    let living = descendants(&all, &[me]);
    let orphans = living
        .iter()
        .filter(|p| !p.ended && !of_runtimes.contains(&p.pid) && !running.contains(&p.pid));
    orphans.map(|p| p.pid).collect()
}

/// True if a process is of this run, false if that can't be told, nothing if it is another's.
fn whose(pid: i32, mark: &str, folder: &Path) -> Option<bool> {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let marks = environment
        .split(|&b| b == 0)
        .find_map(|v| v.strip_prefix(b"PADDOCK_CASE_MARK="));
    match marks {
        Some(found) => (found == mark.as_bytes()).then_some(true),
        None => {
            let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            match cwd.starts_with(folder) {
                true => Some(true),
                // Gone meanwhile, or a stranger.
                false => Path::new(&format!("/proc/{pid}")).exists().then_some(false),
            }
        }
    }
}

fn descendants(all: &[Process], roots: &[i32]) -> Vec<Process> {
    let mut family: BTreeSet<i32> = roots.iter().copied().collect();
    let mut found: Vec<Process> = Vec::new();
    loop {
        let more: Vec<Process> = all
            .iter()
            .filter(|p| family.contains(&p.parent) && !family.contains(&p.pid))
            .copied()
            .collect();
        if more.is_empty() {
            return found;
        }
        family.extend(more.iter().map(|p| p.pid));
        found.extend(more);
    }
}

/// The executable itself (its reaper, its fence), a forkserver, or a slot.
fn is_runtimes_own(pid: i32) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    if program == Path::new(env!("CARGO_BIN_EXE_paddock")) {
        return true;
    }
    let line = command_line(pid);
    if !line.contains("paddock._worker") {
        // Ended while it was looked at.
        return line.is_empty() && program.as_os_str().is_empty();
    }
    let forkserver: Option<i32> = line.rsplit(' ').next().and_then(|fd| fd.parse().ok());
    let held = fs::read_dir(format!("/proc/{pid}/fd"));
    held.into_iter().flatten().flatten().any(|fd| {
        let number: Option<i32> = fd.file_name().to_str().and_then(|n| n.parse().ok());
        let is_socket =
            fs::read_link(fd.path()).is_ok_and(|at| at.to_string_lossy().starts_with("socket:"));
        is_socket && (number == forkserver || number.is_some_and(|n| n >= SLOT_SOCKETS))
    })
}

fn command_line(pid: i32) -> String {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&raw).replace('\0', " ");
    text.trim_end().to_owned()
}

fn described(pid: i32) -> String {
    format!("process {pid} ({})", command_line(pid))
}
