//! For the tests of this crate: the reaper alone, or a program that holds a plugin and waits to be
//! killed (`host PROJECT FUNCTION CACHE BODY`).

use std::process::ExitCode;
use std::sync::Arc;

use paddock_runtime::{
    Call, CallClock, Environment, Plugin, PluginSpec, Reaper, RuntimeOptions, environment,
};
use paddock_types::CallId;

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
        kind: None,
    };
    let options = RuntimeOptions {
        reaper: Reaper {
            program: "/proc/self/exe".into(),
            args: Vec::new(),
        },
        ..RuntimeOptions::default()
    };
    let plugin = Plugin::start_with(spec, Arc::new(drop), options)
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
