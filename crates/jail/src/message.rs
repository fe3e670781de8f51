//! What the runtime asks of a reaper, and what the reaper tells.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::fence::{Part, Plan};

/// In an argument vector: replaced by the number of the inherited socket.
pub const FD_PLACEHOLDER: &str = "{fd}";

/// To the reaper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Go behind this fence. The first request, and only the first.
    Fence {
        /// What it is made of; none: nothing is fenced.
        plan: Option<Plan>,
    },
    /// Start the forkserver. Three descriptors come along: the socket it inherits, and where its
    /// standard output and error go.
    Start {
        /// Program and arguments; `{fd}` stands for the inherited socket's number.
        argv: Vec<String>,
        /// Its whole environment.
        env: Vec<(String, String)>,
        /// Its working directory.
        cwd: PathBuf,
        /// A folder to remove at the reaper's end.
        scratch: Option<PathBuf>,
    },
    /// This process is a slot: it may live.
    Adopt {
        /// Its process id.
        pid: i32,
    },
    /// Have this process write the stacks of its threads: SIGUSR2.
    Stack {
        /// Its process id.
        pid: i32,
    },
    /// End this process and everything it started.
    Kill {
        /// Its process id.
        pid: i32,
    },
    /// End everything, then yourself.
    End,
}

/// From the reaper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// The fence is up, as far as the host gives it. With the listening sockets of its own network.
    Fenced {
        /// Every part; none if none was asked for.
        parts: Vec<Part>,
    },
    /// It couldn't be put up, and the reaper ends.
    FenceFailed {
        /// The system's words.
        message: String,
    },
    /// The forkserver runs.
    Started {
        /// Its process id.
        pid: i32,
    },
    /// It couldn't be started.
    StartFailed {
        /// The system's words.
        message: String,
    },
    /// A process ended.
    Exit {
        /// Its process id.
        pid: i32,
        /// How.
        #[serde(flatten)]
        exit: Exit,
    },
    /// A process that was to be killed is gone, with all it started.
    Gone {
        /// Its process id.
        pid: i32,
    },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_read_as_the_wire_page_has_them() {
        let report = Report::Exit {
            pid: 7,
            exit: Exit::Signal(9),
        };
        let text = serde_json::to_string(&report).expect("JSON");
        assert_eq!(text, r#"{"report":"exit","pid":7,"signal":9}"#);
        assert_eq!(serde_json::from_str::<Report>(&text).ok(), Some(report));
    }
}
