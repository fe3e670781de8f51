//! What came of a recording: rewards, failures, accuracy by group, agreement with marks.
//!
//! Only sums are kept, and the disagreements up to a limit: a recording may be long.

use std::collections::BTreeMap;

use paddock_types::Verdict;
use serde::Serialize;
use serde_json::{Map, Value};

use super::calls::{Grade, Graded};
use super::recorded::Recorded;
/// Disagreements that are kept.
pub(super) const MAX_DISAGREEMENTS: usize = 1000;
/// The group of trajectories that lack the field.
pub(super) const UNNAMED: &str = "(none)";
/// A reward is correct if it is 1, rounding aside.
const ROUNDING: f64 = 1e-9;

/// Numbers of rewards.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct Sum {
    pub(super) count: u64,
    /// `None` of nothing: what could not be graded is no zero.
    pub(super) mean: Option<f64>,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
}

impl Sum {
    fn add(&mut self, x: f64) {
        self.count += 1;
        self.mean = moved(self.mean, x, self.count);
        self.min = Some(self.min.map_or(x, |min| min.min(x)));
        self.max = Some(self.max.map_or(x, |max| max.max(x)));
    }
}

/// A mean after one more number, the `count`th.
fn moved(mean: Option<f64>, x: f64, count: u64) -> Option<f64> {
    let mean = mean.unwrap_or(0.0);
    Some(mean + (x - mean) / count as f64)
}

/// A group of trajectories: those with one value in the field of `--by`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Group {
    pub(super) trajectories: u64,
    pub(super) graded: u64,
    pub(super) mean_reward: Option<f64>,
    /// Share of the graded with a reward of 1.
    pub(super) accuracy: Option<f64>,
    #[serde(skip)]
    pub(super) correct: u64,
    /// Share of the marked that are marked correct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) marked_accuracy: Option<f64>,
    #[serde(skip)]
    pub(super) marked: (u64, u64),
}

/// A trajectory whose mark says otherwise.
#[derive(Debug, Serialize)]
pub(super) struct Disagreement {
    pub(super) line: u64,
    pub(super) trajectory: usize,
    pub(super) group: Option<String>,
    pub(super) reward: f64,
    pub(super) mark: bool,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Agreement {
    pub(super) field: String,
    pub(super) marked: u64,
    pub(super) agree: u64,
    pub(super) share: f64,
    pub(super) disagreements: Vec<Disagreement>,
}

/// The fields that the report looks at.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    /// Groups by this field of a trajectory, such as `extra.model`.
    pub(super) by: String,
    /// Compares with the mark in this field, such as `extra.is_correct`.
    pub(super) agree_with: String,
}

/// The whole report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) samples: u64,
    pub(super) trajectories: u64,
    pub(super) graded: u64,
    pub(super) reward: Sum,
    pub(super) graders: BTreeMap<String, Sum>,
    /// Trajectories without a reward, by why.
    pub(super) ungraded: BTreeMap<String, u64>,
    pub(super) calls: u64,
    /// Attempts that ended in a fault, by sub-kind.
    pub(super) failed_calls: BTreeMap<String, u64>,
    /// Samples whose trajectories were all graded: what the three shares below are of.
    pub(super) graded_samples: u64,
    /// Share of samples with at least one correct trajectory.
    pub(super) bon: Option<f64>,
    /// Share of samples with all trajectories correct.
    pub(super) aon: Option<f64>,
    /// Mean share of correct trajectories.
    pub(super) avg_n: Option<f64>,
    pub(super) by: String,
    pub(super) groups: BTreeMap<String, Group>,
    pub(super) agreement: Option<Agreement>,
    pub(super) seconds: f64,
    #[serde(skip)]
    pub(super) first_given_up: Option<(String, u64, Verdict)>,
    #[serde(skip)]
    pub(super) fields: Fields,
}

/// The value at a path such as `extra.model`.
fn field<'v>(trajectory: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    let mut parts = path.split('.');
    let mut value = trajectory.get(parts.next()?)?;
    for part in parts {
        value = value.get(part)?;
    }
    Some(value)
}

fn mark(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(mark) => Some(*mark),
        Value::Number(n) if n.as_f64() == Some(1.0) => Some(true),
        Value::Number(n) if n.as_f64() == Some(0.0) => Some(false),
        _ => None,
    }
}

fn correct(reward: f64) -> bool {
    (reward - 1.0).abs() <= ROUNDING
}

impl Report {
    pub(super) fn new(fields: Fields) -> Self {
        Self {
            samples: 0,
            trajectories: 0,
            graded: 0,
            reward: Sum::default(),
            graders: BTreeMap::new(),
            ungraded: BTreeMap::new(),
            calls: 0,
            failed_calls: BTreeMap::new(),
            graded_samples: 0,
            bon: None,
            aon: None,
            avg_n: None,
            by: fields.by.clone(),
            groups: BTreeMap::new(),
            agreement: None,
            seconds: 0.0,
            first_given_up: None,
            fields,
        }
    }

