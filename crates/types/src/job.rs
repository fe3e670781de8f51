//! A job: what was asked for, and how far it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::Fault;
use crate::id::JobId;
use crate::plugin::PluginConfig;

/// How the losses of tokens become one number (verl's names; `grpo.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum LossAggMode {
    /// (1/N) Σ_i (1/T_i) Σ_t m ℓ: DeepSeekMath eq. 3, TRL `grpo`.
    #[serde(rename = "seq-mean-token-mean")]
    SeqMeanTokenMean,
    /// Σ m ℓ / Σ m: DAPO eq. 8, TRL `dapo`.
    #[serde(rename = "token-mean")]
    TokenMean,
    /// (1/N) Σ_i Σ_t m ℓ: verl.
    #[serde(rename = "seq-mean-token-sum")]
    SeqMeanTokenSum,
    /// (1/(N·L)) Σ_i Σ_t m ℓ, L = `max_new_tokens`: Dr. GRPO, TRL `dr_grpo`.
    #[serde(rename = "seq-mean-token-sum-norm")]
    SeqMeanTokenSumNorm,
}

/// How rewards are scaled within a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ScaleRewards {
    /// (R − mean) / (std + 1e-6), ddof 1.
    Group,
    /// R − mean (Dr. GRPO).
    None,
}

/// The hyperparameters of a GRPO job, checked and with defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Hyperparameters {
    /// Samples a step.
    pub batch_size: u32,
    /// Trajectories a sample, at least 2.
    pub num_generations: u32,
    /// Steps.
    pub num_steps: u32,
    /// Updates a step on the same trajectories.
    pub num_iterations_per_batch: u32,
    /// Learning rate; `None` takes the model card's.
    pub lr: Option<f64>,
    /// Steps over which the learning rate grows from 0.
    pub lr_warmup_steps: u32,
    /// Weight of the KL term.
    pub kl_coefficient: f64,
    /// Lower clip range of the ratio.
    pub clip_ratio_low: f64,
    /// Upper clip range of the ratio.
    pub clip_ratio_high: f64,
    /// How token losses become one number.
    pub loss_agg_mode: LossAggMode,
    /// How rewards are scaled within a group.
    pub scale_rewards: ScaleRewards,
    /// Leaves truncated trajectories out of the loss.
    pub mask_truncated: bool,
    /// Tokens a model call may sample.
    pub max_new_tokens: u32,
    /// Sampling temperature, above 0.
    pub temperature: f64,
    /// Nucleus mass.
    pub top_p: f64,
    /// Most likely tokens kept; 0 keeps all.
    pub top_k: u32,
    /// Steps between checkpoints.
    pub save_every_n_steps: u32,
    /// Steps between validations.
    pub test_every_n_steps: u32,
    /// Trajectories a validation sample.
    pub test_num_generations: u32,
    /// Temperature in validation; `None` takes `temperature`.
    pub test_temperature: Option<f64>,
    /// Nucleus mass in validation.
    pub test_top_p: f64,
    /// Seed of everything random in the job.
    pub seed: u64,
}

impl Default for Hyperparameters {
    fn default() -> Self {
        Self {
            batch_size: 32,
            num_generations: 8,
            num_steps: 100,
            num_iterations_per_batch: 1,
            lr: None,
            lr_warmup_steps: 10,
            kl_coefficient: 0.001,
            clip_ratio_low: 0.2,
            clip_ratio_high: 0.2,
            loss_agg_mode: LossAggMode::SeqMeanTokenMean,
            scale_rewards: ScaleRewards::Group,
            mask_truncated: false,
            max_new_tokens: 1024,
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            save_every_n_steps: 10,
            test_every_n_steps: 5,
            test_num_generations: 1,
            test_temperature: None,
            test_top_p: 1.0,
            seed: 0,
        }
    }
}

/// A grader with the weight of its reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GraderConfig {
    /// The plugin.
    pub plugin: PluginConfig,
    /// Its reward's weight in the sum; not normalised.
    pub weight: f64,
}

/// What happens to an abnormal reward once its tries are used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnAbnormalReward {
    /// The job fails.
    #[default]
    Fail,
    /// The sample is dropped.
    Discard,
}

/// How plugins see content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContentFormat {
    /// As the dataset has it.
    #[default]
    AsIs,
    /// Always a list of parts.
    Parts,
}

/// How many rows of the data may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum InvalidRecords {
    /// At most this many.
    Number(u64),
    /// At most this share.
    Ratio(f64),
}

/// Where validation rows come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ValidationSet {
    /// Files of their own.
    Files(Vec<String>),
    /// A share of the training rows, in percent.
    Percentage(f64),
    /// None: no validation is made.
    None,
}

/// The data of a job, as paths relative to the project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DataConfig {
    /// Training files (JSON lines).
    pub training_files: Vec<String>,
    /// Validation rows.
    pub validation: ValidationSet,
    /// Broken rows allowed.
    pub max_invalid_records: InvalidRecords,
}

