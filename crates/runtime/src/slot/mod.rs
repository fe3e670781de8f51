//! One slot process, from its first word to its end.
//!
//! One task owns all of it: sockets, pipes, the calls in it and their deadlines. It takes calls
//! from the pool by itself, and gives exactly one verdict for each. It never waits for the process:
//! whatever the plugin does, its timer goes on.

pub(crate) mod ending;
mod leave;
pub(crate) mod running;
mod serve;
pub(crate) mod streams;

use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paddock_jail::message::Exit;
use paddock_types::plugin::PluginKind;
use paddock_wire::{Decoder, Kind, Outbox};
use rustix::process::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Sleep;

use self::ending::Cause;
use self::running::{Phase, Running};
use self::streams::{Lister, Stream, drain_socket, ready};
use crate::credentials;
use crate::forkserver::{Mode, SlotEnds};
use crate::judge::uncharged;
use crate::logs::Output;
use crate::memory::SlotMemory;
use crate::options::RuntimeOptions;
use crate::pool::{Pool, Waiting};
use crate::reaper::ReaperHandle;

/// How long an idle slot may take to exit when it is asked to.
const DRAIN_WAIT: Duration = Duration::from_millis(500);
/// How long an abandoned call may take to end before its process takes no more calls.
const ABANDON_GRACE: Duration = Duration::from_secs(2);
/// Before the wait for evidence is over, `faulthandler` has this long.
const NATIVE_WAIT: Duration = Duration::from_millis(60);
/// Quiet for this long, a stack pipe has said everything.
const STACK_QUIET: Duration = Duration::from_millis(15);
/// Stacks and log lines have their own bounds: a small limit for calls must not refuse them.
const CONTROL_LIMIT: usize = 4 << 20;
/// Bytes of native stacks kept.
const STACK_LIMIT: usize = 256 << 10;

/// To a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Nobody waits for this attempt any more.
    Abandon(u64, u32),
    /// Take no more calls, and end.
    Retire,
    /// End at once.
    Stop,
    /// Its instance has more memory than it may, and this slot most of it.
    OverMemory,
}

/// From a slot to its keeper.
#[derive(Debug)]
pub(crate) enum Event {
    /// It takes calls; with its process id on the host.
    Ready(u64, Option<i32>),
    /// It takes no more calls.
    Leaving(u64),
    /// It is gone. With a reason if it never took calls.
    Ended(u64, Option<String>),
}

/// What all slots of a plugin share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) pool: Arc<Pool>,
    pub(crate) kind: PluginKind,
    pub(crate) mode: Mode,
    pub(crate) timeout: Duration,
    pub(crate) options: Arc<RuntimeOptions>,
    pub(crate) events: mpsc::UnboundedSender<Event>,
}

#[derive(Debug, PartialEq)]
enum State {
    /// Takes calls.
    Serving,
    /// Takes no more; ends when those it has are done.
    Retiring,
    /// Asked to exit; killed if it hasn't by then.
    Draining { until: Instant },
    /// Ends, by itself or killed; given up if it hasn't by then.
    Ending { cause: Cause, until: Instant },
}

pub(crate) struct Slot {
    id: u64,
    /// As the reaper knows it.
    pid: i32,
    /// As the host knows it: what the host looks at or signals. Known with the slot's first word.
    host_pid: Option<Pid>,
    capacity: usize,
    instance: Arc<str>,
    common: Common,
    reaper: ReaperHandle,
    exit: oneshot::Receiver<Exit>,
    exited: Option<Exit>,
    exit_known: bool,
    killed: bool,
    data: OwnedReadHalf,
    data_out: OwnedWriteHalf,
    data_open: bool,
    decoder: Decoder,
    outbox: Outbox,
    control: OwnedReadHalf,
    control_to: OwnedWriteHalf,
    control_open: bool,
    control_decoder: Decoder,
    control_out: Outbox,
    stdout: Stream,
    stderr: Stream,
    stack: Stream,
    native_stack: Vec<u8>,
    native_stack_at: Option<Instant>,
    lister: Lister,
    memory: SlotMemory,
    calls: Vec<Running>,
    taken: Vec<Waiting>,
    served: u64,
    state: State,
    wake: Arc<Notify>,
    commands: mpsc::UnboundedReceiver<Command>,
    own: mpsc::WeakUnboundedSender<Command>,
    timer: Pin<Box<Sleep>>,
    armed: Option<Instant>,
}

