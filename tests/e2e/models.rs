//! The model that ships can be shown and talked to.

use std::io::Write;
use std::process::Stdio;

use crate::paddock::{binary, run, wait};

#[test]
fn the_base_model_is_shown() {
    let shown = run(binary(&["model", "show", "--json"])).ok().json();
    assert_eq!(shown["card"]["name"], "paddock-base");
    assert_eq!(shown["card"]["context"], 2048);
    assert!(
        shown["parameters"].as_u64().is_some_and(|n| n > 500_000),
        "{shown:#}"
    );
}

#[test]
fn a_chat_answers_each_line_and_repeats_itself_with_a_seed() {
    let talk = || {
        let mut chat = binary(&[
            "model",
            "chat",
            "--temperature",
            "1",
            "--seed",
            "5",
            "--max-new-tokens",
            "16",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
        let mut input = chat.stdin.take().expect("a pipe");
        input
            .write_all(b"12+30=\n/reset\n\n7+7=\n/quit\nnever read\n")
            .expect("it reads");
        drop(input);
        wait(chat).ok().stdout
    };
    let first = talk();
    assert!(first.lines().count() >= 2, "{first:?}");
    assert_eq!(first, talk());
}

#[test]
fn a_folder_that_is_no_model_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = run(binary(&["model", "show", &folder.path().to_string_lossy()]));
    assert_eq!(ended.code, 3, "{ended:#?}");
    assert!(ended.stderr.contains("config.json"), "{}", ended.stderr);
}

#[test]
fn pretraining_repeats_itself_with_a_seed() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = |name: &str| {
        let out = folder.path().join(name);
        let out = out.to_string_lossy();
        let args = [
            "model", "pretrain", "--steps", "2", "--seed", "9", "--out", &out, "--json",
        ];
        run(binary(&args)).ok().json()
    };
    let (first, second) = (make("a"), make("b"));
    assert_eq!(first["steps"], 2);
    assert_eq!(first["hash"], second["hash"]);
    let shown = run(binary(&[
        "model",
        "show",
        &folder.path().join("a").to_string_lossy(),
        "--json",
    ]));
    assert_eq!(shown.ok().json()["card"]["hash"], first["hash"]);
}
