//! `paddock`: the one executable. Commands are read here, done elsewhere, and end in an exit code.

mod args;
mod attempts;
mod call;
mod doctor;
mod explain;
mod failure;
mod fault;
mod fence;
mod grade;
mod jobs;
mod logs;
mod model;
mod output;
mod places;
mod reader;
mod run;
mod steps;
mod time;
mod trajectories;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The fence's own small program: it must begin before any thread of ours.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|arg| arg == "__reaper")
    {
        return paddock_jail::reaper::main();
    }
    failure::exit(args::run())
}
