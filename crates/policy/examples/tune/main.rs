//! Tries a base model without a job: makes one, and reinforces it with the examples' rewards
//! written in Rust. For finding the numbers of `docs/design/base-model.md`; a job is the real thing.
//!
//!     cargo run -p paddock-policy --example tune -- pretrain DIR [STEPS] [SEED] [LR]
//!     cargo run -p paddock-policy --example tune -- rl DIR TASK STEPS [LR] [SEED]
//!     cargo run -p paddock-policy --example tune -- show DIR TASK

#![expect(clippy::print_stdout, reason = "a program for people at a terminal")]

mod reinforce;
mod tasks;

use std::error::Error;
use std::time::Instant;

use paddock_policy::pretrain::{self, Options};

type Outcome = Result<(), Box<dyn Error>>;

const USAGE: &str =
    "usage: tune pretrain DIR [STEPS] [SEED] [LR] | rl DIR TASK STEPS [LR] [SEED] | show DIR TASK";

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["pretrain", folder, ref rest @ ..] => make(folder, rest),
        ["rl", folder, task, steps, ref rest @ ..] => {
            let lr = rest.first().map_or(Ok(pretrain::RL_LR), |lr| lr.parse())?;
            let seed = rest.get(1).map_or(Ok(0), |seed| seed.parse())?;
            reinforce::run(folder.as_ref(), task, steps.parse()?, lr, seed)
        }
        ["show", folder, task] => reinforce::show(folder.as_ref(), task),
        _ => Err(USAGE.into()),
    }
}

fn make(folder: &str, rest: &[&str]) -> Outcome {
    let mut options = Options {
        out: folder.into(),
        ..Options::default()
    };
    if let Some(steps) = rest.first() {
        options.steps = steps.parse()?;
    }
    if let Some(seed) = rest.get(1) {
        options.seed = seed.parse()?;
    }
    if let Some(lr) = rest.get(2) {
        options.lr = lr.parse()?;
    }
    let started = Instant::now();
    let report = pretrain::run(&options, |progress| {
        if progress.step % 10 == 0 {
            let seconds = started.elapsed().as_secs_f64();
            println!("{:>5} {:.4} {seconds:.0} s", progress.step, progress.loss);
        }
    })?;
    println!("{report:#?}");
    Ok(())
}
