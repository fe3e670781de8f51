//! The command line: what there is, in the words of its help. Nothing is done here.

use clap::{Parser, Subcommand};

use crate::failure::Done;
use crate::{call, doctor, explain, grade, jobs, logs, model, run, steps, trajectories};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  2    the command line is wrong, or what it names isn't there
  3    Invalid data, Invalid value
  4    Call plugin error
  5    Loss nan
  6    internal error, unknown error
  130  interrupted";

/// Reinforcement fine-tuning with your own rollouts and graders.
#[derive(Debug, Parser)]
#[command(name = "paddock", version, after_help = EXIT_CODES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a job, from its file to a trained policy
    Run(run::Args),
    /// Read what is kept of jobs
    #[command(subcommand)]
    Jobs(jobs::Command),
    /// Read the steps and validations of a job
    Steps(steps::Args),
    /// Read trajectories: messages, rewards, calls, log lines
    #[command(subcommand)]
    Trajectories(trajectories::Command),
    /// Read the log lines of a job and of its plugins
    Logs(logs::Args),
    /// Run graders over recorded trajectories, without a model
    Grade(grade::Args),
    /// Call a plugin function, and show the verdict of each call
    Call(call::Args),
    /// Explain a kind of fault, or what a setting does
    Explain(explain::Args),
    /// Make, show and talk to models
    #[command(subcommand)]
    Model(model::Command),
    /// Say what this machine has, and what it lacks
    Doctor(doctor::Args),
}

/// Reads the command line and does what it says.
pub(crate) fn run() -> Done {
    match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Jobs(command) => jobs::run(command),
        Command::Steps(args) => steps::run(&args),
        Command::Trajectories(command) => trajectories::run(command),
        Command::Logs(args) => logs::run(&args),
        Command::Grade(args) => grade::run(args),
        Command::Call(args) => call::run(args),
        Command::Explain(args) => explain::run(&args),
        Command::Model(command) => model::run(command),
        Command::Doctor(args) => doctor::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
