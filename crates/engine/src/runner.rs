//! Runs a pass: makes the calls that the state machine asks for and feeds it their verdicts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use paddock_types::fault::{Fault, Location};
use paddock_types::id::{CallId, JobId, Phase, SampleId, TrajectoryId};
use paddock_types::trajectory::{Conversation, TrajectoryRecord, TrajectoryStatus};
use paddock_types::verdict::{Outcome, Verdict};
use serde_json::Value;
use tokio::task::{AbortHandle, JoinSet};

use crate::JobEvent;
use crate::call::{self, Attempt, Done};
use crate::context::JobContext;
use crate::dataset::Row;
use crate::pass::{CallKey, Command, Pass, PassShape};

/// A graded trajectory.
#[derive(Debug, Clone)]
pub struct Graded {
    /// Its record, as it is kept.
    pub record: TrajectoryRecord,
    /// The conversation with its tokens.
    pub conversation: Arc<Conversation>,
    /// The weighted reward.
    pub reward: f64,
}

/// What a pass leaves: the groups in the order of their samples.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Graded groups, by sample.
    pub groups: BTreeMap<u32, Vec<Graded>>,
    /// Dropped samples, with plugin and reason.
    pub dropped: BTreeMap<u32, (String, String)>,
}

/// A finished rollout.
struct Rolled {
    conversation: Arc<Conversation>,
    extra: Arc<Value>,
}

/// The pass being run.
pub struct Runner {
    job: Arc<JobContext>,
    phase: Phase,
    step: u32,
    generations: u32,
    rows: Vec<Arc<Row>>,
    tasks: JoinSet<Done>,
    running: HashMap<CallKey, AbortHandle>,
    ids: HashMap<CallKey, CallId>,
    rolled: HashMap<(u32, u32), Rolled>,
    verdicts: HashMap<CallKey, Verdict>,
    out: Outcomes,
}

impl Runner {
    /// Runs all calls of a step (or a validation) to their end, or to the job's fault.
    pub async fn run(
        job: Arc<JobContext>,
        phase: Phase,
        step: u32,
        rows: Vec<Arc<Row>>,
    ) -> Result<Outcomes, Fault> {
        let h = &job.config.hyperparameters;
        let validation = phase == Phase::Test;
        let generations = if validation {
            h.test_num_generations
        } else {
            h.num_generations
        };
        let shape = PassShape {
            samples: rows.len() as u32,
            generations,
            graders: job
                .graders
                .iter()
                .map(|grader| grader.plugin.kind())
                .collect(),
            validation,
            on_abnormal_reward: job.config.on_abnormal_reward,
        };
        let (pass, commands) = Pass::start(shape);
        let mut runner = Self {
            job,
            phase,
            step,
            generations,
            rows,
            tasks: JoinSet::new(),
            running: HashMap::new(),
            ids: HashMap::new(),
            rolled: HashMap::new(),
            verdicts: HashMap::new(),
            out: Outcomes::default(),
        };
        runner.obey(commands).await?;
        runner.follow(pass).await
    }

    async fn follow(mut self, mut pass: Pass) -> Result<Outcomes, Fault> {
        while !pass.is_over() {
            let done = match self.tasks.join_next().await {
                Some(Ok(done)) => done,
                Some(Err(error)) if error.is_cancelled() => continue,
                Some(Err(error)) => {
                    return Err(Fault::internal(format!(
                        "a call's task ended by itself: {error}"
                    )));
                }
                None => {
                    return Err(Fault::internal(
                        "a pass has samples left but no call to make",
                    ));
                }
            };
            self.running.remove(&done.key);
            if let (CallKey::Rollout { sample, generation }, Some(conversation)) =
                (done.key, done.conversation)
            {
                let extra = Arc::new(done.verdict.extra.clone());
                let conversation = Arc::new(conversation);
                self.rolled.insert(
                    (sample, generation),
                    Rolled {
                        conversation,
                        extra,
                    },
                );
            }
            let commands = pass.on_verdict(done.key, done.attempt, &done.verdict, rand::random());
            self.verdicts.insert(done.key, done.verdict);
            self.obey(commands).await?;
            self.tell_flight();
        }
        Ok(self.out)
    }

    fn tell_flight(&self) {
        let (rollouts, grades) = self.job.flight.now();
        let done = self.out.groups.len() + self.out.dropped.len();
        self.job.tell(JobEvent::Flight {
            rollouts,
            grades,
            done,
            of: self.rows.len(),
        });
    }

