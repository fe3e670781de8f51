//! Everything that can be known before a job starts: its file, its data, its plugins' signatures.
//!
//! Nothing is written here but the cache: a job that can't start leaves nothing behind.

use std::path::{Path, PathBuf};

use paddock_policy::model::ModelConfig;
use paddock_policy::{PolicyError, base_model};
use paddock_runtime::environment;
use paddock_types::JobId;
use paddock_types::fault::{Fault, Location};
use paddock_types::job::{JobConfig, ModelReference};
use paddock_types::job_file::{self, Parsed};
use paddock_types::plugin::PluginKind;
use tokio::sync::mpsc::UnboundedSender;

use crate::dataset::Dataset;
use crate::load::{load, with_others};
use crate::{JobEvent, JobOptions, checkpoints, prompts};

/// A job that may start.
#[derive(Debug)]
pub struct Prepared {
    /// The project's folder.
    pub project: PathBuf,
    /// What was asked for, checked. `${KEY}` stands as it was written: this is what is recorded.
    pub config: JobConfig,
    /// The same with the environment's values in `envs`: what plugins see, recorded nowhere.
    pub expanded: JobConfig,
    /// Its data.
    pub data: Dataset,
    /// The folder of the model it starts from.
    pub model: PathBuf,
    /// Where things are kept.
    pub options: JobOptions,
    /// What the job file asks for without effect.
    pub warnings: Vec<String>,
}

/// Checks a job from its file to its plugins' signatures.
pub async fn prepare(
    options: JobOptions,
    events: &UnboundedSender<JobEvent>,
) -> Result<Prepared, Fault> {
    let phase = |detail: &str| {
        let _ = events.send(JobEvent::Phase {
            name: "validating",
            detail: detail.to_owned(),
        });
    };
    let (project, file) = find(&options.path)?;
    phase("the job file");
    let Parsed { config, warnings } = read(&project, &file, &options.overrides)?;
    let expanded = job_file::expand_envs(config.clone(), |key| std::env::var(key).ok());
    let expanded = expanded.map_err(first)?;
    let model = model(&project, &config, &options)?;
    let context = ModelConfig::read(&model).map_err(|e| unusable(&model, &e))?;
    let context = context.max_position_embeddings;
    room_for_an_answer(config.hyperparameters.max_new_tokens, context)?;
    phase("the plugins' signatures");
    signatures(&project, &config, &options.cache_dir).await?;
    phase("the data");
    let (folder, sets, seed) = (
        project.clone(),
        config.data.clone(),
        config.hyperparameters.seed,
    );
    let data = tokio::task::spawn_blocking(move || load(&folder, &sets, seed))
        .await
        .map_err(|error| Fault::internal(format!("reading the data ended early: {error}")))??;
    if config.rollout.is_none() {
        let faults = prompts::too_long(&data, context);
        if !faults.is_empty() {
            return Err(first(faults));
        }
    }
    Ok(Prepared {
        project,
        config,
        expanded,
        data,
        model,
        options,
        warnings,
    })
}

/// The project's folder and the job file in it.
fn find(path: &Path) -> Result<(PathBuf, PathBuf), Fault> {
    let missing = |what: String, advice: &str| Err(Fault::invalid_data(what, advice));
    let absolute = match path.canonicalize() {
        Ok(path) => path,
        Err(_) => {
            return missing(
                format!("there is no project or job file at \"{}\"", path.display()),
                "name a folder that has a job.yaml, or a job file",
            );
        }
    };
    if !absolute.is_dir() {
        let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        return Ok((folder, absolute));
    }
    let file = ["job.yaml", "job.yml"]
        .map(|name| absolute.join(name))
        .into_iter()
        .find(|f| f.is_file());
    match file {
        Some(file) => Ok((absolute, file)),
        None => missing(
            format!("the folder \"{}\" has no job.yaml", path.display()),
            "name a folder that has a job.yaml, or a job file",
        ),
    }
}

