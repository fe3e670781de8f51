//! `job.yaml`: from its text to a checked [`JobConfig`], or to everything that is wrong with it.
//!
//! Pure: no file is opened, no variable looked up, no function imported here. Every fault has its
//! file, line and field path, and says what is allowed. `docs/design/job-file.md` has the rules.

mod data;
mod envs;
pub mod hyperparameters;
mod network;
mod plugin;
mod reader;
pub mod setting;
mod tree;
mod unknown;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use self::envs::expand_envs;
pub use self::network::is_host;
pub use self::plugin::{RUNTIME, is_function};
use self::reader::{Fields, Reader, Slot};
use self::setting::{Kind, Setting};
use crate::fault::{Fault, Location};
use crate::job::{
    ContentFormat, DataConfig, Hyperparameters, InvalidRecords, JobConfig, ModelReference, Network,
    OnAbnormalReward, ValidationSet,
};

/// The name of the base model that ships.
pub const BASE_MODEL: &str = "paddock-base";

type Row = Setting<JobConfig>;

const fn row(
    name: &'static str,
    kind: Kind<JobConfig>,
    default: &'static str,
    meaning: &'static str,
) -> Row {
    Setting {
        name,
        kind,
        otherwise: Some(default),
        meaning,
        also: &[],
    }
}

/// The job's own settings that are single values.
pub const SETTINGS: &[Row] = &[
    row(
        "save_model_limit",
        Kind::Whole(1, 10_000, |c, n| c.save_model_limit = n),
        "3",
        "checkpoints kept: the last ones, and the best by validation",
    ),
    row(
        "enable_trajectory",
        Kind::Flag(|c, on| c.enable_trajectory = on),
        "true",
        "keeps trajectories, so that they can be read",
    ),
    row(
        "on_abnormal_reward",
        Kind::Choice(
            || vec!["fail".into(), "discard".into()],
            |c, name| {
                c.on_abnormal_reward = match name {
                    "discard" => OnAbnormalReward::Discard,
                    _ => OnAbnormalReward::Fail,
                };
            },
        ),
        "fail",
        "what becomes of a reward that isn't a finite number, once its tries are used up",
    ),
    row(
        "content_format",
        Kind::Choice(
            || vec!["as_is".into(), "parts".into()],
            |c, name| {
                c.content_format = match name {
                    "parts" => ContentFormat::Parts,
                    _ => ContentFormat::AsIs,
                };
            },
        ),
        "as_is",
        "how plugins see content: as the data has it, or always a list of parts",
    ),
    row(
        "network",
        Kind::Choice(
            || vec!["full".into(), "proxy".into(), "none".into()],
            |c, name| {
                c.network = match name {
                    "proxy" => Network::Proxy { allow: Vec::new() },
                    "none" => Network::None,
                    _ => Network::Full,
                };
            },
        ),
        "full",
        "what plugins reach: all that this machine does, only hosts of network_allow, or nothing; the model always",
    ),
    row(
        "model_timeout",
        Kind::Whole(1, 3600, |c, n| c.model_timeout = n),
        "600",
        "seconds that one model call may take",
    ),
];

pub(crate) const JOB_KEYS: &[&str] = &[
    "name",
    "customization_type",
    "model_reference",
    "hyperparameters",
    "custom_rl_pipeline",
    "data",
    "save_model_limit",
    "enable_trajectory",
    "on_abnormal_reward",
    "content_format",
    "network",
    "network_allow",
    "model_timeout",
    "tags",
    "project",
];
pub(crate) const PIPELINE_KEYS: &[&str] = &["rollout", "graders"];
pub(crate) const DATA_KEYS: &[&str] = &[
    "training_set",
    "validation_set",
    "validation_percentage",
    "max_invalid_records_number",
    "max_invalid_records_ratio",
];

/// A job file that is right.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// What it asks for.
    pub config: JobConfig,
    /// What it asks for without effect, each with its place.
    pub warnings: Vec<String>,
}

/// Reads a job file. `file` is what its faults call it.
///
/// # Errors
/// `Invalid value` for each problem, in the order of their lines, up to fifty.
pub fn parse(text: &str, file: &str) -> Result<Parsed, Vec<Fault>> {
    let root = tree::read(text).map_err(|broken| {
        vec![
            Fault::invalid_value(broken.message, broken.advice)
                .at(Location::line(file, broken.line)),
        ]
    })?;
    let mut reader = Reader::new(file);
    let config = job(&mut reader, &Slot::root(&root));
    let (faults, warnings) = reader.finish();
    match (config, faults.is_empty()) {
        (Some(config), true) => Ok(Parsed { config, warnings }),
        _ => Err(faults),
    }
}

/// Sets hyperparameters by name, as the command line's `--set lr=1e-4` does.
///
/// # Errors
/// One `Invalid value` for each unknown name or value that is not allowed.
pub fn override_hyperparameters(
    config: &mut JobConfig,
    overrides: &[(String, String)],
) -> Result<(), Vec<Fault>> {
    let faults: Vec<Fault> = overrides
        .iter()
        .filter_map(|(name, text)| {
            hyperparameters::set(&mut config.hyperparameters, name, text).err()
        })
        .map(|fault| *fault)
        .collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults),
    }
}

