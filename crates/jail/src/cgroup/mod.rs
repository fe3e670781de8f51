//! Control groups: where the kernel keeps account of what a plugin uses, its limits, and the one list of
//! processes that nobody can leave.
//!
//! Only file operations. In version 1 a group is a folder in each controller's hierarchy, in version 2 one
//! folder; what is asked of both is the same. What the host can't give is an error that says so, never a
//! group that does nothing. Groups are made by Paddock itself, from outside of a plugin's fence.

mod account;
mod end;
mod files;
mod host;
mod owner;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use account::Account;
pub use host::{Host, Probe, own_limit, probe};

use files::{read_number, write, write_if_there};

/// Which of the kernel's two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller.
    One,
    /// One hierarchy.
    Two,
}

/// Where a group is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Layout {
    /// A folder a controller; those that the host doesn't have are left out. Two controllers that are
    /// mounted together have the same folder.
    One {
        memory: PathBuf,
        cpu: Option<PathBuf>,
        pids: Option<PathBuf>,
    },
    /// One folder.
    Two(PathBuf),
}

impl Layout {
    fn folders(&self) -> Vec<PathBuf> {
        match self {
            Self::One { memory, cpu, pids } => {
                let mut all = vec![memory.clone()];
                for other in [cpu, pids].into_iter().flatten() {
                    if !all.contains(other) {
                        all.push(other.clone());
                    }
                }
                all
            }
            Self::Two(path) => vec![path.clone()],
        }
    }

    fn below(&self, name: &str) -> Self {
        let of = |path: &Option<PathBuf>| path.as_ref().map(|p| p.join(name));
        match self {
            Self::One { memory, cpu, pids } => Self::One {
                memory: memory.join(name),
                cpu: of(cpu),
                pids: of(pids),
            },
            Self::Two(path) => Self::Two(path.join(name)),
        }
    }
}

/// In version 1, swap may hold so much more than the limit: with none at all the kernel meets the other
/// limit first, and keeps no count of that (Linux 6.18).
const SWAP: u64 = 4 << 20;
/// Microseconds in which a group's share of the cores is given out. Shorter than the kernel's own 100 ms, so
/// that a call that has used up its share stands still for a shorter time.
const PERIOD: u64 = 25_000;

/// A group that this process made; it is removed when it is dropped, if nobody is in it by then.
#[derive(Debug)]
pub struct Group(Layout);

impl Group {
    fn make(layout: Layout) -> io::Result<Self> {
        let mut made: Vec<PathBuf> = Vec::new();
        for folder in layout.folders() {
            if let Err(error) = fs::create_dir(&folder) {
                for folder in made {
                    // It was made a moment ago, and nobody is in it.
                    let _ = fs::remove_dir(folder);
                }
                return Err(error);
            }
            made.push(folder);
        }
        Ok(Self(layout))
    }

    /// Makes a group in this one. In version 2 this one may then hold no process of its own.
    ///
    /// # Errors
    /// If there is one of that name, or the system refuses.
    pub fn child(&self, name: &str) -> io::Result<Self> {
        if let Layout::Two(path) = &self.0 {
            host::delegate(path)?;
        }
        Self::make(self.0.below(name))
    }

