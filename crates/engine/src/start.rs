//! Brings a prepared job up: its code, its environment, its plugins, its policy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paddock_policy::Policy;
use paddock_runtime::{
    Environment, Fence, LogSink, Plugin, PluginSpec, environment, loopback_port,
};
use paddock_types::JobId;
use paddock_types::fault::{Fault, Location, SubKind};
use paddock_types::job::ValidationSet;
use paddock_types::plugin::{PluginConfig, PluginKind};
use tokio::sync::mpsc::UnboundedSender;

use crate::JobEvent;
use crate::Services;
use crate::context::Grader;
use crate::package::{self, Package};
use crate::prepare::{Prepared, unusable};

/// The parts of a job that are up.
pub struct Started {
    /// The rollout, if the job has one.
    pub rollout: Option<Plugin>,
    /// The graders.
    pub graders: Vec<Grader>,
    /// The policy.
    pub policy: Policy,
    /// SHA-256 of the code that runs.
    pub code: String,
}

/// Starts everything; what was started is ended again if a later part fails.
pub async fn start(
    prepared: &Prepared,
    job: JobId,
    job_dir: &Path,
    services: &Services,
    events: &UnboundedSender<JobEvent>,
) -> Result<Started, Fault> {
    let phase = |name, detail: &str| {
        let _ = events.send(JobEvent::Phase {
            name,
            detail: detail.to_owned(),
        });
    };
    phase("model", "loading the policy");
    let policy = load_policy(prepared).await?;
    let package = copy_code(prepared, job_dir.join("package")).await?;
    let environment = environment::prepare(&package.dir, &prepared.options.cache_dir, |line| {
        phase("environment", line);
    })
    .await?;
    let sink: LogSink = {
        let writer = services.writer.clone();
        Arc::new(move |line| writer.log(job, line))
    };
    let mut starter = Starter {
        prepared,
        package: package.dir,
        environment,
        fence: Fence {
            network: prepared.config.network.clone(),
            doors: loopback_port(&services.proxy_url).into_iter().collect(),
            ..prepared.options.fence.clone()
        },
        sink,
        started: vec![],
    };
    let config = &prepared.expanded;
    let mut wanted: Vec<(&PluginConfig, Option<PluginKind>)> = vec![];
    wanted.extend(
        config
            .rollout
            .as_ref()
            .map(|plugin| (plugin, Some(PluginKind::Rollout))),
    );
    wanted.extend(config.graders.iter().map(|grader| (&grader.plugin, None)));
    for (plugin, kind) in wanted {
        phase("plugins", &format!("starting \"{}\"", plugin.name));
        if let Err(fault) = starter.start(plugin, kind).await {
            for plugin in starter.started {
                plugin.close().await;
            }
            return Err(fault);
        }
    }
    let mut plugins = starter.started.into_iter();
    let rollout = if config.rollout.is_some() {
        plugins.next()
    } else {
        None
    };
    let weights = config.graders.iter().map(|grader| grader.weight);
    let graders = plugins
        .zip(weights)
        .map(|(plugin, weight)| Grader { plugin, weight })
        .collect();
    Ok(Started {
        rollout,
        graders,
        policy,
        code: package.hash,
    })
}

async fn copy_code(prepared: &Prepared, to: PathBuf) -> Result<Package, Fault> {
    let (project, leave_out) = (prepared.project.clone(), left_out(prepared));
    tokio::task::spawn_blocking(move || package::copy(&project, &to, &leave_out))
        .await
        .map_err(|error| Fault::internal(format!("copying the code ended early: {error}")))?
        .map_err(|error| Fault::internal(format!("the project's code can't be copied: {error}")))
}

/// What is no code: the job's data sets, and Paddock's own data.
fn left_out(prepared: &Prepared) -> Vec<PathBuf> {
    let data = &prepared.config.data;
    let validation = match &data.validation {
        ValidationSet::Files(files) => files.as_slice(),
        ValidationSet::Percentage(_) | ValidationSet::None => &[],
    };
    let sets = data.training_files.iter().chain(validation);
    let files = sets.map(|file| {
        prepared
            .project
            .join(file.strip_prefix("./").unwrap_or(file))
    });
    let own = prepared.options.data_dir.canonicalize().ok();
    files.chain(own).collect()
}

struct Starter<'a> {
    prepared: &'a Prepared,
    package: PathBuf,
    environment: Environment,
    fence: Fence,
    sink: LogSink,
    started: Vec<Plugin>,
}

impl Starter<'_> {
    async fn start(
        &mut self,
        plugin: &PluginConfig,
        kind: Option<PluginKind>,
    ) -> Result<(), Fault> {
        let spec = PluginSpec {
            name: plugin.name.clone(),
            function: plugin.python_func.clone(),
            project: self.package.clone(),
            envs: plugin.envs.clone(),
            limits: plugin.runtime,
            content_format: self.prepared.config.content_format,
            environment: self.environment.clone(),
            fence: self.fence.clone(),
            kind,
        };
        let started = Plugin::start(spec, self.sink.clone()).await?;
        let grades = matches!(
            started.kind(),
            PluginKind::SingleGrader | PluginKind::GroupGrader
        );
        if kind.is_none() && !grades {
            let message = format!(
                "plugin \"{}\" is a {}, but it stands among the graders",
                plugin.name,
                started.kind().as_str()
            );
            started.close().await;
            let advice = "decorate it with `@single_grader` or `@group_grader`";
            return Err(
                Fault::call_plugin(SubKind::Create, message, advice).at(Location {
                    plugin: Some(plugin.name.clone()),
                    ..Location::default()
                }),
            );
        }
        self.started.push(started);
        Ok(())
    }
}

async fn load_policy(prepared: &Prepared) -> Result<Policy, Fault> {
    let folder = prepared.model.clone();
    tokio::task::spawn_blocking(move || {
        Policy::load(&folder).map_err(|error| unusable(&folder, &error))
    })
    .await
    .map_err(|error| Fault::internal(format!("loading the policy ended early: {error}")))?
}
