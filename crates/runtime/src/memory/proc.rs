//! What /proc says of a process's memory.

use std::fs;

/// What a process has resident.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Now.
    pub(crate) now: u64,
    /// At most, since it started.
    pub(crate) peak: u64,
}

/// Of one process; `None` if it is gone.
pub(crate) fn resident(pid: i32) -> Option<Resident> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(Resident {
        now: kib(&text, "VmRSS:")?,
        peak: kib(&text, "VmHWM:")?,
    })
}

/// Its proportional share: pages that several processes have are divided among them. What may not be looked into is
/// taken as it is resident.
pub(crate) fn share(pid: i32) -> Option<u64> {
    fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .ok()
        .and_then(|text| kib(&text, "Pss:"))
        .or_else(|| resident(pid).map(|r| r.now))
}

/// The process's id in the innermost namespace that it is in.
pub(crate) fn innermost_id(pid: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// Bytes of a `Key: number kB` line.
pub(crate) fn kib(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_an_id() {
        let me = std::process::id() as i32;
        let resident = resident(me).expect("told");
        assert!(resident.now > 0 && resident.peak >= resident.now);
        assert!(share(me).is_some_and(|bytes| bytes > 0));
        assert_eq!(innermost_id(me), Some(me));
        assert_eq!(share(-1), None);
    }

    #[test]
    fn lines_are_read_by_their_key() {
        let text = "VmPeak:\t  10 kB\nVmHWM:\t     42 kB\n";
        assert_eq!(kib(text, "VmHWM:"), Some(42 << 10));
        assert_eq!(kib(text, "VmRSS:"), None);
    }
}
