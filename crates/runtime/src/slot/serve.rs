//! What a slot does while it serves: takes calls, reads answers, and deals with deadlines.

use std::io;
use std::time::{Duration, Instant};

use paddock_types::{Outcome, SubKind};
use paddock_wire::{Answer, Frame, FrameError, Kind, LogEntry, Stacks};
use rustix::process::{Signal, kill_process};

use super::ending::{Cause, Ending};
use super::running::{Phase, Running};
use super::{NATIVE_WAIT, STACK_LIMIT, STACK_QUIET, Slot, State, owner};
use crate::forkserver::Mode;
use crate::judge::{failure, judge};
use crate::logs::LogBudget;
use crate::memory::proc::{Resident, resident};
use crate::size;

/// The peak memory of every so many calls is read, and of all that were slow or failed.
const SAMPLE_MEMORY: u64 = 64;
/// Instead of a stack, where only `faulthandler` could say anything.
const NO_ANSWER: &str =
    "nobody in the process could answer, since something there never lets the interpreter go";
/// A call that ran longer than this is slow.
const SLOW: Duration = Duration::from_millis(50);
/// Memory doesn't run out in less: filling the smallest instance takes longer.
const BRIEF: Duration = Duration::from_millis(5);

impl Slot {
    /// Takes calls while there is room.
    pub(super) fn take_calls(&mut self) {
        if self.calls.len() >= self.capacity || self.calls.first().is_some_and(|c| c.alone) {
            return;
        }
        if self.common.mode == Mode::Process && !self.memory.enter_call() {
            self.common.pool.stand_by(self.id, &self.wake);
            return;
        }
        let mut taken = std::mem::take(&mut self.taken);
        self.common.pool.take(
            self.id,
            &self.wake,
            self.calls.len(),
            self.capacity,
            &mut taken,
        );
        for waiting in taken.drain(..) {
            let Some(own) = self.own.upgrade() else {
                Self::give_back(waiting, "the plugin was closed");
                continue;
            };
            waiting.ticket.reached(own);
            if waiting.reply.is_closed() {
                continue;
            }
            let options = &self.common.options;
            let log = LogBudget::new(options.log_bytes_per_call, options.evidence_lines);
            let (running, body) = Running::start(waiting, log);
            let (call, attempt) = running.key();
            let due = running.started + self.common.timeout;
            if self.armed.is_some_and(|armed| due < armed) {
                self.rearm();
            }
            match self.outbox.push(Kind::Call, call, attempt, body) {
                Ok(()) => self.calls.push(running),
                Err(problem) => {
                    let message = match problem {
                        FrameError::TooLong { length, limit } => format!(
                            "the request takes {}: allowed are {} (frame_limit), its frame included",
                            size::shown(length),
                            size::shown(limit)
                        ),
                        problem => format!("the request can't be sent: {problem}"),
                    };
                    running.answer(failure(SubKind::Raised, message), &self.instance);
                }
            }
        }
        self.taken = taken;
    }

    /// Deals with the frames that have arrived on the data socket.
    pub(super) fn read_frames(&mut self) {
        loop {
            match self.decoder.next_frame() {
                Ok(Some(frame)) if frame.kind == Kind::Answer => self.on_answer(&frame),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(problem) => {
                    self.data_open = false;
                    self.kill(Cause::Broke(problem.to_string()));
                    return;
                }
            }
        }
        if !self.data_open {
            // Its exit tells how it ended; one that lives on without its socket is killed.
            self.leave(if self.calls.is_empty() {
                Cause::Retired
            } else {
                self.cause_of_death()
            });
        }
    }