    /// Counts a line.
    pub(super) fn add(&mut self, recorded: &Recorded, graded: Graded) {
        self.samples += 1;
        self.calls += graded.calls;
        for (kind, count) in graded.faults {
            *self.failed_calls.entry(kind).or_default() += count;
        }
        if let Some((plugin, verdict)) = graded
            .given_up
            .into_iter()
            .find(|(_, v)| v.sub_kind.is_some())
        {
            self.first_given_up
                .get_or_insert((plugin, recorded.line, verdict));
        }
        let mut right = 0;
        for (i, (trajectory, grade)) in recorded.trajectories.iter().zip(&graded.grades).enumerate()
        {
            right += u64::from(grade.reward.is_some_and(correct));
            self.trajectory(recorded.line, i, trajectory, grade);
        }
        let all = recorded.trajectories.len() as u64;
        if graded.grades.iter().any(|grade| grade.reward.is_none()) {
            return;
        }
        self.graded_samples += 1;
        let samples = self.graded_samples;
        let share = |yes: bool| f64::from(u8::from(yes));
        self.bon = moved(self.bon, share(right > 0), samples);
        self.aon = moved(self.aon, share(right == all), samples);
        self.avg_n = moved(self.avg_n, right as f64 / all as f64, samples);
    }

    fn trajectory(&mut self, line: u64, i: usize, trajectory: &Map<String, Value>, grade: &Grade) {
        self.trajectories += 1;
        for (grader, reward) in &grade.rewards {
            self.graders.entry(grader.clone()).or_default().add(*reward);
        }
        let name = field(trajectory, &self.fields.by).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let marked = field(trajectory, &self.fields.agree_with).and_then(mark);
        let group = name.as_deref().unwrap_or(UNNAMED);
        let group = self.groups.entry(group.to_owned()).or_default();
        group.trajectories += 1;
        if let Some(mark) = marked {
            group.marked.0 += 1;
            group.marked.1 += u64::from(mark);
            group.marked_accuracy = Some(group.marked.1 as f64 / group.marked.0 as f64);
        }
        let Some(reward) = grade.reward else {
            let why = grade.failed.clone().unwrap_or_else(|| "unknown".into());
            *self.ungraded.entry(why).or_default() += 1;
            return;
        };
        self.graded += 1;
        self.reward.add(reward);
        group.graded += 1;
        group.correct += u64::from(correct(reward));
        group.mean_reward = moved(group.mean_reward, reward, group.graded);
        group.accuracy = Some(group.correct as f64 / group.graded as f64);
        if let Some(mark) = marked {
            self.compare(Disagreement {
                line,
                trajectory: i,
                group: name,
                reward,
                mark,
            });
        }
    }

    fn compare(&mut self, one: Disagreement) {
        let field = &self.fields.agree_with;
        let agreement = self.agreement.get_or_insert_with(|| Agreement {
            field: field.clone(),
            ..Agreement::default()
        });
        agreement.marked += 1;
        if correct(one.reward) == one.mark {
            agreement.agree += 1;
        } else if agreement.disagreements.len() < MAX_DISAGREEMENTS {
            agreement.disagreements.push(one);
        }
        agreement.share = agreement.agree as f64 / agreement.marked as f64;
    }

    /// True if calls were given up for a fault.
    pub(super) fn has_failures(&self) -> bool {
        self.first_given_up.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(line: u64, marks: &[bool]) -> Recorded {
        let trajectories = marks.iter().map(|mark| {
            let json = serde_json::json!({"extra": {"model": "m", "is_correct": mark}});
            json.as_object().cloned().unwrap_or_default()
        });
        Recorded {
            line,
            sample: Map::new(),
            trajectories: trajectories.collect(),
        }
    }

    fn graded(rewards: &[Option<f64>]) -> Graded {
        let grades = rewards.iter().map(|reward| Grade {
            reward: *reward,
            rewards: reward.iter().map(|r| ("g".to_owned(), *r)).collect(),
            failed: reward.is_none().then(|| "Timeout".into()),
            ..Grade::default()
        });
        Graded {
            grades: grades.collect(),
            calls: rewards.len() as u64,
            ..Graded::default()
        }
    }

    #[test]
    fn sums_groups_and_disagreements() {
        let fields = Fields {
            by: "extra.model".into(),
            agree_with: "extra.is_correct".into(),
        };
        let mut report = Report::new(fields);
        report.add(&recorded(1, &[true, true]), graded(&[Some(1.0), Some(0.0)]));
        report.add(&recorded(2, &[false, true]), graded(&[Some(0.0), None]));
        let json = serde_json::to_value(&report).expect("plain values");
        assert_eq!(json["graded"], 3);
        assert_eq!(json["ungraded"]["Timeout"], 1);
        assert_eq!(json["groups"]["m"]["accuracy"], 1.0 / 3.0);
        assert!(json["groups"].get(UNNAMED).is_none());
        assert_eq!(
            (json["bon"].clone(), json["aon"].clone()),
            (1.0.into(), 0.0.into()),
            "the second sample has a trajectory without a reward: it is in neither share"
        );
        assert_eq!(json["agreement"]["agree"], 2);
        let one = &json["agreement"]["disagreements"][0];
        assert_eq!(
            (one["line"].clone(), one["trajectory"].clone()),
            (1.into(), 1.into())
        );
    }
}
