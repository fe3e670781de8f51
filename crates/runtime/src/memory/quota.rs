//! The memory of the machine, admitted instance by instance: what all plugins of a process hold together never goes
//! over it. Cores are a cap and are not admitted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::shown::Bytes;

/// Memory that instances are admitted to. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Quota(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    total: u64,
    held: Mutex<BTreeMap<Arc<str>, Vec<u64>>>,
}

impl Quota {
    /// So many bytes.
    #[must_use]
    pub fn new(total: u64) -> Self {
        Self(Arc::new(Inner {
            total,
            held: Mutex::default(),
        }))
    }

    /// What this machine has, or what its control group may use, shared by all of this process.
    #[must_use]
    pub fn machine() -> Self {
        static MACHINE: OnceLock<Quota> = OnceLock::new();
        MACHINE.get_or_init(|| Self::new(machine_bytes())).clone()
    }

    /// All there is.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.total
    }

    /// Takes the memory of an instance, until the grant is dropped.
    pub(crate) fn admit(&self, plugin: &Arc<str>, bytes: u64) -> Result<Grant, Shortage> {
        let mut held = self.lock();
        let taken: u64 = held.values().flatten().sum();
        if bytes > self.0.total.saturating_sub(taken) {
            return Err(Shortage {
                wanted: bytes,
                total: self.0.total,
                held: held
                    .iter()
                    .map(|(plugin, sizes)| (plugin.clone(), sizes.clone()))
                    .collect(),
            });
        }
        held.entry(plugin.clone()).or_default().push(bytes);
        Ok(Grant {
            quota: self.clone(),
            plugin: plugin.clone(),
            bytes,
        })
    }

    fn give_back(&self, plugin: &Arc<str>, bytes: u64) {
        let mut held = self.lock();
        if let Some(sizes) = held.get_mut(plugin) {
            if let Some(at) = sizes.iter().position(|&size| size == bytes) {
                sizes.swap_remove(at);
            }
            if sizes.is_empty() {
                held.remove(plugin);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Vec<u64>>> {
        self.0.held.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Default for Quota {
    fn default() -> Self {
        Self::machine()
    }
}

/// The memory of one instance, held while this lives.
#[derive(Debug)]
pub(crate) struct Grant {
    quota: Quota,
    plugin: Arc<str>,
    bytes: u64,
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.quota.give_back(&self.plugin, self.bytes);
    }
}

/// Why an instance was not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) wanted: u64,
    pub(crate) total: u64,
    /// Who holds what: the sizes of each plugin's instances.
    pub(crate) held: Vec<(Arc<str>, Vec<u64>)>,
}

impl Shortage {
    /// True if it would be one with nobody else there.
    pub(crate) fn is_for_good(&self) -> bool {
        self.wanted > self.total
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wanted, total) = (Bytes(self.wanted), Bytes(self.total));
        write!(
            f,
            "no memory for an instance of {wanted}: the quota is {total}"
        )?;
        let taken: u64 = self.held.iter().flat_map(|(_, sizes)| sizes).sum();
        if taken == 0 {
            return f.write_str(", and nobody holds any of it");
        }
        write!(f, ", of which {} are held", Bytes(taken))?;
        for (at, (plugin, sizes)) in self.held.iter().enumerate() {
            let lead = if at == 0 { " (" } else { ", " };
            let (count, sum) = (sizes.len(), Bytes(sizes.iter().sum()));
            let s = if count == 1 { "" } else { "s" };
            write!(f, "{lead}\"{plugin}\": {count} instance{s}, {sum}")?;
        }
        f.write_str(")")
    }
}

/// What the machine has, or less if the control group of this process may use less. Where nothing can be read,
/// nothing is refused.
fn machine_bytes() -> u64 {
    let there = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| super::proc::kib(&text, "MemTotal:"));
    let own = paddock_jail::cgroup::own_limit();
    there.into_iter().chain(own).min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn what_is_held_is_never_more_than_there_is_and_comes_back() {
        let quota = Quota::new(5 * GIB);
        let (roll, grade): (Arc<str>, Arc<str>) = ("roll".into(), "grade".into());
        let first = quota.admit(&roll, 2 * GIB).expect("there is room");
        let _second = quota.admit(&grade, 2 * GIB).expect("there is room");
        let shortage = quota.admit(&grade, 2 * GIB).expect_err("1 GiB is left");
        assert_eq!(
            shortage.to_string(),
            "no memory for an instance of 2 GiB: the quota is 5 GiB, of which 4 GiB are held \
             (\"grade\": 1 instance, 2 GiB, \"roll\": 1 instance, 2 GiB)"
        );
        assert!(!shortage.is_for_good());
        drop(first);
        assert!(quota.admit(&grade, 3 * GIB).is_ok());
        let shortage = quota
            .admit(&grade, 6 * GIB)
            .expect_err("more than there is");
        assert!(shortage.is_for_good());
    }

    #[test]
    fn an_empty_quota_says_so() {
        let quota = Quota::new(GIB);
        let shortage = quota.admit(&"a".into(), 2 * GIB).expect_err("too large");
        assert_eq!(
            shortage.to_string(),
            "no memory for an instance of 2 GiB: the quota is 1 GiB, and nobody holds any of it"
        );
    }

    #[test]
    fn the_machine_has_some_memory() {
        assert!(Quota::machine().total() > 64 << 20);
    }
}