    fn on_answer(&mut self, frame: &Frame) {
        let key = (frame.call, frame.attempt);
        let Some(at) = self.calls.iter().position(|c| c.key() == key) else {
            tracing::debug!(
                call = frame.call,
                attempt = frame.attempt,
                "a late answer is refused"
            );
            return;
        };
        self.hear_out();
        for stream in [&mut self.stdout, &mut self.stderr] {
            let owner = owner(self.common.mode, &mut self.calls);
            self.lister.end_line(stream, owner);
        }
        let mut running = self.calls.swap_remove(at);
        self.served += 1;
        let mut residue = false;
        let mut verdict = match Answer::parse(&frame.body) {
            _ if running.phase != Phase::Runs => {
                residue = Answer::parse(&frame.body).is_ok_and(|a| !a.residue.is_empty());
                self.drain_stack();
                self.ending(1).timeout(&running)
            }
            Ok(answer) => {
                residue = !answer.residue.is_empty();
                let judged = judge(self.common.kind, running.trajectories, answer);
                for warning in judged.warnings {
                    self.lister.note(key, warning);
                }
                judged.verdict
            }
            Err(problem) => failure(
                SubKind::Raised,
                format!("its answer can't be read: {problem}"),
            ),
        };
        let (ran, failed) = (
            running.started.elapsed(),
            verdict.outcome != Outcome::Success,
        );
        let mut suspect = false;
        if (ran > BRIEF || failed)
            && running.phase == Phase::Runs
            && let Some(oom) = self.memory.oom()
        {
            let cause = Cause::Memory(Box::new(oom));
            if !self.calls.is_empty() {
                // A child of one of them was ended, and whose it was isn't known.
                self.calls.push(running);
                self.kill(cause);
                return;
            }
            // Whatever it has answered: it did so without a process that it had started.
            let part = self.ending(1).because_of(&cause).part(&running);
            (verdict, suspect, residue) = (part.verdict, part.suspect, true);
        }
        let mut grown = false;
        if verdict.peak_memory_bytes.is_none()
            && (ran > SLOW || failed || self.served % SAMPLE_MEMORY == 1)
        {
            let resident = self.resident();
            let peak = self.memory.peak_of_call(resident, self.calls.is_empty());
            verdict.peak_memory_bytes = running.peak.or(peak);
            grown = self.memory.has_grown(self.served, resident);
        }
        self.say_what_was_cut(&mut running);
        if suspect {
            self.common.pool.suspect(running.call);
        } else if running.alone {
            self.common.pool.acquit(running.call);
        }
        if residue && self.calls.is_empty() && self.state == State::Serving {
            self.kill(Cause::Retired);
        } else if residue || grown || self.served >= self.common.options.calls_per_slot {
            self.retire();
        } else if self.state == State::Serving {
            // The next call is on its way before this one's verdict is looked at.
            self.take_calls();
            self.flush();
        } else {
            self.end_if_done();
        }
        running.answer(verdict, &self.instance);
    }

    /// Deals with the frames that have arrived on the control socket.
    pub(super) fn read_control(&mut self) {
        loop {
            match self.control_decoder.next_frame() {
                Ok(Some(frame)) => self.on_control(&frame),
                Ok(None) => return,
                Err(problem) => {
                    self.control_open = false;
                    self.kill(Cause::Broke(problem.to_string()));
                    return;
                }
            }
        }
    }

    fn on_control(&mut self, frame: &Frame) {
        let key = (frame.call, frame.attempt);
        match frame.kind {
            Kind::Log => {
                // A body that is no list of lines says nothing that can be kept.
                if let Ok(entries) = serde_json::from_slice::<Vec<LogEntry>>(&frame.body) {
                    self.lister.entries(&mut self.calls, key, entries);
                }
            }
            Kind::Stacks => {
                let stacks: Stacks = serde_json::from_slice(&frame.body).unwrap_or_default();
                if let Some(running) = self.calls.iter_mut().find(|c| c.key() == key) {
                    running.stacks = Some(stacks);
                    self.rearm();
                }
            }
            _ => {}
        }
    }

