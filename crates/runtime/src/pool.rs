//! The calls that wait for a slot, and the slots that wait for a call.
//!
//! First come, first served. Slots take calls themselves, so a call changes hands once between
//! the one who asks and the slot. Nothing here waits; the lock is held for a few instructions.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use paddock_types::{SubKind, Verdict};
use serde_json::json;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::call::Call;
use crate::judge::{failure, uncharged};
use crate::slot::Command;

/// A call that waits for its turn.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) call: Call,
    pub(crate) queued: Instant,
    pub(crate) reply: oneshot::Sender<Verdict>,
    pub(crate) ticket: Arc<Ticket>,
    /// Shared a process that died, and may be the one that killed it: it runs alone now.
    pub(crate) alone: bool,
}

/// Where a call is, for the one who may give it up.
#[derive(Debug, Default)]
pub(crate) struct Ticket(Mutex<Option<mpsc::UnboundedSender<Command>>>);

impl Ticket {
    /// The call has reached a slot.
    pub(crate) fn reached(&self, slot: mpsc::UnboundedSender<Command>) {
        *self.lock() = Some(slot);
    }

    /// Tells the slot that has the call, if one has.
    pub(crate) fn tell(&self, command: Command) {
        if let Some(slot) = self.lock().as_ref() {
            // A slot that has ended has given its verdicts.
            let _ = slot.send(command);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<mpsc::UnboundedSender<Command>>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[derive(Debug)]
pub(crate) struct Pool {
    inner: Mutex<Inner>,
    /// Calls asked for and not answered.
    pub(crate) in_flight: AtomicUsize,
    /// Wakes the keeper: somebody waits and no slot is free, or a slot has gone.
    pub(crate) keeper: Notify,
    queue_timeout: Duration,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Waiting>,
    /// Slots with room, the most recently used last.
    idle: Vec<(u64, Arc<Notify>)>,
    /// Slots that were woken and have not looked yet.
    waking: HashSet<u64>,
    /// Calls that shared a process that died.
    suspects: HashSet<u64>,
    /// The least number of idle slots since it was last asked.
    least_idle: usize,
    closed: bool,
}

impl Pool {
    pub(crate) fn new(queue_timeout: Duration) -> Self {
        Self {
            inner: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            keeper: Notify::new(),
            queue_timeout,
        }
    }

    /// Puts a call at the end of the queue.
    pub(crate) fn put(&self, mut waiting: Waiting) {
        let mut inner = self.lock();
        if inner.closed {
            drop(inner);
            // The one who asks may have given up.
            let _ = waiting.reply.send(closed());
            return;
        }
        waiting.alone = inner.suspects.contains(&waiting.call.id.to_u64());
        inner.queue.push_back(waiting);
        match inner.wake_one() {
            Some(slot) => {
                drop(inner);
                slot.notify_one();
            }
            None => {
                drop(inner);
                self.keeper.notify_one();
            }
        }
    }

    /// Takes calls for a slot that holds `holds` of `capacity`. Afterwards the slot is woken when
    /// a call comes, unless it is full.
    pub(crate) fn take(
        &self,
        slot: u64,
        wake: &Arc<Notify>,
        holds: usize,
        capacity: usize,
        into: &mut Vec<Waiting>,
    ) {
        let mut inner = self.lock();
        // Slots that were woken for the same burst share it.
        let sharers = inner.waking.len().max(1);
        inner.waking.remove(&slot);
        let share = inner.queue.len().div_ceil(sharers).max(1);
        let mut room = capacity.saturating_sub(holds);
        let limit = room.min(share);
        let mut held_up = false;
        while into.len() < limit {
            let Some(next) = inner.queue.front() else {
                break;
            };
            let alone = next.alone && !next.reply.is_closed();
            if alone && holds + into.len() > 0 {
                held_up = true;
                break;
            }
            let Some(next) = inner.queue.pop_front() else {
                break;
            };
            if next.reply.is_closed() {
                continue;
            }
            into.push(next);
            if alone {
                room = 0;
                break;
            }
        }
        let full = into.len() >= room;
        let listed = inner.idle.iter().position(|(id, _)| *id == slot);
        match (full, listed) {
            (true, Some(at)) => {
                inner.idle.remove(at);
            }
            (false, None) => inner.idle.push((slot, wake.clone())),
            _ => {}
        }
        let idle = inner.idle.len();
        inner.least_idle = inner.least_idle.min(idle);
        // A call that must run alone waits for an empty slot: waking others that hold calls would
        // only go round in circles, so that is left to the keeper's turns.
        let next = match inner.queue.is_empty() || held_up {
            true => None,
            false => inner.wake_other(slot),
        };
        drop(inner);
        if let Some(next) = next {
            next.notify_one();
        }
    }

    /// A slot has room, but may not take calls now: it is woken again when a call comes, or by the keeper.
    pub(crate) fn stand_by(&self, slot: u64, wake: &Arc<Notify>) {
        let mut inner = self.lock();
        inner.waking.remove(&slot);
        if inner.idle.iter().all(|(id, _)| *id != slot) {
            // First in the list: the others are asked before it.
            inner.idle.insert(0, (slot, wake.clone()));
        }
        let waits = !inner.queue.is_empty();
        drop(inner);
        if waits {
            // Whoever put the call there thinks that a slot takes it.
            self.keeper.notify_one();
        }
    }

    /// Wakes a slot with room if calls wait: for the case that whoever was woken has died.
    pub(crate) fn kick(&self) {
        let mut inner = self.lock();
        if !inner.queue.is_empty()
            && let Some(slot) = inner.wake_one()
        {
            drop(inner);
            slot.notify_one();
        }
    }

    /// A slot takes no more calls.
    pub(crate) fn forget(&self, slot: u64) {
        let mut inner = self.lock();
        inner.idle.retain(|(id, _)| *id != slot);
        inner.waking.remove(&slot);
        drop(inner);
        self.keeper.notify_one();
    }

    /// A slot that has long been idle, taken off the list.
    pub(crate) fn coldest(&self) -> Option<u64> {
        let mut inner = self.lock();
        (!inner.idle.is_empty()).then(|| inner.idle.remove(0).0)
    }

    /// How many slots were idle all the time since this was last asked.
    pub(crate) fn idle_since_asked(&self) -> usize {
        let mut inner = self.lock();
        let idle = inner.idle.len();
        std::mem::replace(&mut inner.least_idle, idle).min(idle)
    }

    /// Calls that wait.
    pub(crate) fn queued(&self) -> usize {
        self.lock().queue.len()
    }

    /// Calls that wait, if the first of them has waited for so long; 0 otherwise.
    pub(crate) fn queued_for(&self, patience: Duration, now: Instant) -> usize {
        let inner = self.lock();
        let first = inner.queue.front();
        match first.is_some_and(|w| now.saturating_duration_since(w.queued) >= patience) {
            true => inner.queue.len(),
            false => 0,
        }
    }

    /// Calls asked for and not answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// This call shared a process that died.
    pub(crate) fn suspect(&self, call: u64) {
        self.lock().suspects.insert(call);
    }

    /// This call has ended by itself.
    pub(crate) fn acquit(&self, call: u64) {
        self.lock().suspects.remove(&call);
    }

    /// Gives a verdict to the calls that have waited too long.
    pub(crate) fn expire(&self, now: Instant) {
        loop {
            let mut inner = self.lock();
            let due = inner.queue.front().is_some_and(|w| {
                w.reply.is_closed() || now.duration_since(w.queued) >= self.queue_timeout
            });
            if !due {
                return;
            }
            let Some(waiting) = inner.queue.pop_front() else {
                return;
            };
            drop(inner);
            let limit = self.queue_timeout.as_secs();
            let mut verdict = failure(
                SubKind::Timeout,
                format!("waited {limit} s for a free slot (queue_timeout {limit})"),
            );
            verdict.evidence.insert("phase".into(), json!("queue"));
            verdict
                .evidence
                .insert("queue_timeout_s".into(), json!(limit));
            answer(waiting, verdict, now);
        }
    }

    /// Gives this verdict to every call that waits.
    pub(crate) fn fail_all(&self, verdict: &Verdict) {
        let queue = std::mem::take(&mut self.lock().queue);
        let now = Instant::now();
        for waiting in queue {
            answer(waiting, verdict.clone(), now);
        }
    }

    /// Takes no more calls; those that wait are told.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.fail_all(&closed());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Inner {
    fn wake_one(&mut self) -> Option<Arc<Notify>> {
        let (slot, wake) = self.idle.pop()?;
        self.least_idle = self.least_idle.min(self.idle.len());
        self.waking.insert(slot);
        Some(wake)
    }

    fn wake_other(&mut self, than: u64) -> Option<Arc<Notify>> {
        let at = self.idle.iter().rposition(|(id, _)| *id != than)?;
        let (slot, wake) = self.idle.remove(at);
        self.waking.insert(slot);
        Some(wake)
    }
}

fn answer(waiting: Waiting, mut verdict: Verdict, now: Instant) {
    verdict.queue_ms = now.duration_since(waiting.queued).as_secs_f64() * 1e3;
    // The one who asked may have given up.
    let _ = waiting.reply.send(verdict);
}

fn closed() -> Verdict {
    uncharged("the plugin was closed")
}

#[cfg(test)]
mod tests {
    use paddock_types::CallId;

    use super::*;
    use crate::call::CallClock;

    fn waiting() -> (Waiting, oneshot::Receiver<Verdict>) {
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting {
            call: Call {
                id: CallId::new(),
                attempt: 1,
                body: bytes::Bytes::new(),
                trajectories: 1,
                clock: CallClock::default(),
            },
            queued: Instant::now(),
            reply,
            ticket: Arc::default(),
            alone: false,
        };
        (waiting, answer)
    }

    fn pool() -> Pool {
        Pool::new(Duration::from_secs(3600))
    }

    fn take(pool: &Pool, slot: u64, holds: usize, capacity: usize) -> Vec<Waiting> {
        let mut out = Vec::new();
        pool.take(slot, &Arc::default(), holds, capacity, &mut out);
        out
    }

    #[test]
    fn calls_are_taken_in_order_and_given_up_ones_are_not() {
        let pool = pool();
        let mut kept = Vec::new();
        let mut ids = Vec::new();
        for n in 0..4 {
            let (waiting, answer) = waiting();
            if n != 1 {
                ids.push(waiting.call.id);
                kept.push(answer);
            }
            pool.put(waiting);
        }
        let taken: Vec<CallId> = take(&pool, 1, 0, 10).iter().map(|w| w.call.id).collect();
        assert_eq!(taken, ids);
    }

    #[test]
    fn a_burst_is_shared_by_the_slots_it_woke() {
        let pool = pool();
        assert!(take(&pool, 1, 0, 10).is_empty());
        assert!(take(&pool, 2, 0, 10).is_empty());
        let answers: Vec<_> = (0..6)
            .map(|_| {
                let (waiting, answer) = waiting();
                pool.put(waiting);
                answer
            })
            .collect();
        assert_eq!(take(&pool, 2, 0, 10).len(), 3);
        assert_eq!(take(&pool, 1, 0, 10).len(), 3);
        drop(answers);
    }

    #[test]
    fn a_suspect_runs_alone() {
        let pool = pool();
        let (first, _a) = waiting();
        let (second, _b) = waiting();
        pool.suspect(first.call.id.to_u64());
        pool.put(first);
        pool.put(second);
        assert!(take(&pool, 1, 1, 10).is_empty(), "the slot is not empty");
        assert_eq!(take(&pool, 2, 0, 10).len(), 1, "nobody joins it");
        assert_eq!(take(&pool, 1, 1, 10).len(), 1);
    }

    #[tokio::test]
    async fn waiting_has_its_own_limit_and_its_own_verdict() {
        let pool = pool();
        let (first, answer) = waiting();
        let queued = first.queued;
        pool.put(first);
        pool.expire(queued + Duration::from_secs(3599));
        assert_eq!(pool.queued(), 1);
        pool.expire(queued + Duration::from_secs(3600));
        let verdict = answer.await.expect("a verdict");
        assert_eq!(verdict.sub_kind, Some(SubKind::Timeout));
        assert_eq!(verdict.evidence.get("phase"), Some(&json!("queue")));
        assert!(verdict.queue_ms >= 3_600_000.0);
    }

    #[tokio::test]
    async fn a_closed_pool_tells_everyone() {
        let pool = pool();
        let (first, a) = waiting();
        let (second, b) = waiting();
        pool.put(first);
        pool.close();
        pool.put(second);
        for answer in [a, b] {
            assert!(answer.await.expect("a verdict").platform);
        }
    }
}
