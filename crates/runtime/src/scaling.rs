//! How many slots a plugin should have: pure decisions, from what the pool sees.
//!
//! Scale out on the queue, at once; scale in slowly. A slot is a process: starting one costs
//! milliseconds of a core, so where the slots there are already wait for a core more than for
//! anything else, another one helps nobody.

use std::collections::BTreeMap;

use crate::forkserver::Mode;

/// Slots started in one go at most.
const BURST: usize = 16;
/// Calls that share a process in thread mode at most.
const THREADS: u32 = 10;

/// What the pool sees.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct View {
    /// Calls that wait.
    pub(crate) queued: usize,
    /// Places that new calls will find in slots that are being started.
    pub(crate) coming: usize,
    /// Slots there are, those being started included.
    pub(crate) slots: usize,
    /// Slots to keep.
    pub(crate) min_slots: usize,
    /// Calls a slot holds.
    pub(crate) capacity: usize,
    /// True if the slots mostly wait for a core.
    pub(crate) starved: bool,
    /// Cores of the machine.
    pub(crate) cores: usize,
}

/// How many slots to start now, as far as there is room.
pub(crate) fn grow(view: View) -> usize {
    let missing = view.min_slots.saturating_sub(view.slots);
    if view.starved && view.slots >= 2 * view.cores {
        return missing;
    }
    let waiting = view.queued.saturating_sub(view.coming);
    let wanted = waiting.div_ceil(view.capacity.max(1));
    // Doubling reaches any number in a few turns, and doesn't answer a short queue with a storm.
    wanted.min(view.slots.max(2)).min(BURST).max(missing)
}

/// Room in instances: where slots are put.
#[derive(Debug, Clone)]
pub(crate) struct Instances {
    /// Calls held by each instance's slots, by its number from 1.
    used: BTreeMap<u32, u32>,
    min: u32,
    max: u32,
    max_concurrency: u32,
    mode: Mode,
    /// Process mode: slots are spread over so many instances first, so many in each.
    spread: Option<(u32, u32)>,
    /// Process mode: an instance has memory for so many slots.
    fit: u32,
}

impl Instances {
    pub(crate) fn new(mode: Mode, min: u32, max: u32, max_concurrency: u32) -> Self {
        Self {
            used: BTreeMap::new(),
            min,
            max,
            max_concurrency,
            mode,
            spread: None,
            fit: u32::MAX,
        }
    }

    /// True if the instances there are may use all of the machine's cores, or no other may be opened.
    pub(crate) fn have_all_cores(&self) -> bool {
        self.spread
            .is_some_and(|(instances, _)| self.used.len() >= instances.min(self.max) as usize)
    }

    /// Puts no more slots into an instance than it has memory for.
    pub(crate) fn at_most(&mut self, slots: usize) {
        if self.mode == Mode::Process {
            self.fit = u32::try_from(slots).unwrap_or(u32::MAX);
        }
    }

    /// An instance has so many of the machine's cores and no more: more instances are opened before one of them is
    /// full, until they have all cores.
    pub(crate) fn spread(&mut self, each: u32, machine: u32) {
        if self.mode == Mode::Process {
            // Two processes a core: one may wait for something else.
            self.spread = Some((machine.div_ceil(each.max(1)), each * 2));
        }
    }

    /// Calls that a slot in an empty instance holds.
    pub(crate) fn slot_capacity(&self) -> u32 {
        match self.mode {
            Mode::Process => 1,
            Mode::Thread => THREADS.min(self.max_concurrency),
            Mode::Loop => self.max_concurrency,
        }
    }

    /// Slots that are kept: one for each instance that is kept.
    pub(crate) fn min_slots(&self) -> usize {
        self.min as usize
    }

    /// Takes room for a slot: its instance, and how many calls it holds. `None` if all is full.
    pub(crate) fn place(&mut self) -> Option<(u32, u32)> {
        let empty = (1..=self.min).find(|n| !self.used.contains_key(n));
        let below = |up_to: u32, limit: u32| (1..=up_to).find(|n| self.used_of(*n) < limit);
        let spread = || {
            let (instances, slots) = self.spread?;
            below(instances.min(self.max), slots.min(self.room()))
        };
        let number = empty
            .or_else(spread)
            .or_else(|| below(self.max, self.room()))?;
        Some(self.take(number))
    }

    /// The same in an instance that is there already.
    pub(crate) fn place_among_used(&mut self) -> Option<(u32, u32)> {
        let mut used = self.used.iter();
        let (&number, _) = used.find(|(_, used)| **used < self.room())?;
        Some(self.take(number))
    }

    /// Calls that an instance's slots may hold.
    fn room(&self) -> u32 {
        self.max_concurrency.min(self.fit)
    }

