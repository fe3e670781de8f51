//! Formatting, lints and the Rust tests.

use std::path::Path;

use crate::report::Report;
use crate::step::{run, works};

/// The cargo that runs this.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// Formatting and lints. Components that a distribution's Rust may lack are named, not required.
pub(crate) fn lint(root: &Path, report: &mut Report) {
    let cargo = cargo();
    if works(&cargo, &["fmt", "--version"]) {
        report.ran(
            "formatting",
            &run(root, &cargo, &["fmt", "--all", "--check"]),
        );
    } else {
        report.skipped(
            "formatting",
            "rustfmt is not installed (rustup component add rustfmt)",
        );
    }
    if works(&cargo, &["clippy", "--version"]) {
        let args = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ];
        report.ran("lints", &run(root, &cargo, &args));
    } else {
        report.skipped(
            "lints",
            "clippy is not installed (rustup component add clippy)",
        );
    }
    if works("ruff", &["--version"]) {
        report.ran(
            "python lints",
            &run(&root.join("python"), "ruff", &["check", "."]),
        );
    } else {
        report.skipped("python lints", "ruff is not installed");
    }
}

/// Every Rust test, with nextest where it is installed.
pub(crate) fn rust_tests(root: &Path, report: &mut Report) {
    let cargo = cargo();
    if works(&cargo, &["nextest", "--version"]) {
        report.ran(
            "rust tests",
            &run(root, &cargo, &["nextest", "run", "--workspace"]),
        );
        report.ran(
            "doc tests",
            &run(root, &cargo, &["test", "--workspace", "--doc", "--quiet"]),
        );
    } else {
        let args = ["test", "--workspace", "--no-fail-fast"];
        report.ran("rust tests", &run(root, &cargo, &args));
    }
}
