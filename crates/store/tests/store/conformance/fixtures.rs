//! Records to store: full ones, so that a field that is forgotten is noticed.

use paddock_types::chat::{Message, Usage};
use paddock_types::id::{Phase, SampleId};
use paddock_types::job::{
    CallCounts, ContentFormat, DataConfig, Hyperparameters, InvalidRecords, JobConfig, JobRecord,
    JobState, JobSummary, ModelReference, OnAbnormalReward, SampleCounts, ValidationSet,
};
use paddock_types::log::{Level, LogLine};
use paddock_types::step::{Spread, StepRecord};
use paddock_types::trajectory::{Conversation, Tokens, TrajectoryRecord, TrajectoryStatus};
use paddock_types::{
    CallId, CallRecord, Fault, JobId, Location, Outcome, SubKind, TrajectoryId, Verdict,
};
use serde_json::json;

pub(crate) fn job(name: &str) -> JobRecord {
    let id = JobId::new();
    JobRecord {
        summary: JobSummary {
            job: id,
            name: name.to_owned(),
            state: JobState::Running,
            fault: Some(
                Fault::call_plugin(SubKind::Timeout, "\"reward\" ran 900 s", "look at line 3")
                    .at(Location::line("plugins/reward.py", 3)),
            ),
            steps: 3,
            reward: Default::default(),
            validation: Default::default(),
            samples: SampleCounts {
                drawn: 96,
                dropped: [("discard".to_owned(), 2)].into(),
                invalid_rows: 1,
            },
            calls: CallCounts {
                made: 800,
                failed: [("Timeout".to_owned(), 1)].into(),
            },
            seconds: 12.5,
            checkpoint: Some("jobs/x/step_3".to_owned()),
        },
        config: JobConfig {
            name: name.to_owned(),
            model: ModelReference::Foundation {
                name: "paddock-base".to_owned(),
                version: "1".to_owned(),
            },
            hyperparameters: Hyperparameters::default(),
            rollout: None,
            graders: Vec::new(),
            data: DataConfig {
                training_files: vec!["data/train.jsonl".to_owned()],
                validation: ValidationSet::Percentage(10.0),
                max_invalid_records: InvalidRecords::Number(0),
            },
            save_model_limit: 1,
            enable_trajectory: true,
            on_abnormal_reward: OnAbnormalReward::Fail,
            content_format: ContentFormat::AsIs,
            network: Default::default(),
            model_timeout: 120,
            tags: json!({"team": "羊"}),
            project: None,
        },
        project_dir: "/somewhere".to_owned(),
        created_ms: 1_000,
        updated_ms: 2_000,
        plugins: Default::default(),
    }
}

pub(crate) fn step(number: u32) -> StepRecord {
    StepRecord {
        step: number,
        ended_ms: 1_000 + i64::from(number),
        reward: Spread {
            mean: 0.25,
            min: -1.0,
            max: 1.0,
            std: 0.1 + 0.2,
        },
        rewards: [("exact".to_owned(), 1.0 / 3.0)].into(),
        dropped: [("retry".to_owned(), 1)].into(),
        trajectories: 256,
        ..StepRecord::default()
    }
}

pub(crate) fn sample(job: JobId, phase: Phase, step: u32, index: u32) -> SampleId {
    SampleId {
        job,
        phase,
        step,
        index,
    }
}

pub(crate) fn trajectory(id: TrajectoryId, reward: f64) -> TrajectoryRecord {
    let text = "seven and five are twelve; ".repeat(40);
    TrajectoryRecord {
        id,
        status: TrajectoryStatus::Success,
        reason: String::new(),
        source: "data/train.jsonl:12".to_owned(),
        conversation: Conversation {
            messages: vec![
                Message::text("user", "7 + 5?"),
                Message::text("assistant", &format!("羊 {text}")),
            ],
            tokens: Tokens {
                ids: (0..300).collect(),
                mask: (0..300).map(|n| n > 7).collect(),
                logprobs: (0..300).map(|n| -(n as f32) / 3.0).collect(),
            },
            finish_reason: "stop".to_owned(),
            usage: Usage {
                prompt_tokens: 8,
                completion_tokens: 292,
                total_tokens: 300,
            },
            turns: 1,
            dropped: vec![Message::text("assistant", "a turn that was cut")],
            side: vec![vec![Message::text("user", "be the judge")]],
        },
        extra: json!({"tries": 2, "nested": {"b": 1, "a": [null, 1.5]}}),
        rewards: [("exact".to_owned(), reward), ("format".to_owned(), 0.1)].into(),
        reward: Some(reward),
        metrics: [("length".to_owned(), 12.0)].into(),
        ended_ms: 1_700_000_000_000,
    }
}

pub(crate) fn call(id: TrajectoryId, plugin: &str) -> CallRecord {
    CallRecord {
        call: CallId::new(),
        attempt: 1,
        job: id.sample.job,
        plugin: plugin.to_owned(),
        sample: id.sample,
        trajectory: Some(id),
        started_ms: 1_700_000_000_000,
        verdict: Verdict {
            outcome: Outcome::Success,
            sub_kind: None,
            platform: false,
            message: String::new(),
            evidence: Default::default(),
            rewards: vec![0.5],
            metrics: Default::default(),
            error: String::new(),
            extra: serde_json::Value::Null,
            queue_ms: 0.25,
            run_ms: 1.75,
            model_ms: 0.0,
            peak_memory_bytes: None,
            instance: "reward-1".to_owned(),
        },
    }
}

pub(crate) fn failed_call(id: TrajectoryId, plugin: &str) -> CallRecord {
    let mut record = call(id, plugin);
    record.verdict = Verdict {
        outcome: Outcome::Failure,
        sub_kind: Some(SubKind::Raised),
        platform: true,
        message: "\"reward\" raised KeyError: 'answer'".to_owned(),
        evidence: json!({"traceback": "Traceback…\n".repeat(100), "exit_code": 1})
            .as_object()
            .cloned()
            .unwrap_or_default(),
        rewards: Vec::new(),
        metrics: json!({"seen": 3}).as_object().cloned().unwrap_or_default(),
        error: "KeyError".to_owned(),
        extra: json!({"x": [1, 2]}),
        peak_memory_bytes: Some(5 << 30),
        ..record.verdict
    };
    record
}

pub(crate) fn line(time_ms: i64, text: &str) -> LogLine {
    LogLine {
        time_ms,
        level: Level::Info,
        logger: "stdout".to_owned(),
        text: text.to_owned(),
        plugin: "reward".to_owned(),
        instance: "reward-1".to_owned(),
        call: None,
        attempt: 0,
    }
}
