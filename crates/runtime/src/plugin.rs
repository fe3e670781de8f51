//! A plugin that can be called.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use paddock_types::job::{ContentFormat, Network};
use paddock_types::plugin::{
    Concurrency, InstanceSize, PluginKind, RuntimeLimits, RuntimeOverrides,
};
use paddock_types::{Fault, SubKind, Verdict};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::call::Call;
use crate::create;
use crate::doors::Egress;
use crate::environment::Environment;
use crate::fence::Fence;
use crate::forkserver::{Loaded, Mode, Program};
use crate::host::{Host, Recipe};
use crate::judge::uncharged;
use crate::keeper::{Close, Keeper};
use crate::logs::LogSink;
use crate::memory::PluginMemory;
use crate::options::RuntimeOptions;
use crate::pool::{Pool, Ticket, Waiting};
use crate::scaling::Instances;
use crate::slot::{Command, Common};

/// What a plugin is made from.
#[derive(Debug, Clone)]
pub struct PluginSpec {
    /// Its name in the job.
    pub name: String,
    /// `module.path:function`.
    pub function: String,
    /// The project's folder.
    pub project: PathBuf,
    /// What it sees of the environment, beside the few variables that Python needs.
    pub envs: BTreeMap<String, String>,
    /// The limits that the job sets; its decorator's fill the gaps, then the defaults.
    pub limits: RuntimeOverrides,
    /// How message contents are given to it.
    pub content_format: ContentFormat,
    /// Its interpreter and SDK.
    pub environment: Environment,
    /// What stands between it and the machine.
    pub fence: Fence,
    /// The kind that the job uses it as; `None` takes what it is.
    pub kind: Option<PluginKind>,
}

/// A running plugin. Clones are the same plugin; when the last is dropped, it ends.
#[derive(Debug, Clone)]
pub struct Plugin(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    name: String,
    kind: PluginKind,
    limits: RuntimeLimits,
    egress: Arc<Egress>,
    pool: Arc<Pool>,
    keeper: mpsc::UnboundedSender<Close>,
}

impl Plugin {
    /// Imports the plugin and starts the instances that are kept.
    pub async fn start(spec: PluginSpec, logs: LogSink) -> Result<Self, Fault> {
        Self::start_with(spec, logs, RuntimeOptions::default()).await
    }

    /// The same with other settings.
    pub async fn start_with(
        spec: PluginSpec,
        logs: LogSink,
        options: RuntimeOptions,
    ) -> Result<Self, Fault> {
        raise_descriptor_limit();
        if !spec.fence.on && spec.fence.network != Network::Full {
            return Err(Fault::invalid_value(
                "the job's network is limited, and without the fence nothing limits it",
                "leave --no-fence out, or set `network: full`",
            ));
        }
        let project = std::fs::canonicalize(&spec.project).map_err(|error| {
            Fault::invalid_value(
                format!("the project \"{}\": {error}", spec.project.display()),
                "name an existing folder",
            )
        })?;
        let scratch = create::scratch().map_err(|error| {
            Fault::internal(format!(
                "a folder for temporary files can't be made: {error}"
            ))
        })?;
        let egress = Arc::<Egress>::default();
        let recipe = Recipe {
            plugin: spec.name.as_str().into(),
            program: program(&spec, &project, &scratch),
            fence: spec.fence.clone(),
            egress: egress.clone(),
            content_format: match spec.content_format {
                ContentFormat::AsIs => "as_is",
                ContentFormat::Parts => "parts",
            },
            sink: logs,
            memory: PluginMemory::new(&spec.name, &options, spec.limits.instance),
        };
        let started = Host::start(&recipe, &options).await;
        let (host, loaded) = match started {
            Ok(started) => started,
            Err(fault) => {
                // The reaper has removed it if it ever heard of it.
                let _ = std::fs::remove_dir_all(&scratch);
                return Err(fault);
            }
        };
        let kind = loaded.kind;
        let limits = spec.limits.or(overrides(&loaded.runtime)).resolve(kind);
        let mode = mode(&loaded, limits);
        recipe.memory.sized(limits.instance);
        let (events_in, events) = mpsc::unbounded_channel();
        let (keeper_in, requests) = mpsc::unbounded_channel();
        let pool = Arc::new(Pool::new(Duration::from_secs(limits.queue_timeout.into())));
        let common = Common {
            pool: pool.clone(),
            kind,
            mode,
            timeout: Duration::from_secs(limits.timeout.into()),
            options: Arc::new(options),
            events: events_in,
        };
        let instances = Instances::new(
            mode,
            limits.min_replicas,
            limits.max_replicas,
            limits.max_concurrency,
        );
        let mut keeper = Keeper::new(recipe, common, host, instances, events, requests);
        let problem = match wrong_use(&spec, kind, limits) {
            Some(fault) => Some(fault),
            None => keeper.warm_up().await.err(),
        };
        if let Some(fault) = problem {
            keeper.close().await;
            return Err(fault);
        }
        tokio::spawn(keeper.run());
        Ok(Self(Arc::new(Handle {
            name: spec.name,
            kind,
            limits,
            egress,
            pool,
            keeper: keeper_in,
        })))
    }

    /// Its name in the job.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is.
    pub fn kind(&self) -> PluginKind {
        self.0.kind
    }

    /// The limits in force.
    pub fn limits(&self) -> RuntimeLimits {
        self.0.limits
    }

    /// Bytes of payload that went out of its fence and came back, through the egress proxy.
    pub fn egress(&self) -> (u64, u64) {
        self.0.egress.bytes()
    }

    /// Calls asked for and not answered yet.
    pub fn in_flight(&self) -> usize {
        self.0.pool.in_flight()
    }

