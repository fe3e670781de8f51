//! The keeper of a plugin: one task that owns its processes and decides how many there are.
//!
//! It is never on the way of a call. When its handle is gone, everything it keeps ends.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paddock_jail::message::Exit;
use paddock_types::{Fault, SubKind, Verdict};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::cpu::CpuWatch;
use crate::create;
use crate::forkserver::{Forkserver, ForkserverError, Loaded, Mode, Program};
use crate::judge::failure;
use crate::logs::{LogSink, Output};
use crate::reaper::{ReaperHandle, ReaperProcess};
use crate::scaling::{Instances, View, grow};
use crate::slot::{Command, Common, Event, Slot};

/// Between two looks while calls wait and slots may still be added.
const BUSY_TURN: Duration = Duration::from_millis(10);
/// The same when there is no room for another slot.
const FULL_TURN: Duration = Duration::from_millis(50);
/// The same while nobody waits.
const CALM_TURN: Duration = Duration::from_secs(1);
/// A call may have to wait this long before a slot is added for it: most find one before.
const PATIENCE: Duration = Duration::from_millis(3);
/// Failures to make a slot, one after the other, before the calls that wait are told.
const SLOT_FAILURES: u32 = 3;
/// How long slots may take to end when the plugin is closed.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// How long the reaper may take to end what is left then.
const REAPER_WAIT: Duration = Duration::from_secs(8);

/// How long the stack of an import that doesn't end is waited for.
const STACK_WAIT: Duration = Duration::from_millis(500);

/// What a plugin's processes are made of.
pub(crate) struct Recipe {
    pub(crate) plugin: Arc<str>,
    pub(crate) program: Program,
    pub(crate) content_format: &'static str,
    pub(crate) sink: LogSink,
}

/// A forkserver that has loaded the function, and the reaper above it.
pub(crate) struct Host {
    process: ReaperProcess,
    reaper: ReaperHandle,
    forkserver: Forkserver,
}

impl Host {
    /// Starts both. On failure nothing is left.
    pub(crate) async fn start(
        recipe: &Recipe,
        options: &crate::options::RuntimeOptions,
    ) -> Result<(Self, Loaded), Fault> {
        let (process, reaper) = ReaperProcess::start(&options.reaper).map_err(|error| {
            Fault::internal(format!("the reaper could not be started: {error}"))
        })?;
        match Self::load(recipe, options, &reaper).await {
            Ok((forkserver, loaded)) => {
                let host = Self {
                    process,
                    reaper,
                    forkserver,
                };
                Ok((host, loaded))
            }
            Err(fault) => {
                process.end(&reaper, REAPER_WAIT).await;
                Err(fault)
            }
        }
    }

    async fn load(
        recipe: &Recipe,
        options: &crate::options::RuntimeOptions,
        reaper: &ReaperHandle,
    ) -> Result<(Forkserver, Loaded), Fault> {
        let output = Output::new(
            recipe.sink.clone(),
            recipe.plugin.clone(),
            Arc::from(""),
            options.evidence_lines,
            options.log_bytes_per_call,
        );
        let fault = |error: &ForkserverError, lines: Vec<String>| {
            create::fault(error, &recipe.plugin, &recipe.program.function, lines)
        };
        let mut forkserver = Forkserver::start(reaper, &recipe.program, output)
            .await
            .map_err(|error| fault(&error, Vec::new()))?;
        match forkserver
            .load(&recipe.program, options.import_timeout)
            .await
        {
            Ok(loaded) => Ok((forkserver, loaded)),
            Err(error) => {
                if matches!(error, ForkserverError::Slow { .. }) {
                    ask_where(&forkserver).await;
                }
                let exit = match error {
                    ForkserverError::Ended(_) => end_of(&mut forkserver, reaper).await,
                    _ => None,
                };
                reaper.kill(forkserver.pid());
                let fault = fault(&error, forkserver.last_lines());
                Err(create::with_exit(fault, exit))
            }
        }
    }
}

