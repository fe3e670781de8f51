//! From an answer to a verdict: rewards are judged here, and nowhere else.
//!
//! Pure. A reward that is not a finite number never becomes one, and rewards count only with
//! `success`.

use paddock_types::plugin::PluginKind;
use paddock_types::{Outcome, SubKind, Verdict};
use paddock_wire::{Answer, Number, Raised, Status};
use serde_json::{Map, Value, json};

/// What an answer comes to, with lines to log about what was set aside.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) warnings: Vec<String>,
}

/// A verdict without times.
pub(crate) fn verdict(outcome: Outcome, sub_kind: Option<SubKind>, message: String) -> Verdict {
    Verdict {
        outcome,
        sub_kind,
        platform: false,
        message,
        evidence: Map::new(),
        rewards: Vec::new(),
        metrics: Map::new(),
        error: String::new(),
        extra: Value::Null,
        queue_ms: 0.0,
        run_ms: 0.0,
        model_ms: 0.0,
        peak_memory_bytes: None,
        instance: String::new(),
    }
}

/// A failure with its sub-kind.
pub(crate) fn failure(sub_kind: SubKind, message: impl Into<String>) -> Verdict {
    verdict(Outcome::Failure, Some(sub_kind), message.into())
}

/// A failure that isn't the call's own: it is called again uncharged.
pub(crate) fn uncharged(message: impl Into<String>) -> Verdict {
    Verdict {
        platform: true,
        ..verdict(Outcome::Failure, None, message.into())
    }
}

/// Judges the answer of a plugin of this kind, from which `due` rewards are expected.
pub(crate) fn judge(kind: PluginKind, due: usize, answer: Answer) -> Judged {
    let mut warnings = Vec::new();
    let mut metrics = Map::new();
    for (key, number) in &answer.metrics.0 {
        match number.finite() {
            Some(x) => {
                metrics.insert(key.clone(), json!(x));
            }
            None => warnings.push(format!("metric \"{key}\" is {number}: left out")),
        }
    }
    let mut verdict = if let Some(raised) = &answer.raised {
        raised_verdict(raised)
    } else if let Some(problem) = &answer.bad_result {
        failure(SubKind::Raised, problem.clone())
    } else {
        match answer.status {
            Status::Success if kind == PluginKind::Rollout => {
                verdict(Outcome::Success, None, String::new())
            }
            Status::Success => rewards(&answer.rewards, due, kind == PluginKind::GroupGrader),
            Status::Failure => failure(
                SubKind::ReturnedFailure,
                said(
                    &answer.error,
                    "the function answered \"failure\" and gave no error",
                ),
            ),
            Status::Retry => verdict(
                Outcome::Retry,
                None,
                said(
                    &answer.error,
                    "the function answered \"retry\" and gave no error",
                ),
            ),
            Status::Discard => verdict(
                Outcome::Discard,
                None,
                said(
                    &answer.error,
                    "the function answered \"discard\" and gave no error",
                ),
            ),
        }
    };
    if verdict.error.is_empty() {
        verdict.error = answer.error;
    }
    verdict.metrics = metrics;
    verdict.extra = answer.extra;
    Judged { verdict, warnings }
}

fn said(error: &str, otherwise: &str) -> String {
    let first = error.lines().next().unwrap_or_default().trim();
    if first.is_empty() { otherwise } else { first }.to_owned()
}

fn raised_verdict(raised: &Raised) -> Verdict {
    let mut message = raised.kind.clone();
    if let Some(line) = raised.message.lines().next().filter(|l| !l.is_empty()) {
        message = format!("{message}: {line}");
    }
    if let Some(frame) = raised.frames.last() {
        let (file, line, function) = (&frame.file, frame.line, &frame.function);
        message = format!("{message} ({file}:{line} in {function})");
    }
    let mut verdict = failure(SubKind::Raised, message);
    verdict.error = raised.traceback.clone();
    verdict.evidence.insert("type".into(), json!(raised.kind));
    verdict
        .evidence
        .insert("traceback".into(), json!(raised.traceback));
    if !raised.frames.is_empty() {
        verdict
            .evidence
            .insert("frames".into(), json!(raised.frames));
    }
    verdict
}

