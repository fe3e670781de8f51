//! Environments are built for real, from a package beside the project: no network is needed.

mod support;

use std::sync::Mutex;

use paddock_runtime::environment::prepare_with;
use paddock_types::SubKind;
use support::Project;

/// A wheel made by hand: an archive with a module and what the format asks for.
const MAKE_WHEEL: &str = r#"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("tiny_thing.py", "VALUE = 42\n")
    info = "tiny_thing-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", f"tiny_thing.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n")
"#;

fn run(program: &std::path::Path, args: &[&str]) -> (bool, String) {
    let output = std::process::Command::new(program)
        .args(args)
        .output()
        .expect("it runs");
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

#[tokio::test]
async fn a_projects_requirements_are_installed_once() {
    let project = Project::new("");
    let python = paddock_runtime::environment::bare(&project.cache())
        .await
        .expect("a Python")
        .python;
    let wheel = project.file("tiny_thing-1.0-py3-none-any.whl");
    let (made, _) = run(&python, &["-c", MAKE_WHEEL, &wheel.to_string_lossy()]);
    assert!(made);
    let requirements = "--no-index\n./tiny_thing-1.0-py3-none-any.whl\n";
    std::fs::write(project.file("requirements.txt"), requirements).expect("written");
    let said = Mutex::new(Vec::new());
    let progress = |text: &str| said.lock().expect("no panic").push(text.to_owned());
    let first = prepare_with(project.path(), &project.cache(), "", progress)
        .await
        .expect("installed");
    let (well, value) = run(
        &first.python,
        &["-c", "import tiny_thing; print(tiny_thing.VALUE)"],
    );
    assert!(well);
    assert_eq!(value, "42");
    let second = prepare_with(project.path(), &project.cache(), "", progress)
        .await
        .expect("there");
    assert_eq!(first, second);
    assert_eq!(said.lock().expect("no panic").len(), 1, "once: {said:?}");
}

#[tokio::test]
async fn what_cannot_be_installed_is_a_create_fault_with_the_installers_words() {
    let project = Project::new("");
    std::fs::create_dir(project.file("empty")).expect("made");
    let requirements = "--no-index\n--find-links ./empty\nnot-to-be-found==1\n";
    std::fs::write(project.file("requirements.txt"), requirements).expect("written");
    let fault = prepare_with(project.path(), &project.cache(), "", |_| {})
        .await
        .expect_err("it is not there");
    assert_eq!(fault.sub_kind, Some(SubKind::Create));
    assert!(fault.message.contains("not-to-be-found"), "{fault:#?}");
    assert!(
        fault.evidence["logs"]
            .to_string()
            .contains("not-to-be-found")
    );
    let left = std::fs::read_dir(project.cache().join("environments")).expect("a folder");
    let left: Vec<_> = left
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .collect();
    assert!(left.is_empty(), "nothing half made is left: {left:?}");
}