    async fn obey(&mut self, commands: Vec<Command>) -> Result<(), Fault> {
        for command in commands {
            match command {
                Command::Call {
                    key,
                    attempt,
                    charged,
                    wait,
                } => {
                    let attempt = self.attempt(key, attempt, charged);
                    let job = self.job.clone();
                    let handle = self.tasks.spawn(async move {
                        if !wait.is_zero() {
                            tokio::time::sleep(wait).await;
                        }
                        call::make(job, attempt).await
                    });
                    self.running.insert(key, handle);
                }
                Command::Cancel(key) => {
                    if let Some(handle) = self.running.remove(&key) {
                        handle.abort();
                    }
                }
                Command::Graded(sample) => self.graded(sample).await,
                Command::Dropped(sample, key) => self.dropped(sample, key).await,
                Command::Fail(key) => {
                    self.tasks.shutdown().await;
                    let fault = self.fault(key);
                    self.close(key.sample(), key, TrajectoryStatus::Failed, &fault.message)
                        .await;
                    return Err(fault);
                }
            }
        }
        Ok(())
    }

    fn sample_id(&self, index: u32) -> SampleId {
        let job: JobId = self.job.job;
        SampleId {
            job,
            phase: self.phase,
            step: self.step,
            index,
        }
    }

    fn attempt(&mut self, key: CallKey, attempt: u32, charged: u32) -> Attempt {
        let sample = key.sample();
        let group = match key {
            CallKey::Rollout { .. } => 0..0,
            CallKey::Single { generation, .. } => generation..generation + 1,
            CallKey::Group { .. } => 0..self.generations,
        };
        let group = group
            .filter_map(|generation| self.rolled.get(&(sample, generation)))
            .map(|rolled| (rolled.conversation.clone(), rolled.extra.clone()))
            .collect();
        let id = *self.ids.entry(key).or_insert_with(CallId::new);
        let row = self.rows[sample as usize].clone();
        Attempt {
            key,
            id,
            attempt,
            charged,
            sample: self.sample_id(sample),
            row,
            group,
        }
    }

    async fn graded(&mut self, sample: u32) {
        let mut group = Vec::with_capacity(self.generations as usize);
        for generation in 0..self.generations {
            let Some(rolled) = self.rolled.remove(&(sample, generation)) else {
                continue;
            };
            let mut record = self.record(sample, generation, &rolled, TrajectoryStatus::Success);
            let mut reward = 0.0;
            for (index, grader) in self.job.graders.iter().enumerate() {
                let single = CallKey::Single {
                    sample,
                    generation,
                    grader: index,
                };
                let (key, at) = match self.verdicts.contains_key(&single) {
                    true => (single, 0),
                    false => (
                        CallKey::Group {
                            sample,
                            grader: index,
                        },
                        generation as usize,
                    ),
                };
                let Some(verdict) = self.verdicts.get(&key) else {
                    continue;
                };
                let Some(&own) = verdict.rewards.get(at) else {
                    continue;
                };
                reward += grader.weight * own;
                record.rewards.insert(grader.plugin.name().to_owned(), own);
                let numbers = verdict.metrics.iter();
                let numbers = numbers.filter_map(|(key, v)| Some((key.clone(), v.as_f64()?)));
                record.metrics.extend(numbers);
            }
            record.reward = Some(reward);
            self.keep(&record).await;
            group.push(Graded {
                record,
                conversation: rolled.conversation,
                reward,
            });
        }
        self.forget(sample);
        self.out.groups.insert(sample, group);
    }

    async fn dropped(&mut self, sample: u32, key: CallKey) {
        let verdict = self.verdicts.get(&key);
        let status = match verdict.map(|v| v.outcome) {
            Some(Outcome::Failure) => TrajectoryStatus::Failed,
            _ => TrajectoryStatus::Discard,
        };
        let reason = verdict.map(reason).unwrap_or_default();
        let plugin = self.plugin_name(key);
        self.close(sample, key, status, &reason).await;
        let kind = match verdict_kind(self.verdicts.get(&key)) {
            Some(kind) => kind,
            None => "failed".to_owned(),
        };
        self.out.dropped.insert(sample, (plugin, kind));
        self.forget(sample);
    }

