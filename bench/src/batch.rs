//! `paddock-bench batch`: a step's rollouts, each waiting for the model three times, through the
//! real model proxy, against the time that the waiting alone would take.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use async_trait::async_trait;
use futures::future::join_all;
use paddock_api::model::{ChatRequest, Choice, Completion, ModelBackend, ModelError};
use paddock_runtime::{Environment, environment};
use paddock_server::{ServeOptions, serve};
use paddock_store::SqliteStore;
use paddock_types::Outcome;
use paddock_types::chat::{Message, Usage};
use paddock_types::plugin::RuntimeOverrides;
use serde_json::json;

use crate::plugins;

/// Model calls of a rollout (`turns.py`).
const TURNS: u32 = 3;

/// How many rollouts, and how slow the model.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Samples of the step.
    #[arg(long, default_value_t = 128)]
    samples: usize,
    /// Rollouts of each sample.
    #[arg(long, default_value_t = 16)]
    generations: usize,
    /// Rollouts that run at once.
    #[arg(long, value_delimiter = ',', default_value = "16,32,64,128")]
    in_flight: Vec<u32>,
    /// Milliseconds that the model takes for an answer.
    #[arg(long, default_value_t = 50)]
    model_ms: u64,
    /// Where environments are kept.
    #[arg(long, default_value = "target/bench-cache")]
    cache: PathBuf,
}

/// A model that takes its time, and then always says the same.
struct Slow(Duration);

#[async_trait]
impl ModelBackend for Slow {
    async fn complete(&self, _: &str, _: ChatRequest) -> Result<Completion, ModelError> {
        tokio::time::sleep(self.0).await;
        let message = json!({"role": "assistant", "content": "so it is"});
        let Ok(message) = serde_json::from_value::<Message>(message) else {
            return Err(ModelError::UnknownToken);
        };
        Ok(Completion {
            model: "slow".to_owned(),
            choices: vec![Choice {
                message,
                finish_reason: "stop",
                logprobs: None,
            }],
            usage: Usage::default(),
            receipt: None,
        })
    }

    async fn model(&self, _: &str) -> Option<String> {
        Some("slow".to_owned())
    }
}

/// Runs the measurement and prints it.
pub(crate) fn run(options: &Options) -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(run_all(options))
}

#[expect(clippy::print_stdout, reason = "the table is what the command is for")]
async fn run_all(options: &Options) -> Result<()> {
    let rollouts = options.samples * options.generations;
    println!(
        "{rollouts} async rollouts of {TURNS} model calls, {} ms each, by the ready client\n",
        options.model_ms
    );
    println!(
        "{:<12}{:>10}{:>10}{:>10}",
        "in flight", "ideal s", "s", "× ideal"
    );
    let cache = std::path::absolute(&options.cache)?;
    let told = |text: &str| eprintln!("{text}");
    let environment = environment::prepare(&plugins::project(), &cache, told)
        .await
        .map_err(|fault| anyhow!("{fault:#?}"))?;
    for &in_flight in &options.in_flight {
        let ideal = ideal(options, rollouts, in_flight);
        let seconds = measure(options, &environment, rollouts, in_flight).await?;
        println!(
            "{in_flight:<12}{ideal:>10.2}{seconds:>10.2}{:>10.2}",
            seconds / ideal
        );
    }
    Ok(())
}

/// Seconds if nothing but the model took time.
fn ideal(options: &Options, rollouts: usize, in_flight: u32) -> f64 {
    let rounds = rollouts.div_ceil(in_flight as usize);
    rounds as f64 * f64::from(TURNS) * options.model_ms as f64 / 1e3
}

async fn measure(
    options: &Options,
    environment: &Environment,
    rollouts: usize,
    in_flight: u32,
) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(folder.path()).await?);
    let model = Arc::new(Slow(Duration::from_millis(options.model_ms)));
    let server = serve(ServeOptions::default(), store.clone(), model, "bench").await?;
    // As many instances as there are cores share the calls; all are warm before the clock starts.
    let cores = std::thread::available_parallelism()?.get() as u32;
    let instances = cores.min(in_flight);
    let limits = RuntimeOverrides {
        min_replicas: Some(instances),
        max_replicas: Some(instances),
        max_concurrency: Some(in_flight / instances),
        ..RuntimeOverrides::default()
    };
    let (project, function) = (plugins::project(), "turns:three_turns");
    let plugin = plugins::start(project, function, environment, limits).await?;
    let url = format!("{}/v1", server.url());
    let call = |n: usize| {
        let body = json!({
            "context": {"phase": "train", "step": 1},
            "sample": {"messages": [{"role": "user", "content": "a story, please"}], "extra": {}},
            "proxy": {"url": url, "jwt_token": format!("t{n}"), "headers": {}},
        });
        plugin.call(plugins::call(body.to_string().into(), 0))
    };
    // The client is imported with the first request.
    join_all((0..in_flight as usize).map(call)).await;
    let start = Instant::now();
    let verdicts = join_all((0..rollouts).map(call)).await;
    let seconds = start.elapsed().as_secs_f64();
    let failed = verdicts.iter().find(|v| v.outcome != Outcome::Success);
    ensure!(failed.is_none(), "a rollout came to {failed:?}");
    plugin.close().await;
    server.shutdown().await;
    store.close().await;
    Ok(seconds)
}
