//! The kernel's files: read and written whole, and what stands in them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use super::Version;

/// Writes a file that is there: none is made.
pub(super) fn write(folder: &Path, file: &str, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).truncate(true).open(folder.join(file))?;
    // In one piece: the kernel takes each write as a whole value.
    file.write_all(text.as_bytes())
}

/// The same for what a kernel may not have. False if it has it not.
pub(super) fn write_if_there(folder: &Path, file: &str, text: &str) -> io::Result<bool> {
    match write(folder, file, text) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file of one number; `max` is the greatest.
pub(super) fn read_number(folder: &Path, file: &str) -> io::Result<u64> {
    let text = fs::read_to_string(folder.join(file))?;
    number(&text).ok_or_else(|| missing(file))
}

pub(super) fn number(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        text => text.parse().ok(),
    }
}

/// A number of a file of `key number` lines.
pub(super) fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

/// The processes in a group's folder.
pub(super) fn members(folder: &Path) -> io::Result<Vec<i32>> {
    let text = fs::read_to_string(folder.join("cgroup.procs"))?;
    // One of another namespace is shown as 0.
    let pids = text.lines().filter_map(|line| line.parse().ok());
    Ok(pids.filter(|&pid| pid > 0).collect())
}

/// Bytes of a group, and of those below it, that are a cache of files. What is in tmpfs isn't: it can't be
/// taken back.
pub(super) fn cached(version: Version, folder: &Path) -> io::Result<u64> {
    let (cache, shared) = match version {
        Version::One => ("total_cache", "total_shmem"),
        Version::Two => ("file", "shmem"),
    };
    let text = fs::read_to_string(folder.join("memory.stat"))?;
    let cache = field(&text, cache).ok_or_else(|| missing(cache))?;
    Ok(cache.saturating_sub(field(&text, shared).unwrap_or(0)))
}

pub(super) fn missing(what: &str) -> io::Error {
    let text = format!("the kernel gives no \"{what}\"");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_what_the_kernel_writes() {
        assert_eq!(number("42\n"), Some(42));
        assert_eq!(number("max\n"), Some(u64::MAX));
        assert_eq!(number(""), None);
        let events = "low 0\nhigh 0\nmax 17\noom 3\noom_kill 2\noom_group_kill 0\n";
        assert_eq!(field(events, "oom"), Some(3));
        assert_eq!(field(events, "oom_kill"), Some(2));
        assert_eq!(field(events, "kill"), None);
    }

    #[test]
    fn a_file_that_is_not_there_is_not_made() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!write_if_there(folder.path(), "pids.max", "7").expect("no error"));
        assert!(write(folder.path(), "memory.max", "7").is_err());
        assert!(!folder.path().join("memory.max").exists());
    }

    #[test]
    fn what_is_in_tmpfs_is_no_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("memory.stat");
        fs::write(&file, "anon 5\nfile 100\nshmem 30\n").expect("written");
        assert_eq!(cached(Version::Two, folder.path()).ok(), Some(70));
        fs::write(&file, "cache 1\ntotal_cache 90\ntotal_shmem 40\n").expect("written");
        assert_eq!(cached(Version::One, folder.path()).ok(), Some(50));
    }
}
