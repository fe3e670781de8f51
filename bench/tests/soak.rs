//! The soak, short: every call has its one right verdict, and nothing is left behind.

use std::process::Command;

#[test]
fn every_call_of_a_soak_has_its_verdict_and_nothing_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let temporary = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_paddock-bench"))
        .args(["soak", "--calls", "5000", "--cache"])
        .arg(folder.path())
        // Other tests' temporary folders are nobody's business here.
        .env("TMPDIR", temporary.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("wrong          0"), "{said}");
}