/// How a forkserver ended that is gone, once all is heard that it had to say.
async fn end_of(forkserver: &mut Forkserver, reaper: &ReaperHandle) -> Option<Exit> {
    let exit = reaper.adopt(forkserver.pid());
    forkserver.hear_out(STACK_WAIT).await;
    tokio::time::timeout(STACK_WAIT, exit).await.ok()?.ok()
}

/// Has an import that doesn't end say where it is: `faulthandler` writes to its standard error.
async fn ask_where(forkserver: &Forkserver) {
    if let Some(pid) = Pid::from_raw(forkserver.pid()) {
        // It may have ended meanwhile: then its end is the evidence.
        let _ = kill_process(pid, Signal::USR2);
    }
    let until = Instant::now() + STACK_WAIT;
    let is_told = |lines: Vec<String>| lines.iter().any(|l| l.contains("most recent call first"));
    while !is_told(forkserver.last_lines()) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The rest of the stack comes with its first line, or right after.
    tokio::time::sleep(Duration::from_millis(20)).await;
}

struct Entry {
    commands: mpsc::UnboundedSender<Command>,
    instance: u32,
    capacity: u32,
    /// On the host; known once it is ready.
    host_pid: Option<i32>,
    ready: bool,
    leaving: bool,
}

/// To the keeper.
pub(crate) struct Close(pub(crate) oneshot::Sender<()>);

pub(crate) struct Keeper {
    recipe: Recipe,
    common: Common,
    host: Option<Host>,
    instances: Instances,
    slots: HashMap<u64, Entry>,
    next_slot: u64,
    events: mpsc::UnboundedReceiver<Event>,
    requests: mpsc::UnboundedReceiver<Close>,
    cpu: CpuWatch,
    cores: usize,
    scaled_in: Instant,
    failures: u32,
    slot_failures: u32,
    not_before: Instant,
}