/// The model that a job starts from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelReference {
    /// A base model by name and version; `paddock-base` is the one that ships.
    Foundation {
        /// Name.
        name: String,
        /// Version.
        version: String,
    },
    /// A checkpoint folder, or an earlier job's checkpoint.
    Custom(String),
}

/// What of the network plugins reach. The model proxy is always reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Network {
    /// All that this machine reaches.
    #[default]
    Full,
    /// Only through Paddock's egress proxy, and only these hosts.
    Proxy {
        /// `host`, `host:port` or `*.domain`; `*` is every public host. An address of a private network is
        /// reached only if it is written out.
        allow: Vec<String>,
    },
    /// Nothing.
    None,
}

/// A job as its file describes it, checked and with defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobConfig {
    /// Its name.
    pub name: String,
    /// The model it starts from.
    pub model: ModelReference,
    /// Hyperparameters.
    pub hyperparameters: Hyperparameters,
    /// The rollout; without one, a single model turn is the rollout.
    pub rollout: Option<PluginConfig>,
    /// The graders, at least one.
    pub graders: Vec<GraderConfig>,
    /// The data.
    pub data: DataConfig,
    /// Checkpoints kept.
    pub save_model_limit: u32,
    /// Whether trajectories are kept.
    pub enable_trajectory: bool,
    /// What becomes of abnormal rewards.
    pub on_abnormal_reward: OnAbnormalReward,
    /// How plugins see content.
    pub content_format: ContentFormat,
    /// What of the network plugins reach.
    #[serde(default)]
    pub network: Network,
    /// Seconds that one model call may take.
    pub model_timeout: u32,
    /// Kept as given.
    pub tags: Value,
    /// Kept as given.
    pub project: Option<String>,
}

impl JobConfig {
    /// Every plugin of the job: the rollout, then the graders.
    pub fn plugins(&self) -> impl Iterator<Item = &PluginConfig> {
        self.rollout
            .iter()
            .chain(self.graders.iter().map(|grader| &grader.plugin))
    }
}

/// A job's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Not begun.
    Queued,
    /// Validating, building environments, starting instances.
    Preparing,
    /// Training.
    Running,
    /// Waiting to be tried again after a platform fault.
    Waiting,
    /// Held by its owner.
    Paused,
    /// Ended well.
    Completed,
    /// Ended with a fault.
    Failed,
    /// Ended by its owner.
    Stopped,
}

impl JobState {
    /// In lower case, as filters take it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Preparing => "preparing",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// True once nothing more will happen by itself.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Stopped)
    }
}

/// First and last of a number that a job is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FirstLast {
    /// At the first step.
    pub first: Option<f64>,
    /// At the last step.
    pub last: Option<f64>,
}

/// Validation before and after training.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BeforeAfter {
    /// Before the first step.
    pub before: Option<f64>,
    /// After the last.
    pub after: Option<f64>,
}

/// Samples of a job, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct SampleCounts {
    /// Drawn for training.
    pub drawn: u64,
    /// Dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Rows of the data left out as broken.
    pub invalid_rows: u64,
}

/// Calls of a job, counted by attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct CallCounts {
    /// Attempts made.
    pub made: u64,
    /// Attempts that ended in a fault, by sub-kind.
    pub failed: BTreeMap<String, u64>,
}

/// How a job stands: what `paddock run --json` prints last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobSummary {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: JobState,
    /// Why it failed.
    pub fault: Option<Fault>,
    /// Steps done.
    pub steps: u32,
    /// Mean reward at the first and the last step.
    pub reward: FirstLast,
    /// Validation reward before and after.
    pub validation: BeforeAfter,
    /// Samples drawn and dropped.
    pub samples: SampleCounts,
    /// Calls made and failed.
    pub calls: CallCounts,
    /// Seconds from start to end, or until now.
    pub seconds: f64,
    /// The last checkpoint's folder.
    pub checkpoint: Option<String>,
}

/// A job as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobRecord {
    /// How it stands.
    pub summary: JobSummary,
    /// What was asked for.
    pub config: JobConfig,
    /// The project's folder.
    pub project_dir: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it last changed.
    pub updated_ms: i64,
    /// Its plugins' states, by name.
    #[serde(default)]
    pub plugins: BTreeMap<String, crate::plugin::PluginState>,
}

impl JobRecord {
    /// The record as it may be shown: the values of its plugins' `envs` are secrets.
    pub fn masked(mut self) -> Self {
        let config = &mut self.config;
        let graders = config.graders.iter_mut().map(|grader| &mut grader.plugin);
        for plugin in config.rollout.iter_mut().chain(graders) {
            plugin
                .envs
                .values_mut()
                .for_each(|value| "***".clone_into(value));
        }
        self
    }
}
