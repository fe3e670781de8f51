//! `paddock grade`: graders over recorded trajectories.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::paddock::{Project, binary, run};

const GRADERS: &str = "\
import os

from paddock import GroupGraderResult, SingleGraderResult, group_grader, single_grader


@single_grader
def exact(context, sample, trajectory):
    answer = trajectory['messages'][-1]['content']
    if answer == 'raise':
        raise ValueError('cannot judge this')
    if answer == 'exit':
        os._exit(3)
    if answer == 'hang':
        while True:
            pass
    if answer == 'nan':
        return SingleGraderResult(reward=float('nan'))
    if answer == 'failure':
        return SingleGraderResult(status='failure', error='the service is down')
    if answer == 'discard':
        return SingleGraderResult(status='discard', error='no answer')
    return SingleGraderResult(reward=float(answer == sample['extra']['answer']))


@group_grader
def shortest(context, sample, trajectories):
    lengths = [len(t['messages'][-1]['content']) for t in trajectories]
    return GroupGraderResult(rewards=[float(n == min(lengths)) for n in lengths])
";

fn trajectory(answer: &str, model: &str, correct: bool) -> Value {
    json!({
        "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": answer}],
        "extra": {"model": model, "is_correct": correct},
    })
}

fn project(lines: &[Value]) -> Project {
    let project = Project::new();
    project.write("plugins/graders.py", GRADERS);
    let text: Vec<_> = lines.iter().map(Value::to_string).collect();
    project.write("recorded.jsonl", text.join("\n"));
    project
}

fn line(trajectories: &[Value]) -> Value {
    json!({"sample": {"messages": [{"role": "user", "content": "?"}], "extra": {"answer": "4"}}, "trajectories": trajectories})
}

const BASE: [&str; 5] = [
    "grade",
    "--project",
    "project",
    "--recorded",
    "project/recorded.jsonl",
];

#[test]
fn accuracy_and_agreement_are_counted_by_group() {
    let lines = [
        line(&[trajectory("4", "a", true), trajectory("5", "b", false)]),
        line(&[trajectory("4", "a", true), trajectory("4", "b", false)]),
    ];
    let project = project(&lines);
    let more = [
        "--grader",
        "plugins.graders:exact",
        "--out",
        "graded.jsonl",
        "--json",
    ];
    let report = project.paddock(&[&BASE[..], &more].concat()).ok().json();
    assert_eq!(report["graded"], 4);
    assert_eq!(report["reward"]["mean"], 0.75);
    assert_eq!(report["groups"]["a"]["accuracy"], 1.0);
    assert_eq!(report["groups"]["b"]["accuracy"], 0.5);
    assert_eq!(report["agreement"]["agree"], 3);
    let disagreements = &report["agreement"]["disagreements"];
    assert_eq!(
        *disagreements,
        json!([{"line": 2, "trajectory": 1, "group": "b", "reward": 1.0, "mark": false}])
    );
    let out = project.data_dir().with_file_name("graded.jsonl");
    let graded = std::fs::read_to_string(out).expect("the graded lines");
    let first: Value = serde_json::from_str(graded.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["trajectories"][1]["rewards"], json!({"exact": 0.0}));
    let shown = project
        .paddock(&[&BASE[..], &more[..2]].concat())
        .ok()
        .stdout;
    assert!(
        shown.contains("line 2, trajectory 1 (b): reward 1, marked false"),
        "{shown}"
    );
    assert!(!project.data_dir().exists(), "grading keeps nothing");
}

#[test]
fn weights_and_groups_of_graders() {
    let project = project(&[line(&[
        trajectory("4", "a", true),
        trajectory("wrong", "a", false),
    ])]);
    let more = [
        "--grader",
        "plugins.graders:exact=2",
        "--grader",
        "plugins.graders:shortest=-0.5",
        "--json",
    ];
    let report = project.paddock(&[&BASE[..], &more].concat()).ok().json();
    assert_eq!(report["reward"]["max"], 1.5);
    assert_eq!(report["reward"]["min"], 0.0);
    assert_eq!(report["graders"]["shortest"]["count"], 2);
}