    fn used_of(&self, number: u32) -> u32 {
        self.used.get(&number).copied().unwrap_or(0)
    }

    fn take(&mut self, number: u32) -> (u32, u32) {
        let used = self.used_of(number);
        let capacity = self.slot_capacity_of(used);
        *self.used.entry(number).or_default() += capacity;
        (number, capacity)
    }

    /// Gives a slot's room back.
    pub(crate) fn release(&mut self, number: u32, capacity: u32) {
        if let Some(used) = self.used.get_mut(&number) {
            *used = used.saturating_sub(capacity);
            if *used == 0 {
                self.used.remove(&number);
            }
        }
    }

    fn slot_capacity_of(&self, used: u32) -> u32 {
        match self.mode {
            Mode::Process => 1,
            Mode::Thread => THREADS.min(self.max_concurrency - used),
            Mode::Loop => self.max_concurrency - used,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(queued: usize, slots: usize) -> View {
        View {
            queued,
            slots,
            capacity: 1,
            cores: 2,
            ..View::default()
        }
    }

    #[test]
    fn a_burst_is_answered_by_doubling() {
        assert_eq!(grow(view(0, 3)), 0);
        assert_eq!(grow(view(1, 1)), 1);
        assert_eq!(grow(view(2000, 1)), 2);
        assert_eq!(grow(view(2000, 4)), 4);
        assert_eq!(grow(view(2000, 90)), BURST);
        let coming = View {
            coming: 5,
            ..view(5, 8)
        };
        assert_eq!(grow(coming), 0);
    }

    #[test]
    fn slots_that_wait_for_a_core_get_no_company() {
        let starved = View {
            starved: true,
            ..view(2000, 4)
        };
        assert_eq!(grow(starved), 0);
        let few = View {
            starved: true,
            ..view(2000, 3)
        };
        assert_eq!(grow(few), 3);
    }

    #[test]
    fn what_is_kept_is_started_without_a_queue() {
        let view = View {
            min_slots: 3,
            ..view(0, 1)
        };
        assert_eq!(grow(view), 2);
    }

    #[test]
    fn slots_fill_the_kept_instances_first_and_then_the_lowest() {
        let mut threads = Instances::new(Mode::Thread, 2, 3, 25);
        let places: Vec<_> = std::iter::from_fn(|| threads.place()).collect();
        let expected = [
            (1, 10),
            (2, 10),
            (1, 10),
            (1, 5),
            (2, 10),
            (2, 5),
            (3, 10),
            (3, 10),
            (3, 5),
        ];
        assert_eq!(places, expected);
        threads.release(2, 10);
        assert_eq!(threads.place(), Some((2, 10)));
        assert_eq!(threads.place_among_used(), None, "all is full");
        threads.release(1, 5);
        assert_eq!(threads.place_among_used(), Some((1, 5)));
        let mut loops = Instances::new(Mode::Loop, 0, 2, 100);
        assert_eq!(loops.place_among_used(), None, "nothing is used");
        assert_eq!(loops.place(), Some((1, 100)));
        assert_eq!(loops.place(), Some((2, 100)));
        assert_eq!(loops.place(), None);
        let mut processes = Instances::new(Mode::Process, 1, 1, 2);
        assert_eq!(processes.place(), Some((1, 1)));
        assert_eq!(processes.place(), Some((1, 1)));
        assert_eq!(processes.place(), None);
    }

    #[test]
    fn instances_with_a_core_limit_are_opened_before_one_is_full() {
        let mut instances = Instances::new(Mode::Process, 1, 3, 10);
        instances.spread(1, 2);
        let places: Vec<_> = std::iter::from_fn(|| instances.place()).collect();
        let numbers: Vec<u32> = places.into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers[..6], [1, 1, 2, 2, 1, 1]);
        assert_eq!(numbers.len(), 30);
        assert!(instances.have_all_cores());
        let mut instances = Instances::new(Mode::Process, 1, 3, 10);
        instances.spread(1, 2);
        assert_eq!(instances.place(), Some((1, 1)));
        assert!(!instances.have_all_cores());
        // One instance may be all there is.
        let mut single = Instances::new(Mode::Process, 1, 1, 4);
        single.spread(1, 64);
        assert_eq!(std::iter::from_fn(|| single.place()).count(), 4);
    }

    #[test]
    fn an_instance_gets_no_more_slots_than_it_has_memory_for() {
        let mut instances = Instances::new(Mode::Process, 1, 2, 10);
        instances.at_most(3);
        assert_eq!(std::iter::from_fn(|| instances.place()).count(), 6);
        instances.at_most(4);
        assert_eq!(std::iter::from_fn(|| instances.place()).count(), 2);
    }
}
