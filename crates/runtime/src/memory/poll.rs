//! Memory without control groups: every 50 ms, while calls run, what each slot's family has resident is added up. Once
//! an instance's slots have more than its size, their proportional shares are looked at, and the largest slot is ended
//! if those are more too.
//!
//! It can be outrun: what is allocated within 50 ms is seen after the fact, and a process that has left its family
//! isn't seen at all. `paddock doctor` says which way a machine has.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use paddock_jail::process::scan;
use tokio::sync::mpsc::WeakUnboundedSender;

use super::{InstanceMemory, PluginMemory, lock, proc};
use crate::slot::Command;

const PACE: Duration = Duration::from_millis(50);

/// What is seen of a slot.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// 0 until it is known.
    pub(super) pid: AtomicI32,
    pub(super) usage: AtomicU64,
    pub(super) peak: AtomicU64,
    /// It is to be ended.
    pub(super) over: AtomicBool,
    commands: Mutex<Option<WeakUnboundedSender<Command>>>,
}

impl Watched {
    pub(super) fn tell(&self, commands: WeakUnboundedSender<Command>) {
        *lock(&self.commands) = Some(commands);
    }

    fn saw(&self, bytes: u64) {
        self.usage.store(bytes, Ordering::Relaxed);
        self.peak.fetch_max(bytes, Ordering::Relaxed);
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        let commands = lock(&self.commands);
        if let Some(slot) = commands.as_ref().and_then(WeakUnboundedSender::upgrade) {
            // One that has ended needs no word.
            let _ = slot.send(Command::OverMemory);
        }
    }
}

/// Looks at a plugin's slots until it is gone.
pub(super) async fn run(memory: Weak<PluginMemory>) {
    loop {
        tokio::time::sleep(PACE).await;
        let Some(memory) = memory.upgrade() else {
            return;
        };
        let instances: Vec<Arc<InstanceMemory>> = memory
            .instances()
            .into_iter()
            .filter(|instance| instance.busy.load(Ordering::Relaxed) > 0)
            .collect();
        drop(memory);
        if !instances.is_empty()
            && tokio::task::spawn_blocking(move || look(&instances))
                .await
                .is_err()
        {
            return;
        }
    }
}

fn look(instances: &[Arc<InstanceMemory>]) {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in scan().iter().filter(|p| !p.ended) {
        children
            .entry(process.parent)
            .or_default()
            .push(process.pid);
    }
    for instance in instances {
        let slots: Vec<(Arc<Watched>, Vec<i32>)> = instance
            .watched()
            .into_iter()
            .map(|slot| {
                let family = family(slot.pid.load(Ordering::Relaxed), &children);
                (slot, family)
            })
            .collect();
        look_at(&slots, instance.limit);
    }
}

fn look_at(slots: &[(Arc<Watched>, Vec<i32>)], limit: u64) {
    let resident = |pid: &i32| proc::resident(*pid).map(|r| r.now);
    let mut total = 0;
    for (slot, family) in slots {
        let bytes = family.iter().filter_map(resident).sum();
        slot.saw(bytes);
        total += bytes;
    }
    if total <= limit {
        return;
    }
    // Pages that forks share were counted for each of them.
    let share = |family: &[i32]| -> u64 { family.iter().filter_map(|&pid| proc::share(pid)).sum() };
    let shares: Vec<u64> = slots.iter().map(|(_, family)| share(family)).collect();
    for ((slot, _), &bytes) in slots.iter().zip(&shares) {
        slot.usage.store(bytes, Ordering::Relaxed);
    }
    if shares.iter().sum::<u64>() <= limit {
        return;
    }
    let largest = slots.iter().zip(&shares).max_by_key(|(_, bytes)| **bytes);
    if let Some(((slot, _), _)) = largest {
        slot.end();
    }
}

/// A process and all that descends from it. A slot is a child subreaper, so its orphans are among them.
fn family(root: i32, children: &HashMap<i32, Vec<i32>>) -> Vec<i32> {
    if root <= 0 {
        return Vec::new();
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&pid) = found.get(at) {
        found.extend(children.get(&pid).into_iter().flatten());
        at += 1;
    }
    found
}

impl InstanceMemory {
    fn watched(&self) -> Vec<Arc<Watched>> {
        let mut watched = lock(&self.watched);
        watched.retain(|slot| slot.strong_count() > 0);
        watched.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_all_that_descends() {
        let children = HashMap::from([(1, vec![10, 20]), (10, vec![11]), (11, vec![12, 13])]);
        assert_eq!(family(10, &children), [10, 11, 12, 13]);
        assert_eq!(family(20, &children), [20]);
        assert!(family(0, &children).is_empty(), "it isn't known yet");
    }

    #[test]
    fn only_an_instance_over_its_size_loses_a_slot() {
        let me = std::process::id() as i32;
        let slot = Arc::<Watched>::default();
        let slots = [(slot.clone(), vec![me])];
        look_at(&slots, u64::MAX);
        assert!(!slot.over.load(Ordering::Relaxed));
        assert!(slot.peak.load(Ordering::Relaxed) > 0);
        look_at(&slots, 1);
        assert!(slot.over.load(Ordering::Relaxed));
    }
}
