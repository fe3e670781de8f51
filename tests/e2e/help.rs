//! The command line's help is a promise: changing it fails here until it is meant.

use crate::paddock::{binary, run};

fn help(args: &[&str]) -> String {
    let ended = run(binary(&[args, &["--help"]].concat())).ok();
    ended.stdout
}

macro_rules! snapshots {
    ($($name:ident: $args:expr;)*) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), help($args));
        })*
    };
}

snapshots! {
    all: &[];
    run_: &["run"];
    jobs: &["jobs"];
    jobs_list: &["jobs", "list"];
    jobs_get: &["jobs", "get"];
    steps: &["steps"];
    trajectories: &["trajectories"];
    trajectories_list: &["trajectories", "list"];
    trajectories_show: &["trajectories", "show"];
    logs: &["logs"];
    grade: &["grade"];
    call: &["call"];
    explain: &["explain"];
    model: &["model"];
    model_pretrain: &["model", "pretrain"];
    model_show: &["model", "show"];
    model_chat: &["model", "chat"];
    doctor: &["doctor"];
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let ended = run(binary(&["rum"]));
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("'run'"), "{}", ended.stderr);
}

#[test]
fn what_is_not_there_ends_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("none");
    let ended = run(binary(&[
        "jobs",
        "list",
        "--data-dir",
        &data.to_string_lossy(),
    ]));
    assert_eq!(ended.code, 2, "{ended:#?}");
    assert!(ended.stderr.contains("no store in"), "{}", ended.stderr);
    assert!(!data.exists(), "reading makes nothing");
}
