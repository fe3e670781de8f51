//! The repository's own tasks: `cargo xtask test`, `cargo xtask lint`.
//!
//! A fresh machine with Rust and Python needs nothing else: what is missing and optional is said,
//! what is needed is made under `target/`. Nothing is ever installed outside of it.

mod checks;
mod python;
mod report;
mod step;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use report::Report;

const USAGE: &str = "usage: cargo xtask <task>

  test    formatting, lints, all Rust tests, all Python tests
  lint    formatting and lints alone
  python  the Python tests alone

Set PADDOCK_PYTHON to choose the Python (3.11 or newer).";

fn main() -> ExitCode {
    let mut report = Report::default();
    match std::env::args().nth(1).as_deref() {
        Some("test") => {
            checks::lint(&root(), &mut report);
            checks::rust_tests(&root(), &mut report);
            python::tests(&root(), &mut report);
        }
        Some("lint") => checks::lint(&root(), &mut report),
        Some("python") => python::tests(&root(), &mut report),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    report.print()
}

/// The repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

#[cfg(test)]
mod documents;
