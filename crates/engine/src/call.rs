//! Making one attempt of one call: its body, its plugin, its verdict, its record.

use std::sync::Arc;

use paddock_runtime::{Call, CallClock, Plugin};
use paddock_types::CallId;
use paddock_types::id::SampleId;
use paddock_types::trajectory::Conversation;
use paddock_types::verdict::{CallRecord, Verdict};
use serde_json::Value;

use crate::body::{self, Context, Proxy};
use crate::context::JobContext;
use crate::dataset::Row;
use crate::pass::CallKey;
use crate::session::SessionSettings;

/// One attempt to make.
pub struct Attempt {
    /// Which call.
    pub key: CallKey,
    /// The call's id, the same in all attempts.
    pub id: CallId,
    /// From 1.
    pub attempt: u32,
    /// Earlier attempts that the plugin answers for: a plugin's own retry samples anew, any other
    /// repeats what was sampled.
    pub charged: u32,
    /// The sample it is made for.
    pub sample: SampleId,
    /// The sample's row.
    pub row: Arc<Row>,
    /// The group's finished rollouts with what they returned, for graders.
    pub group: Vec<(Arc<Conversation>, Arc<Value>)>,
}

/// An attempt that is over.
pub struct Done {
    /// Which call.
    pub key: CallKey,
    /// Which attempt.
    pub attempt: u32,
    /// What came of it.
    pub verdict: Verdict,
    /// The conversation, of a rollout.
    pub conversation: Option<Conversation>,
}

/// Makes an attempt. Always comes back; dropping it cancels the attempt.
pub async fn make(job: Arc<JobContext>, attempt: Attempt) -> Done {
    let _flight = job.fly(matches!(attempt.key, CallKey::Rollout { .. }));
    let key = attempt.key;
    let number = attempt.attempt;
    let (verdict, conversation) = match (key, &job.rollout) {
        (CallKey::Rollout { generation, .. }, Some(plugin)) => {
            roll(&job, &attempt, generation, plugin).await
        }
        (CallKey::Rollout { generation, .. }, None) => {
            single_turn(&job, &attempt, generation).await
        }
        (CallKey::Single { grader, .. } | CallKey::Group { grader, .. }, _) => {
            (grade(&job, &attempt, grader).await, None)
        }
    };
    Done {
        key,
        attempt: number,
        verdict,
        conversation,
    }
}

fn settings(
    job: &JobContext,
    attempt: &Attempt,
    generation: u32,
    clock: CallClock,
) -> SessionSettings {
    SessionSettings::new(
        &job.config,
        attempt.sample,
        generation,
        attempt.charged,
        &attempt.row,
        clock,
    )
}

/// A rollout by the job's plugin, through the model proxy.
async fn roll(
    job: &Arc<JobContext>,
    attempt: &Attempt,
    generation: u32,
    plugin: &Plugin,
) -> (Verdict, Option<Conversation>) {
    let clock = CallClock::default();
    let settings = settings(job, attempt, generation, clock.clone());
    let session = job.sessions.open(job.policy.clone(), settings);
    let trajectory = attempt.sample.trajectory(generation);
    let context = Context::new(
        &job.config,
        attempt.sample,
        Some(trajectory),
        attempt.attempt,
    );
    let proxy = Proxy {
        url: job.proxy_url.clone(),
        jwt_token: session.token().to_owned(),
    };
    let body = body::rollout(&context, &attempt.row.json, &proxy);
    let started_ms = crate::now_ms();
    let call = Call {
        id: attempt.id,
        attempt: attempt.attempt,
        body,
        trajectories: 1,
        clock,
    };
    let mut verdict = plugin.call(call).await;
    let (conversation, model_fault) = session.finish();
    if let Some(fault) = model_fault
        && verdict.outcome != paddock_types::Outcome::Success
    {
        // What failed on the model's side is the platform's, whatever the plugin raised after it.
        verdict.platform = true;
        verdict.evidence.insert("model".into(), fault.into());
    }
    let trajectory = Some(trajectory);
    record(
        job,
        attempt,
        plugin.name(),
        trajectory,
        started_ms,
        &verdict,
    )
    .await;
    (verdict, Some(conversation))
}

/// The rollout of a job without a rollout plugin: one model turn.
async fn single_turn(
    job: &JobContext,
    attempt: &Attempt,
    generation: u32,
) -> (Verdict, Option<Conversation>) {
    let settings = settings(job, attempt, generation, CallClock::default());
    let session = job.sessions.open(job.policy.clone(), settings);
    let answer = session
        .turn(attempt.row.messages.clone(), attempt.row.tools.clone())
        .await;
    let (conversation, _) = session.finish();
    let verdict = match answer {
        Ok(()) => Verdict::default(),
        Err(error) => Verdict {
            outcome: paddock_types::Outcome::Failure,
            platform: true,
            message: error.to_string(),
            ..Verdict::default()
        },
    };
    (verdict, Some(conversation))
}

async fn grade(job: &JobContext, attempt: &Attempt, grader: usize) -> Verdict {
    let plugin = &job.graders[grader].plugin;
    let trajectory = match attempt.key {
        CallKey::Single { generation, .. } => Some(attempt.sample.trajectory(generation)),
        CallKey::Rollout { .. } | CallKey::Group { .. } => None,
    };
    let context = Context::new(&job.config, attempt.sample, trajectory, attempt.attempt);
    let group = attempt
        .group
        .iter()
        .map(|(conversation, extra)| (&**conversation, &**extra));
    let body = body::grade(&context, &attempt.row.json, group);
    let started_ms = crate::now_ms();
    let verdict = plugin
        .call(Call {
            id: attempt.id,
            attempt: attempt.attempt,
            body,
            trajectories: attempt.group.len(),
            clock: CallClock::default(),
        })
        .await;
    record(
        job,
        attempt,
        plugin.name(),
        trajectory,
        started_ms,
        &verdict,
    )
    .await;
    verdict
}

async fn record(
    job: &JobContext,
    attempt: &Attempt,
    plugin: &str,
    trajectory: Option<paddock_types::TrajectoryId>,
    started_ms: i64,
    verdict: &Verdict,
) {
    job.record_call(CallRecord {
        call: attempt.id,
        attempt: attempt.attempt,
        job: job.job,
        plugin: plugin.to_owned(),
        sample: attempt.sample,
        trajectory,
        started_ms,
        verdict: verdict.clone(),
    })
    .await;
}
