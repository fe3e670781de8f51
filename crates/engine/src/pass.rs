//! One pass over some samples, as a state machine without I/O: which calls to make, what their
//! verdicts mean for the sample and the job, and when the pass is over.
//!
//! A sample's grading starts when its group of rollouts is complete. A sample is counted exactly
//! once: graded, dropped or failed. Verdicts of ended attempts change nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use paddock_types::SubKind;
use paddock_types::job::OnAbnormalReward;
use paddock_types::plugin::PluginKind;
use paddock_types::retry::{Next, PLUGIN_RETRIES, Tries};
use paddock_types::verdict::Verdict;

/// Which call of a pass. `sample` and `generation` count from 0, `grader` is its position in the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallKey {
    /// A rollout.
    Rollout {
        /// Sample.
        sample: u32,
        /// Generation.
        generation: u32,
    },
    /// A single grader's call.
    Single {
        /// Sample.
        sample: u32,
        /// Generation.
        generation: u32,
        /// Grader.
        grader: usize,
    },
    /// A group grader's call.
    Group {
        /// Sample.
        sample: u32,
        /// Grader.
        grader: usize,
    },
}

impl CallKey {
    /// The sample it is made for.
    pub const fn sample(self) -> u32 {
        match self {
            Self::Rollout { sample, .. }
            | Self::Single { sample, .. }
            | Self::Group { sample, .. } => sample,
        }
    }
}

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Make a call.
    Call {
        /// Which.
        key: CallKey,
        /// Its attempt, from 1.
        attempt: u32,
        /// Earlier attempts that the plugin answers for.
        charged: u32,
        /// How long to wait first.
        wait: Duration,
    },
    /// End a call that is no longer wanted.
    Cancel(CallKey),
    /// The sample is graded.
    Graded(u32),
    /// The sample is dropped, with the call that decided it.
    Dropped(u32, CallKey),
    /// The job fails with this call's last verdict.
    Fail(CallKey),
}

/// What a pass is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassShape {
    /// Samples.
    pub samples: u32,
    /// Trajectories a sample.
    pub generations: u32,
    /// The graders' kinds, in the job's order.
    pub graders: Vec<PluginKind>,
    /// In a validation a failure is left out and counted; it never ends the job.
    pub validation: bool,
    /// What becomes of abnormal rewards once their tries are used up.
    pub on_abnormal_reward: OnAbnormalReward,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Pending {
    attempt: u32,
    tries: Tries,
}

#[derive(Debug, Clone, PartialEq)]
enum Sample {
    Rolling(BTreeMap<CallKey, Pending>),
    Grading(BTreeMap<CallKey, Pending>),
    Over,
}

/// The state of a pass.
#[derive(Debug)]
pub struct Pass {
    shape: PassShape,
    samples: Vec<Sample>,
    open: u32,
}

impl Pass {
    /// A pass with all its rollouts still to make, and the commands that make them.
    pub fn start(shape: PassShape) -> (Self, Vec<Command>) {
        let mut commands = vec![];
        let samples = (0..shape.samples)
            .map(|sample| {
                let keys = (0..shape.generations).map(|g| CallKey::Rollout {
                    sample,
                    generation: g,
                });
                Sample::Rolling(begin(keys, &mut commands))
            })
            .collect();
        let open = shape.samples;
        (
            Self {
                shape,
                samples,
                open,
            },
            commands,
        )
    }

    /// True once every sample is graded, dropped or failed.
    pub const fn is_over(&self) -> bool {
        self.open == 0
    }

    /// Takes the verdict of an attempt. `jitter` in 0..1 spreads the waits before retries.
    pub fn on_verdict(
        &mut self,
        key: CallKey,
        attempt: u32,
        verdict: &Verdict,
        jitter: f64,
    ) -> Vec<Command> {
        let index = key.sample() as usize;
        let pending = match self.samples.get_mut(index) {
            Some(Sample::Rolling(calls) | Sample::Grading(calls)) => calls,
            Some(Sample::Over) | None => return vec![],
        };
        let Some(call) = pending.get_mut(&key).filter(|call| call.attempt == attempt) else {
            return vec![];
        };
        match call.tries.after(verdict, PLUGIN_RETRIES, jitter) {
            Next::Done => {
                pending.remove(&key);
                if pending.is_empty() {
                    self.advance(key.sample())
                } else {
                    vec![]
                }
            }
            Next::Again(wait) => {
                call.attempt += 1;
                let (attempt, charged) = (call.attempt, call.tries.charged);
                vec![Command::Call {
                    key,
                    attempt,
                    charged,
                    wait,
                }]
            }
            Next::Drop => self.end(key, Command::Dropped(key.sample(), key)),
            Next::Fail if self.drops(verdict) => self.end(key, Command::Dropped(key.sample(), key)),
            Next::Fail => self.end(key, Command::Fail(key)),
        }
    }

    fn drops(&self, verdict: &Verdict) -> bool {
        self.shape.validation
            || (verdict.sub_kind == Some(SubKind::AbnormalReward)
                && self.shape.on_abnormal_reward == OnAbnormalReward::Discard)
    }

    /// All calls of the sample's stage succeeded: on to its graders, or it is graded.
    fn advance(&mut self, sample: u32) -> Vec<Command> {
        let state = &mut self.samples[sample as usize];
        if matches!(state, Sample::Grading(_)) {
            *state = Sample::Over;
            self.open -= 1;
            return vec![Command::Graded(sample)];
        }
        let mut commands = vec![];
        let generations = self.shape.generations;
        let keys = self
            .shape
            .graders
            .iter()
            .enumerate()
            .flat_map(|(grader, kind)| {
                let single = *kind == PluginKind::SingleGrader;
                let calls = if single { generations } else { 1 };
                (0..calls).map(move |generation| match single {
                    true => CallKey::Single {
                        sample,
                        generation,
                        grader,
                    },
                    false => CallKey::Group { sample, grader },
                })
            });
        *state = Sample::Grading(begin(keys, &mut commands));
        commands
    }

    /// Ends a sample early: its other calls are cancelled.
    fn end(&mut self, key: CallKey, last: Command) -> Vec<Command> {
        let state = &mut self.samples[key.sample() as usize];
        let mut commands = match std::mem::replace(state, Sample::Over) {
            Sample::Rolling(calls) | Sample::Grading(calls) => calls
                .into_keys()
                .filter(|&other| other != key)
                .map(Command::Cancel)
                .collect(),
            Sample::Over => vec![],
        };
        self.open -= 1;
        commands.push(last);
        commands
    }
}

fn begin(
    keys: impl Iterator<Item = CallKey>,
    commands: &mut Vec<Command>,
) -> BTreeMap<CallKey, Pending> {
    keys.map(|key| {
        commands.push(Command::Call {
            key,
            attempt: 1,
            charged: 0,
            wait: Duration::ZERO,
        });
        (
            key,
            Pending {
                attempt: 1,
                tries: Tries::default(),
            },
        )
    })
    .collect()
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
