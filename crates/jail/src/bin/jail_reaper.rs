//! The reaper as a program of its own, for tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    paddock_jail::reaper::main()
}
