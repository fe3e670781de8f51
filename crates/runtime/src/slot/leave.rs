//! How a slot leaves: it takes no more calls, its process ends by itself or is ended, and the verdicts that are due
//! then are given.

use std::time::Instant;

use paddock_wire::Kind;
use rustix::process::{Signal, kill_process, kill_process_group};

use super::ending::{Cause, Ending};
use super::{DRAIN_WAIT, Event, Slot, State, owner};

impl Slot {
    /// Takes no more calls.
    pub(super) fn retire(&mut self) {
        if self.state == State::Serving {
            self.state = State::Retiring;
            self.common.pool.forget(self.id);
            self.tell(Event::Leaving(self.id));
        }
        self.end_if_done();
    }

    /// Ends a retiring slot once nobody is left in it that somebody waits for.
    pub(super) fn end_if_done(&mut self) {
        if self.state != State::Retiring {
            return;
        }
        if self.calls.is_empty() {
            self.drain();
        } else if self.calls.iter().all(|c| c.overstayed) {
            self.kill(Cause::Stopped);
        }
    }

    /// Asks the process to exit.
    pub(super) fn drain(&mut self) {
        if matches!(self.state, State::Draining { .. } | State::Ending { .. }) {
            return;
        }
        self.retire_from_pool();
        self.say(Kind::Drain, (0, 0));
        self.state = State::Draining {
            until: Instant::now() + DRAIN_WAIT,
        };
    }

    /// Ends the process with all it started.
    pub(super) fn kill(&mut self, cause: Cause) {
        self.reaper.kill(self.pid);
        self.memory.kill();
        self.killed = true;
        self.leave(cause);
    }

    /// The process is on its way out, for this cause. The first cause counts.
    pub(super) fn leave(&mut self, cause: Cause) {
        if matches!(self.state, State::Ending { .. }) {
            return;
        }
        self.retire_from_pool();
        self.state = State::Ending {
            cause,
            until: Instant::now() + self.common.options.kill_wait,
        };
    }

    pub(super) fn retire_from_pool(&mut self) {
        if self.state == State::Serving {
            self.common.pool.forget(self.id);
            self.tell(Event::Leaving(self.id));
        }
    }

    /// Gives the verdicts that are due at the end, and sees that nothing of the process lives on.
    pub(super) fn finish(&mut self) {
        self.retire_from_pool();
        if self.exited.is_none() && !self.killed {
            self.reaper.kill(self.pid);
        }
        if self.reaper.lost()
            && let Some(pid) = self.host_pid
        {
            // A slot leads its own group. Either may be gone already.
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
        }
        self.hear_out();
        self.drain_stack();
        let mut calls = std::mem::take(&mut self.calls);
        for stream in [&mut self.stdout, &mut self.stderr] {
            let owner = owner(self.common.mode, &mut calls);
            self.lister.end_line(stream, owner);
        }
        self.lister.say_cut();
        // A reaper that is gone takes its processes along, and no exit is told any more.
        let lost = self.exited.is_none() && (self.exit_known || self.reaper.lost());
        let mut cause = match &self.state {
            State::Ending {
                cause: Cause::Died, ..
            } if lost => Cause::Lost,
            State::Ending { cause, .. } => cause.clone(),
            _ => Cause::Stopped,
        };
        if matches!(cause, Cause::Died | Cause::Broke(_))
            && let Some(oom) = self.memory.oom()
        {
            cause = Cause::Memory(Box::new(oom));
        }
        // What is known of a process that is gone is what its group, or polling, has seen.
        let peak = Some(self.memory.peak_of_the_dead()).filter(|&bytes| bytes > 0);
        let ending = Ending {
            cause: &cause,
            exit: self.exited,
            timeout: self.common.timeout,
            last_lines: self.lister.last_lines(),
            native_stack: String::from_utf8_lossy(&self.native_stack).into_owned(),
            in_flight: calls.len(),
            now: Instant::now(),
        };
        for mut running in calls {
            running.peak = running.peak.or(peak);
            let part = ending.part(&running);
            if part.suspect {
                self.common.pool.suspect(running.call);
            } else if !part.verdict.platform {
                self.common.pool.acquit(running.call);
            }
            self.say_what_was_cut(&mut running);
            running.answer(part.verdict, &self.instance);
        }
    }
}
