//! A plugin's processes above its slots: a reaper, and below it a forkserver that has loaded the function.

use std::sync::Arc;
use std::time::{Duration, Instant};

use paddock_jail::message::Exit;
use paddock_types::Fault;

use crate::create;
use crate::doors::{Doors, Egress};
use crate::fence::{self, Fence};
use crate::forkserver::{Forkserver, ForkserverError, Loaded, Program};
use crate::logs::{LogSink, Output};
use crate::memory::PluginMemory;
use crate::options::RuntimeOptions;
use crate::reaper::{ReaperHandle, ReaperProcess};

/// How long the reaper may take to end what is left then.
const REAPER_WAIT: Duration = Duration::from_secs(8);
/// How long the stack of an import that doesn't end is waited for.
const STACK_WAIT: Duration = Duration::from_millis(500);

/// What a plugin's processes are made of.
pub(crate) struct Recipe {
    pub(crate) plugin: Arc<str>,
    pub(crate) program: Program,
    pub(crate) fence: Fence,
    pub(crate) egress: Arc<Egress>,
    pub(crate) content_format: &'static str,
    pub(crate) sink: LogSink,
    pub(crate) memory: Arc<PluginMemory>,
}

/// A forkserver that has loaded the function, and the reaper above it.
pub(crate) struct Host {
    process: ReaperProcess,
    pub(crate) reaper: ReaperHandle,
    pub(crate) forkserver: Forkserver,
    /// Open as long as the fence stands.
    _doors: Doors,
}

impl Host {
    /// Starts both. On failure nothing is left.
    pub(crate) async fn start(
        recipe: &Recipe,
        options: &RuntimeOptions,
    ) -> Result<(Self, Loaded), Fault> {
        let (process, reaper) = ReaperProcess::start(&options.reaper).map_err(|error| {
            Fault::internal(format!("the reaper could not be started: {error}"))
        })?;
        // Before it starts anything: whatever it starts is in the plugin's group too.
        recipe.memory.hold(process.pid()).await;
        let doors = match Self::fence(recipe, &reaper).await {
            Ok(doors) => doors,
            Err(message) => {
                process.end(&reaper, Duration::ZERO).await;
                return Err(create::no_fence(&message));
            }
        };
        match Self::load(recipe, options, &reaper).await {
            Ok((forkserver, loaded)) => {
                let host = Self {
                    process,
                    reaper,
                    forkserver,
                    _doors: doors,
                };
                Ok((host, loaded))
            }
            Err(fault) => {
                process.end(&reaper, REAPER_WAIT).await;
                Err(fault)
            }
        }
    }

    /// Has the reaper go behind the plugin's fence.
    async fn fence(recipe: &Recipe, reaper: &ReaperHandle) -> Result<Doors, String> {
        let standing = reaper.fence(recipe.fence.plan(&recipe.program)).await?;
        fence::tell_missing(&standing.parts);
        Doors::open(&recipe.fence, standing.listeners, &recipe.egress).map_err(|e| e.to_string())
    }

    /// Ends both, and all that they have started.
    pub(crate) async fn end(self) {
        drop(self.forkserver);
        self.process.end(&self.reaper, REAPER_WAIT).await;
    }

    /// Starts a forkserver below this reaper, and has it load the function.
    pub(crate) async fn load(
        recipe: &Recipe,
        options: &RuntimeOptions,
        reaper: &ReaperHandle,
    ) -> Result<(Forkserver, Loaded), Fault> {
        let output = Output::new(
            recipe.sink.clone(),
            recipe.plugin.clone(),
            Arc::from(""),
            options.evidence_lines,
            options.log_bytes_per_call,
        );
        let fault = |error: &ForkserverError, lines: Vec<String>| {
            create::fault(error, &recipe.plugin, &recipe.program.function, lines)
        };
        let mut forkserver = Forkserver::start(reaper, &recipe.program, output)
            .await
            .map_err(|error| fault(&error, Vec::new()))?;
        match forkserver
            .load(&recipe.program, options.import_timeout)
            .await
        {
            Ok(loaded) => Ok((forkserver, loaded)),
            Err(error) => {
                if matches!(error, ForkserverError::Slow { .. }) {
                    ask_where(reaper, &forkserver).await;
                }
                let exit = match error {
                    ForkserverError::Ended(_) => end_of(&mut forkserver, reaper).await,
                    _ => None,
                };
                reaper.kill(forkserver.pid());
                let fault = create::with_exit(fault(&error, forkserver.last_lines()), exit);
                Err(match recipe.memory.import_ran_out() {
                    Some(limit) if matches!(error, ForkserverError::Ended(_)) => {
                        create::import_ran_out(fault, &recipe.program.function, limit)
                    }
                    _ => fault,
                })
            }
        }
    }
}

/// How a forkserver ended that is gone, once all is heard that it had to say.
async fn end_of(forkserver: &mut Forkserver, reaper: &ReaperHandle) -> Option<Exit> {
    let exit = reaper.adopt(forkserver.pid());
    forkserver.hear_out(STACK_WAIT).await;
    tokio::time::timeout(STACK_WAIT, exit).await.ok()?.ok()
}

/// Has an import that doesn't end say where it is: `faulthandler` writes to its standard error.
async fn ask_where(reaper: &ReaperHandle, forkserver: &Forkserver) {
    // It may have ended meanwhile: then its end is the evidence.
    reaper.ask_stack(forkserver.pid());
    let until = Instant::now() + STACK_WAIT;
    let is_told = |lines: Vec<String>| lines.iter().any(|l| l.contains("most recent call first"));
    while !is_told(forkserver.last_lines()) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The rest of the stack comes with its first line, or right after.
    tokio::time::sleep(Duration::from_millis(20)).await;
}