impl Keeper {
    pub(crate) fn new(
        recipe: Recipe,
        common: Common,
        host: Host,
        instances: Instances,
        events: mpsc::UnboundedReceiver<Event>,
        requests: mpsc::UnboundedReceiver<Close>,
    ) -> Self {
        let now = Instant::now();
        Self {
            recipe,
            common,
            host: Some(host),
            instances,
            slots: HashMap::new(),
            next_slot: 1,
            events,
            requests,
            cpu: CpuWatch::default(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            scaled_in: now,
            failures: 0,
            slot_failures: 0,
            not_before: now,
        }
    }

    /// Starts the slots that are kept, and waits until they are ready.
    pub(crate) async fn warm_up(&mut self) -> Result<(), Fault> {
        for _ in 0..self.instances.min_slots() {
            self.add_slot().await?;
        }
        let mut problem = None;
        while self.slots.values().any(|s| !s.ready) {
            match self.events.recv().await {
                Some(Event::Ended(slot, reason)) => {
                    self.on_event(Event::Ended(slot, None));
                    problem = problem.or(reason);
                }
                Some(event) => self.on_event(event),
                None => break,
            }
        }
        match problem {
            Some(problem) => Err(self.slot_fault(&problem)),
            None => Ok(()),
        }
    }

    /// Keeps the plugin until it is closed or nobody holds it any more.
    pub(crate) async fn run(mut self) {
        let done = loop {
            let turn = async {
                let mut requests =
                    std::mem::replace(&mut self.requests, mpsc::unbounded_channel().1);
                let request = tokio::select! {
                    biased;
                    request = requests.recv() => Some(request),
                    () = self.turn() => None,
                };
                self.requests = requests;
                request
            };
            if let Some(request) = turn.await {
                break request;
            }
        };
        self.close().await;
        if let Some(Close(done)) = done {
            // The one who asked may have given up.
            let _ = done.send(());
        }
    }

    async fn turn(&mut self) {
        self.common.pool.expire(Instant::now());
        self.scale_out().await;
        self.scale_in();
        self.common.pool.kick();
        let waits = self.common.pool.queued() > 0;
        let pause = match (waits, self.has_room()) {
            (true, true) => BUSY_TURN,
            (true, false) => FULL_TURN,
            (false, _) => CALM_TURN,
        };
        tokio::select! {
            Some(event) = self.events.recv() => self.on_event(event),
            () = self.common.pool.keeper.notified(), if !waits => {
                tokio::time::sleep(PATIENCE).await;
            }
            () = tokio::time::sleep(pause) => {}
        }
        while let Ok(event) = self.events.try_recv() {
            self.on_event(event);
        }
    }

    fn has_room(&self) -> bool {
        self.instances.clone().place().is_some()
    }

    async fn scale_out(&mut self) {
        let now = Instant::now();
        if now < self.not_before {
            return;
        }
        let wanted = grow(self.view(now));
        for _ in 0..wanted {
            if !self.has_room() {
                return;
            }
            if let Err(fault) = self.add_slot().await {
                self.failures += 1;
                let wait = Duration::from_millis(100) * 2u32.pow(self.failures.min(7));
                self.not_before = Instant::now() + wait;
                tracing::warn!(plugin = %self.recipe.plugin, "{fault}");
                if self.slots.values().all(|s| s.leaving) {
                    self.common.pool.fail_all(&create_verdict(&fault));
                }
                return;
            }
        }
    }

    fn view(&mut self, now: Instant) -> View {
        let queued = self.common.pool.queued_for(PATIENCE, now);
        let present = || self.slots.values().filter(|s| !s.leaving);
        let slots = present().count();
        let coming = present()
            .filter(|s| !s.ready)
            .map(|s| s.capacity as usize)
            .sum();
        let starved = queued > 0
            && self.common.mode == Mode::Process
            && slots >= 2 * self.cores
            && self.cpu.starved(present().filter_map(|s| s.host_pid), now);
        View {
            queued,
            coming,
            slots,
            min_slots: self.instances.min_slots(),
            capacity: self.instances.slot_capacity() as usize,
            starved,
            cores: self.cores,
        }
    }

    /// Gives up half of the slots that nobody has needed for a while.
    fn scale_in(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.scaled_in) < self.common.options.scale_in_after {
            return;
        }
        self.scaled_in = now;
        let idle = self.common.pool.idle_since_asked();
        let present = self.slots.values().filter(|s| !s.leaving).count();
        let spare = present.saturating_sub(self.instances.min_slots());
        for _ in 0..idle.div_ceil(2).min(spare) {
            if let Some(slot) = self.common.pool.coldest()
                && let Some(entry) = self.slots.get(&slot)
            {
                // One that has ended meanwhile needs no word.
                let _ = entry.commands.send(Command::Retire);
            }
        }
    }

    /// Forks a slot, with a new forkserver if the one there is has failed.
    async fn add_slot(&mut self) -> Result<(), Fault> {
        let Some((instance, capacity)) = self.instances.place() else {
            return Ok(());
        };
        let outcome = match self.fork(instance, capacity).await {
            Ok(()) => return Ok(()),
            Err(error) => {
                tracing::debug!(plugin = %self.recipe.plugin, %error, "the forkserver is replaced");
                match self.replace_host().await {
                    Ok(()) => self.fork(instance, capacity).await,
                    Err(fault) => {
                        self.instances.release(instance, capacity);
                        return Err(fault);
                    }
                }
            }
        };
        outcome.map_err(|error| {
            self.instances.release(instance, capacity);
            let lines = self.host.as_ref().map(|h| h.forkserver.last_lines());
            create::fault(
                &error,
                &self.recipe.plugin,
                &self.recipe.program.function,
                lines.unwrap_or_default(),
            )
        })
    }

    async fn fork(&mut self, instance: u32, capacity: u32) -> Result<(), ForkserverError> {
        let id = self.next_slot;
        self.next_slot += 1;
        let host = self.host.as_mut().filter(|h| !h.reaper.lost());
        let host = host.ok_or(ForkserverError::Ended("was to fork a slot"))?;
        let ends = host
            .forkserver
            .fork(
                id,
                self.common.mode,
                capacity,
                self.recipe.content_format,
                self.common.options.frame_limit,
            )
            .await?;
        let name: Arc<str> = format!("{}-{instance}", self.recipe.plugin).into();
        let output = Output::new(
            self.recipe.sink.clone(),
            self.recipe.plugin.clone(),
            name.clone(),
            0,
            0,
        );
        let reaper = host.reaper.clone();
        let common = self.common.clone();
        let (slot, commands) = Slot::new(id, ends, capacity, output, name, common, reaper);
        tokio::spawn(slot.run());
        let entry = Entry {
            commands,
            instance,
            capacity,
            host_pid: None,
            ready: false,
            leaving: false,
        };
        self.slots.insert(id, entry);
        self.failures = 0;
        Ok(())
    }

