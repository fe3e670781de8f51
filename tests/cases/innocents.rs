//! Calls that share a process with a guilty one: they are called again elsewhere, uncharged, the
//! guilty one is found, and whatever a call does happens once an attempt.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::caller;
use crate::holds::{strings, text};
use crate::peer::Peer;
use crate::processes;
use crate::project::Project;
use crate::run::{GONE_WITHIN, mark};

const COUNT: usize = 6;

/// Calls that are numbered in their sample's `extra`, and their verdicts by number.
fn numbered(function: &str, count: usize) -> (Vec<Value>, Vec<String>) {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/plugins");
    let project = Project::of(&plugins);
    let peer = Peer::start();
    let mark = mark();
    let requests: Vec<Value> = (0..count)
        .map(|n| {
            let sample = json!({"messages": [], "extra": {"n": n}});
            json!({"sample": sample, "trajectories": [{"messages": []}]})
        })
        .collect();
    let args = [
        "--json".to_owned(),
        "--request".to_owned(),
        Value::from(requests).to_string(),
        "--env".to_owned(),
        format!("PADDOCK_CASE_PEER={}", peer.address),
    ];
    let ended = caller::start(&project, &mark, function, &args).wait();
    assert_eq!(ended.lines.len(), count, "{ended:#?}");
    let left = processes::left_of(&mark, project.root(), GONE_WITHIN);
    assert!(left.is_empty(), "{left:?}");
    let verdicts = ended.lines.into_iter().map(|line| line.value);
    (verdicts.collect(), peer.words())
}

fn one_is_guilty(function: &str, sub_kind: &str, evidence: &str) {
    let (verdicts, words) = numbered(function, COUNT);
    let guilty = &verdicts[0];
    assert_eq!(text(guilty, "outcome"), "failure", "{guilty:#}");
    assert_eq!(text(guilty, "sub_kind"), sub_kind, "{guilty:#}");
    assert!(strings(guilty).contains(evidence), "{guilty:#}");
    let mut begun: BTreeMap<String, usize> = BTreeMap::new();
    for word in &words {
        *begun.entry(word.clone()).or_default() += 1;
    }
    let mut due = BTreeMap::new();
    for (n, verdict) in verdicts.iter().enumerate() {
        let attempts = verdict["attempt"].as_u64().expect("an attempt");
        if n > 0 {
            assert_eq!(text(verdict, "outcome"), "success", "{verdict:#}");
            assert!(
                attempts > 1,
                "it was in the process that ended: {verdict:#}"
            );
        }
        for attempt in 1..=attempts {
            due.insert(format!("{n} {attempt}"), 1);
        }
    }
    assert_eq!(begun, due, "each attempt does once what it does");
}

#[test]
fn a_death_in_a_loop_is_charged_to_the_one_that_dies() {
    one_is_guilty("innocents:one_exits", "EOF", "exit code 3");
}

#[test]
fn a_death_among_threads_is_charged_to_the_one_that_dies() {
    one_is_guilty("innocents:one_exits_in_a_thread", "EOF", "exit code 3");
}

#[test]
fn a_blocked_loop_is_charged_to_the_one_that_blocks_it() {
    one_is_guilty("innocents:one_blocks", "Timeout", "event loop");
}

/// In shared processes each line is its own call's, in executors too.
#[test]
fn lines_of_calls_that_share_a_process_are_told_apart() {
    let says = [
        (
            "output:says_its_number",
            &[
                "printed",
                "logged",
                "to a thread",
                "in the executor",
                "in a pool",
                "submitted",
            ][..],
        ),
        (
            "output:says_its_number_in_a_thread",
            &["printed", "logged", "in a pool", "again"][..],
        ),
    ];
    for (function, words) in says {
        let (verdicts, _) = numbered(function, 8);
        for (n, verdict) in verdicts.iter().enumerate() {
            assert_eq!(text(verdict, "outcome"), "success", "{verdict:#}");
            let mut said: Vec<&str> = verdict["logs"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|line| text(line, "text"))
                .collect();
            let mut due: Vec<String> = words.iter().map(|word| format!("{word} {n}")).collect();
            said.sort_unstable();
            due.sort_unstable();
            assert_eq!(said, due, "{function}: {verdict:#}");
        }
    }
}
