//! What the README's numbers come from: one subcommand a measurement, peers included.

mod batch;
mod calls;
mod curves;
mod kill;
mod plugins;
mod policy;
mod soak;

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
    /// From a call's deadline to its verdict.
    Kill(kill::Options),
    /// Rollouts that wait for the model, against the time of the waiting alone.
    Batch(batch::Options),
    /// Many calls, some of them the worst there are: one right verdict each, and nothing left behind.
    Soak(soak::Options),
    /// The parent of a plugin's processes.
    #[command(name = "__reaper", hide = true)]
    Reaper,
}

fn main() -> anyhow::Result<ExitCode> {
    match Bench::parse() {
        Bench::Calls(options) => calls::run(&options)?,
        Bench::Policy(options) => policy::run(&options)?,
        Bench::Curves(options) => curves::run(&options)?,
        Bench::Kill(options) => kill::run(&options)?,
        Bench::Batch(options) => batch::run(&options)?,
        Bench::Soak(options) => return soak::run(&options),
        Bench::Reaper => return Ok(paddock_jail::reaper::main()),
    }
    Ok(ExitCode::SUCCESS)
}