fn read(project: &Path, file: &Path, overrides: &[(String, String)]) -> Result<Parsed, Fault> {
    let name = file
        .strip_prefix(project)
        .unwrap_or(file)
        .display()
        .to_string();
    let text = std::fs::read(file).map_err(|error| {
        Fault::invalid_data(
            format!("the job file can't be read: {error}"),
            "check its permissions",
        )
        .at(Location {
            file: Some(name.clone()),
            ..Location::default()
        })
    })?;
    let text = String::from_utf8(text).map_err(|_| {
        Fault::invalid_value("the job file is not UTF-8 text", "save it as UTF-8").at(Location {
            file: Some(name.clone()),
            ..Location::default()
        })
    })?;
    let mut parsed = job_file::parse(&text, &name).map_err(first)?;
    job_file::override_hyperparameters(&mut parsed.config, overrides).map_err(first)?;
    Ok(parsed)
}

/// The first of several faults, with the others in it.
fn first(faults: Vec<Fault>) -> Fault {
    let mut faults = faults.into_iter();
    match faults.next() {
        Some(first) => with_others(first, faults),
        None => Fault::internal("a check failed without naming a problem"),
    }
}

/// The folder of the model that a job starts from.
fn model(project: &Path, config: &JobConfig, options: &JobOptions) -> Result<PathBuf, Fault> {
    let named = match &config.model {
        ModelReference::Foundation { .. } => {
            return base_model::extract(&options.cache_dir).map_err(|error| {
                Fault::internal(format!(
                    "the base model can't be written to the cache: {error}"
                ))
            });
        }
        ModelReference::Custom(named) => named,
    };
    let folder = project.join(named);
    if folder.join("config.json").is_file() {
        return Ok(folder);
    }
    if let Ok(job) = named.parse::<JobId>() {
        let job_dir = options.data_dir.join("jobs").join(job.to_string());
        if let Some(newest) = checkpoints::newest(&job_dir) {
            return Ok(newest);
        }
    }
    let fault = Fault::invalid_value(
        format!("there is no checkpoint at \"{named}\", and no job of that id has one"),
        "name a folder with config.json and model.safetensors, or the id of a job that has a checkpoint (`paddock jobs list`)",
    );
    Err(fault.at(Location::default().field("model_reference.custom_model_id")))
}

/// Refuses answers that are longer than all that the model can read.
fn room_for_an_answer(max_new_tokens: u32, context: usize) -> Result<(), Fault> {
    if (max_new_tokens as usize) < context {
        return Ok(());
    }
    let most = context.saturating_sub(1);
    let fault = Fault::invalid_value(
        format!("max_new_tokens is {max_new_tokens}, but the model's context, prompt and answer together, is {context} tokens; allowed: a whole number from 1 to {most}"),
        "lower max_new_tokens, so that the prompts have room beside it",
    )
    .with("allowed", format!("1 to {most}"));
    Err(fault.at(Location::default().field("hyperparameters.max_new_tokens")))
}

/// The fault of a model folder that can't be used.
pub(crate) fn unusable(folder: &Path, error: &PolicyError) -> Fault {
    Fault::invalid_value(
        format!(
            "the model at \"{}\" can't be loaded: {error}",
            folder.display()
        ),
        "name a folder with config.json, model.safetensors and card.json",
    )
    .at(Location::default().field("model_reference"))
}

async fn signatures(project: &Path, config: &JobConfig, cache: &Path) -> Result<(), Fault> {
    const GRADERS: &[PluginKind] = &[PluginKind::SingleGrader, PluginKind::GroupGrader];
    let mut functions = vec![];
    if let Some(rollout) = &config.rollout {
        let field = "custom_rl_pipeline.rollout.plugin.python_func".to_owned();
        functions.push((
            field,
            rollout.python_func.clone(),
            &[PluginKind::Rollout][..],
        ));
    }
    for (index, grader) in config.graders.iter().enumerate() {
        let field = format!("custom_rl_pipeline.graders[{index}].plugin.python_func");
        functions.push((field, grader.plugin.python_func.clone(), GRADERS));
    }
    let bare = environment::bare(cache).await?;
    paddock_runtime::check_functions(&bare, project, &functions)
        .await
        .map_err(first)
}
