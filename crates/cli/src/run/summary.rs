//! How a job ended, for people and for programs.

use paddock_types::Fault;
use paddock_types::job::{JobState, JobSummary};
use serde_json::{Value, json};

use crate::output::{change, counted, facts, text as table_text};
use crate::time;

/// The last line of `paddock run --json` for a job that could not begin: it has no id.
pub(super) fn without_job(fault: Option<&Fault>) -> Value {
    let state = if fault.is_some() {
        JobState::Failed
    } else {
        JobState::Stopped
    };
    json!({
        "job": null,
        "name": null,
        "state": state,
        "fault": fault,
        "steps": 0,
        "reward": {"first": null, "last": null},
        "validation": {"before": null, "after": null},
        "samples": {"drawn": 0, "dropped": {}, "invalid_rows": 0},
        "calls": {"made": 0, "failed": {}},
        "seconds": 0.0,
        "checkpoint": null,
    })
}

/// The summary as a table.
pub(super) fn text(summary: &JobSummary) -> String {
    let mut rows = facts();
    let mut fact = |name: &str, value: String| {
        rows.add_row([name.to_owned(), value]);
    };
    fact("job", format!("{} ({})", summary.job, summary.name));
    fact(
        "state",
        format!(
            "{}, {} steps in {}",
            summary.state.as_str(),
            summary.steps,
            time::span(summary.seconds)
        ),
    );
    fact("reward", change(summary.reward.first, summary.reward.last));
    fact(
        "validation",
        change(summary.validation.before, summary.validation.after),
    );
    let samples = &summary.samples;
    let mut drawn = format!(
        "{} drawn, dropped: {}",
        samples.drawn,
        counted(&samples.dropped)
    );
    if samples.invalid_rows > 0 {
        drawn.push_str(&format!(
            ", rows left out as broken: {}",
            samples.invalid_rows
        ));
    }
    fact("samples", drawn);
    fact(
        "calls",
        format!(
            "{} made, failed: {}",
            summary.calls.made,
            counted(&summary.calls.failed)
        ),
    );
    fact(
        "checkpoint",
        summary.checkpoint.clone().unwrap_or_else(|| "-".into()),
    );
    table_text(&mut rows)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use paddock_types::JobId;
    use paddock_types::job::{BeforeAfter, CallCounts, FirstLast, SampleCounts};

    use super::*;

    fn summary() -> JobSummary {
        JobSummary {
            job: JobId::from_u64(1 << 40),
            name: "arithmetic".into(),
            state: JobState::Completed,
            fault: None,
            steps: 200,
            reward: FirstLast {
                first: Some(0.4),
                last: Some(0.79),
            },
            validation: BeforeAfter {
                before: Some(0.41),
                after: Some(0.83),
            },
            samples: SampleCounts {
                drawn: 6400,
                dropped: BTreeMap::from([("exact: discard".into(), 2)]),
                invalid_rows: 1,
            },
            calls: CallCounts {
                made: 102_400,
                failed: BTreeMap::from([("EOF".into(), 1)]),
            },
            seconds: 184.0,
            checkpoint: Some(".paddock/jobs/j/checkpoints/step-000200".into()),
        }
    }

    #[test]
    fn the_table_has_what_counts() {
        insta::assert_snapshot!(text(&summary()), @r"
        job         job_0000100000000 (arithmetic)
        state       completed, 200 steps in 3 min 4 s
        reward      0.400 → 0.790
        validation  0.410 → 0.830
        samples     6400 drawn, dropped: 2 (exact: discard 2), rows left out as broken: 1
        calls       102400 made, failed: 1 (EOF 1)
        checkpoint  .paddock/jobs/j/checkpoints/step-000200
        ");
    }

    #[test]
    fn both_json_shapes_have_the_same_keys() {
        let keys = |value: &Value| -> Vec<String> {
            value
                .as_object()
                .expect("an object")
                .keys()
                .cloned()
                .collect()
        };
        assert_eq!(keys(&json!(summary())), keys(&without_job(None)));
        assert_eq!(without_job(None)["state"], "stopped");
    }
}
