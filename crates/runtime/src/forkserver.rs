//! A plugin's forkserver: a Python process that has imported the package once and forks slots.
//!
//! It runs the plugin's code, so what it says is hostile: every answer has a deadline, and a
//! forkserver that answers nonsense is replaced.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use paddock_jail::channel::Inbox;
use paddock_jail::message::{FD_PLACEHOLDER, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use crate::credentials;
use crate::logs::Output;
use crate::messages;
use crate::reaper::ReaperHandle;

/// How long a fork may take.
const FORK_TIMEOUT: Duration = Duration::from_secs(20);

/// How calls share a slot's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One call at a time, on the main thread.
    Process,
    /// Up to ten calls, each on a thread.
    Thread,
    /// Many calls on one event loop.
    Loop,
}

/// What runs in a forkserver.
#[derive(Debug, Clone)]
pub struct Program {
    /// Program and arguments; `{fd}` stands for the inherited socket's number.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// The project: its working directory.
    pub project: PathBuf,
    /// `module:function`.
    pub function: String,
    /// Its temporary folder, removed at the end.
    pub scratch: PathBuf,
}

impl Program {
    /// The arguments of a worker run by `python`.
    pub fn argv(python: &str) -> Vec<String> {
        [python, "-P", "-m", "paddock._worker", FD_PLACEHOLDER]
            .map(str::to_owned)
            .to_vec()
    }
}

/// What the forkserver found the function to be.
#[derive(Debug, Clone, Deserialize)]
pub struct Loaded {
    /// `rollout`, `single_grader` or `group_grader`.
    pub kind: paddock_types::plugin::PluginKind,
    /// True for `async def`.
    pub is_async: bool,
    /// The name that its decorator gives it.
    #[serde(default)]
    pub name: String,
    /// The limits that its decorator sets.
    #[serde(default)]
    pub runtime: Value,
}

