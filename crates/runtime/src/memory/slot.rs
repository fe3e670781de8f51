//! One slot's memory: its leaf, what it has used of late, and whether the kernel has killed anything in it.
//!
//! The files are open and read while a call runs four times a second, at deaths, and at answers that took long enough
//! for memory to have run out. Nothing here waits but [`SlotMemory::enter`] and [`SlotMemory::end`].

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use paddock_jail::cgroup::{Account, Group};
use tokio::sync::mpsc::WeakUnboundedSender;
use tokio::task::JoinHandle;

use super::oom::{Blame, Oom, blame};
use super::poll::Watched;
use super::proc::{Resident, resident};
use super::{InstanceMemory, lock};
use crate::slot::Command;

/// Between two looks while a call runs.
const PACE: Duration = Duration::from_millis(250);
/// Points of the curve: ten seconds.
const POINTS: usize = 40;
/// How long the last process of a slot may take to leave its leaf before its slot is told gone.
const END_WAIT: Duration = Duration::from_secs(2);
/// Between two tries to remove the leaf.
const END_PACE: Duration = Duration::from_millis(2);
/// Calls that show what a process usually has.
const WARM_UP: u64 = 64;
/// So much more than twice that is growth.
const SLACK: u64 = 64 << 20;

#[derive(Debug)]
struct Leaf {
    account: Account,
    group: Group,
}

/// The memory of a slot.
#[derive(Debug)]
pub(crate) struct SlotMemory {
    instance: Arc<InstanceMemory>,
    leaf: Option<Arc<Leaf>>,
    /// The process that is being put into the leaf.
    entering: Option<(i32, JoinHandle<()>)>,
    /// What polling sees, if there is no leaf.
    watched: Arc<Watched>,
    busy: bool,
    /// Kills that are known of.
    kills: u64,
    /// How often the instance's limit was met, at the last two looks: a kill may be seen a moment after its cause.
    hits: [u64; 2],
    curve: VecDeque<(Instant, u64)>,
    looked: Option<Instant>,
    /// The most that the process had resident in its first calls.
    usual: u64,
    /// What its process had resident when it came: imports, which are counted elsewhere.
    brought: u64,
}

impl SlotMemory {
    pub(super) fn new(instance: Arc<InstanceMemory>, id: u64) -> Self {
        let leaf = instance.group.as_ref().and_then(|(_, group)| {
            leaf(group, id, instance.pids)
                .map_err(|error| {
                    tracing::warn!("no group for a slot, its memory is polled: {error}")
                })
                .ok()
                .map(Arc::new)
        });
        let watched = Arc::<Watched>::default();
        if leaf.is_none() {
            lock(&instance.watched).push(Arc::downgrade(&watched));
        }
        let hits = instance.hits();
        Self {
            instance,
            leaf,
            entering: None,
            watched,
            busy: false,
            kills: 0,
            hits: [hits, hits],
            curve: VecDeque::new(),
            looked: None,
            usual: 0,
            brought: 0,
        }
    }

    pub(super) fn is_polled(&self) -> bool {
        self.leaf.is_none()
    }

    /// Who is told when polling finds too much.
    pub(crate) fn tell(&mut self, commands: WeakUnboundedSender<Command>) {
        self.watched.tell(commands);
    }

    /// The slot's process is this one, by the host's id: it is on its way into its leaf. The kernel takes its time
    /// for that (6 ms and more: it waits until nobody forks), so the process starts meanwhile, and nobody waits here.
    pub(crate) fn begin_to_enter(&mut self, pid: i32) {
        self.watched.pid.store(pid, Ordering::Relaxed);
        self.brought = resident(pid).map_or(0, |r| r.now);
        let Some(leaf) = self.leaf.clone() else {
            return;
        };
        let entered = tokio::task::spawn_blocking(move || {
            if let Err(error) = leaf.group.add(pid) {
                // It has ended, most likely, and that is told by its exit.
                tracing::debug!(pid, %error, "a slot can't be put into its group");
            }
        });
        self.entering = Some((pid, entered));
    }

    /// Waits until the slot's process, which is this one, is in its leaf.
    pub(crate) async fn enter(&mut self, pid: i32) {
        if self
            .entering
            .as_ref()
            .is_none_or(|(entering, _)| *entering != pid)
        {
            self.begin_to_enter(pid);
        }
        if let Some((_, entered)) = self.entering.take() {
            // It doesn't panic, and the runtime's end is nobody's concern here.
            let _ = entered.await;
        }
    }

    /// Whether there are calls in the slot.
    pub(crate) fn busy(&mut self, busy: bool) {
        if self.busy != busy {
            self.busy = busy;
            match busy {
                true => self.instance.busy.fetch_add(1, Ordering::Relaxed),
                false => self.instance.busy.fetch_sub(1, Ordering::Relaxed),
            };
        }
    }

    /// Counts a call in, if the instance has memory for one more beside those of its other slots.
    pub(crate) fn enter_call(&mut self) -> bool {
        let instance = &self.instance;
        self.busy = self.busy || instance.need.enter(&instance.busy, instance.limit);
        self.busy
    }

    /// When to look next.
    pub(crate) fn next_look(&self, now: Instant) -> Instant {
        self.looked.map_or(now, |at| at) + PACE
    }

    /// Takes a point of the curve, if it is time. True if a process was ended for want of memory.
    pub(crate) fn look(&mut self, now: Instant) -> bool {
        if self.looked.is_some_and(|at| now.duration_since(at) < PACE) {
            return false;
        }
        self.looked = Some(now);
        if self.has_run_out() {
            return true;
        }
        if self.curve.len() == POINTS {
            self.curve.pop_front();
        }
        self.curve.push_back((now, self.usage()));
        self.hits = [self.hits[1], self.instance.hits()];
        false
    }