fn rewards(rewards: &[Number], due: usize, named: bool) -> Verdict {
    if rewards.len() != due {
        let (s, t) = (plural(rewards.len()), plural(due));
        let count = rewards.len();
        let mut verdict = failure(
            SubKind::AbnormalReward,
            format!(
                "{count} reward{s} for {due} trajector{}",
                if t.is_empty() { "y" } else { "ies" }
            ),
        );
        let values: Vec<String> = rewards.iter().map(Number::to_string).collect();
        verdict.evidence.insert("rewards".into(), json!(values));
        verdict.evidence.insert("expected".into(), json!(due));
        return verdict;
    }
    let abnormal: Vec<(usize, &Number)> = rewards
        .iter()
        .enumerate()
        .filter(|(_, number)| number.finite().is_none())
        .collect();
    let Some((first, value)) = abnormal.first() else {
        let mut verdict = verdict(Outcome::Success, None, String::new());
        verdict.rewards = rewards.iter().filter_map(Number::finite).collect();
        return verdict;
    };
    let mut message = if named {
        format!("trajectory {first}: the reward is {value}")
    } else {
        format!("the reward is {value}")
    };
    if abnormal.len() > 1 {
        message = format!("{message} (and {} more)", abnormal.len() - 1);
    }
    let mut verdict = failure(SubKind::AbnormalReward, message);
    verdict.evidence.insert("trajectory".into(), json!(first));
    verdict
        .evidence
        .insert("value".into(), json!(value.to_string()));
    let all: Map<String, Value> = abnormal
        .iter()
        .map(|(index, number)| (index.to_string(), json!(number.to_string())))
        .collect();
    verdict.evidence.insert("abnormal".into(), all.into());
    verdict
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(kind: PluginKind, due: usize, json: &str) -> Judged {
        judge(
            kind,
            due,
            Answer::parse(json.as_bytes()).expect("an answer"),
        )
    }

    fn group(due: usize, json: &str) -> Verdict {
        judged(PluginKind::GroupGrader, due, json).verdict
    }

    #[test]
    fn finite_rewards_count() {
        let verdict = group(3, r#"{"rewards":[1,0.5,true]}"#);
        assert_eq!(verdict.outcome, Outcome::Success);
        assert_eq!(verdict.rewards, [1.0, 0.5, 1.0]);
    }

    #[test]
    fn what_is_no_finite_number_is_named_and_never_turned_into_one() {
        let verdict = group(4, r#"{"rewards":[1,0,0,{"$float":"inf"}]}"#);
        assert_eq!(verdict.sub_kind, Some(SubKind::AbnormalReward));
        assert_eq!(verdict.message, "trajectory 3: the reward is inf");
        assert!(verdict.rewards.is_empty());
        let verdict = group(
            2,
            r#"{"rewards":[{"$value":"'a'","type":"str"},{"$float":"nan"}]}"#,
        );
        assert_eq!(
            verdict.message,
            "trajectory 0: the reward is 'a' (str) (and 1 more)"
        );
        let single = judged(
            PluginKind::SingleGrader,
            1,
            r#"{"rewards":[{"$float":"nan"}]}"#,
        );
        assert_eq!(single.verdict.message, "the reward is nan");
    }

    #[test]
    fn a_wrong_count_is_named() {
        let verdict = group(4, r#"{"rewards":[1,2,3]}"#);
        assert_eq!(verdict.message, "3 rewards for 4 trajectories");
        assert_eq!(verdict.sub_kind, Some(SubKind::AbnormalReward));
        assert_eq!(group(1, "{}").message, "0 rewards for 1 trajectory");
    }

    #[test]
    fn rewards_are_looked_at_only_with_success() {
        let verdict = group(
            1,
            r#"{"status":"retry","error":"busy\nmore","rewards":[{"$float":"nan"}]}"#,
        );
        assert_eq!((verdict.outcome, verdict.sub_kind), (Outcome::Retry, None));
        assert_eq!(verdict.message, "busy");
        assert_eq!(verdict.error, "busy\nmore");
        let verdict = group(1, r#"{"status":"discard"}"#);
        assert_eq!(verdict.outcome, Outcome::Discard);
        let verdict = group(1, r#"{"status":"failure","error":"no key"}"#);
        assert_eq!(verdict.sub_kind, Some(SubKind::ReturnedFailure));
        assert_eq!(verdict.message, "no key");
    }

    #[test]
    fn what_was_raised_says_where() {
        let verdict = group(
            1,
            r#"{"raised":{"type":"KeyError","message":"'answer'","traceback":"T","frames":[
                {"file":"plugins/r.py","line":12,"function":"f","code":"x"}]}}"#,
        );
        assert_eq!(verdict.sub_kind, Some(SubKind::Raised));
        assert_eq!(verdict.message, "KeyError: 'answer' (plugins/r.py:12 in f)");
        assert_eq!(verdict.error, "T");
        let verdict = group(
            1,
            r#"{"bad_result":"expected GroupGraderResult, got None"}"#,
        );
        assert_eq!(verdict.message, "expected GroupGraderResult, got None");
        assert_eq!(verdict.sub_kind, Some(SubKind::Raised));
    }

    #[test]
    fn metrics_that_are_not_finite_are_set_aside_with_a_word() {
        let judged = judged(
            PluginKind::SingleGrader,
            1,
            r#"{"rewards":[1],"metrics":{"a":1.5,"b":{"$float":"nan"}}}"#,
        );
        assert_eq!(judged.verdict.outcome, Outcome::Success);
        assert_eq!(judged.verdict.metrics.get("a"), Some(&json!(1.5)));
        assert_eq!(judged.verdict.metrics.get("b"), None);
        assert_eq!(judged.warnings, ["metric \"b\" is nan: left out"]);
    }

    #[test]
    fn a_rollout_owes_no_reward() {
        let verdict = judged(PluginKind::Rollout, 0, r#"{"extra":{"k":[1]}}"#).verdict;
        assert_eq!(verdict.outcome, Outcome::Success);
        assert_eq!(verdict.extra, json!({"k": [1]}));
    }
}
