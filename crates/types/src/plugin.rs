//! Plugins: their kinds, their limits, and how a job names them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a plugin function is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PluginKind {
    /// Makes a trajectory: `(context, proxy, sample)`.
    Rollout,
    /// Scores one trajectory: `(context, sample, trajectory)`.
    SingleGrader,
    /// Scores a sample's trajectories together: `(context, sample, trajectories)`.
    GroupGrader,
}

impl PluginKind {
    /// The decorator's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::SingleGrader => "single_grader",
            Self::GroupGrader => "group_grader",
        }
    }
}

/// The size of one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct InstanceSize {
    /// Cores: a cap, never reserved.
    pub cores: u32,
    /// GiB of memory: reserved.
    pub gib: u32,
}

impl InstanceSize {
    /// `cpu1mem2`.
    pub const SMALLEST: Self = Self { cores: 1, gib: 2 };

    /// Reads `cpu1mem2` or `CPU1MEM2`; `None` if no such size exists.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let (cores, gib) = text.strip_prefix("cpu")?.split_once("mem")?;
        let size = Self {
            cores: cores.parse().ok()?,
            gib: gib.parse().ok()?,
        };
        Self::all().find(|&known| known == size)
    }

    /// Every size there is, smallest first.
    pub fn all() -> impl Iterator<Item = Self> {
        [1, 2, 4, 8, 16].into_iter().flat_map(|cores| {
            [2, 4, 8].map(|per_core| Self {
                cores,
                gib: cores * per_core,
            })
        })
    }

    /// Its memory in bytes.
    pub const fn bytes(self) -> u64 {
        (self.gib as u64) << 30
    }
}

impl fmt::Display for InstanceSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu{}mem{}", self.cores, self.gib)
    }
}

/// How a `def` function runs at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Concurrency {
    /// Each call in a process of its own, on its main thread.
    Process,
    /// Up to ten calls share a process.
    Thread,
}

/// The limits that a job's `runtime:` may set; what is left out is the decorator's, then the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct RuntimeOverrides {
    /// Size of one instance.
    pub instance: Option<InstanceSize>,
    /// Seconds for one call, 1 to 900.
    pub timeout: Option<u32>,
    /// Calls an instance runs at once, 1 to 100.
    pub max_concurrency: Option<u32>,
    /// Instances kept.
    pub min_replicas: Option<u32>,
    /// Instances at most.
    pub max_replicas: Option<u32>,
    /// Seconds a call may wait for a slot.
    pub queue_timeout: Option<u32>,
    /// How a `def` function runs at once.
    pub concurrency: Option<Concurrency>,
}

impl RuntimeOverrides {
    /// These settings, with gaps filled from `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            instance: self.instance.or(other.instance),
            timeout: self.timeout.or(other.timeout),
            max_concurrency: self.max_concurrency.or(other.max_concurrency),
            min_replicas: self.min_replicas.or(other.min_replicas),
            max_replicas: self.max_replicas.or(other.max_replicas),
            queue_timeout: self.queue_timeout.or(other.queue_timeout),
            concurrency: self.concurrency.or(other.concurrency),
        }
    }

    /// The limits in force for a plugin of this kind.
    pub fn resolve(self, kind: PluginKind) -> RuntimeLimits {
        let usual = match kind {
            PluginKind::Rollout => Concurrency::Thread,
            PluginKind::SingleGrader | PluginKind::GroupGrader => Concurrency::Process,
        };
        let max_replicas = self.max_replicas.unwrap_or(10);
        RuntimeLimits {
            instance: self.instance.unwrap_or(InstanceSize::SMALLEST),
            timeout: self.timeout.unwrap_or(900),
            max_concurrency: self.max_concurrency.unwrap_or(10),
            min_replicas: self.min_replicas.unwrap_or(1).min(max_replicas),
            max_replicas,
            queue_timeout: self.queue_timeout.unwrap_or(3600),
            concurrency: self.concurrency.unwrap_or(usual),
        }
    }
}

/// The limits in force for a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RuntimeLimits {
    /// Size of one instance.
    pub instance: InstanceSize,
    /// Seconds for one call.
    pub timeout: u32,
    /// Calls an instance runs at once.
    pub max_concurrency: u32,
    /// Instances kept.
    pub min_replicas: u32,
    /// Instances at most.
    pub max_replicas: u32,
    /// Seconds a call may wait for a slot.
    pub queue_timeout: u32,
    /// How a `def` function runs at once.
    pub concurrency: Concurrency,
}

/// A plugin as `job.yaml` names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PluginConfig {
    /// Its name in the job.
    pub name: String,
    /// `module.path:function`.
    pub python_func: String,
    /// What it sees of the environment.
    #[serde(default)]
    pub envs: BTreeMap<String, String>,
    /// The limits that the job sets.
    #[serde(default)]
    pub runtime: RuntimeOverrides,
}

/// A plugin's state in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PluginState {
    /// 等待中
    Waiting,
    /// 运行中
    Running,
    /// 完成
    Completed,
    /// 失败
    Failed,
}
