//! `paddock model`: make a base model, show a model folder, talk to one.

mod chat;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use paddock_policy::model::Model;
use paddock_policy::{PolicyError, base_model, checkpoint, pretrain};
use paddock_types::{Fault, FaultKind, Location};

use crate::failure::{Done, Failure, chain};
use crate::output::{Out, facts, text};
use crate::places::CacheDir;
use crate::time;

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a base model, as the one that ships was made
    #[command(
        after_help = "Examples:\n  paddock model pretrain --out my_model\n  paddock model pretrain --out tiny --steps 50 --seed 1"
    )]
    Pretrain(Pretrain),
    /// Show what a model folder or a checkpoint holds
    #[command(
        after_help = "Examples:\n  paddock model show\n  paddock model show .paddock/jobs/JOB/checkpoints/step-000200"
    )]
    Show(Show),
    /// Talk to a model, line by line
    #[command(
        after_help = "Examples:\n  paddock model chat\n  echo 'What is 3+4?' | paddock model chat CHECKPOINT --temperature 0\n\nIn the chat: /reset forgets the conversation, /quit ends it."
    )]
    Chat(chat::Args),
}

/// `model pretrain`.
#[derive(Debug, clap::Args)]
pub(crate) struct Pretrain {
    /// Folder to write the model to
    #[arg(long, value_name = "DIR", default_value_os_t = pretrain::Options::default().out)]
    out: PathBuf,
    /// Seed of the weights and of the lessons
    #[arg(long, default_value_t = pretrain::Options::default().seed)]
    seed: u64,
    /// Steps
    #[arg(long, default_value_t = pretrain::Options::default().steps, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Name on the model's card
    #[arg(long, default_value_t = pretrain::Options::default().name)]
    name: String,
    /// Version on the model's card
    #[arg(long, default_value_t = pretrain::Options::default().version)]
    model_version: String,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

/// `model show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// A model folder or a checkpoint [default: the base model that ships]
    folder: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheDir,
}

/// Does what is asked.
pub(crate) fn run(command: Command) -> Done {
    match command {
        Command::Pretrain(args) => make(args),
        Command::Show(args) => show(&args),
        Command::Chat(args) => chat::run(&args),
    }
}

fn make(args: Pretrain) -> Done {
    let options = pretrain::Options {
        out: args.out,
        seed: args.seed,
        steps: args.steps,
        name: args.name,
        version: args.model_version,
        ..pretrain::Options::default()
    };
    let bar = ProgressBar::new(options.steps.into());
    let style = "{spinner} step {pos}/{len} {bar:30} {msg}  {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    let report = pretrain::run(&options, |progress| {
        bar.set_position(progress.step.into());
        bar.set_message(format!("loss {:.4}", progress.loss));
    });
    bar.finish_and_clear();
    let report = report.map_err(|error| Fault::internal(chain(&error)))?;
    let mut out = Out::new();
    if args.json {
        out.json(&serde_json::json!({
            "folder": report.folder,
            "parameters": report.parameters,
            "steps": report.steps,
            "tokens": report.tokens,
            "loss": report.loss,
            "seconds": report.seconds,
            "hash": report.hash,
        }))?;
    } else {
        let mut rows = facts();
        rows.add_row(["folder".to_owned(), report.folder.display().to_string()]);
        rows.add_row(["parameters".to_owned(), report.parameters.to_string()]);
        rows.add_row([
            "steps".to_owned(),
            format!("{} in {}", report.steps, time::span(report.seconds)),
        ]);
        rows.add_row(["tokens".to_owned(), report.tokens.to_string()]);
        rows.add_row(["loss".to_owned(), format!("{:.4}", report.loss)]);
        rows.add_row(["hash".to_owned(), report.hash]);
        out.line(text(&mut rows))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn show(args: &Show) -> Done {
    let folder = folder(args.folder.as_deref(), &args.cache)?;
    let (model, card) = Model::load(&folder).map_err(|error| unreadable(&folder, &error))?;
    let progress = checkpoint::read_progress(&folder).ok();
    let parameters = model.parameter_count();
    let mut out = Out::new();
    if args.json {
        out.json(&serde_json::json!({
            "folder": folder,
            "card": card,
            "config": model.config(),
            "parameters": parameters,
            "progress": progress,
        }))?;
    } else {
        let config = model.config();
        let mut rows = facts();
        let mut fact = |name: &str, value: String| {
            rows.add_row([name.to_owned(), value]);
        };
        fact("folder", folder.display().to_string());
        fact("name", format!("{} {}", card.name, card.version));
        fact("parameters", parameters.to_string());
        fact(
            "shape",
            format!(
                "{} layers, width {}, {} heads, vocabulary {}",
                config.num_hidden_layers,
                config.hidden_size,
                config.num_attention_heads,
                config.vocab_size
            ),
        );
        fact("context", format!("{} tokens", card.context));
        fact("lr", format!("{:e}", card.lr));
        fact("hash", card.hash);
        if let Some(progress) = &progress {
            fact("trained", format!("{} steps", progress.step));
        }
        if !card.about.is_empty() {
            fact("about", card.about);
        }
        out.line(text(&mut rows))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The folder that is meant: the one given, or the base model's.
fn folder(given: Option<&Path>, cache: &CacheDir) -> Result<PathBuf, Failure> {
    match given {
        Some(folder) if folder.is_dir() => Ok(folder.to_owned()),
        Some(folder) => Err(Failure::usage(format!(
            "there is no model folder \"{}\"",
            folder.display()
        ))),
        None => base_model::extract(&cache.path())
            .map_err(|error| Fault::internal(chain(&error)).into()),
    }
}

fn unreadable(folder: &Path, error: &PolicyError) -> Failure {
    let place = Location {
        file: Some(folder.display().to_string()),
        ..Location::default()
    };
    let advice = "name a folder with config.json, card.json and model.safetensors, such as a job's checkpoint";
    Fault::new(FaultKind::InvalidData, chain(error), advice)
        .at(place)
        .into()
}