    /// What is known if a process of the slot was ended for want of memory since this was last asked.
    pub(crate) fn oom(&mut self) -> Option<Oom> {
        if !self.has_run_out() {
            return None;
        }
        let polled = self.watched.over.swap(false, Ordering::Relaxed);
        let limit = self.instance.limit;
        let peak = self.peak();
        let limit_met = polled || self.instance.hits() > self.hits[0];
        let busy = self.instance.busy.load(Ordering::Relaxed);
        let blame = blame(limit_met, peak, limit, busy <= usize::from(self.busy));
        if blame == Blame::Together {
            self.instance.need.too_many(busy, limit);
        }
        if let Some(leaf) = &self.leaf {
            self.kills = leaf.account.kills().unwrap_or(self.kills);
        }
        let now = Instant::now();
        let before = |at: Instant| now.saturating_duration_since(at).as_millis() as u64;
        let mut curve: Vec<_> = self
            .curve
            .iter()
            .map(|&(at, used)| (before(at), used))
            .collect();
        curve.push((0, peak));
        Some(Oom {
            blame,
            limit,
            peak,
            curve,
            polled,
        })
    }

    fn has_run_out(&self) -> bool {
        self.watched.over.load(Ordering::Relaxed)
            || self
                .leaf
                .as_ref()
                .and_then(|leaf| leaf.account.kills().ok())
                .is_some_and(|kills| kills > self.kills)
    }

    fn usage(&self) -> u64 {
        match &self.leaf {
            Some(leaf) => leaf.account.usage().unwrap_or(0),
            None => self.watched.usage.load(Ordering::Relaxed),
        }
    }

    /// The most that the slot has used, with all its children.
    pub(crate) fn peak(&self) -> u64 {
        let seen = self.curve.iter().map(|&(_, used)| used).max().unwrap_or(0);
        let told = match &self.leaf {
            Some(leaf) => leaf.group.peak().unwrap_or(0),
            None => self.watched.peak.load(Ordering::Relaxed),
        };
        seen.max(told)
    }

    /// The most that the slot's process had resident, as far as is known of one that is gone.
    pub(crate) fn peak_of_the_dead(&self) -> u64 {
        match self.leaf {
            Some(_) => self.brought + self.peak(),
            None => self.brought.max(self.peak()),
        }
    }

    /// The peak of a call that has answered: what its process had resident, or what its group had without caches of
    /// files, whichever is more. The next call's begins anew, as far as the kernel can.
    pub(crate) fn peak_of_call(
        &mut self,
        resident: Option<Resident>,
        was_alone: bool,
    ) -> Option<u64> {
        let grouped = match &self.leaf {
            Some(leaf) => {
                let group = &leaf.group;
                let peak = group.peak().unwrap_or(0);
                let told = peak.saturating_sub(group.cached().unwrap_or(peak));
                // Others that share the process still need it.
                let _ = was_alone && group.forget_peak();
                told
            }
            None => self.watched.peak.swap(0, Ordering::Relaxed),
        };
        if was_alone {
            self.instance.need.saw(grouped);
        }
        let peak = resident.map_or(0, |r| r.peak).max(grouped);
        (peak > 0).then_some(peak)
    }

    /// True if a process that has served so many calls has grown out of proportion to its first ones.
    pub(crate) fn has_grown(&mut self, served: u64, resident: Option<Resident>) -> bool {
        let now = resident.map_or(0, |r| r.now);
        if served <= WARM_UP {
            self.usual = self.usual.max(now);
            return false;
        }
        now > growth_bound(self.usual, self.instance.limit)
    }

    /// Kills all that is in the leaf.
    pub(crate) fn kill(&self) {
        if let Some(leaf) = &self.leaf {
            leaf.group.kill();
        }
    }

    /// Ends whatever the slot has left in its leaf, and removes that.
    pub(crate) async fn end(&mut self) {
        self.busy(false);
        let Some(leaf) = self.leaf.take() else {
            return;
        };
        if let Some((_, entered)) = self.entering.take() {
            let _ = entered.await;
        }
        let deadline = Instant::now() + END_WAIT;
        // What is still left then goes with the plugin's group.
        while !leaf.group.try_end() && Instant::now() < deadline {
            tokio::time::sleep(END_PACE).await;
        }
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        self.busy(false);
    }
}

impl InstanceMemory {
    fn hits(&self) -> u64 {
        let account = self.group.as_ref().map(|(account, _)| account);
        account.and_then(|account| account.hits().ok()).unwrap_or(0)
    }
}

fn leaf(instance: &Group, id: u64, pids: u32) -> io::Result<Leaf> {
    let group = instance.child(&format!("s{id}"))?;
    group.limit_pids(pids)?;
    Ok(Leaf {
        account: group.account()?,
        group,
    })
}

/// More than this is growth: over twice the usual and some, and at the latest halfway from the usual to the limit.
fn growth_bound(usual: u64, limit: u64) -> u64 {
    let halfway = usual + limit.saturating_sub(usual) / 2;
    (2 * usual + SLACK).min(halfway)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_from_use() {
        const MIB: u64 = 1 << 20;
        assert_eq!(growth_bound(40 * MIB, 2048 * MIB), 144 * MIB);
        // A large model is no growth.
        assert_eq!(growth_bound(1500 * MIB, 2048 * MIB), 1774 * MIB);
        assert_eq!(growth_bound(20 * MIB, 64 * MIB), 42 * MIB);
    }
}
