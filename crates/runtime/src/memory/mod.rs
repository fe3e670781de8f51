//! What a plugin's processes may use, and the account of it.
//!
//! Where the host gives control groups, each plugin has a group: `base` in it holds the reaper and the forkserver, one
//! for each instance has that instance's limits, and in that each slot has a leaf, so that one knows whose process was
//! killed. Where it gives none, what slots have resident is looked at every 50 ms (`poll`). Either way the memory of an
//! instance is admitted first (`quota`).

mod need;
pub(crate) mod oom;
mod poll;
pub(crate) mod proc;
mod quota;
pub(crate) mod shown;
mod slot;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use paddock_jail::cgroup::{Account, Group, Host};
use paddock_jail::process;
use paddock_types::plugin::InstanceSize;

use self::need::Need;
use self::poll::Watched;
use self::quota::Grant;
use crate::options::RuntimeOptions;

pub use quota::Quota;
pub(crate) use quota::Shortage;
pub(crate) use slot::SlotMemory;

/// How long the last processes of a plugin may take to leave its group.
const END_WAIT: Duration = Duration::from_secs(5);
/// The same where nobody can wait for it.
const DROP_WAIT: Duration = Duration::from_millis(500);

/// The memory of a plugin.
#[derive(Debug)]
pub(crate) struct PluginMemory {
    plugin: Arc<str>,
    quota: Quota,
    /// Processes and threads of a slot.
    pids: u32,
    /// In place of the size's own.
    forced: Option<u64>,
    size: OnceLock<InstanceSize>,
    tree: Mutex<Option<Arc<Tree>>>,
    instances: Mutex<BTreeMap<u32, Weak<InstanceMemory>>>,
    need: Arc<Need>,
    made: AtomicU64,
    polled: AtomicBool,
}

/// A plugin's groups. The inner one is removed first.
#[derive(Debug)]
struct Tree {
    base: Group,
    account: Account,
    top: Group,
    /// True if cores can be limited.
    caps_cores: bool,
}

/// The memory of an instance, held by its slots.
#[derive(Debug)]
pub(crate) struct InstanceMemory {
    limit: u64,
    pids: u32,
    group: Option<(Account, Group)>,
    /// Slots with calls.
    busy: AtomicUsize,
    need: Arc<Need>,
    /// Slots that are looked at by polling.
    watched: Mutex<Vec<Weak<Watched>>>,
    _grant: Grant,
}

impl PluginMemory {
    /// Makes the plugin's group, where there are any. `size` is what the job says; what the decorator says is known
    /// once the plugin is loaded ([`Self::sized`]).
    pub(crate) fn new(
        plugin: &str,
        options: &RuntimeOptions,
        size: Option<InstanceSize>,
    ) -> Arc<Self> {
        let tree = match host().filter(|_| !options.poll_memory) {
            Some(host) => Tree::make(host).map_err(|error| {
                tracing::warn!(
                    plugin,
                    "no control group can be made, memory is polled: {error}"
                );
            }),
            None => Err(()),
        };
        let memory = Self {
            plugin: plugin.into(),
            quota: options.quota.clone(),
            pids: options.pids_per_slot,
            forced: options.instance_memory,
            size: OnceLock::new(),
            tree: Mutex::new(tree.ok().map(Arc::new)),
            instances: Mutex::default(),
            need: Arc::default(),
            made: AtomicU64::new(0),
            polled: AtomicBool::new(false),
        };
        // An import may use what an instance may; where that isn't known yet, what there is.
        let known = memory.forced.or(size.map(InstanceSize::bytes));
        memory.limit_base(known.unwrap_or(options.quota.total()));
        Arc::new(memory)
    }

    /// From now on the instances have this size.
    pub(crate) fn sized(&self, size: InstanceSize) {
        if self.size.set(size).is_ok() {
            self.limit_base(self.bytes());
        }
    }