    /// Limits what its processes use together, those of groups below it included. Swap is no way out where
    /// the kernel keeps account of that too.
    ///
    /// # Errors
    /// If the system refuses; version 1 does if more is used already and can't be given back.
    pub fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        match &self.0 {
            Layout::One { memory, .. } => {
                write(memory, "memory.limit_in_bytes", &bytes.to_string())?;
                let both = bytes.saturating_add(SWAP).to_string();
                write_if_there(memory, "memory.memsw.limit_in_bytes", &both)?;
            }
            Layout::Two(path) => {
                write(path, "memory.max", &bytes.to_string())?;
                write_if_there(path, "memory.swap.max", "0")?;
            }
        }
        Ok(())
    }

    /// Limits how many processes and threads there may be in it. False if the host has no such limit.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn limit_pids(&self, count: u32) -> io::Result<bool> {
        match &self.0 {
            Layout::One { pids: None, .. } => Ok(false),
            Layout::One { pids: Some(at), .. } | Layout::Two(at) => {
                write_if_there(at, "pids.max", &count.to_string())
            }
        }
    }

    /// Limits it to the time of so many cores. False if the host has no such limit.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn limit_cores(&self, cores: u32) -> io::Result<bool> {
        let quota = u64::from(cores) * PERIOD;
        match &self.0 {
            Layout::One { cpu: None, .. } => Ok(false),
            Layout::One { cpu: Some(at), .. } => {
                let set = write_if_there(at, "cpu.cfs_period_us", &PERIOD.to_string())?;
                Ok(set && write_if_there(at, "cpu.cfs_quota_us", &quota.to_string())?)
            }
            Layout::Two(at) => write_if_there(at, "cpu.max", &format!("{quota} {PERIOD}")),
        }
    }

    /// Gives it as much of contended cores as so many processes would get that are in no group. False if the host has
    /// no such setting.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn weigh(&self, processes: u32) -> io::Result<bool> {
        let processes = u64::from(processes.max(1));
        match &self.0 {
            Layout::One { cpu: None, .. } => Ok(false),
            Layout::One { cpu: Some(at), .. } => write_if_there(
                at,
                "cpu.shares",
                &(processes * 1024).min(1 << 18).to_string(),
            ),
            Layout::Two(at) => {
                write_if_there(at, "cpu.weight", &(processes * 100).min(10_000).to_string())
            }
        }
    }

    /// In how many spans of time it had something to do, and in how many of them it wanted more than its cores.
    ///
    /// # Errors
    /// If the kernel keeps no such account.
    pub fn throttled(&self) -> io::Result<(u64, u64)> {
        let at = match &self.0 {
            Layout::One { cpu: None, .. } => return Err(files::missing("cpu controller")),
            Layout::One { cpu: Some(at), .. } | Layout::Two(at) => at,
        };
        let text = fs::read_to_string(at.join("cpu.stat"))?;
        let field = |key| files::field(&text, key).ok_or_else(|| files::missing(key));
        Ok((field("nr_periods")?, field("nr_throttled")?))
    }

    /// Puts a process into it, with all its threads; what that starts from now on is in it too.
    ///
    /// # Errors
    /// If the process is gone, or the system refuses.
    pub fn add(&self, pid: i32) -> io::Result<()> {
        for folder in self.0.folders() {
            write(&folder, "cgroup.procs", &pid.to_string())?;
        }
        Ok(())
    }

    /// The processes in it, as this process's namespace numbers them; not those of groups below it.
    ///
    /// # Errors
    /// If it is gone.
    pub fn members(&self) -> io::Result<Vec<i32>> {
        files::members(self.folder())
    }

    /// Its account, for reading it often.
    ///
    /// # Errors
    /// If the kernel keeps none.
    pub fn account(&self) -> io::Result<Account> {
        Account::open(self.version(), self.folder())
    }

    /// The most it has used, in bytes: caches of files and what is in tmpfs included.
    ///
    /// # Errors
    /// If the kernel doesn't say; version 2 does since Linux 5.19.
    pub fn peak(&self) -> io::Result<u64> {
        read_number(self.folder(), self.peak_file())
    }

    /// Starts the peak anew. False if the kernel can't (version 2: a peak is for good).
    #[must_use]
    pub fn forget_peak(&self) -> bool {
        match &self.0 {
            Layout::One { memory, .. } => write(memory, self.peak_file(), "0").is_ok(),
            Layout::Two(_) => false,
        }
    }

    /// How much of what it uses now is a cache of files, which the kernel takes back when it needs to.
    ///
    /// # Errors
    /// If the kernel doesn't say.
    pub fn cached(&self) -> io::Result<u64> {
        files::cached(self.version(), self.folder())
    }

    /// Which of the kernel's two ways it is.
    #[must_use]
    pub fn version(&self) -> Version {
        match &self.0 {
            Layout::One { .. } => Version::One,
            Layout::Two(_) => Version::Two,
        }
    }

    /// Its folders: one in version 2, one a controller in version 1.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        self.0.folders()
    }

    /// The one in which its memory is counted.
    fn folder(&self) -> &Path {
        match &self.0 {
            Layout::One { memory, .. } => memory,
            Layout::Two(path) => path,
        }
    }

    fn peak_file(&self) -> &'static str {
        match self.version() {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in self.0.folders() {
            // One that still holds a process or a group stays, for the next start to find.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests;