    /// Calls that wait for a slot.
    pub fn queued(&self) -> usize {
        self.0.pool.queued()
    }

    /// Makes one attempt of a call. It always comes back: by the call's deadline plus one second
    /// once it runs, and by the queue's limit before. Dropping the future gives the attempt up.
    pub async fn call(&self, call: Call) -> Verdict {
        let (reply, answer) = oneshot::channel();
        let ticket = Arc::<Ticket>::default();
        let pool = &self.0.pool;
        pool.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut attempt = Attempt {
            pool,
            ticket: ticket.clone(),
            key: (call.id.to_u64(), call.attempt),
            answer,
            answered: false,
        };
        pool.put(Waiting {
            call,
            queued: Instant::now(),
            reply,
            ticket,
            alone: false,
        });
        let verdict = (&mut attempt.answer).await;
        attempt.answered = true;
        verdict.unwrap_or_else(|_| uncharged("the runtime has ended"))
    }

    /// Ends the plugin and everything of it, for all its clones.
    pub async fn close(self) {
        let (done, closed) = oneshot::channel();
        if self.0.keeper.send(Close(done)).is_ok() {
            // A keeper that is closing for somebody else drops the word; then it is closed too.
            let _ = closed.await;
        }
    }
}

/// An attempt that somebody waits for.
struct Attempt<'a> {
    pool: &'a Pool,
    ticket: Arc<Ticket>,
    key: (u64, u32),
    answer: oneshot::Receiver<Verdict>,
    answered: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.pool.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.answered {
            // In this order: a slot looks the other way round, so one of the two sees the other.
            self.answer.close();
            self.ticket.tell(Command::Abandon(self.key.0, self.key.1));
        }
    }
}

fn mode(loaded: &Loaded, limits: RuntimeLimits) -> Mode {
    match (loaded.is_async, limits.concurrency) {
        (true, _) => Mode::Loop,
        (false, Concurrency::Process) => Mode::Process,
        (false, Concurrency::Thread) => Mode::Thread,
    }
}

/// A function that can't be what the job uses it as, or that may have no instance.
fn wrong_use(spec: &PluginSpec, kind: PluginKind, limits: RuntimeLimits) -> Option<Fault> {
    let fault = |message, advice| {
        Some(Fault::call_plugin(SubKind::Create, message, advice).at(create::at(&spec.name)))
    };
    if let Some(wanted) = spec.kind
        && wanted != kind
    {
        return fault(
            format!(
                "\"{}\" is a {}, and the job uses it as a {}",
                spec.function,
                kind.as_str(),
                wanted.as_str()
            ),
            "name it where its kind belongs, or give it the other decorator",
        );
    }
    if limits.max_replicas == 0 {
        return fault(
            "runtime.max_replicas is \"0\": no instance may be made".to_owned(),
            "set max_replicas to 1 or more",
        );
    }
    None
}

/// The limits that a decorator sets, as the forkserver tells them. What can't be read is not set.
fn overrides(told: &Value) -> RuntimeOverrides {
    let number = |key: &str| {
        told.get(key)
            .and_then(Value::as_u64)
            .and_then(|n| u32::try_from(n).ok())
    };
    let text = |key: &str| told.get(key).and_then(Value::as_str);
    RuntimeOverrides {
        instance: text("instance").and_then(InstanceSize::parse),
        timeout: number("timeout").filter(|n| (1..=900).contains(n)),
        max_concurrency: number("max_concurrency").filter(|n| (1..=100).contains(n)),
        min_replicas: number("min_replicas"),
        max_replicas: number("max_replicas"),
        queue_timeout: number("queue_timeout").filter(|&n| n >= 1),
        concurrency: match text("concurrency") {
            Some("process") => Some(Concurrency::Process),
            Some("thread") => Some(Concurrency::Thread),
            _ => None,
        },
    }
}

/// The forkserver's command line and environment: nothing of the host's but what Python needs.
fn program(spec: &PluginSpec, project: &Path, scratch: &Path) -> Program {
    let python = spec.environment.python.to_string_lossy();
    let scratch_text = scratch.to_string_lossy().into_owned();
    let mut env = BTreeMap::from(
        [
            ("PATH", path_of(&spec.environment.python)),
            ("HOME", scratch_text.clone()),
            ("TMPDIR", scratch_text),
            ("LANG", "C.UTF-8".to_owned()),
            // Sets and dictionaries go in the same order from run to run, as everything seeded does.
            ("PYTHONHASHSEED", "0".to_owned()),
            ("PYTHONUNBUFFERED", "1".to_owned()),
            ("PYTHONNOUSERSITE", "1".to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    if let Some(zone) = std::env::var_os("TZ") {
        env.insert("TZ".to_owned(), zone.to_string_lossy().into_owned());
    }
    env.extend(spec.fence.variables());
    env.extend(spec.envs.clone());
    let mut path = spec.environment.sdk.to_string_lossy().into_owned();
    if let Some(own) = env.get("PYTHONPATH").filter(|own| !own.is_empty()) {
        path = format!("{path}:{own}");
    }
    env.insert("PYTHONPATH".to_owned(), path);
    Program {
        argv: Program::argv(&python),
        env: env.into_iter().collect(),
        project: project.to_owned(),
        function: spec.function.clone(),
        scratch: scratch.to_owned(),
    }
}

/// The interpreter's own folder, then the system's.
fn path_of(python: &Path) -> String {
    let system = "/usr/local/bin:/usr/bin:/bin";
    match python.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            format!("{}:{system}", folder.display())
        }
        _ => system.to_owned(),
    }
}

/// Each slot needs five descriptors here: the soft limit of many systems is soon reached.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        limit.current = limit.maximum;
        // Where it may not be raised, it stays as it is.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
