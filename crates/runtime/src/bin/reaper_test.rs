//! The reaper alone, for the tests of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    paddock_jail::reaper::main()
}
