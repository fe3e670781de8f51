//! What the README's numbers come from: one subcommand a measurement, peers included.

mod policy;

use clap::Parser;

/// Paddock's benchmarks.
#[derive(Debug, Parser)]
enum Bench {
    /// The embedded policy beside PyTorch.
    Policy(policy::Options),
}

fn main() -> anyhow::Result<()> {
    match Bench::parse() {
        Bench::Policy(options) => policy::run(&options),
    }
}
