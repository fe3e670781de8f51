//! The reaper: parent of a plugin's forkserver and, as child subreaper, of all its slots and of
//! whatever they leave behind.
//!
//! Its standard input is its control socket and its lifeline: when that closes, for whatever
//! reason, everything below the reaper ends, and then the reaper. It is run by re-executing the
//! program that holds it, and must be the only thread of its process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, setsid, wait,
};

use crate::channel::{Inbox, send};
use crate::fence::{self, Bounds, Plan, Side};
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
    // A terminal's signals are for Paddock, which then ends this in order. The call fails for
    // a process that leads a group already, which is as good.
    let _ = setsid();
    let mut inbox = Inbox::default();
    let bounds = match first(&mut inbox).and_then(fenced) {
        Ok(Begun::Inside(bounds)) => bounds,
        Ok(Begun::Outside(code)) => return code,
        Err(error) => {
            let message = error.to_string();
            // Without somebody to tell there is nothing to do either.
            let _ = send(io::stdin(), &Report::FenceFailed { message }, &[]);
            return ExitCode::FAILURE;
        }
    };
    match Reaper::new(inbox, bounds).and_then(Reaper::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The first request: which fence to go behind.
fn first(inbox: &mut Inbox) -> io::Result<Option<Plan>> {
    let control = io::stdin();
    loop {
        let mut fds = [PollFd::new(&control, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match inbox.receive(&control) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        match inbox.next_message()? {
            Some(Request::Fence { plan }) => return Ok(plan),
            Some(_) => return Err(io::Error::other("the first request must be the fence")),
            None => {}
        }
    }
}

enum Begun {
    /// Here the work is done, by processes within these bounds.
    Inside(Option<Bounds>),
    /// The work is done and over.
    Outside(ExitCode),
}

/// Goes behind the fence, and tells what stands.
fn fenced(plan: Option<Plan>) -> io::Result<Begun> {
    let mut parts = Vec::new();
    let mut listeners = Vec::new();
    let mut bounds = None;
    if let Some(plan) = plan {
        let let_go = || {
            // The lifeline must have no end here, or it would never be seen to close.
            if let Ok(null) = File::open("/dev/null") {
                let _ = rustix::stdio::dup2_stdin(null);
            }
        };
        let standing = match fence::enter(&plan, let_go)? {
            Side::Inside(standing) => standing,
            Side::Outside(code) => return Ok(Begun::Outside(code)),
        };
        bounds = Some(Bounds::new(&plan, &standing)?);
        parts = standing.parts;
        listeners = standing.listeners;
    }
    let along: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    send(io::stdin(), &Report::Fenced { parts }, &along)?;
    Ok(Begun::Inside(bounds))
}

struct Reaper {
    control: OwnedFd,
    children: UnixStream,
    inbox: Inbox,
    bounds: Option<Arc<Bounds>>,
    forkserver: Option<i32>,
    slots: BTreeSet<i32>,
    strays: BTreeMap<i32, Instant>,
    dooms: Vec<Doom>,
    scratch: Vec<PathBuf>,
}

impl Reaper {
    fn new(inbox: Inbox, bounds: Option<Bounds>) -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let (children, signalled) = UnixStream::pair()?;
        children.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, signalled)?;
        Ok(Self {
            control: io::stdin().as_fd().try_clone_to_owned()?,
            children,
            inbox,
            bounds: bounds.map(Arc::new),
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
                Request::Stack { pid } => signal(pid, Signal::USR2),
                Request::Kill { pid } => self.doom(pid),
                // It is up already, and stays as it is.
                Request::Fence { .. } => {}
                Request::End => return Ok(false),
            }
        }
        Ok(true)
    }

    #[expect(unsafe_code, reason = "what a child does before its exec")]
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
        let kept = inherited.as_raw_fd();
        let number = kept.to_string();
        let bounds = self.bounds.clone();
        let mut command = Command::new(program);
        command
            .args(arguments.iter().map(|a| a.replace(FD_PLACEHOLDER, &number)))
            .env_clear()
            .envs(env)
            .current_dir(cwd)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr);
        let put_on = move || {
            close_others(kept)?;
            bounds.as_ref().map_or(Ok(()), |bounds| bounds.put_on())
        };
        // SAFETY: between fork and exec only system calls are made and nothing is allocated; this program
        // has one thread, so no lock is held by another.
        unsafe { command.pre_exec(put_on) };
        let child = command.spawn()?;
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

/// No descriptor but the standard ones and `kept` lives on over an exec, whoever has opened it.
#[expect(unsafe_code, reason = "no crate in the tree has this call")]
fn close_others(kept: RawFd) -> io::Result<()> {
    let mark = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: marks descriptors to be closed at exec; closes none that is in use now. A kernel without the
    // call leaves only those that were opened without the mark, of which this program has none.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, mark) };
    // SAFETY: takes numbers only.
    match unsafe { libc::fcntl(kept, libc::F_SETFD, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
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
    match action {
        Action::Stop(pid) => signal(pid, Signal::STOP),
        Action::Kill(pid) => signal(pid, Signal::KILL),
    }
}

fn signal(pid: i32, signal: Signal) {
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
