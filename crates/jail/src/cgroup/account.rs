//! A group's account of memory, kept open: it is read while calls run, so reading it must cost next to nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::Version;
use super::files::{field, missing, number};

/// Longer than any of the files that are read here.
const ROOM: usize = 512;

/// What the kernel counts of a group.
#[derive(Debug)]
pub struct Account {
    version: Version,
    usage: File,
    /// Version 1: `memory.oom_control`; version 2: `memory.events`.
    events: File,
    /// Version 1 counts elsewhere how often the limit was met.
    failures: Option<File>,
}

impl Account {
    pub(super) fn open(version: Version, folder: &Path) -> io::Result<Self> {
        let open = |file: &str| File::open(folder.join(file));
        Ok(match version {
            Version::One => Self {
                version,
                usage: open("memory.usage_in_bytes")?,
                events: open("memory.oom_control")?,
                failures: Some(open("memory.failcnt")?),
            },
            Version::Two => Self {
                version,
                usage: open("memory.current")?,
                events: open("memory.events")?,
                failures: None,
            },
        })
    }

    /// What the group uses now, in bytes.
    ///
    /// # Errors
    /// If it is gone.
    pub fn usage(&self) -> io::Result<u64> {
        read(&self.usage, number)?.ok_or_else(|| missing("usage"))
    }

    /// How many of the group's processes the kernel has killed for want of memory; in version 2 those of
    /// groups below it too.
    ///
    /// # Errors
    /// If it is gone.
    pub fn kills(&self) -> io::Result<u64> {
        read(&self.events, |text| field(text, "oom_kill"))?.ok_or_else(|| missing("oom_kill"))
    }

    /// How often its own limit was met: in version 1 whenever something had to be given back, in version 2
    /// when nothing could be.
    ///
    /// # Errors
    /// If it is gone.
    pub fn hits(&self) -> io::Result<u64> {
        match (self.version, &self.failures) {
            (Version::One, Some(failures)) => {
                read(failures, number)?.ok_or_else(|| missing("memory.failcnt"))
            }
            _ => read(&self.events, |text| field(text, "oom"))?.ok_or_else(|| missing("oom")),
        }
    }
}

fn read<T>(file: &File, parse: impl FnOnce(&str) -> T) -> io::Result<T> {
    let mut bytes = [0; ROOM];
    let count = file.read_at(&mut bytes, 0)?;
    let text = std::str::from_utf8(&bytes[..count]).map_err(io::Error::other)?;
    Ok(parse(text))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn version_two_is_read_from_its_events() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |file: &str, text: &str| fs::write(folder.path().join(file), text);
        put("memory.current", "4096\n").expect("written");
        put("memory.events", "low 0\nhigh 0\nmax 9\noom 0\noom_kill 0\n").expect("written");
        let account = Account::open(Version::Two, folder.path()).expect("opened");
        assert_eq!(account.usage().ok(), Some(4096));
        assert_eq!(
            (account.hits().ok(), account.kills().ok()),
            (Some(0), Some(0))
        );
        // Read anew each time, from the same open file.
        put("memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n").expect("written");
        assert_eq!(
            (account.hits().ok(), account.kills().ok()),
            (Some(2), Some(1))
        );
    }
}
