//! What the host gives: version 2 where its memory controller can be had, else version 1, else nothing, with the
//! reason.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use serde::Serialize;

use super::files::{field, members, read_number, write};
use super::{Group, Layout, Version, owner};
use crate::process;

/// Controllers that are used; the first is needed.
const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];

/// Where this process may make groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    parent: Layout,
}

/// What the host gives, as `paddock doctor` tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// 1 or 2; `None` if no group can be made.
    pub version: Option<u8>,
    /// Where groups are made.
    pub parent: Option<PathBuf>,
    /// The memory of an instance is limited and counted.
    pub memory: bool,
    /// Swap is limited too, where there is any.
    pub swap: bool,
    /// The cores of an instance are limited.
    pub cpu: bool,
    /// Processes and threads of an instance are limited.
    pub pids: bool,
    /// Why something is missing, and what to do; empty if nothing is.
    pub problem: String,
}

/// Says what the host gives, and makes a group to be sure.
#[must_use]
pub fn probe() -> Probe {
    match Host::find().and_then(|host| Ok((host.try_out()?, host))) {
        Ok((given, host)) => Probe {
            parent: host.parent.folders().into_iter().next(),
            ..given
        },
        Err(error) => Probe {
            version: None,
            parent: None,
            memory: false,
            swap: false,
            cpu: false,
            pids: false,
            problem: error.to_string(),
        },
    }
}

/// The most memory that this process's own group may use, in bytes; `None` where it has no limit.
#[must_use]
pub fn own_limit() -> Option<u64> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_of(&mounts, &groups)
}

fn limit_of(mounts: &str, groups: &str) -> Option<u64> {
    let mut limits = Vec::new();
    if let Some((root, own)) = place(mounts, groups, |kind, _| kind == "cgroup2", str::is_empty) {
        let groups = own.ancestors().take_while(|at| at.starts_with(&root));
        limits.extend(groups.filter_map(|at| read_number(at, "memory.max").ok()));
    }
    if let Some((_, own)) = hierarchy(mounts, groups, "memory")
        && let Ok(text) = fs::read_to_string(own.join("memory.stat"))
    {
        limits.extend(field(&text, "hierarchical_memory_limit"));
    }
    // Version 1 writes no limit as a number of pages that no machine has.
    limits.into_iter().min().filter(|&bytes| bytes < 1 << 60)
}

impl Host {
    /// Looks for a place, and removes what a dead Paddock has left there.
    ///
    /// # Errors
    /// If there is none: it says why, and what to do.
    pub fn find() -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let parent = two(&mounts, &groups)
            .or_else(|| one(&mounts, &groups))
            .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, why_not(&mounts)))?;
        owner::sweep(&parent.folders());
        Ok(Self { parent })
    }

    /// Makes a group of this process's own.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn group(&self) -> io::Result<Group> {
        let name = owner::name().ok_or_else(|| io::Error::other("/proc can't be read"))?;
        Group::make(self.parent.below(&name))
    }

    fn try_out(&self) -> io::Result<Probe> {
        let group = self.group()?;
        group.account()?.kills()?;
        group.limit_memory(64 << 20)?;
        let (version, swap) = match &self.parent {
            Layout::One { memory, .. } => (1, memory.join("memory.memsw.failcnt").exists()),
            Layout::Two(_) => (2, group.folder().join("memory.swap.max").exists()),
        };
        let (cpu, pids) = (group.limit_cores(1)?, group.limit_pids(64)?);
        let missing: Vec<&str> = [("cpu", cpu), ("pids", pids)]
            .into_iter()
            .filter_map(|(name, there)| (!there).then_some(name))
            .collect();
        let problem = match missing[..] {
            [] => String::new(),
            _ => format!(
                "no {} controller here: delegate it too",
                missing.join(" and no ")
            ),
        };
        Ok(Probe {
            version: Some(version),
            parent: None,
            memory: true,
            swap,
            cpu,
            pids,
            problem,
        })
    }

    /// Which of the kernel's two ways it is.
    #[must_use]
    pub fn version(&self) -> Version {
        match &self.parent {
            Layout::One { .. } => Version::One,
            Layout::Two(_) => Version::Two,
        }
    }
}

