//! For the tests of this crate: the reaper alone, a program that holds a plugin and waits to be
//! killed (`host PROJECT FUNCTION CACHE BODY`), or one that makes calls to a grader one after the other
//! and prints their verdicts (`calls`, with JSON on standard input): a test may run it as somebody else.

#![expect(clippy::print_stdout, reason = "its answer is what it prints")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use paddock_runtime::{
    Call, CallClock, Environment, Fence, Plugin, PluginSpec, Reaper, RuntimeOptions, environment,
};
use paddock_types::CallId;
use paddock_types::job::Network;
use paddock_types::log::LogLine;
use serde::Deserialize;
use serde_json::{Value, json};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("host") => {
            let args: Vec<String> = args.collect();
            match tokio::runtime::Runtime::new() {
                Ok(runtime) => runtime.block_on(host(&args)),
                Err(_) => ExitCode::FAILURE,
            }
        }
        Some("calls") => match tokio::runtime::Runtime::new() {
            Ok(runtime) => runtime.block_on(calls()),
            Err(_) => ExitCode::FAILURE,
        },
        _ => paddock_jail::reaper::main(),
    }
}

async fn host(args: &[String]) -> ExitCode {
    let [project, function, cache, body] = args else {
        return ExitCode::FAILURE;
    };
    let Ok(environment) = environment::bare(cache.as_ref()).await else {
        return ExitCode::FAILURE;
    };
    match hold(project, function, environment, body).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

async fn hold(
    project: &str,
    function: &str,
    environment: Environment,
    body: &str,
) -> Result<(), Box<paddock_types::Fault>> {
    let spec = PluginSpec {
        name: "held".to_owned(),
        function: function.to_owned(),
        project: project.into(),
        envs: Default::default(),
        limits: Default::default(),
        content_format: Default::default(),
        environment,
        fence: Fence {
            shared: vec![project.into()],
            ..Fence::default()
        },
        kind: None,
    };
    let plugin = Plugin::start_with(spec, Arc::new(drop), options())
        .await
        .map_err(Box::new)?;
    plugin
        .call(Call {
            id: CallId::new(),
            attempt: 1,
            body: body.to_owned().into(),
            trajectories: 1,
            clock: CallClock::default(),
        })
        .await;
    Ok(())
}

fn options() -> RuntimeOptions {
    RuntimeOptions {
        reaper: Reaper {
            program: "/proc/self/exe".into(),
            args: Vec::new(),
        },
        ..RuntimeOptions::default()
    }
}

/// What `calls` is asked.
#[derive(Deserialize)]
struct Asked {
    project: PathBuf,
    function: String,
    cache: PathBuf,
    space: u64,
    #[serde(default)]
    network: Network,
    #[serde(default)]
    doors: Vec<u16>,
    /// The body of each call.
    bodies: Vec<Value>,
}

async fn calls() -> ExitCode {
    let told = match answers().await {
        Ok(told) => told,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    println!("{told}");
    ExitCode::SUCCESS
}

async fn answers() -> Result<Value, String> {
    let asked: Asked = serde_json::from_reader(std::io::stdin()).map_err(|e| e.to_string())?;
    let environment = environment::bare(&asked.cache).await;
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let sink = {
        let lines = lines.clone();
        Arc::new(move |line: LogLine| {
            let mut lines = lines.lock().unwrap_or_else(|e| e.into_inner());
            lines.push(line.text);
        })
    };
    let spec = PluginSpec {
        name: asked.function.clone(),
        function: asked.function,
        project: asked.project,
        envs: Default::default(),
        limits: Default::default(),
        content_format: Default::default(),
        environment: environment.map_err(|fault| fault.to_string())?,
        fence: Fence {
            space: asked.space,
            network: asked.network,
            doors: asked.doors,
            ..Fence::default()
        },
        kind: None,
    };
    let plugin = Plugin::start_with(spec, sink, options()).await;
    let plugin = plugin.map_err(|fault| format!("{fault:#?}"))?;
    let mut told = Vec::new();
    for body in asked.bodies {
        let call = Call {
            id: CallId::new(),
            attempt: 1,
            body: body.to_string().into(),
            trajectories: 1,
            clock: CallClock::default(),
        };
        let verdict = plugin.call(call).await;
        let mut said = lines.lock().unwrap_or_else(|e| e.into_inner());
        let lines = std::mem::take(&mut *said);
        told.push(json!({"verdict": verdict, "lines": lines, "egress": plugin.egress()}));
    }
    plugin.close().await;
    Ok(told.into())
}