    fn limit_base(&self, bytes: u64) {
        if let Some(tree) = self.tree() {
            // An import that has used more already keeps it: all instances share it. Version 1 would refuse the limit,
            // version 2 would kill the forkserver for it.
            let cached = tree.base.cached().unwrap_or(0);
            let used = tree.account.usage().unwrap_or(0).saturating_sub(cached);
            if used < bytes {
                let _ = tree.base.limit_memory(bytes);
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.forced.unwrap_or(self.instance_size().bytes())
    }

    fn instance_size(&self) -> InstanceSize {
        self.size.get().copied().unwrap_or(InstanceSize::SMALLEST)
    }

    /// The cores that an instance may use, if that is enforced and fewer than the machine has.
    pub(crate) fn core_limit(&self) -> Option<u32> {
        let cores = self.instance_size().cores;
        let caps = self.tree().is_some_and(|tree| tree.caps_cores);
        (caps && (cores as usize) < machine_cores()).then_some(cores)
    }

    /// In how many spans of time the instances had something to do, and in how many they wanted more than their cores.
    pub(crate) fn throttled(&self) -> (u64, u64) {
        let told = |instance: Arc<InstanceMemory>| instance.group.as_ref()?.1.throttled().ok();
        let all = self.instances().into_iter().filter_map(told);
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Puts the reaper into the plugin's group, and with it whatever it starts.
    pub(crate) async fn hold(&self, reaper: Option<u32>) {
        if let (Some(tree), Some(reaper)) = (self.tree(), reaper) {
            // Not on this thread: the kernel takes its time. A panic in it is none of the plugin's.
            let _ = tokio::task::spawn_blocking(move || tree.hold(reaper as i32)).await;
        }
    }

    /// The host's id of a process that has this id in the reaper's namespace.
    pub(crate) fn host_pid(&self, pid: i32) -> Option<i32> {
        let members = self.tree()?.base.members().ok()?;
        members
            .into_iter()
            .find(|&member| proc::innermost_id(member) == Some(pid))
    }

    /// How much memory an import may use, if it went over that.
    pub(crate) fn import_ran_out(&self) -> Option<u64> {
        let kills = self.tree()?.account.kills().ok()?;
        (kills > 0).then_some(self.bytes())
    }

    /// The memory of the instance with this number, admitted if it has none.
    pub(crate) fn instance(self: &Arc<Self>, number: u32) -> Result<Arc<InstanceMemory>, Shortage> {
        let mut instances = lock(&self.instances);
        if let Some(found) = instances.get(&number).and_then(Weak::upgrade) {
            return Ok(found);
        }
        let grant = self.quota.admit(&self.plugin, self.bytes())?;
        let group = self.tree().and_then(|tree| {
            self.instance_group(&tree, number)
                .map_err(|error| tracing::warn!(plugin = %self.plugin, "no group for an instance: {error}"))
                .ok()
        });
        let instance = Arc::new(InstanceMemory {
            limit: self.bytes(),
            pids: self.pids,
            group,
            busy: AtomicUsize::new(0),
            need: self.need.clone(),
            watched: Mutex::default(),
            _grant: grant,
        });
        instances.retain(|_, instance| instance.strong_count() > 0);
        instances.insert(number, Arc::downgrade(&instance));
        Ok(instance)
    }

    fn instance_group(&self, tree: &Tree, number: u32) -> io::Result<(Account, Group)> {
        // The one before, of the same number, may be on its way out.
        let count = self.made.fetch_add(1, Ordering::Relaxed);
        let group = tree.top.child(&format!("i{number}-{count}"))?;
        group.limit_memory(self.bytes())?;
        // Twice what a slot may have: one that uses all of it leaves something to the others.
        group.limit_pids(self.pids.saturating_mul(2))?;
        if let Some(cores) = self.core_limit() {
            group.limit_cores(cores)?;
        }
        Ok((group.account()?, group))
    }

    /// How many slots that hold one call each an instance has memory for, as far as is known.
    pub(crate) fn slots_that_fit(&self) -> usize {
        self.need.fit(self.bytes())
    }

    /// The account of a new slot in an instance.
    pub(crate) fn slot(self: &Arc<Self>, instance: Arc<InstanceMemory>, id: u64) -> SlotMemory {
        let memory = SlotMemory::new(instance, id);
        if memory.is_polled() && !self.polled.swap(true, Ordering::Relaxed) {
            tokio::spawn(poll::run(Arc::downgrade(self)));
        }
        memory
    }

    /// Ends what is left in the plugin's group, and removes it.
    pub(crate) async fn close(&self) {
        let Some(tree) = lock(&self.tree).take() else {
            return;
        };
        let ended = tokio::task::spawn_blocking(move || tree.end(END_WAIT)).await;
        if !ended.unwrap_or(false) {
            tracing::warn!(plugin = %self.plugin, "a process of the plugin can't be ended");
        }
    }

    fn instances(&self) -> Vec<Arc<InstanceMemory>> {
        lock(&self.instances)
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }

    fn tree(&self) -> Option<Arc<Tree>> {
        lock(&self.tree).clone()
    }
}

impl Drop for PluginMemory {
    fn drop(&mut self) {
        if let Some(tree) = lock(&self.tree).take() {
            // What is left then is found by the next start.
            let _ = tree.end(DROP_WAIT);
        }
    }
}

impl Tree {
    fn make(host: &Host) -> io::Result<Self> {
        let top = host.group()?;
        let base = top.child("base")?;
        // Without groups each slot would be one among the system's processes, and there are about two a core.
        let _ = top.weigh(machine_cores() as u32 * 2);
        Ok(Self {
            account: base.account()?,
            // All cores are no limit; this says whether there can be one.
            caps_cores: base.limit_cores(machine_cores() as u32).unwrap_or(false),
            base,
            top,
        })
    }

    fn hold(&self, reaper: i32) {
        let mut pids = vec![reaper];
        // It may have forked already.
        let processes = process::scan();
        let mut at = 0;
        while let Some(&parent) = pids.get(at) {
            pids.extend(
                processes
                    .iter()
                    .filter(|p| p.parent == parent)
                    .map(|p| p.pid),
            );
            at += 1;
        }
        for pid in pids {
            // One that has ended needs no place.
            let _ = self.base.add(pid);
        }
    }

    fn end(&self, patience: Duration) -> bool {
        self.top.end(patience)
    }
}

/// What this machine gives, looked for once. Leftovers of a dead Paddock are removed then.
fn host() -> Option<&'static Host> {
    static HOST: OnceLock<Option<Host>> = OnceLock::new();
    HOST.get_or_init(|| {
        Host::find()
            .map_err(|error| tracing::info!("memory is polled: {error}"))
            .ok()
    })
    .as_ref()
}

fn machine_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
