//! Why a slot's process ended, and what that means for each call that was in it.
//!
//! Pure. One bad call never harms another: whoever is not known to be the cause is called again
//! uncharged, and where the cause isn't known, every candidate is called again alone, so that the
//! next time it is.

use std::time::{Duration, Instant};

use paddock_jail::message::Exit;
use paddock_types::{CallId, SubKind, Verdict};
use serde_json::{Map, Value, json};

use super::running::{Phase, Running};
use crate::judge::{failure, uncharged};
use crate::memory::oom::{Blame, Oom};

/// From this attempt on a call whose process was ended for another runs alone.
const SEEN_ENOUGH: u32 = 3;

/// Why the process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// By itself.
    Died,
    /// It wrote something that is no frame.
    Broke(String),
    /// It was ended for a call that had passed its deadline.
    Overdue {
        /// The call that had.
        overdue: (u64, u32),
        /// The call that is to blame, where that can be told.
        guilty: Option<(u64, u32)>,
    },
    /// A process of its family was ended for want of memory, by the kernel or by Paddock.
    Memory(Box<Oom>),
    /// The plugin was closed, or nobody waited any more.
    Stopped,
    /// It was replaced; nothing ran in it.
    Retired,
    /// Its reaper is gone.
    Lost,
}

/// What is known of the end.
#[derive(Debug)]
pub(crate) struct Ending<'a> {
    pub(crate) cause: &'a Cause,
    pub(crate) exit: Option<Exit>,
    pub(crate) timeout: Duration,
    /// The last lines that belong to no call.
    pub(crate) last_lines: Vec<String>,
    /// What `faulthandler` wrote.
    pub(crate) native_stack: String,
    /// Calls that were in the process.
    pub(crate) in_flight: usize,
    pub(crate) now: Instant,
}

/// A call's part in the end.
#[derive(Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) verdict: Verdict,
    /// It may have been the cause: it runs alone next.
    pub(crate) suspect: bool,
}

impl<'a> Ending<'a> {
    /// The same, for this cause.
    pub(crate) fn because_of(self, cause: &'a Cause) -> Self {
        Self { cause, ..self }
    }

    /// What the end means for this call.
    pub(crate) fn part(&self, running: &Running) -> Part {
        let alone = self.in_flight == 1;
        let key = running.key();
        match self.cause {
            Cause::Died | Cause::Broke(_) if alone => self.charge(self.eof(running)),
            Cause::Died | Cause::Broke(_) => Part {
                verdict: uncharged(format!(
                    "its process ended ({}) while {} calls shared it, and which of them ended it isn't known: \
                     each is called again alone",
                    self.how(),
                    self.in_flight
                )),
                suspect: true,
            },
            Cause::Overdue {
                guilty: Some(guilty),
                ..
            } if *guilty == key => self.charge(self.timeout(running)),
            Cause::Overdue {
                guilty: Some(guilty),
                ..
            } => Part {
                verdict: neighbour(
                    uncharged(format!(
                        "its process was ended because of {} (Timeout), which shared it",
                        CallId::from_u64(guilty.0)
                    )),
                    *guilty,
                ),
                // Innocent, as far as is known. But one that meets the guilty again and again
                // comes to its own verdict only where nobody else is.
                suspect: running.attempt >= SEEN_ENOUGH,
            },
            Cause::Overdue {
                overdue,
                guilty: None,
            } => Part {
                verdict: neighbour(
                    uncharged(format!(
                        "its process answered nothing when {} passed its deadline, and which of {} calls held it \
                     isn't known: each is called again alone",
                        CallId::from_u64(overdue.0),
                        self.in_flight
                    )),
                    *overdue,
                ),
                suspect: true,
            },
            Cause::Memory(oom) => self.memory(oom, running, alone),
            Cause::Stopped => self.spare("the plugin was closed while the call ran"),
            Cause::Retired => self.spare("its process was being replaced"),
            Cause::Lost => self.spare("the reaper of the plugin's processes is gone"),
        }
    }