/// Why a forkserver can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ForkserverError {
    /// Python itself didn't start.
    #[error("python could not be started: {0}")]
    Start(String),
    /// The function couldn't be loaded.
    #[error("{message}")]
    Load {
        /// `import`, `reference` or `signature`.
        stage: String,
        /// What happened.
        message: String,
        /// The traceback, if there is one.
        traceback: String,
    },
    /// It took too long.
    #[error("{what} took longer than {} s", limit.as_secs())]
    Slow {
        /// What took so long.
        what: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// It ended.
    #[error("the plugin's process ended while {0}")]
    Ended(&'static str),
    /// It said something else than was asked.
    #[error("the plugin's process answered something unexpected: {0}")]
    Confused(String),
    /// A socket or pipe failed.
    #[error("talking to the plugin's process failed")]
    Io(#[source] io::Error),
}

#[derive(Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Ask<'a> {
    Load {
        project: &'a str,
        function: &'a str,
    },
    Fork {
        slot: u64,
        mode: Mode,
        capacity: u32,
        content_format: &'a str,
        frame_limit: usize,
    },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Told {
    Loaded(Loaded),
    Failed {
        #[serde(default)]
        stage: String,
        message: String,
        #[serde(default)]
        traceback: String,
    },
    Forked {
        slot: u64,
        pid: i32,
    },
}

/// This side's ends of a new slot's sockets and pipes.
#[derive(Debug)]
pub struct SlotEnds {
    /// Its process id, as the reaper and the forkserver know it. Behind a fence it is not the host's,
    /// which comes with the slot's first word ([`crate::credentials`]).
    pub pid: i32,
    /// Calls and answers.
    pub data: UnixStream,
    /// Everything else.
    pub control: UnixStream,
    /// What it prints.
    pub stdout: pipe::Receiver,
    /// What it prints as errors.
    pub stderr: pipe::Receiver,
    /// Stacks that `faulthandler` writes on SIGUSR2.
    pub stack: pipe::Receiver,
}

/// A running forkserver.
#[derive(Debug)]
pub struct Forkserver {
    socket: UnixStream,
    inbox: Inbox,
    pid: i32,
    tail: Arc<Mutex<VecDeque<String>>>,
    copies: [JoinHandle<()>; 2],
}

impl Forkserver {
    /// Starts one below `reaper`. What it prints goes to `output`.
    pub(crate) async fn start(
        reaper: &ReaperHandle,
        program: &Program,
        output: Output,
    ) -> Result<Self, ForkserverError> {
        let (socket, theirs) = UnixStream::pair().map_err(ForkserverError::Io)?;
        let theirs = inherited(theirs).map_err(ForkserverError::Io)?;
        let (stdout, stdout_end) = readable_pipe().map_err(ForkserverError::Io)?;
        let (stderr, stderr_end) = readable_pipe().map_err(ForkserverError::Io)?;
        let request = Request::Start {
            argv: program.argv.clone(),
            env: program.env.clone(),
            cwd: program.project.clone(),
            scratch: Some(program.scratch.clone()),
        };
        let pid = reaper
            .start_forkserver(request, [theirs, stdout_end, stderr_end])
            .await
            .map_err(ForkserverError::Start)?;
        let tail = output.tail();
        let copies = [
            tokio::spawn(output.clone().copy(stdout, "stdout")),
            tokio::spawn(output.copy(stderr, "stderr")),
        ];
        Ok(Self {
            socket,
            inbox: Inbox::default(),
            pid,
            tail,
            copies,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until all that an ended one has printed is read; not for what still holds its pipes.
    pub(crate) async fn hear_out(&mut self, patience: Duration) {
        let [stdout, stderr] = &mut self.copies;
        let both = async { tokio::join!(stdout, stderr) };
        // Then the lines that have come must do.
        let _ = tokio::time::timeout(patience, both).await;
    }

    /// The last lines it printed.
    pub fn last_lines(&self) -> Vec<String> {
        let tail = self.tail.lock().unwrap_or_else(|e| e.into_inner());
        tail.iter().cloned().collect()
    }

    /// Imports the package and finds the function.
    pub async fn load(
        &mut self,
        program: &Program,
        limit: Duration,
    ) -> Result<Loaded, ForkserverError> {
        let project = program.project.to_string_lossy();
        let ask = Ask::Load {
            project: &project,
            function: &program.function,
        };
        let what = "importing the plugin";
        match self.exchange(&ask, &[], limit, what).await? {
            Told::Loaded(loaded) => Ok(loaded),
            Told::Failed {
                stage,
                message,
                traceback,
            } => Err(ForkserverError::Load {
                stage,
                message,
                traceback,
            }),
            other => Err(ForkserverError::Confused(format!("{other:?}"))),
        }
    }

    /// Forks a slot.
    pub async fn fork(
        &mut self,
        slot: u64,
        mode: Mode,
        capacity: u32,
        content_format: &str,
        frame_limit: usize,
    ) -> Result<SlotEnds, ForkserverError> {
        let (data, data_end) = UnixStream::pair().map_err(ForkserverError::Io)?;
        let (control, control_end) = UnixStream::pair().map_err(ForkserverError::Io)?;
        credentials::ask(&data).map_err(ForkserverError::Io)?;
        let data_end = inherited(data_end).map_err(ForkserverError::Io)?;
        let control_end = inherited(control_end).map_err(ForkserverError::Io)?;
        let (stdout, stdout_end) = readable_pipe().map_err(ForkserverError::Io)?;
        let (stderr, stderr_end) = readable_pipe().map_err(ForkserverError::Io)?;
        let (stack, stack_end) = readable_pipe().map_err(ForkserverError::Io)?;
        let ends = [data_end, control_end, stdout_end, stderr_end, stack_end];
        let ask = Ask::Fork {
            slot,
            mode,
            capacity,
            content_format,
            frame_limit,
        };
        match self
            .exchange(&ask, &ends, FORK_TIMEOUT, "forking a slot")
            .await?
        {
            Told::Forked { slot: told, pid } if told == slot && pid > 1 => Ok(SlotEnds {
                pid,
                data,
                control,
                stdout,
                stderr,
                stack,
            }),
            other => Err(ForkserverError::Confused(format!("{other:?}"))),
        }
    }

    async fn exchange(
        &mut self,
        ask: &Ask<'_>,
        fds: &[OwnedFd],
        limit: Duration,
        what: &'static str,
    ) -> Result<Told, ForkserverError> {
        let along: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let exchange = async {
            messages::send(&self.socket, ask, &along).await?;
            messages::receive(&self.socket, &mut self.inbox).await
        };
        match tokio::time::timeout(limit, exchange).await {
            Err(_) => Err(ForkserverError::Slow { what, limit }),
            Ok(Ok(Some(told))) => Ok(told),
            Ok(Ok(None)) => Err(ForkserverError::Ended(what)),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(ForkserverError::Confused(error.to_string()))
            }
            Ok(Err(error)) if is_gone(&error) => Err(ForkserverError::Ended(what)),
            Ok(Err(error)) => Err(ForkserverError::Io(error)),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// An end that Python gets: in blocking mode, as Python expects it.
fn inherited(end: UnixStream) -> io::Result<OwnedFd> {
    let end = end.into_std()?;
    end.set_nonblocking(false)?;
    Ok(end.into())
}

/// A pipe whose reading end is ours.
fn readable_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((pipe::Receiver::from_owned_fd(ours)?, theirs))
}