impl Slot {
    /// Takes over a forked slot.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a slot is made of, from one caller"
    )]
    pub(crate) fn new(
        id: u64,
        ends: SlotEnds,
        capacity: u32,
        output: Output,
        instance: Arc<str>,
        common: Common,
        reaper: ReaperHandle,
        mut memory: SlotMemory,
    ) -> (Self, mpsc::UnboundedSender<Command>) {
        let (own, commands) = mpsc::unbounded_channel();
        memory.tell(own.downgrade());
        let options = &common.options;
        let limit = options.frame_limit;
        let (data, data_out) = ends.data.into_split();
        let (control, control_to) = ends.control.into_split();
        let slot = Self {
            id,
            pid: ends.pid,
            host_pid: None,
            capacity: capacity as usize,
            instance,
            exit: reaper.adopt(ends.pid),
            reaper,
            exited: None,
            exit_known: false,
            killed: false,
            data,
            data_out,
            data_open: true,
            decoder: Decoder::new(limit),
            outbox: Outbox::new(limit),
            control,
            control_to,
            control_open: true,
            control_decoder: Decoder::new(limit.max(CONTROL_LIMIT)),
            control_out: Outbox::new(limit.max(CONTROL_LIMIT)),
            stdout: Stream::new(ends.stdout, "stdout"),
            stderr: Stream::new(ends.stderr, "stderr"),
            stack: Stream::new(ends.stack, "stack"),
            native_stack: Vec::new(),
            native_stack_at: None,
            lister: Lister::new(output, options.log_bytes_per_call, options.evidence_lines),
            memory,
            calls: Vec::new(),
            taken: Vec::new(),
            served: 0,
            state: State::Serving,
            wake: Arc::default(),
            commands,
            own: own.downgrade(),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            armed: None,
            common,
        };
        (slot, own)
    }

    /// Serves calls until the process is gone.
    pub(crate) async fn run(mut self) {
        let problem = match self.hello().await {
            Ok(()) => {
                // Listed before it is told: whoever calls now finds it.
                self.take_calls();
                let pid = self.host_pid.map(|pid| pid.as_raw_nonzero().get());
                self.tell(Event::Ready(self.id, pid));
                self.serve().await;
                None
            }
            Err(problem) => Some(match self.memory.oom() {
                Some(oom) => format!("{problem}: {}", oom.words()),
                None => problem,
            }),
        };
        self.finish();
        self.memory.end().await;
        let (events, ended) = (self.common.events.clone(), Event::Ended(self.id, problem));
        // The instance's memory is given back before anybody hears of the end.
        drop(self);
        // The keeper outlives its slots except at the end of the program.
        let _ = events.send(ended);
    }

    /// Waits for the slot's first word.
    async fn hello(&mut self) -> Result<(), String> {
        let limit = self.common.options.slot_timeout;
        let first = async {
            loop {
                if let Some(frame) = self.decoder.next_frame().map_err(|e| e.to_string())? {
                    return Ok::<_, String>(frame);
                }
                let heard = credentials::receive(self.data.as_ref(), self.decoder.buffer()).await;
                match heard {
                    Ok((1.., sender)) => self.host_pid = sender.or(self.host_pid),
                    _ => return Err("it ended before it was ready".to_owned()),
                }
            }
        };
        let frame = tokio::time::timeout(limit, first)
            .await
            .map_err(|_| format!("it was not ready after {} s", limit.as_secs()))??;
        let hello: paddock_wire::Hello = match frame.kind {
            Kind::Hello => serde_json::from_slice(&frame.body).map_err(|e| e.to_string())?,
            other => return Err(format!("its first frame was {other:?}, not a HELLO")),
        };
        if hello.version != paddock_wire::VERSION {
            return Err(format!(
                "it speaks wire version {}, not {}",
                hello.version,
                paddock_wire::VERSION
            ));
        }
        match self.host_pid {
            // Before it takes calls.
            Some(pid) => self.memory.enter(pid.as_raw_nonzero().get()).await,
            None => return Err("the system doesn't tell which process it is".to_owned()),
        }
        credentials::enough(self.data.as_ref());
        Ok(())
    }

    async fn serve(&mut self) {
        loop {
            if self.state == State::Serving {
                self.take_calls();
            }
            self.flush();
            self.memory.busy(!self.calls.is_empty());
            if self.is_over() {
                return;
            }
            self.arm();
            tokio::select! {
                biased;
                read = self.data.read_buf(self.decoder.buffer()), if self.data_open => {
                    self.data_open = matches!(read, Ok(1..));
                    self.read_frames();
                }
                exit = &mut self.exit, if !self.exit_known => self.on_exit(exit.ok()),
                Some(command) = self.commands.recv() => self.on_command(command),
                () = self.wake.notified(), if self.state == State::Serving => {}
                _ = self.data_out.writable(), if self.data_open && !self.outbox.is_empty() => {}
                _ = self.control_to.writable(), if self.control_open && !self.control_out.is_empty() => {}
                read = self.control.read_buf(self.control_decoder.buffer()), if self.control_open => {
                    self.control_open = matches!(read, Ok(1..));
                    self.read_control();
                }
                () = self.stdout.readable() => {
                    let owner = owner(self.common.mode, &mut self.calls);
                    self.lister.read(&mut self.stdout, owner);
                }
                () = self.stderr.readable() => {
                    let owner = owner(self.common.mode, &mut self.calls);
                    self.lister.read(&mut self.stderr, owner);
                }
                () = self.stack.readable() => self.read_stack(),
                () = &mut self.timer, if self.armed.is_some() => {
                    self.armed = None;
                    self.tick();
                }
            }
        }
    }

    /// True once nothing more is to be learnt from the process.
    fn is_over(&self) -> bool {
        match self.state {
            State::Ending { until, .. } => self.exit_known || Instant::now() >= until,
            _ => false,
        }
    }

    fn on_exit(&mut self, exit: Option<Exit>) {
        self.exit_known = true;
        self.exited = exit;
        // Answers that were written before the end still count.
        drain_socket(self.data.as_ref(), &mut self.decoder);
        self.read_frames();
        let cause = match (exit.is_some(), &self.state) {
            (_, State::Ending { .. }) => return,
            (false, _) => Cause::Lost,
            (true, _) if self.calls.is_empty() => Cause::Retired,
            (true, _) => self.cause_of_death(),
        };
        self.leave(cause);
    }

    /// Why a process is gone that nobody has killed: past a deadline, that was it.
    fn cause_of_death(&self) -> Cause {
        let late = |c: &&Running| c.phase != Phase::Runs && !c.abandoned;
        match self.calls.iter().find(late).map(Running::key) {
            Some(overdue) => Cause::Overdue {
                overdue,
                guilty: (self.calls.len() == 1).then_some(overdue),
            },
            None => Cause::Died,
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Abandon(call, attempt) => self.abandon((call, attempt)),
            Command::Retire => self.retire(),
            Command::Stop => {
                if self.calls.is_empty() {
                    self.drain();
                } else {
                    self.kill(Cause::Stopped);
                }
            }
            Command::OverMemory => self.end_if_out_of_memory(),
        }
    }

    /// Nobody waits for this attempt: make the place free without harming the others.
    fn abandon(&mut self, key: (u64, u32)) {
        let Some(running) = self.calls.iter_mut().find(|c| c.key() == key) else {
            return;
        };
        running.abandoned = true;
        if self.common.mode == Mode::Process {
            self.kill(Cause::Stopped);
            return;
        }
        running.phase = Phase::Cancelled {
            until: Instant::now() + ABANDON_GRACE,
        };
        self.say(Kind::Cancel, key);
    }

    /// Reads everything that has been printed and logged up to now.
    fn hear_out(&mut self) {
        let [control, stdout, stderr] = ready([
            self.control_open.then(|| self.control.as_ref().as_fd()),
            self.stdout.pipe.as_ref().map(|p| p.as_fd()),
            self.stderr.pipe.as_ref().map(|p| p.as_fd()),
        ]);
        if control {
            drain_socket(self.control.as_ref(), &mut self.control_decoder);
            self.read_control();
        }
        if stdout {
            let owner = owner(self.common.mode, &mut self.calls);
            self.lister.drain(&mut self.stdout, owner);
        }
        if stderr {
            let owner = owner(self.common.mode, &mut self.calls);
            self.lister.drain(&mut self.stderr, owner);
        }
    }

    fn say_what_was_cut(&mut self, running: &mut Running) {
        if let Some(text) = running.log.cut() {
            self.lister.note(running.key(), text);
        }
    }

    /// Sends a frame without a body on the control socket.
    fn say(&mut self, kind: Kind, key: (u64, u32)) {
        // An empty body is never over the limit.
        let _ = self
            .control_out
            .push(kind, key.0, key.1, bytes::Bytes::new());
        self.flush();
    }

    fn flush(&mut self) {
        if self.data_open
            && !self.outbox.is_empty()
            && self
                .outbox
                .flush(|slices| self.data_out.try_write_vectored(slices))
                .is_err()
        {
            // Whatever it still has to say is read until its end.
            self.outbox = Outbox::new(self.common.options.frame_limit);
        }
        if self.control_open
            && !self.control_out.is_empty()
            && self
                .control_out
                .flush(|slices| self.control_to.try_write_vectored(slices))
                .is_err()
        {
            self.control_open = false;
        }
    }

    /// Sets the timer to whatever is due next.
    fn arm(&mut self) {
        let next = match &self.state {
            State::Draining { until } | State::Ending { until, .. } => Some(*until),
            // Set early enough for every call already: later ones are due later, and looked at when
            // it goes off.
            _ if self.armed.is_some() => return,
            _ => {
                let now = Instant::now();
                let timeout = self.common.timeout;
                let looks = self.calls.iter().map(|c| c.next_look(now, timeout));
                looks.min().map(|at| at.min(self.memory.next_look(now)))
            }
        };
        if next != self.armed {
            if let Some(next) = next {
                self.timer.as_mut().reset(next.into());
            }
            self.armed = next;
        }
    }

    /// Makes the timer look again at everything.
    fn rearm(&mut self) {
        self.armed = None;
    }

    fn tell(&self, event: Event) {
        // The keeper outlives its slots except at the end of the program.
        let _ = self.common.events.send(event);
    }

    /// Calls that were taken and can't be served: given back as not their own fault.
    fn give_back(waiting: Waiting, message: &str) {
        // The one who asked may have given up.
        let _ = waiting.reply.send(uncharged(message));
    }
}

/// Whose output this is: in a process of one call, that call's.
fn owner(mode: Mode, calls: &mut [Running]) -> Option<&mut Running> {
    match (mode, calls) {
        (Mode::Process, [only]) => Some(only),
        _ => None,
    }
}
