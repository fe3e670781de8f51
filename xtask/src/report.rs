//! What was run, how it ended, and what was left out: said together at the end.

use std::process::ExitCode;

use crate::step::Ended;

/// The steps so far.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<String>,
    failed: Vec<&'static str>,
}

impl Report {
    /// Notes a step that was run.
    pub(crate) fn ran(&mut self, name: &'static str, ended: &Ended) {
        let word = if ended.ok { "ok    " } else { "FAILED" };
        self.lines.push(format!("{word}  {name}"));
        self.lines
            .extend(ended.closing.iter().map(|line| format!("          {line}")));
        if !ended.ok {
            self.failed.push(name);
        }
    }

    /// Notes a step that could not be run, and must be.
    pub(crate) fn broken(&mut self, name: &'static str, why: &str) {
        self.lines.push(format!("FAILED  {name}: {why}"));
        self.failed.push(name);
    }

    /// Notes a step that was left out.
    pub(crate) fn skipped(&mut self, name: &'static str, why: &str) {
        self.lines.push(format!("skipped {name}: {why}"));
    }

    /// Prints all of it; the exit code is 1 if anything failed.
    pub(crate) fn print(&self) -> ExitCode {
        eprintln!("\n{}", self.lines.join("\n"));
        if self.failed.is_empty() {
            eprintln!("all passed");
            return ExitCode::SUCCESS;
        }
        eprintln!("failed: {}", self.failed.join(", "));
        ExitCode::FAILURE
    }
}
