//! Groups are named for the process that made them, so that the next start finds what a dead one has left: its
//! process id, when it started, and the namespace in which both hold. Those of the living are never touched.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::end;
use crate::process;

const PREFIX: &str = "paddock";
/// How long what a dead Paddock left may take to end.
const PATIENCE: Duration = Duration::from_millis(500);

static MADE: AtomicU64 = AtomicU64::new(0);

/// A name that no other group has.
pub(super) fn name() -> Option<String> {
    let pid = std::process::id();
    let started = process::read(pid as i32)?.started;
    let count = MADE.fetch_add(1, Ordering::Relaxed);
    Some(format!("{PREFIX}-{}-{pid}-{started}-{count}", space()?))
}

/// Removes what dead processes have left in these folders, and ends what still runs there.
pub(super) fn sweep(parents: &[PathBuf]) {
    let Some(space) = space() else { return };
    let left: BTreeSet<String> = parents
        .iter()
        .flat_map(|parent| names_in(parent))
        .filter(|name| owner(name, space).is_some_and(is_dead))
        .collect();
    for name in left {
        let folders: Vec<PathBuf> = parents
            .iter()
            .map(|parent| parent.join(&name))
            .filter(|folder| folder.is_dir())
            .collect();
        // What can't be removed now is found by the next start.
        end::end(&folders, PATIENCE);
    }
}

fn names_in(parent: &Path) -> Vec<String> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

fn is_dead((pid, started): (i32, u64)) -> bool {
    process::read(pid).is_none_or(|p| p.ended || p.started != started)
}

/// The process and its start, if the name is one of ours and of this namespace.
fn owner(name: &str, space: u64) -> Option<(i32, u64)> {
    let mut fields = name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
    let told: u64 = fields.next()?.parse().ok()?;
    let owner = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (told == space && fields.count() == 1).then_some(owner)
}

/// The namespace in which process ids hold: those of another say nothing here.
fn space() -> Option<u64> {
    Some(fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_of_this_namespace_are_read() {
        assert_eq!(owner("paddock-7-42-99-0", 7), Some((42, 99)));
        for other in [
            "paddock-8-42-99-0",
            "paddock-7-42-99",
            "paddock-self-42-99-0",
            "paddocks-7-42-99-0",
            "system.slice",
        ] {
            assert_eq!(owner(other, 7), None, "{other}");
        }
    }

    #[test]
    fn a_name_is_that_of_a_living_process() {
        let name = name().expect("/proc is there");
        let owner = owner(&name, space().expect("told")).expect("read");
        assert!(!is_dead(owner));
        assert!(is_dead((owner.0, owner.1 + 1)), "the id of somebody else");
    }

    #[test]
    fn what_the_dead_left_is_removed_and_the_living_keep_theirs() {
        let parent = tempfile::tempdir().expect("a folder");
        let living = name().expect("/proc is there");
        let dead = format!("{PREFIX}-{}-{}-1-0", space().expect("told"), i32::MAX);
        for name in [&living, &dead, &"other".to_owned()] {
            fs::create_dir_all(parent.path().join(name).join("i1/s1")).expect("made");
        }
        sweep(&[parent.path().to_owned()]);
        let left: BTreeSet<String> = names_in(parent.path()).into_iter().collect();
        assert_eq!(left, BTreeSet::from([living, "other".to_owned()]));
    }
}