/// This process's group, if it can be had, or the nearest above it that is ours to write to and hands memory down.
/// A group that holds processes can't hand down anything: then its own processes are put into one below it, if they
/// are all ours, or the next one up is asked.
fn two(mounts: &str, groups: &str) -> Option<Layout> {
    let (root, own) = place(mounts, groups, |kind, _| kind == "cgroup2", str::is_empty)?;
    let mut at = own.as_path();
    while at.starts_with(&root) {
        // To move a process takes the right to write to the group above both places.
        let ours = writable(at) && writable(&at.join("cgroup.procs"));
        if ours && (delegate(at).is_ok() || at == own && settle(at).is_ok()) {
            return Some(Layout::Two(at.to_owned()));
        }
        at = at.parent()?;
    }
    None
}

fn one(mounts: &str, groups: &str) -> Option<Layout> {
    let find = |name: &str| {
        let (_, at) = hierarchy(mounts, groups, name)?;
        writable(&at).then_some(at)
    };
    Some(Layout::One {
        memory: find("memory")?,
        cpu: find("cpu"),
        pids: find("pids"),
    })
}

fn why_not(mounts: &str) -> String {
    let kinds: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    let is_there = |kind: &str| kinds.contains(&kind);
    if !is_there("cgroup") && !is_there("cgroup2") {
        return "no control groups are mounted: mount cgroup2 at /sys/fs/cgroup".to_owned();
    }
    "control groups are mounted, but none with a memory controller may be made by this user: start Paddock as a \
     service or scope with Delegate=yes (systemd-run --user --scope -p Delegate=yes …), or as root"
        .to_owned()
}

fn writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK).is_ok()
}

/// Where a controller of version 1 is mounted, and this process's group there.
fn hierarchy(mounts: &str, groups: &str, name: &str) -> Option<(PathBuf, PathBuf)> {
    let named = |list: &str| list.split(',').any(|word| word == name);
    let mount = |kind: &str, options: &str| kind == "cgroup" && named(options);
    place(mounts, groups, mount, named)
}

/// Where a hierarchy is mounted, and this process's group in it.
fn place(
    mounts: &str,
    groups: &str,
    mount: impl Fn(&str, &str) -> bool,
    line: impl Fn(&str) -> bool,
) -> Option<(PathBuf, PathBuf)> {
    let root = mounts.lines().find_map(|text| {
        let fields: Vec<&str> = text.split(' ').collect();
        let [_, place, kind, options, ..] = fields[..] else {
            return None;
        };
        mount(kind, options).then_some(PathBuf::from(place))
    })?;
    let own = groups.lines().find_map(|text| {
        let mut fields = text.splitn(3, ':').skip(1);
        line(fields.next()?).then(|| fields.next())?
    })?;
    let own = root.join(own.trim_start_matches('/'));
    // In a container the mount may show this process's group as its root, under the name that it has outside.
    Some(if own.is_dir() {
        (root, own)
    } else {
        (root.clone(), root)
    })
}

/// Lets the groups below a group of version 2 have the controllers that there are.
pub(super) fn delegate(group: &Path) -> io::Result<()> {
    const FILE: &str = "cgroup.subtree_control";
    let there = fs::read_to_string(group.join("cgroup.controllers"))?;
    let given = fs::read_to_string(group.join(FILE))?;
    let has = |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
    for name in CONTROLLERS {
        let wanted = name == CONTROLLERS[0];
        if has(&given, name) || !wanted && !has(&there, name) {
            continue;
        }
        match write(group, FILE, &format!("+{name}")) {
            Err(error) if wanted => return Err(error),
            // Without these there is less, and `Probe` says it.
            _ => {}
        }
    }
    Ok(())
}

/// Puts the processes of a group into one below it, so that it can hand controllers down. Only if all of them are
/// this process or descend from it: nobody else's process is moved.
fn settle(group: &Path) -> io::Result<()> {
    let refused = |text: &str| io::Error::new(io::ErrorKind::Unsupported, text.to_owned());
    let inside = members(group)?;
    let me = std::process::id() as i32;
    if inside.is_empty() || !inside.iter().all(|&pid| descends(pid, me)) {
        return Err(refused("somebody else's processes are in this group"));
    }
    let name = owner::name().ok_or_else(|| refused("/proc can't be read"))?;
    // Not the name of a plugin's group: what is in it must not be ended with those.
    let below = group.join(name.replacen('-', "-self-", 1));
    fs::create_dir(&below)?;
    for pid in inside {
        write(&below, "cgroup.procs", &pid.to_string())?;
    }
    delegate(group)
}

