//! The keeper of a plugin: one task that owns its processes and decides how many there are.
//!
//! It is never on the way of a call. When its handle is gone, everything it keeps ends.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paddock_types::{Fault, FaultKind, SubKind, Verdict};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::cpu::CpuWatch;
use crate::create;
use crate::forkserver::{ForkserverError, Mode};
use crate::host::{Host, Recipe};
use crate::judge::{failure, uncharged};
use crate::logs::Output;
use crate::memory::{InstanceMemory, Shortage};
use crate::scaling::{Instances, View, grow};
use crate::slot::{Command, Common, Event, Slot};

/// Between two looks while calls wait and slots may still be added.
const BUSY_TURN: Duration = Duration::from_millis(10);
/// The same when there is no room for another slot.
const FULL_TURN: Duration = Duration::from_millis(50);
/// The same while nobody waits.
const CALM_TURN: Duration = Duration::from_secs(1);
/// The same when another instance has no memory.
const SHORT_TURN: Duration = Duration::from_millis(100);
/// A call may have to wait this long before a slot is added for it: most find one before.
const PATIENCE: Duration = Duration::from_millis(3);
/// Failures to make a slot, one after the other, before the calls that wait are told.
const SLOT_FAILURES: u32 = 3;
/// How long slots may take to end when the plugin is closed.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Room for a slot.
struct Place {
    number: u32,
    capacity: u32,
    memory: Arc<InstanceMemory>,
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

/// What came of the wish for another slot.
enum Added {
    Slot,
    /// All instances are full.
    Full,
    /// Another instance has no memory.
    Short(Shortage),
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
        mut instances: Instances,
        events: mpsc::UnboundedReceiver<Event>,
        requests: mpsc::UnboundedReceiver<Close>,
    ) -> Self {
        let now = Instant::now();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if let Some(each) = recipe.memory.core_limit() {
            instances.spread(each, cores as u32);
        }
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
            cores,
            scaled_in: now,
            failures: 0,
            slot_failures: 0,
            not_before: now,
        }
    }

    /// Starts the slots that are kept, and waits until they are ready.
    pub(crate) async fn warm_up(&mut self) -> Result<(), Fault> {
        for _ in 0..self.instances.min_slots() {
            if let Added::Short(shortage) = self.add_slot(true).await? {
                return Err(create::quota_fault(&shortage, &self.recipe.plugin));
            }
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
        self.instances.at_most(self.recipe.memory.slots_that_fit());
        let wanted = grow(self.view(now));
        for _ in 0..wanted {
            if !self.has_room() {
                return;
            }
            let fault = match self.add_slot(false).await {
                Ok(Added::Slot) => continue,
                Ok(Added::Full) => return,
                Ok(Added::Short(shortage)) => {
                    self.on_shortage(&shortage);
                    return;
                }
                Err(fault) => fault,
            };
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

    /// No more instances for now. Calls wait for the slots there are, or for others to give up theirs, unless there
    /// can never be enough.
    fn on_shortage(&mut self, shortage: &Shortage) {
        self.not_before = Instant::now() + SHORT_TURN;
        tracing::debug!(plugin = %self.recipe.plugin, "no more instances: {shortage}");
        if shortage.is_for_good() && self.slots.values().all(|s| s.leaving) {
            let fault = create::quota_fault(shortage, &self.recipe.plugin);
            self.common.pool.fail_all(&create_verdict(&fault));
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
        let many = 2 * self.cores;
        let starved = queued > 0
            && self.common.mode == Mode::Process
            && slots >= many
            && (self.cpu.starved(present().filter_map(|s| s.host_pid), now)
                || self.recipe.memory.core_limit().is_some()
                    && (present().filter(|s| s.ready).count() < many
                        || self.cpu.capped(self.recipe.memory.throttled(), now)
                            && self.instances.have_all_cores()));
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

    /// Room for a slot in an instance whose memory is admitted. One that is to be kept gets an instance of its own.
    fn place(&mut self, kept: bool) -> Result<Option<Place>, Shortage> {
        let Some((number, capacity)) = self.instances.place() else {
            return Ok(None);
        };
        let shortage = match self.recipe.memory.instance(number) {
            Ok(memory) => {
                return Ok(Some(Place {
                    number,
                    capacity,
                    memory,
                }));
            }
            Err(shortage) => shortage,
        };
        self.instances.release(number, capacity);
        if !kept && let Some((number, capacity)) = self.instances.place_among_used() {
            if let Ok(memory) = self.recipe.memory.instance(number) {
                return Ok(Some(Place {
                    number,
                    capacity,
                    memory,
                }));
            }
            self.instances.release(number, capacity);
        }
        Err(shortage)
    }

    /// Forks a slot, with a new forkserver if the one there is has failed.
    async fn add_slot(&mut self, kept: bool) -> Result<Added, Fault> {
        let place = match self.place(kept) {
            Ok(Some(place)) => place,
            Ok(None) => return Ok(Added::Full),
            Err(shortage) => return Ok(Added::Short(shortage)),
        };
        let (instance, capacity) = (place.number, place.capacity);
        let outcome = match self.fork(&place).await {
            Ok(()) => return Ok(Added::Slot),
            Err(error) => {
                tracing::debug!(plugin = %self.recipe.plugin, %error, "the forkserver is replaced");
                match self.replace_host().await {
                    Ok(()) => self.fork(&place).await,
                    Err(fault) => {
                        self.instances.release(instance, capacity);
                        return Err(fault);
                    }
                }
            }
        };
        outcome.map(|()| Added::Slot).map_err(|error| {
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

    async fn fork(&mut self, place: &Place) -> Result<(), ForkserverError> {
        let (instance, capacity) = (place.number, place.capacity);
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
        let mut memory = self.recipe.memory.slot(place.memory.clone(), id);
        // As soon as it can be: what it uses from now on is its own. Where it isn't found, it is put there with its
        // first word.
        if let Some(pid) = self.recipe.memory.host_pid(ends.pid) {
            memory.begin_to_enter(pid);
        }
        let (slot, commands) = Slot::new(id, ends, capacity, output, name, common, reaper, memory);
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
                if let Some(host) = self.host.take() {
                    // Its folder goes with it: only then it may be made again.
                    host.end().await;
                }
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
            host.end().await;
        }
        self.recipe.memory.close().await;
        remove(self.recipe.program.scratch.clone()).await;
    }
}

async fn remove(folder: PathBuf) {
    // The reaper has removed it if it ended in order.
    let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
}

fn create_verdict(fault: &Fault) -> Verdict {
    if fault.kind == FaultKind::Internal {
        return uncharged(&fault.message);
    }
    let mut verdict = failure(SubKind::Create, fault.message.clone());
    verdict.evidence = fault.evidence.clone();
    if let Some(Value::String(traceback)) = fault.evidence.get("traceback") {
        verdict.error.clone_from(traceback);
    }
    verdict
}
