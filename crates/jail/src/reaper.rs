//! The reaper: parent of a plugin's forkserver and, as child subreaper, of all its slots and of
//! whatever they leave behind.
//!
//! Its standard input is its control socket and its lifeline: when that closes, for whatever
//! reason, everything below the reaper ends, and then the reaper. It is run by re-executing the
//! program that holds it, and must be the only thread of its process.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, setsid, wait,
};

use crate::channel::{Inbox, send};
use crate::killer::{Action, Doom};
use crate::message::{Exit, FD_PLACEHOLDER, Report, Request};
use crate::process::{Process, scan};

/// Between two looks at a family that is being killed.
const KILL_PACE: Duration = Duration::from_millis(2);
/// Between two looks at children that nobody has named.
const STRAY_PACE: Duration = Duration::from_secs(1);
/// How long a child may live without being named: a new slot is named within milliseconds.
const STRAY_AGE: Duration = Duration::from_secs(5);
/// How long the end of everything may take.
const END_WAIT: Duration = Duration::from_secs(5);

/// Runs the reaper over standard input until its lifeline closes.
pub fn main() -> ExitCode {
    match Reaper::new().and_then(Reaper::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

struct Reaper {
    control: OwnedFd,
    children: UnixStream,
    inbox: Inbox,
    forkserver: Option<i32>,
    slots: BTreeSet<i32>,
    strays: BTreeMap<i32, Instant>,
    dooms: Vec<Doom>,
    scratch: Vec<PathBuf>,
}

impl Reaper {
    fn new() -> io::Result<Self> {
        // A terminal's signals are for Paddock, which then ends this in order. The call fails for
        // a process that leads a group already, which is as good.
        let _ = setsid();
        set_child_subreaper(Some(getpid()))?;
        let (children, signalled) = UnixStream::pair()?;
        children.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, signalled)?;
        Ok(Self {
            control: io::stdin().as_fd().try_clone_to_owned()?,
            children,
            inbox: Inbox::default(),
            forkserver: None,
            slots: BTreeSet::new(),
            strays: BTreeMap::new(),
            dooms: Vec::new(),
            scratch: Vec::new(),
        })
    }

    fn run(mut self) -> io::Result<()> {
        let outcome = loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.end_everything();
        outcome
    }

    /// Waits for something to happen and deals with it. False once the lifeline has closed.
    fn turn(&mut self) -> io::Result<bool> {
        self.wait_for_something()?;
        let alive = self.read_requests()?;
        self.collect()?;
        self.kill()?;
        Ok(alive)
    }

    fn wait_for_something(&mut self) -> io::Result<()> {
        let pace = if !self.dooms.is_empty() {
            Some(KILL_PACE)
        } else if !self.strays.is_empty() {
            Some(STRAY_PACE)
        } else {
            None
        };
        let pace = pace.and_then(|pace| Timespec::try_from(pace).ok());
        let mut fds = [
            PollFd::new(&self.control, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
        ];
        match poll(&mut fds, pace.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut noise = [0; 256];
        while matches!(self.children.read(&mut noise), Ok(count) if count > 0) {}
        Ok(())
    }

    fn read_requests(&mut self) -> io::Result<bool> {
        match self.inbox.receive(&self.control) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        while let Some(request) = self.inbox.next_message()? {
            match request {
                Request::Start {
                    argv,
                    env,
                    cwd,
                    scratch,
                } => {
                    self.scratch.extend(scratch);
                    let report = match self.start(&argv, env, cwd) {
                        Ok(pid) => Report::Started { pid },
                        Err(error) => Report::StartFailed {
                            message: error.to_string(),
                        },
                    };
                    self.tell(&report)?;
                }
                Request::Adopt { pid } => {
                    self.slots.insert(pid);
                    self.strays.remove(&pid);
                }
                Request::Kill { pid } => self.doom(pid),
                Request::End => return Ok(false),
            }
        }
        Ok(true)
    }

    fn start(
        &mut self,
        argv: &[String],
        env: Vec<(String, String)>,
        cwd: PathBuf,
    ) -> io::Result<i32> {
        let missing = || io::Error::new(io::ErrorKind::InvalidInput, "nothing to start");
        let [socket, stdout, stderr] = self.inbox.take_fds().ok_or_else(missing)?;
        let (program, arguments) = argv.split_first().ok_or_else(missing)?;
        // Kept open over the exec by a copy without the close-on-exec flag. No other thread can
        // start a program meanwhile and inherit it: there is none.
        let inherited = rustix::io::dup(&socket)?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&inherited).to_string();
        let child = Command::new(program)
            .args(arguments.iter().map(|a| a.replace(FD_PLACEHOLDER, &number)))
            .env_clear()
            .envs(env)
            .current_dir(cwd)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()?;
        let pid = child.id() as i32;
        self.forkserver = Some(pid);
        Ok(pid)
    }

    fn doom(&mut self, pid: i32) {
        // Only what lives below this process may be killed, whatever is asked.
        if pid > 1 && !self.dooms.iter().any(|d| d.root() == pid) {
            self.dooms.push(Doom::new(pid));
        }
    }

    /// Collects what has ended, and sees to what it left behind.
    fn collect(&mut self) -> io::Result<()> {
        let mut collected = false;
        while let Some((pid, exit)) = next_exit()? {
            collected = true;
            if self.forkserver == Some(pid) {
                self.forkserver = None;
            }
            if self.slots.remove(&pid) {
                self.doom(pid);
            }
            self.strays.remove(&pid);
            self.tell(&Report::Exit { pid, exit })?;
        }
        if collected || !self.strays.is_empty() {
            self.look_for_strays();
        }
        Ok(())
    }

    /// A child that is neither forkserver nor slot is one that a slot has left behind, or a new
    /// slot that is about to be named.
    fn look_for_strays(&mut self) {
        let now = Instant::now();
        let me = own_pid();
        let unnamed: BTreeSet<i32> = scan()
            .iter()
            .filter(|p| p.parent == me && !p.ended)
            .map(|p| p.pid)
            .filter(|pid| self.forkserver != Some(*pid) && !self.slots.contains(pid))
            .collect();
        self.strays.retain(|pid, _| unnamed.contains(pid));
        for pid in unnamed {
            let since = *self.strays.entry(pid).or_insert(now);
            if now.duration_since(since) > STRAY_AGE {
                self.doom(pid);
            }
        }
    }

    fn kill(&mut self) -> io::Result<()> {
        if self.dooms.is_empty() {
            return Ok(());
        }
        let processes = scan();
        let below = below(own_pid(), &processes);
        let spared: BTreeSet<i32> = processes
            .iter()
            .map(|p| p.pid)
            .filter(|pid| !below.contains(pid))
            .collect();
        let mut gone = Vec::new();
        self.dooms.retain_mut(|doom| {
            let Some(actions) = doom.step(&processes, &spared) else {
                gone.push(doom.root());
                return false;
            };
            actions.into_iter().for_each(act);
            true
        });
        if !gone.is_empty() {
            // What was seen as ended just now may not have been collected: exits are told first.
            self.collect()?;
        }
        for pid in gone {
            self.tell(&Report::Gone { pid })?;
        }
        Ok(())
    }

    fn end_everything(&mut self) {
        let deadline = Instant::now() + END_WAIT;
        loop {
            while matches!(next_exit(), Ok(Some(_))) {}
            let alive = below(own_pid(), &scan());
            if alive.is_empty() || Instant::now() > deadline {
                break;
            }
            alive.into_iter().map(Action::Kill).for_each(act);
            std::thread::sleep(KILL_PACE);
        }
        for folder in &self.scratch {
            // Nobody is left to tell if it can't be removed.
            let _ = std::fs::remove_dir_all(folder);
        }
    }

    fn tell(&self, report: &Report) -> io::Result<()> {
        send(&self.control, report, &[])
    }
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

fn next_exit() -> io::Result<Option<(i32, Exit)>> {
    match wait(WaitOptions::NOHANG) {
        Ok(Some((pid, status))) => Ok(Some((pid.as_raw_nonzero().get(), exit_of(status)))),
        Ok(None) | Err(Errno::CHILD) => Ok(None),
        Err(Errno::INTR) => next_exit(),
        Err(error) => Err(error.into()),
    }
}

fn exit_of(status: WaitStatus) -> Exit {
    match (status.terminating_signal(), status.exit_status()) {
        (Some(signal), _) => Exit::Signal(signal),
        (None, code) => Exit::Code(code.unwrap_or(-1)),
    }
}

fn act(action: Action) {
    let (pid, signal) = match action {
        Action::Stop(pid) => (pid, Signal::STOP),
        Action::Kill(pid) => (pid, Signal::KILL),
    };
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended since it was seen.
        let _ = kill_process(pid, signal);
    }
}

/// Every living process below `root`, `root` itself left out.
fn below(root: i32, processes: &[Process]) -> BTreeSet<i32> {
    let mut found = BTreeSet::from([root]);
    loop {
        let before = found.len();
        for process in processes {
            if !process.ended && found.contains(&process.parent) {
                found.insert(process.pid);
            }
        }
        if found.len() == before {
            found.remove(&root);
            return found;
        }
    }
}
