//! Everything that can be known before a job starts: its file, its data, its plugins' signatures.
//!
//! Nothing is written here but the cache: a job that can't start leaves nothing behind.

use std::path::{Path, PathBuf};

use paddock_policy::model::ModelConfig;
use paddock_policy::{PolicyError, base_model};
use paddock_runtime::environment;
use paddock_types::fault::{Fault, Location};
use paddock_types::job::{JobConfig, ModelReference};
use paddock_types::job_file::{self, BASE_MODEL};
use paddock_types::plugin::PluginKind;
use tokio::sync::mpsc::UnboundedSender;

use crate::dataset::Dataset;
use crate::load::{load, with_others};
use crate::{JobEvent, JobOptions, prompts};

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
    let config = read(&project, &file, &options.overrides)?;
    let expanded = job_file::expand_envs(config.clone(), |key| std::env::var(key).ok());
    let expanded = expanded.map_err(first)?;
    let model = model(&project, &config, &options.cache_dir)?;
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
        let context = ModelConfig::read(&model).map_err(|e| unusable(&model, &e))?;
        let faults = prompts::too_long(&data, context.max_position_embeddings);
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

fn read(project: &Path, file: &Path, overrides: &[(String, String)]) -> Result<JobConfig, Fault> {
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
    let mut config = job_file::parse(&text, &name).map_err(first)?;
    job_file::override_hyperparameters(&mut config, overrides).map_err(first)?;
    Ok(config)
}

/// The first of several faults, with the others in it.
fn first(faults: Vec<Fault>) -> Fault {
    let mut faults = faults.into_iter();
    match faults.next() {
        Some(first) => with_others(first, faults),
        None => Fault::internal("a check failed without naming a problem"),
    }
}

fn model(project: &Path, config: &JobConfig, cache: &Path) -> Result<PathBuf, Fault> {
    let at = |field: &str| Location::default().field(format!("model_reference.{field}"));
    match &config.model {
        ModelReference::Foundation { name, .. } if name == BASE_MODEL => {
            base_model::extract(cache).map_err(|error| {
                Fault::internal(format!("the base model can't be written to the cache: {error}"))
            })
        }
        ModelReference::Foundation { name, .. } => Err(Fault::invalid_value(
            format!("there is no base model \"{name}\""),
            format!("allowed: \"{BASE_MODEL}\" (ships with Paddock); or `custom_model_id` with a checkpoint's folder"),
        )
        .at(at("foundation_model.name"))),
        ModelReference::Custom(path) => {
            let folder = project.join(path);
            match folder.join("config.json").is_file() {
                true => Ok(folder),
                false => Err(Fault::invalid_value(
                    format!("there is no checkpoint at \"{path}\""),
                    "name a folder with config.json and model.safetensors, such as a job's checkpoint",
                )
                .at(at("custom_model_id"))),
            }
        }
    }
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