fn job(reader: &mut Reader<'_>, slot: &Slot<'_>) -> Option<JobConfig> {
    let fields = reader.fields(slot, JOB_KEYS)?;
    let mut config = empty();
    match fields.get("name") {
        Some(slot) => config.name = job_name(reader, &slot).unwrap_or_default(),
        None => reader.missing(&fields, "name", "give the job a name: `name: demo`"),
    }
    if let Some(slot) = fields.get("customization_type") {
        customization_type(reader, &slot);
    }
    if let Some(slot) = fields.get("model_reference") {
        config.model = model(reader, &slot).unwrap_or(config.model);
    }
    if let Some(slot) = fields.get("hyperparameters") {
        hyperparameter_rows(reader, &slot, &mut config.hyperparameters);
    }
    match fields.get("custom_rl_pipeline") {
        Some(slot) => (config.rollout, config.graders) = plugin::pipeline(reader, &slot),
        None => reader.missing(&fields, "custom_rl_pipeline",
            "name the plugins: `custom_rl_pipeline: {graders: [{plugin: {name: reward, python_func: \"plugins.reward:reward_fn\"}}]}`"),
    }
    match fields.get("data") {
        Some(slot) => config.data = data::data(reader, &slot).unwrap_or(config.data),
        None => reader.missing(
            &fields,
            "data",
            "name the training rows: `data: {training_set: {local_files: [./data/train.jsonl]}}`",
        ),
    }
    reader.settings(&fields, SETTINGS, &mut config);
    network::allow(reader, &fields, &mut config.network);
    config.tags = fields
        .get("tags")
        .map_or(Value::Null, |slot| slot.node.to_json());
    config.project = fields.get("project").and_then(|slot| reader.text(&slot));
    Some(config)
}

fn hyperparameter_rows(reader: &mut Reader<'_>, slot: &Slot<'_>, target: &mut Hyperparameters) {
    let known = [
        &hyperparameters::names()[..],
        hyperparameters::WITHOUT_EFFECT,
    ]
    .concat();
    let Some(fields) = reader.fields(slot, &known) else {
        return;
    };
    reader.settings(&fields, hyperparameters::HYPERPARAMETERS, target);
    for name in hyperparameters::WITHOUT_EFFECT {
        if let Some(slot) = fields.get(name)
            && reader
                .number(&slot, "a number above 0", |x| x > 0.0)
                .is_some()
        {
            reader.warn(
                &slot,
                "has no effect: it belongs to LoRA, and customization_type GRPO trains all weights",
            );
        }
    }
}

fn empty() -> JobConfig {
    JobConfig {
        name: String::new(),
        model: base_model(),
        hyperparameters: Hyperparameters::default(),
        rollout: None,
        graders: Vec::new(),
        data: DataConfig {
            training_files: Vec::new(),
            validation: ValidationSet::None,
            max_invalid_records: InvalidRecords::Number(0),
        },
        save_model_limit: 3,
        enable_trajectory: true,
        on_abnormal_reward: OnAbnormalReward::default(),
        content_format: ContentFormat::default(),
        network: Network::default(),
        model_timeout: 600,
        tags: Value::Null,
        project: None,
    }
}

fn base_model() -> ModelReference {
    ModelReference::Foundation {
        name: BASE_MODEL.into(),
        version: String::new(),
    }
}

fn job_name(reader: &mut Reader<'_>, slot: &Slot<'_>) -> Option<String> {
    let text = reader.text(slot)?;
    if text.chars().count() > 128 || text.chars().any(char::is_control) {
        let message = format!("name is {}", setting::shown(&text));
        reader.refuse(
            slot,
            message,
            "1 to 128 characters, none of them control characters",
        );
        return None;
    }
    Some(text)
}

/// Types that other services know; this version trains none of them.
const OTHER_TYPES: &[&str] = &[
    "GRPOLoRA",
    "PPO",
    "PPOLoRA",
    "DPO",
    "DPOLoRA",
    "FinetuneSft",
    "FinetuneLoRA",
    "Pretrain",
];

fn customization_type(reader: &mut Reader<'_>, slot: &Slot<'_>) {
    let Some(text) = reader.text(slot) else {
        return;
    };
    match text.as_str() {
        "GRPO" => {}
        other if OTHER_TYPES.contains(&other) => reader.refuse(
            slot,
            format!("customization_type is \"{other}\", which this version does not train"),
            "GRPO",
        ),
        other => reader.unknown_name(slot, other, &["GRPO"]),
    }
}

fn model(reader: &mut Reader<'_>, slot: &Slot<'_>) -> Option<ModelReference> {
    let fields = reader.fields(slot, &["foundation_model", "custom_model_id"])?;
    match (
        fields.get("foundation_model"),
        fields.get("custom_model_id"),
    ) {
        (Some(slot), None) => foundation(reader, &slot),
        (None, Some(slot)) => reader.text(&slot).map(ModelReference::Custom),
        (Some(_), Some(slot)) => {
            let fault = Fault::invalid_value(
                "custom_model_id and foundation_model exclude each other",
                "keep one of the two",
            );
            reader.note(&slot, fault);
            None
        }
        (None, None) => {
            missing_model(reader, &fields);
            None
        }
    }
}

fn missing_model(reader: &mut Reader<'_>, fields: &Fields<'_>) {
    let advice = format!(
        "name the model: `foundation_model: {{name: {BASE_MODEL}}}`, or `custom_model_id: <checkpoint folder or job id>`"
    );
    reader.missing(fields, "foundation_model", &advice);
}

fn foundation(reader: &mut Reader<'_>, slot: &Slot<'_>) -> Option<ModelReference> {
    let fields = reader.fields(slot, &["name", "model_version"])?;
    let name = match fields.get("name") {
        Some(slot) => reader.text(&slot),
        None => {
            reader.missing(
                &fields,
                "name",
                &format!("`{BASE_MODEL}` is the model that ships"),
            );
            None
        }
    };
    let version = match fields.get("model_version") {
        Some(slot) => reader.text(&slot),
        None => Some(String::new()),
    };
    let name = name?;
    if name != BASE_MODEL {
        reader.unknown_name(&fields.get("name")?, &name, &[BASE_MODEL]);
        return None;
    }
    Some(ModelReference::Foundation {
        name,
        version: version?,
    })
}
