//! The calls of `paddock grade`: the same runtime, bodies and retry rules as in a job.

use std::collections::BTreeMap;

use paddock_runtime::{Call, CallClock, Plugin};
use paddock_types::plugin::PluginKind;
use paddock_types::{CallId, JobId, Outcome, Verdict};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::recorded::Recorded;
use crate::attempts;

/// A grader that is up, with its reward's weight.
pub(super) struct Grader {
    pub(super) plugin: Plugin,
    pub(super) weight: f64,
}

/// What all calls share.
pub(super) struct Grading {
    pub(super) job: JobId,
    pub(super) graders: Vec<Grader>,
    /// Places for calls in flight.
    pub(super) places: Semaphore,
    pub(super) retries: u32,
}

/// What came of one trajectory.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Grade {
    /// Each grader's reward, before its weight.
    pub(super) rewards: BTreeMap<String, f64>,
    /// The weighted sum; `None` unless every grader gave one.
    pub(super) reward: Option<f64>,
    /// Each grader's metrics.
    pub(super) metrics: Map<String, Value>,
    /// Why it has no reward: the sub-kind of the fault that decided it, `retry` or `discard`.
    pub(super) failed: Option<String>,
    /// What was said about it.
    pub(super) message: String,
}

/// A line's grades, one a trajectory, with the calls that were made for them.
#[derive(Debug, Default)]
pub(super) struct Graded {
    pub(super) grades: Vec<Grade>,
    pub(super) calls: u64,
    /// Attempts that ended in a fault, by sub-kind.
    pub(super) faults: BTreeMap<String, u64>,
    /// The verdicts that gave a call up.
    pub(super) given_up: Vec<(String, Verdict)>,
}

impl Grading {
    /// Grades a line. Always comes back.
    pub(super) async fn grade(&self, recorded: &Recorded) -> Graded {
        let mut graded = Graded {
            grades: vec![Grade::default(); recorded.trajectories.len()],
            ..Graded::default()
        };
        for grader in &self.graders {
            match grader.plugin.kind() {
                PluginKind::GroupGrader => {
                    let all: Vec<usize> = (0..recorded.trajectories.len()).collect();
                    let called = self.call(grader, recorded, &all).await;
                    graded.take(grader, &all, called);
                }
                _ => {
                    let each = (0..recorded.trajectories.len())
                        .map(|i| async move { (i, self.call(grader, recorded, &[i]).await) });
                    for (i, called) in futures::future::join_all(each).await {
                        graded.take(grader, &[i], called);
                    }
                }
            }
        }
        for grade in &mut graded.grades {
            let weighted = self.graders.iter().map(|g| {
                grade
                    .rewards
                    .get(g.plugin.name())
                    .map(|reward| reward * g.weight)
            });
            grade.reward = weighted.sum();
        }
        graded
    }

    async fn call(&self, grader: &Grader, recorded: &Recorded, which: &[usize]) -> Called {
        let id = CallId::new();
        let mut faults = BTreeMap::new();
        let make = async |attempt| {
            let call = Call {
                id,
                attempt,
                body: self.body(recorded, which, attempt).into(),
                trajectories: which.len(),
                clock: CallClock::default(),
            };
            // The semaphore is never closed; without a place the call would only be early.
            let _place = self.places.acquire().await;
            let verdict = grader.plugin.call(call).await;
            if let Some(kind) = verdict.sub_kind {
                *faults.entry(kind.as_str().to_owned()).or_default() += 1;
            }
            verdict
        };
        let (attempts, verdict) = attempts::until_decided(id, self.retries, make).await;
        Called {
            attempts,
            faults,
            verdict,
        }
    }

    fn body(&self, recorded: &Recorded, which: &[usize], attempt: u32) -> Vec<u8> {
        let trajectories: Vec<_> = which.iter().map(|&i| &recorded.trajectories[i]).collect();
        let one = match which {
            [i] => Some(format!("recorded_{}_{i}", recorded.line)),
            _ => None,
        };
        let body = json!({
            "context": {
                "model_customization_job_id": self.job.to_string(),
                "foundation_model_name": null,
                "foundation_model_version": null,
                "customization_type": "GRPO",
                "phase": "test",
                "is_mock": true,
                "step": 0,
                "sample_id": format!("recorded_{}", recorded.line),
                "trajectory_id": one,
                "attempt": attempt,
            },
            "sample": recorded.sample,
            "trajectories": trajectories,
        });
        body.to_string().into_bytes()
    }
}

#[derive(Debug)]
struct Called {
    attempts: u32,
    faults: BTreeMap<String, u64>,
    /// Of the last attempt.
    verdict: Verdict,
}

impl Graded {
    fn take(&mut self, grader: &Grader, which: &[usize], called: Called) {
        self.calls += u64::from(called.attempts);
        for (kind, count) in called.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        let verdict = called.verdict;
        let name = grader.plugin.name();
        for (position, &i) in which.iter().enumerate() {
            let grade = &mut self.grades[i];
            match verdict.rewards.get(position) {
                Some(reward) if verdict.outcome == Outcome::Success => {
                    grade.rewards.insert(name.to_owned(), *reward);
                    grade.metrics.extend(verdict.metrics.clone());
                }
                _ => {
                    let why = verdict
                        .sub_kind
                        .map_or(verdict.outcome.as_str(), |kind| kind.as_str());
                    grade.failed.get_or_insert_with(|| why.to_owned());
                    if grade.message.is_empty() {
                        grade.message = format!("{name}: {}", said(&verdict));
                    }
                }
            }
        }
        if verdict.outcome != Outcome::Success {
            self.given_up.push((name.to_owned(), verdict));
        }
    }
}

fn said(verdict: &Verdict) -> &str {
    match verdict.message.is_empty() {
        true => verdict.error.lines().last().unwrap_or_default(),
        false => &verdict.message,
    }
}