    /// Memory has run out. Whoever isn't known to have used it is called again, and alone if it may have been the one.
    fn memory(&self, oom: &Oom, running: &Running, alone: bool) -> Part {
        let words = oom.words();
        let mut part = match oom.blame {
            Blame::Machine => self.spare(&words),
            Blame::Slot if alone => self.charge(oom.verdict()),
            // It was the largest of its instance once more.
            Blame::Together if alone && running.alone => self.charge(oom.verdict()),
            Blame::Together if alone => Part {
                verdict: uncharged(format!(
                    "{words}, which several calls had used together: it is called again"
                )),
                suspect: true,
            },
            Blame::Slot | Blame::Together => Part {
                verdict: uncharged(format!(
                    "{words} while {} calls shared its process, and which of them used it isn't known: each is called \
                     again alone",
                    self.in_flight
                )),
                suspect: true,
            },
        };
        self.common(running, &mut part.verdict);
        oom.show(&mut part.verdict);
        part
    }

    fn charge(&self, verdict: Verdict) -> Part {
        Part {
            verdict,
            suspect: false,
        }
    }

    fn spare(&self, message: &str) -> Part {
        Part {
            verdict: uncharged(message),
            suspect: false,
        }
    }

    fn eof(&self, running: &Running) -> Verdict {
        let message = match self.cause {
            Cause::Broke(problem) => format!("its process broke the protocol: {problem}"),
            _ => {
                let at = place_of_dump(&self.native_stack);
                let at = at.map(|at| format!(", at {at}")).unwrap_or_default();
                format!("its process ended without an answer: {}{at}", self.how())
            }
        };
        let mut verdict = failure(SubKind::Eof, message);
        verdict
            .evidence
            .extend(self.exit.into_iter().flat_map(exit_evidence));
        if !self.native_stack.is_empty() {
            // What `faulthandler` says of a crash in C code.
            verdict
                .evidence
                .insert("threads".into(), json!(self.native_stack));
        }
        self.common(running, &mut verdict);
        verdict
    }

    /// The verdict of a call that has passed its deadline.
    pub(crate) fn timeout(&self, running: &Running) -> Verdict {
        let limit = self.timeout.as_secs();
        let ran = running.ran(self.now);
        let stacks = running.stacks.clone().unwrap_or_default();
        let at = Some(stacks.place.clone())
            .filter(|told| !told.is_empty())
            .or_else(|| place(&stacks.stack))
            .or_else(|| place_of_dump(&self.native_stack));
        let at = at.map(|at| format!(", at {at}")).unwrap_or_default();
        let message = match running.phase {
            Phase::Runs => format!(
                "held the event loop past the deadline of another call, for up to {:.1} s{at}",
                ran.as_secs_f64()
            ),
            _ if stacks.blocked_loop => {
                format!(
                    "still running after {limit} s (timeout {limit}), with the event loop blocked{at}"
                )
            }
            _ => format!("still running after {limit} s (timeout {limit}){at}"),
        };
        let mut verdict = failure(SubKind::Timeout, message);
        let evidence = &mut verdict.evidence;
        evidence.insert("phase".into(), json!("run"));
        evidence.insert("timeout_s".into(), json!(limit));
        evidence.insert("ran_ms".into(), json!(ran.as_millis() as u64));
        if running.stacks.is_some() {
            evidence.insert("stack".into(), json!(stacks.stack));
            evidence.insert("blocked_loop".into(), json!(stacks.blocked_loop));
        }
        if !self.native_stack.is_empty() {
            evidence.insert("threads".into(), json!(self.native_stack));
        }
        self.common(running, &mut verdict);
        verdict
    }

