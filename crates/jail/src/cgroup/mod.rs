//! Control groups: where the kernel keeps account of a plugin's memory, and its limit.
//!
//! Only file operations, and only version 1's memory controller so far. What the host can't give is
//! an error that says so, never a group that does nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where version 1's memory controller puts this process.
///
/// # Errors
/// If the host has no such controller mounted.
pub fn memory_parent() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    parent(&mounts, &groups).ok_or_else(|| {
        let text = "no memory controller of control groups version 1 is mounted";
        io::Error::new(io::ErrorKind::Unsupported, text)
    })
}

fn parent(mounts: &str, groups: &str) -> Option<PathBuf> {
    let memory = |list: &str| list.split(',').any(|word| word == "memory");
    let root = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, place, "cgroup", options, ..] = fields[..] else {
            return None;
        };
        memory(options).then_some(place)
    })?;
    let own = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        memory(controllers).then(|| fields.next())?
    })?;
    Some(Path::new(root).join(own.trim_start_matches('/')))
}

/// A memory group that this process made; removed when dropped, if it is empty by then.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// Makes a group below `parent`; one that is there already is an error.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn make(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Its folder, for groups below it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Limits what its processes use together, those of groups below it included.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn limit(&self, bytes: u64) -> io::Result<()> {
        self.write("memory.limit_in_bytes", &bytes.to_string())
    }

    /// Puts a process into it; what that starts from now on is in it too.
    ///
    /// # Errors
    /// If the process is gone, or the system refuses.
    pub fn add(&self, pid: i32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// How many of its processes the kernel has killed for want of memory.
    ///
    /// # Errors
    /// If the kernel doesn't say.
    pub fn oom_kills(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.0.join("memory.oom_control"))?;
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
            .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "no oom_kill counter"))
    }

    /// The most it has used, in bytes.
    ///
    /// # Errors
    /// If the kernel doesn't say.
    pub fn peak(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.0.join("memory.max_usage_in_bytes"))?;
        text.trim().parse().map_err(io::Error::other)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.0.join(file), text)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // One that still holds a process stays.
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_parent_is_read_from_what_the_system_says() {
        let mounts = "cgroup /c/cpu cgroup rw,cpu 0 0\ncgroup /c/memory cgroup rw,memory 0 0\n";
        let found = parent(mounts, "3:cpu:/\n2:memory:/a/b\n0::/\n");
        assert_eq!(found.as_deref(), Some(Path::new("/c/memory/a/b")));
        assert_eq!(parent("cgroup2 /c cgroup2 rw 0 0\n", "0::/\n"), None);
    }

    #[test]
    fn the_kernel_counts_what_it_kills() {
        let made = memory_parent()
            .and_then(|at| Group::make(&at, &format!("paddock-test-{}", std::process::id())));
        let group = match made {
            Ok(group) => group,
            Err(error) => {
                eprintln!("SKIPPED: no memory group can be made: {error}");
                return;
            }
        };
        group.limit(16 << 20).expect("limited");
        let mut child = Command::new("sh")
            .args(["-c", "read go; head -c 200000000 /dev/zero | tail -c 200000000 >/dev/null & wait $!; kill -9 $$"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell");
        group.add(child.id() as i32).expect("added");
        drop(child.stdin.take());
        let status = child.wait().expect("ended");
        assert_eq!(status.signal(), Some(9));
        assert!(group.oom_kills().expect("counted") >= 1);
        assert!(group.peak().expect("told") > 8 << 20);
    }
}