    /// Keeps the records of a sample that ends early: the deciding trajectory with `status`, its
    /// siblings as `discard`.
    async fn close(&self, sample: u32, key: CallKey, status: TrajectoryStatus, why: &str) {
        for generation in 0..self.generations {
            let own = match key {
                CallKey::Rollout {
                    generation: own, ..
                }
                | CallKey::Single {
                    generation: own, ..
                } => own == generation,
                CallKey::Group { .. } => true,
            };
            let nothing = Rolled {
                conversation: Arc::new(Conversation {
                    messages: self.rows[sample as usize].messages.clone(),
                    ..Conversation::default()
                }),
                extra: Arc::new(Value::Null),
            };
            let rolled = self.rolled.get(&(sample, generation)).unwrap_or(&nothing);
            let status = if own {
                status
            } else {
                TrajectoryStatus::Discard
            };
            let mut record = self.record(sample, generation, rolled, status);
            record.reason = match own {
                true => why.to_owned(),
                false => format!("its sample was dropped: {why}"),
            };
            self.keep(&record).await;
        }
    }

    fn record(
        &self,
        sample: u32,
        generation: u32,
        rolled: &Rolled,
        status: TrajectoryStatus,
    ) -> TrajectoryRecord {
        TrajectoryRecord {
            id: self.sample_id(sample).trajectory(generation),
            status,
            reason: String::new(),
            source: self.rows[sample as usize].source.clone(),
            conversation: (*rolled.conversation).clone(),
            extra: (*rolled.extra).clone(),
            rewards: BTreeMap::new(),
            reward: None,
            metrics: BTreeMap::new(),
            ended_ms: crate::now_ms(),
        }
    }

    async fn keep(&self, record: &TrajectoryRecord) {
        if self.job.config.enable_trajectory {
            // A writer that failed ends the job by itself: `run` waits for it.
            let _ = self.job.writer.trajectory(record.clone()).await;
        }
    }

    fn forget(&mut self, sample: u32) {
        self.rolled.retain(|(of, _), _| *of != sample);
        self.verdicts.retain(|key, _| key.sample() != sample);
        self.ids.retain(|key, _| key.sample() != sample);
    }

    fn plugin_name(&self, key: CallKey) -> String {
        match key {
            CallKey::Rollout { .. } => match &self.job.rollout {
                Some(plugin) => plugin.name().to_owned(),
                None => "the model's turn".to_owned(),
            },
            CallKey::Single { grader, .. } | CallKey::Group { grader, .. } => {
                self.job.graders[grader].plugin.name().to_owned()
            }
        }
    }

    /// The trajectory that a call's fault is about: its own, or the one that the evidence names.
    fn trajectory(&self, key: CallKey, fault: &Fault) -> Option<TrajectoryId> {
        let generation = match key {
            CallKey::Rollout { generation, .. } | CallKey::Single { generation, .. } => generation,
            CallKey::Group { .. } => {
                u32::try_from(fault.evidence.get("trajectory")?.as_u64()?).ok()?
            }
        };
        Some(self.sample_id(key.sample()).trajectory(generation))
    }

    fn fault(&self, key: CallKey) -> Fault {
        let verdict = self.verdicts.get(&key).cloned().unwrap_or_default();
        let plugin = self.plugin_name(key);
        let call = self.ids.get(&key).map(ToString::to_string);
        let mut fault = match verdict.sub_kind.filter(|_| !verdict.platform) {
            Some(kind) => Fault::call_plugin(
                kind,
                format!("plugin \"{plugin}\": {}", reason(&verdict)),
                verdict.advice().unwrap_or(kind.advice()),
            ),
            None => Fault::internal(format!("plugin \"{plugin}\": {}", reason(&verdict))),
        };
        fault.evidence = verdict.evidence;
        if !verdict.error.is_empty() && !fault.evidence.contains_key("traceback") {
            fault.evidence.insert("error".into(), verdict.error.into());
        }
        if let Some(trajectory) = self.trajectory(key, &fault) {
            fault
                .evidence
                .insert("trajectory_id".into(), trajectory.to_string().into());
        }
        fault.at(Location {
            plugin: Some(plugin),
            call,
            step: Some(self.step),
            ..Location::default()
        })
    }
}

fn reason(verdict: &Verdict) -> String {
    match (verdict.message.is_empty(), verdict.error.is_empty()) {
        (false, _) => verdict.message.clone(),
        (true, false) => verdict.error.clone(),
        (true, true) => format!(
            "answered \"{}\" without saying why",
            verdict.outcome.as_str()
        ),
    }
}

fn verdict_kind(verdict: Option<&Verdict>) -> Option<String> {
    let verdict = verdict?;
    Some(match verdict.sub_kind {
        Some(kind) => kind.to_string(),
        None => verdict.outcome.as_str().to_owned(),
    })
}