fn descends(pid: i32, from: i32) -> bool {
    let mut at = pid;
    while at != from && at > 1 {
        match process::read(at) {
            Some(process) => at = process.parent,
            None => return false,
        }
    }
    at == from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_read_from_what_the_system_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display();
        for own in ["memory/a/b", "cpu", "two/x"] {
            fs::create_dir_all(folder.path().join(own)).expect("made");
        }
        let mounts = format!(
            "cgroup {at}/cpu cgroup rw,cpu 0 0\ncgroup {at}/memory cgroup rw,memory 0 0\ncgroup2 {at}/two cgroup2 rw 0 0\n"
        );
        let groups = "3:cpu:/elsewhere\n2:memory:/a/b\n0::/x\n";
        let expected = Layout::One {
            memory: folder.path().join("memory/a/b"),
            // A container: its own name is that of outside.
            cpu: Some(folder.path().join("cpu")),
            pids: None,
        };
        assert_eq!(one(&mounts, groups), Some(expected));
        let found = place(&mounts, groups, |kind, _| kind == "cgroup2", str::is_empty);
        let expected = (folder.path().join("two"), folder.path().join("two/x"));
        assert_eq!(found, Some(expected));
        assert_eq!(one("cgroup2 /c cgroup2 rw 0 0\n", "0::/\n"), None);
    }

    /// A folder that looks like a group of version 2.
    fn group(at: &Path, controllers: &str) {
        fs::create_dir_all(at).expect("made");
        for (file, text) in [
            ("cgroup.controllers", controllers),
            ("cgroup.subtree_control", ""),
            ("cgroup.procs", ""),
        ] {
            fs::write(at.join(file), text).expect("written");
        }
    }

    #[test]
    fn the_nearest_group_that_hands_memory_down_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        group(root, "cpu memory pids");
        group(&root.join("app"), "memory pids");
        // It looks like one, but nothing can be asked of it.
        fs::create_dir_all(root.join("app/own")).expect("made");
        let mounts = format!("cgroup2 {} cgroup2 rw 0 0\n", root.display());
        assert_eq!(
            two(&mounts, "0::/app/own\n"),
            Some(Layout::Two(root.join("app")))
        );
        // A folder keeps the last write only; the kernel would keep them all.
        let asked = fs::read_to_string(root.join("app/cgroup.subtree_control"));
        assert_eq!(asked.ok().as_deref(), Some("+pids"));
    }

    #[test]
    fn the_smallest_limit_above_this_process_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("a/b");
        fs::create_dir_all(&own).expect("made");
        fs::write(own.join("memory.max"), "max\n").expect("written");
        fs::write(folder.path().join("a/memory.max"), "4096\n").expect("written");
        let mounts = format!("cgroup2 {} cgroup2 rw 0 0\n", folder.path().display());
        assert_eq!(limit_of(&mounts, "0::/a/b\n"), Some(4096));
        fs::write(folder.path().join("a/memory.max"), "max\n").expect("written");
        assert_eq!(limit_of(&mounts, "0::/a/b\n"), None);
    }

    #[test]
    fn only_own_processes_are_moved_out_of_the_way() {
        let folder = tempfile::tempdir().expect("a folder");
        group(folder.path(), "memory");
        fs::write(folder.path().join("cgroup.procs"), "1\n").expect("written");
        assert!(settle(folder.path()).is_err());
        assert!(descends(
            std::process::id() as i32,
            std::process::id() as i32
        ));
        assert!(!descends(1, std::process::id() as i32));
    }

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        assert!(why_not("proc /proc proc rw 0 0\n").contains("mount cgroup2"));
        assert!(why_not("cgroup2 /c cgroup2 ro 0 0\n").contains("Delegate=yes"));
    }
}
