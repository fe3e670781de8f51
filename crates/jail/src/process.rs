//! The system's processes, as /proc shows them.

use std::fs;

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// Its session's, which is the id of the process that opened it.
    pub session: i32,
    /// True once it has ended and waits to be collected.
    pub ended: bool,
    /// When it started, in clock ticks since boot: with the id, this names one process for good.
    pub started: u64,
}

/// Every process there is. One that ends meanwhile is left out.
pub fn scan() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(read)
        .collect()
}

/// One process, if it is there.
pub fn read(pid: i32) -> Option<Process> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(pid: i32, stat: &str) -> Option<Process> {
    // The name stands in parentheses and may itself hold parentheses and blanks.
    let (_, after) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        ended: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_no_trap() {
        let stat = "42 (a) b (c)) S 7 42 40 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 987 5 6";
        let expected = Process {
            pid: 42,
            parent: 7,
            session: 40,
            ended: false,
            started: 987,
        };
        assert_eq!(parse(42, stat), Some(expected));
        assert_eq!(parse(42, "42 (cut"), None);
    }

    #[test]
    fn this_process_is_found() {
        let me = std::process::id() as i32;
        assert!(scan().iter().any(|p| p.pid == me && !p.ended));
    }
}