#[test]
fn what_fails_is_counted_and_never_a_zero() {
    let lines = [line(&[
        trajectory("4", "a", true),
        trajectory("raise", "a", false),
        trajectory("discard", "a", false),
    ])];
    let project = project(&lines);
    let more = [
        "--grader",
        "plugins.graders:exact",
        "--retries",
        "0",
        "--json",
    ];
    let ended = project.paddock(&[&BASE[..], &more].concat());
    assert_eq!(ended.code, 4, "{ended:#?}");
    let report = ended.json();
    assert_eq!(report["graded"], 1);
    assert_eq!(report["reward"]["mean"], 1.0);
    assert_eq!(report["ungraded"], json!({"500": 1, "discard": 1}));
    assert!(
        ended.stderr.contains("cannot judge this"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("recorded.jsonl:1"),
        "{}",
        ended.stderr
    );
}

#[test]
fn every_way_to_fail_is_told_apart() {
    let ways = ["exit", "hang", "nan", "raise", "failure", "4"];
    let trajectories = ways.map(|way| trajectory(way, "a", way == "4"));
    let project = project(&[line(&trajectories)]);
    let more = [
        "--grader",
        "plugins.graders:exact",
        "--retries",
        "0",
        "--timeout",
        "1",
        "--json",
    ];
    let ended = project.paddock(&[&BASE[..], &more].concat());
    assert_eq!(ended.code, 4, "{ended:#?}");
    let report = ended.json();
    let expected = json!({
        "500": 1, "Abnormal reward": 1, "EOF": 1, "Returned failure": 1, "Timeout": 1,
    });
    assert_eq!(report["ungraded"], expected, "{ended:#?}");
    assert_eq!(
        report["agreement"]["agree"], 1,
        "the innocent call is graded"
    );
}

#[test]
fn a_broken_recording_is_refused_before_any_call() {
    let project = project(&[line(&[trajectory("4", "a", true)]), json!({"sample": {}})]);
    let ended = project.paddock(&[&BASE[..], &["--grader", "plugins.graders:exact"]].concat());
    assert_eq!(ended.code, 3, "{ended:#?}");
    assert!(
        ended.stderr.contains("recorded.jsonl:2, trajectories"),
        "{}",
        ended.stderr
    );
}

/// Every answer of the real GSM8K solutions is judged as their authors judged it.
#[test]
fn real_answers_are_judged_as_they_are_marked() {
    let shared = std::env::var_os("PADDOCK_SHARED").map(PathBuf::from);
    let data = shared.map(|s| s.join("data/gsm8k/example_model_solutions.jsonl"));
    let Some(data) = data.filter(|file| file.is_file()) else {
        eprintln!("skipped: PADDOCK_SHARED names no folder with data/gsm8k");
        return;
    };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gsm8k");
    let folder = tempfile::tempdir().expect("a folder");
    let recorded = folder.path().join("recorded.jsonl");
    let converted = Command::new("python3")
        .arg(example.join("convert.py"))
        .args([&data, &recorded])
        .status();
    assert!(converted.expect("python3 starts").success());
    let example = example.to_string_lossy();
    let recorded = recorded.to_string_lossy();
    let args = [
        "grade",
        "--project",
        &example,
        "--recorded",
        &recorded,
        "--grader",
        "plugins.gsm8k:answer_matches",
        "--json",
    ];
    let report = run(binary(&args)).ok().json();
    assert_eq!(report["trajectories"], 5276);
    assert_eq!(report["graded"], 5276);
    assert_eq!(
        report["groups"].as_object().map(serde_json::Map::len),
        Some(4)
    );
    assert_eq!(
        report["agreement"]["agree"], 5276,
        "{:#}",
        report["agreement"]
    );
}