    /// Starts the forkserver anew; with a new reaper if that is gone.
    async fn replace_host(&mut self) -> Result<(), Fault> {
        let options = self.common.options.clone();
        match self.host.as_mut().filter(|h| !h.reaper.lost()) {
            Some(host) => {
                host.reaper.kill(host.forkserver.pid());
                let (forkserver, _) = Host::load(&self.recipe, &options, &host.reaper).await?;
                host.forkserver = forkserver;
            }
            None => {
                self.host = None;
                // A reaper that was killed has not removed the folder that plugins write to, or
                // has, if it ended in order: either way it is there again.
                let scratch = self.recipe.program.scratch.clone();
                create::scratch_at(&scratch)
                    .map_err(|error| Fault::internal(format!("no scratch folder: {error}")))?;
                let (host, _) = Host::start(&self.recipe, &options).await?;
                self.host = Some(host);
            }
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Ready(slot, pid) => {
                self.slot_failures = 0;
                if let Some(entry) = self.slots.get_mut(&slot) {
                    entry.ready = true;
                    entry.host_pid = pid;
                }
            }
            Event::Leaving(slot) => {
                if let Some(entry) = self.slots.get_mut(&slot)
                    && !std::mem::replace(&mut entry.leaving, true)
                {
                    self.instances.release(entry.instance, entry.capacity);
                }
            }
            Event::Ended(slot, problem) => {
                if let Some(entry) = self.slots.remove(&slot)
                    && !entry.leaving
                {
                    self.instances.release(entry.instance, entry.capacity);
                }
                if let Some(problem) = problem {
                    self.on_slot_failure(&problem);
                }
            }
        }
    }

    fn on_slot_failure(&mut self, problem: &str) {
        self.slot_failures += 1;
        let wait = Duration::from_millis(50) * 2u32.pow(self.slot_failures.min(7));
        self.not_before = Instant::now() + wait;
        tracing::warn!(plugin = %self.recipe.plugin, "a slot could not be made: {problem}");
        if self.slot_failures >= SLOT_FAILURES && self.slots.values().all(|s| s.leaving) {
            let fault = self.slot_fault(problem);
            self.common.pool.fail_all(&create_verdict(&fault));
        }
    }

    fn slot_fault(&self, problem: &str) -> Fault {
        let lines = self.host.as_ref().map(|h| h.forkserver.last_lines());
        create::slot_fault(problem, &self.recipe.plugin, lines.unwrap_or_default())
    }

    /// Ends everything; nothing is left behind.
    pub(crate) async fn close(&mut self) {
        self.common.pool.close();
        for entry in self.slots.values() {
            // One that has ended needs no word.
            let _ = entry.commands.send(Command::Stop);
        }
        let deadline = tokio::time::Instant::now() + CLOSE_WAIT;
        while !self.slots.is_empty() {
            match tokio::time::timeout_at(deadline, self.events.recv()).await {
                Ok(Some(event)) => self.on_event(event),
                _ => break,
            }
        }
        if let Some(host) = self.host.take() {
            drop(host.forkserver);
            host.process.end(&host.reaper, REAPER_WAIT).await;
        }
        remove(self.recipe.program.scratch.clone()).await;
    }
}

async fn remove(folder: PathBuf) {
    // The reaper has removed it if it ended in order.
    let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
}

fn create_verdict(fault: &Fault) -> Verdict {
    let mut verdict = failure(SubKind::Create, fault.message.clone());
    verdict.evidence = fault.evidence.clone();
    if let Some(Value::String(traceback)) = fault.evidence.get("traceback") {
        verdict.error.clone_from(traceback);
    }
    verdict
}
