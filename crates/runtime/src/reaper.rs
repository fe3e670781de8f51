//! A plugin's reaper, seen from the runtime: started, asked, listened to.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use paddock_jail::channel::Inbox;
use paddock_jail::fence::{Part, Plan};
use paddock_jail::message::{Exit, Report, Request};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};

use crate::messages;
use crate::options::Reaper;

/// What stands of a fence, and the sockets that listen behind it.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) parts: Vec<Part>,
    pub(crate) listeners: Vec<OwnedFd>,
}

/// Exits kept for whoever asks late.
const UNCLAIMED: usize = 256;

/// How long the fence may take to stand.
const FENCE_WAIT: Duration = Duration::from_secs(20);

/// A request and the descriptors that go along.
type Outgoing = (Request, Vec<OwnedFd>);

/// Asks the reaper; cheap to clone. All requests go out in order.
#[derive(Debug, Clone)]
pub(crate) struct ReaperHandle {
    requests: mpsc::UnboundedSender<Outgoing>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<i32, oneshot::Sender<Exit>>,
    unclaimed: VecDeque<(i32, Exit)>,
    starting: VecDeque<oneshot::Sender<Result<i32, String>>>,
    fence: Option<oneshot::Sender<Result<Standing, String>>>,
    lost: bool,
}

/// The reaper's process. It ends by itself once its lifeline closes, and takes everything along.
#[derive(Debug)]
pub(crate) struct ReaperProcess {
    child: Child,
}

impl ReaperProcess {
    /// Starts a reaper. It waits for its fence before anything else.
    pub(crate) fn start(program: &Reaper) -> io::Result<(Self, ReaperHandle)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = Command::new(&program.program)
            .args(&program.args)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(false)
            .spawn()?;
        let socket = Arc::new(UnixStream::from_std(ours)?);
        let (requests, outgoing) = mpsc::unbounded_channel();
        let state = Arc::new(Mutex::new(State::default()));
        tokio::spawn(write(socket.clone(), outgoing));
        tokio::spawn(read(socket, state.clone()));
        Ok((Self { child }, ReaperHandle { requests, state }))
    }

    /// Its process id; `None` once it has ended.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until it has ended everything below it and itself; kills it after `patience`.
    pub(crate) async fn end(mut self, handle: &ReaperHandle, patience: Duration) {
        handle.ask(Request::End, Vec::new());
        if tokio::time::timeout(patience, self.child.wait())
            .await
            .is_err()
        {
            // It is gone already if this fails.
            let _ = self.child.kill().await;
        }
    }
}

impl ReaperHandle {
    /// Has the reaper go behind a fence; tells what stands of it.
    pub(crate) async fn fence(&self, plan: Option<Plan>) -> Result<Standing, String> {
        let (reply, answer) = oneshot::channel();
        self.lock().fence = Some(reply);
        self.ask(Request::Fence { plan }, Vec::new());
        match tokio::time::timeout(FENCE_WAIT, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("the reaper ended at once".to_owned()),
            Err(_) => Err(format!("no word after {} s", FENCE_WAIT.as_secs())),
        }
    }

    /// Starts a forkserver and gives its process id.
    pub(crate) async fn start_forkserver(
        &self,
        request: Request,
        fds: [OwnedFd; 3],
    ) -> Result<i32, String> {
        let (reply, answer) = oneshot::channel();
        self.lock().starting.push_back(reply);
        self.ask(request, fds.into());
        answer
            .await
            .unwrap_or_else(|_| Err("the reaper has ended".to_owned()))
    }

    /// Names a process as a slot, and tells of its end. The receiver fails if the reaper is lost.
    pub(crate) fn adopt(&self, pid: i32) -> oneshot::Receiver<Exit> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.lock();
            if let Some(at) = state.unclaimed.iter().position(|(p, _)| *p == pid) {
                if let Some((_, exit)) = state.unclaimed.remove(at) {
                    // The receiver is still in this function.
                    let _ = sender.send(exit);
                }
            } else if !state.lost {
                state.waiting.insert(pid, sender);
            }
        }
        self.ask(Request::Adopt { pid }, Vec::new());
        receiver
    }

    /// Has a process write the stacks of its threads.
    pub(crate) fn ask_stack(&self, pid: i32) {
        self.ask(Request::Stack { pid }, Vec::new());
    }

    /// Ends a process with all it started.
    pub(crate) fn kill(&self, pid: i32) {
        self.ask(Request::Kill { pid }, Vec::new());
    }

    /// True once the reaper is gone.
    pub(crate) fn lost(&self) -> bool {
        self.lock().lost
    }

    fn ask(&self, request: Request, fds: Vec<OwnedFd>) {
        // Without a reaper there is nobody to ask: whoever waits learns it from `lost`.
        let _ = self.requests.send((request, fds));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

async fn write(socket: Arc<UnixStream>, mut outgoing: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some((request, fds)) = outgoing.recv().await {
        let along: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        if messages::send(&socket, &request, &along).await.is_err() {
            return;
        }
    }
    // No handle is left: the lifeline may close. The reader holds the socket too, so say it.
    let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
}

async fn read(socket: Arc<UnixStream>, state: Arc<Mutex<State>>) {
    let mut inbox = Inbox::default();
    while let Ok(Some(report)) = messages::receive(&socket, &mut inbox).await {
        let mut state = state.lock().unwrap_or_else(|e| e.into_inner());
        match report {
            Report::Fenced { parts } => {
                let listeners = inbox.take_all_fds();
                answer_fence(&mut state, Ok(Standing { parts, listeners }));
            }
            Report::FenceFailed { message } => answer_fence(&mut state, Err(message)),
            Report::Started { pid } => answer_start(&mut state, Ok(pid)),
            Report::StartFailed { message } => answer_start(&mut state, Err(message)),
            Report::Exit { pid, exit } => match state.waiting.remove(&pid) {
                Some(waiting) => {
                    // A slot that nobody watches any more.
                    let _ = waiting.send(exit);
                }
                None => {
                    if state.unclaimed.len() == UNCLAIMED {
                        state.unclaimed.pop_front();
                    }
                    state.unclaimed.push_back((pid, exit));
                }
            },
            Report::Gone { .. } => {}
        }
    }
    let mut state = state.lock().unwrap_or_else(|e| e.into_inner());
    state.lost = true;
    state.waiting.clear();
    state.starting.clear();
    state.fence = None;
}

fn answer_fence(state: &mut State, outcome: Result<Standing, String>) {
    if let Some(waiting) = state.fence.take() {
        // The one who asked may have given up.
        let _ = waiting.send(outcome);
    }
}

fn answer_start(state: &mut State, outcome: Result<i32, String>) {
    if let Some(waiting) = state.starting.pop_front() {
        // The one who asked may have given up.
        let _ = waiting.send(outcome);
    }
}