    pub(super) fn read_stack(&mut self) {
        let Some(pipe) = &self.stack.pipe else { return };
        let mut buffer = [0; 4 << 10];
        loop {
            match pipe.try_read(&mut buffer) {
                Ok(count @ 1..) => {
                    self.native_stack_at = Some(Instant::now());
                    let room = STACK_LIMIT.saturating_sub(self.native_stack.len());
                    self.native_stack
                        .extend_from_slice(&buffer[..count.min(room)]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => {
                    self.stack.pipe = None;
                    return;
                }
            }
        }
    }

    /// The same, whether or not the reactor has heard of it: for what was written before an end.
    pub(super) fn drain_stack(&mut self) {
        let Some(pipe) = &self.stack.pipe else { return };
        let mut buffer = [0; 4 << 10];
        let mut budget = 2 * STACK_LIMIT;
        while budget > 0 {
            let Ok(count @ 1..) = rustix::io::read(pipe, &mut buffer) else {
                return;
            };
            budget = budget.saturating_sub(count);
            let room = STACK_LIMIT.saturating_sub(self.native_stack.len());
            self.native_stack
                .extend_from_slice(&buffer[..count.min(room)]);
        }
    }

    /// Looks at everything that may be due.
    pub(super) fn tick(&mut self) {
        let now = Instant::now();
        match &self.state {
            State::Draining { until } if now >= *until => {
                self.kill(Cause::Retired);
                return;
            }
            State::Draining { .. } | State::Ending { .. } => return,
            State::Serving | State::Retiring => {}
        }
        if !self.calls.is_empty() && self.memory.look(now) {
            self.end_if_out_of_memory();
            return;
        }
        for at in 0..self.calls.len() {
            self.look(at, now);
            if matches!(self.state, State::Ending { .. }) {
                return;
            }
        }
        self.end_if_done();
    }

    /// Ends the process if one of its family was ended for want of memory, or is to be: the verdict is certain by then.
    pub(super) fn end_if_out_of_memory(&mut self) {
        if matches!(self.state, State::Ending { .. }) {
            return;
        }
        if let Some(oom) = self.memory.oom() {
            let cause = Cause::Memory(Box::new(oom));
            self.kill(if self.calls.is_empty() {
                Cause::Retired
            } else {
                cause
            });
        }
    }

    fn look(&mut self, at: usize, now: Instant) {
        let running = &self.calls[at];
        let key = running.key();
        match running.phase {
            Phase::Runs if running.ran(now) >= self.common.timeout => self.begin_evidence(at, now),
            Phase::Evidence { until } if now >= until || self.evidence_is_in(running, now) => {
                self.act_on_evidence(at, now);
            }
            Phase::Evidence { until } if !running.signalled && now + NATIVE_WAIT >= until => {
                self.ask_natively(at);
            }
            Phase::Cancelled { until } if now >= until && !running.abandoned => {
                self.kill(Cause::Overdue {
                    overdue: key,
                    guilty: Some(key),
                });
            }
            Phase::Cancelled { until } if now >= until => {
                if running.ran(now) >= self.common.timeout {
                    self.kill(Cause::Overdue {
                        overdue: key,
                        guilty: Some(key),
                    });
                } else {
                    // It is looked at again when its own deadline passes.
                    let left = self.common.timeout.saturating_sub(running.ran(now));
                    self.calls[at].phase = Phase::Cancelled { until: now + left };
                    self.calls[at].overstayed = true;
                    self.retire();
                }
            }
            _ => {}
        }
    }

    /// The deadline has passed: before anything is touched, where the call stands is taken.
    fn begin_evidence(&mut self, at: usize, now: Instant) {
        let resident = self.resident();
        let peak = self.memory.peak_of_call(resident, false);
        let running = &mut self.calls[at];
        running.peak = peak;
        running.phase = Phase::Evidence {
            until: now + self.common.options.evidence_wait,
        };
        let key = running.key();
        self.native_stack.clear();
        self.native_stack_at = None;
        self.say(Kind::Dump, key);
    }

    /// Nobody has answered: the interpreter is held. Only then may `faulthandler` look at the stacks of
    /// all threads from a signal's handler: of threads that run meanwhile it would crash.
    fn ask_natively(&mut self, at: usize) {
        self.calls[at].signalled = true;
        if let Some(pid) = self.host_pid {
            // It may have ended meanwhile: then its end is the evidence.
            let _ = kill_process(pid, Signal::USR2);
        }
    }

    fn evidence_is_in(&self, running: &Running, now: Instant) -> bool {
        running.stacks.is_some()
            || self
                .native_stack_at
                .is_some_and(|at| now.duration_since(at) >= STACK_QUIET)
    }

    /// Decides how the overdue call ends: alone if it can be cancelled, with its process if not.
    fn act_on_evidence(&mut self, at: usize, now: Instant) {
        self.drain_stack();
        let running = &self.calls[at];
        let overdue = running.key();
        let kill = |guilty| Cause::Overdue { overdue, guilty };
        if self.calls.len() == 1 && self.common.mode == Mode::Process {
            self.kill(kill(Some(overdue)));
            return;
        }
        let Some(stacks) = running.stacks.clone() else {
            // Nobody in the process could answer: some call holds the interpreter.
            let guilty = (self.calls.len() == 1).then_some(overdue);
            if guilty.is_some() {
                self.calls[at].stacks = Some(Stacks {
                    stack: NO_ANSWER.to_owned(),
                    blocked_loop: self.common.mode == Mode::Loop,
                    ..Stacks::default()
                });
            }
            self.kill(kill(guilty));
            return;
        };
        if stacks.blocked_loop {
            let holder = stacks.running.filter(|&call| call != 0);
            let guilty = self
                .calls
                .iter()
                .find(|c| holder == Some(c.call))
                .map(Running::key)
                .or((self.calls.len() == 1).then_some(overdue));
            if let Some(guilty) = guilty
                && let Some(running) = self.calls.iter_mut().find(|c| c.key() == guilty)
            {
                running.stacks = Some(stacks);
            }
            self.kill(kill(guilty));
            return;
        }
        self.calls[at].phase = Phase::Cancelled {
            until: now + self.common.options.cancel_grace,
        };
        self.say(Kind::Cancel, overdue);
    }

    pub(super) fn ending(&self, in_flight: usize) -> Ending<'_> {
        Ending {
            cause: &Cause::Retired,
            exit: None,
            timeout: self.common.timeout,
            last_lines: self.lister.last_lines(),
            native_stack: String::from_utf8_lossy(&self.native_stack).into_owned(),
            in_flight,
            now: Instant::now(),
        }
    }

    /// What the process has resident, as the system has it.
    fn resident(&self) -> Option<Resident> {
        resident(self.host_pid?.as_raw_nonzero().get())
    }
}
