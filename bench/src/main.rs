//! What the README's numbers come from: one subcommand a measurement, peers included.

mod calls;
mod curves;
mod policy;

use std::process::ExitCode;

use clap::Parser;

/// Paddock's benchmarks.
#[derive(Debug, Parser)]
enum Bench {
    /// Calls of a trivial grader, beside FastAPI, Ray and a process pool.
    Calls(calls::Options),
    /// The embedded policy beside PyTorch.
    Policy(policy::Options),
    /// Held-out accuracy over whole jobs, with the shuffled control.
    Curves(curves::Options),
    /// The parent of a plugin's processes.
    #[command(name = "__reaper", hide = true)]
    Reaper,
}

fn main() -> anyhow::Result<ExitCode> {
    match Bench::parse() {
        Bench::Calls(options) => calls::run(&options)?,
        Bench::Policy(options) => policy::run(&options)?,
        Bench::Curves(options) => curves::run(&options)?,
        Bench::Reaper => return Ok(paddock_jail::reaper::main()),
    }
    Ok(ExitCode::SUCCESS)
}
