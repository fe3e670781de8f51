//! Ends a process together with everything it started: stop all of the family, so that nobody can
//! fork away; look again until nobody new turns up; then kill all of them, until nobody is left.
//!
//! Pure: it is given what /proc shows and says which signals to send. A family is what descends
//! from its root or sits in a session that one of its members opened.

use std::collections::{BTreeMap, BTreeSet};

use crate::process::Process;

/// Rounds of stopping before killing starts anyway.
const FREEZE_ROUNDS: u32 = 20;

/// A signal to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// SIGSTOP.
    Stop(i32),
    /// SIGKILL.
    Kill(i32),
}

/// One family on its way out.
#[derive(Debug)]
pub struct Doom {
    root: i32,
    members: BTreeMap<i32, u64>,
    sessions: BTreeSet<i32>,
    rounds: u32,
    killing: bool,
}

impl Doom {
    /// The family of `root`, which may itself be gone already.
    pub fn new(root: i32) -> Self {
        Self {
            root,
            members: BTreeMap::new(),
            sessions: BTreeSet::from([root]),
            rounds: 0,
            killing: false,
        }
    }

    /// Whose family it is.
    pub fn root(&self) -> i32 {
        self.root
    }

    /// What to do now; `None` once nobody is left. Processes in `spared` are never touched.
    pub fn step(&mut self, processes: &[Process], spared: &BTreeSet<i32>) -> Option<Vec<Action>> {
        let new = self.grow(processes, spared);
        let alive: Vec<i32> = processes
            .iter()
            .filter(|p| !p.ended && self.members.get(&p.pid) == Some(&p.started))
            .map(|p| p.pid)
            .collect();
        if alive.is_empty() {
            return None;
        }
        if !self.killing && !new.is_empty() && self.rounds < FREEZE_ROUNDS {
            self.rounds += 1;
            return Some(new.into_iter().map(Action::Stop).collect());
        }
        self.killing = true;
        Some(alive.into_iter().map(Action::Kill).collect())
    }

    /// Takes in whoever belongs to the family by now, and names the newcomers.
    fn grow(&mut self, processes: &[Process], spared: &BTreeSet<i32>) -> Vec<i32> {
        let mut new = Vec::new();
        loop {
            let before = new.len();
            for process in processes {
                let known = self.members.get(&process.pid) == Some(&process.started);
                if process.ended || known || spared.contains(&process.pid) {
                    continue;
                }
                if process.pid == self.root
                    || self.members.contains_key(&process.parent)
                    || self.sessions.contains(&process.session)
                {
                    self.members.insert(process.pid, process.started);
                    if process.session == process.pid {
                        self.sessions.insert(process.pid);
                    }
                    new.push(process.pid);
                }
            }
            if new.len() == before {
                return new;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, session: i32) -> Process {
        Process {
            pid,
            parent,
            session,
            ended: false,
            started: pid as u64,
        }
    }

    #[test]
    fn a_family_is_stopped_until_nobody_new_turns_up_and_then_killed() {
        let mut doom = Doom::new(10);
        let spared = BTreeSet::from([1, 2]);
        let mut all = vec![
            process(1, 0, 1),
            process(2, 1, 1),
            process(10, 1, 10),
            process(11, 10, 10),
            process(12, 11, 12),
            process(20, 1, 20),
            process(21, 20, 20),
        ];
        let stops = doom.step(&all, &spared).expect("some live");
        assert_eq!(stops, [10, 11, 12].map(Action::Stop));
        // One had forked before it stopped, and its parent's session gives it away.
        all.push(process(13, 1, 12));
        assert_eq!(doom.step(&all, &spared), Some(vec![Action::Stop(13)]));
        let kills = doom.step(&all, &spared).expect("some live");
        assert_eq!(kills, [10, 11, 12, 13].map(Action::Kill));
        all.retain(|p| p.pid < 10 || p.pid >= 20);
        assert_eq!(doom.step(&all, &spared), None);
    }

    #[test]
    fn what_a_dead_slot_left_in_its_session_is_found() {
        let mut doom = Doom::new(10);
        let all = [process(1, 0, 1), process(11, 1, 10), process(20, 1, 20)];
        let spared = BTreeSet::from([1]);
        assert_eq!(doom.step(&all, &spared), Some(vec![Action::Stop(11)]));
        assert_eq!(doom.step(&all, &spared), Some(vec![Action::Kill(11)]));
    }

    #[test]
    fn an_id_that_was_given_to_somebody_else_is_not_killed() {
        let mut doom = Doom::new(10);
        let spared = BTreeSet::from([1]);
        doom.step(&[process(10, 1, 10), process(11, 10, 10)], &spared);
        let stranger = Process {
            started: 999,
            ..process(11, 5, 5)
        };
        assert_eq!(doom.step(&[stranger], &spared), None);
    }
}