    fn common(&self, running: &Running, verdict: &mut Verdict) {
        let mut lines = running.log.last_lines();
        if lines.is_empty() {
            lines.clone_from(&self.last_lines);
        }
        if !lines.is_empty() {
            verdict.evidence.insert("logs".into(), json!(lines));
        }
        verdict
            .evidence
            .insert("calls_in_flight".into(), json!(self.in_flight));
        if let Some(peak) = running.peak {
            verdict
                .evidence
                .insert("peak_memory_bytes".into(), json!(peak));
        }
    }

    fn how(&self) -> String {
        self.exit
            .map_or_else(|| "it closed its socket".to_owned(), exit_words)
    }
}

/// How a process ended, in words.
pub(crate) fn exit_words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => match signal_name(signal) {
            Some(name) => format!("signal {signal} ({name})"),
            None => format!("signal {signal}"),
        },
    }
}

/// How a process ended, as evidence.
pub(crate) fn exit_evidence(exit: Exit) -> Map<String, Value> {
    let told = match exit {
        Exit::Code(code) => json!({"exit_code": code}),
        Exit::Signal(signal) => json!({"signal_name": signal_name(signal), "signal": signal}),
    };
    match told {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn neighbour(mut verdict: Verdict, who: (u64, u32)) -> Verdict {
    let who = CallId::from_u64(who.0).to_string();
    verdict
        .evidence
        .insert("neighbour".into(), Value::String(who));
    verdict
}

/// The innermost place of a stack as the slot tells it: its last `file:line in function`.
fn place(stack: &str) -> Option<String> {
    stack.lines().map(str::trim).rev().find_map(|line| {
        let (file, after) = line.split_once(':')?;
        let (number, function) = after.split_once(" in ")?;
        let told = number.bytes().all(|b| b.is_ascii_digit()) && !function.contains(' ');
        (told && !file.contains(' ')).then(|| line.to_owned())
    })
}

/// The innermost place of a `faulthandler` dump, whose innermost frame comes first: the first frame in a
/// file that is not of Python's own library.
fn place_of_dump(dump: &str) -> Option<String> {
    let library = ["/lib/python", "paddock/_worker", "<frozen"];
    let first = |part: &str| {
        part.lines()
            .filter(|line| !library.iter().any(|part| line.contains(part)))
            .find_map(place_in)
    };
    // The thread that crashed, or that the signal interrupted; then any.
    let current = dump
        .split("\n\n")
        .find(|part| part.contains("Current thread"));
    current.and_then(first).or_else(|| first(dump))
}

fn place_in(line: &str) -> Option<String> {
    let (file, after) = line.trim_start().strip_prefix("File \"")?.split_once('"')?;
    let after = after.strip_prefix(", line ")?;
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let (number, function) = after.split_at(digits);
    let function = function
        .trim_start_matches(',')
        .trim_start()
        .trim_start_matches("in ");
    Some(match function.trim() {
        "" => format!("{file}:{number}"),
        function => format!("{file}:{number} in {function}"),
    })
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::oneshot;

    use super::*;
    use crate::call::{Call, CallClock};
    use crate::logs::LogBudget;
    use crate::pool::Waiting;

    fn running() -> Running {
        let (reply, _) = oneshot::channel();
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
        Running::start(waiting, LogBudget::new(100, 5)).0
    }

    fn ending(cause: &Cause, exit: Option<Exit>, in_flight: usize) -> Ending<'_> {
        Ending {
            cause,
            exit,
            timeout: Duration::from_secs(2),
            last_lines: vec!["bye".into()],
            native_stack: String::new(),
            in_flight,
            now: Instant::now(),
        }
    }

    #[test]
    fn a_process_of_one_call_is_that_calls_end() {
        let running = running();
        let part = ending(&Cause::Died, Some(Exit::Signal(11)), 1).part(&running);
        assert_eq!(part.verdict.sub_kind, Some(SubKind::Eof));
        assert_eq!(
            part.verdict.message,
            "its process ended without an answer: signal 11 (SIGSEGV)"
        );
        assert_eq!(part.verdict.evidence.get("signal"), Some(&json!(11)));
        assert_eq!(part.verdict.evidence.get("logs"), Some(&json!(["bye"])));
        assert!(!part.suspect && !part.verdict.platform);
    }

    #[test]
    fn a_shared_process_that_dies_charges_nobody_and_suspects_all() {
        let running = running();
        let part = ending(&Cause::Died, Some(Exit::Code(3)), 4).part(&running);
        assert!(part.suspect && part.verdict.platform);
        assert_eq!(part.verdict.sub_kind, None);
    }

    #[test]
    fn memory_is_charged_to_one_that_used_it_and_to_nobody_else() {
        let oom = |blame| {
            Cause::Memory(Box::new(Oom {
                blame,
                limit: 64 << 20,
                peak: 20 << 20,
                curve: Vec::new(),
                polled: false,
            }))
        };
        let (first, mut again) = (running(), running());
        again.alone = true;
        let part = |blame, running: &Running, in_flight| {
            let cause = oom(blame);
            let part = ending(&cause, Some(Exit::Signal(9)), in_flight).part(running);
            (part.verdict.sub_kind, part.verdict.platform, part.suspect)
        };
        let charged = (Some(SubKind::Oom), false, false);
        assert_eq!(part(Blame::Slot, &first, 1), charged);
        assert_eq!(part(Blame::Together, &again, 1), charged);
        let suspect = (None, true, true);
        assert_eq!(part(Blame::Together, &first, 1), suspect);
        assert_eq!(part(Blame::Slot, &first, 3), suspect);
        assert_eq!(part(Blame::Machine, &first, 1), (None, true, false));
        let cause = oom(Blame::Slot);
        let verdict = ending(&cause, None, 1).part(&first).verdict;
        assert_eq!(verdict.evidence["memory_limit"], json!("64 MiB"));
        assert_eq!(verdict.evidence["calls_in_flight"], json!(1));
        assert_eq!(verdict.evidence["logs"], json!(["bye"]));
    }

    #[test]
    fn only_the_guilty_call_is_charged_for_a_deadline() {
        let (mut guilty, innocent) = (running(), running());
        guilty.phase = Phase::Cancelled {
            until: Instant::now(),
        };
        let cause = Cause::Overdue {
            overdue: guilty.key(),
            guilty: Some(guilty.key()),
        };
        let end = ending(&cause, Some(Exit::Signal(9)), 2);
        let part = end.part(&guilty);
        assert_eq!(part.verdict.sub_kind, Some(SubKind::Timeout));
        assert_eq!(part.verdict.message, "still running after 2 s (timeout 2)");
        let part = end.part(&innocent);
        assert!(part.verdict.platform && !part.suspect);
        assert!(part.verdict.evidence.contains_key("neighbour"));
        let mut unlucky = running();
        unlucky.attempt = SEEN_ENOUGH;
        assert!(end.part(&unlucky).suspect);
    }

    #[test]
    fn places_are_read_from_stacks() {
        let stack = "a.py:3 in outer\n    inner()\nb.py:7 in inner\n    if x: y in z\n";
        assert_eq!(place(stack).as_deref(), Some("b.py:7 in inner"));
        let dump = "Current thread 0x1 (most recent call first):\n  File \"/usr/lib/python3.11/re.py\", line 1 in x\n  File \"/p/g.py\", line 9 in grade\n";
        assert_eq!(place_of_dump(dump).as_deref(), Some("/p/g.py:9 in grade"));
        let dump = format!(
            "Thread 0x2 (most recent call first):\n  File \"/p/other.py\", line 1 in x\n\n{dump}"
        );
        assert_eq!(place_of_dump(&dump).as_deref(), Some("/p/g.py:9 in grade"));
        assert_eq!(place("nothing"), None);
    }
}
