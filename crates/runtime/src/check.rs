//! The static check of plugin functions: they exist, are decorated, and take the right parameters.
//!
//! Nothing of the project is imported: the SDK reads its sources.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use paddock_types::plugin::PluginKind;
use paddock_types::{Fault, Location};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::environment::Environment;

/// How long reading a project's sources may take.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Serialize)]
struct Asked<'a> {
    project: &'a Path,
    functions: Vec<AskedFunction<'a>>,
}

#[derive(Serialize)]
struct AskedFunction<'a> {
    field: &'a str,
    function: &'a str,
    kinds: Vec<&'static str>,
}

#[derive(Deserialize)]
struct Told {
    problems: Vec<Problem>,
}

#[derive(Deserialize)]
struct Problem {
    field: String,
    message: String,
    #[serde(default)]
    advice: String,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u64>,
}

/// Checks functions, each named by the field it stands in and the kinds it may be.
pub async fn check_functions(
    env: &Environment,
    project: &Path,
    functions: &[(String, String, &[PluginKind])],
) -> Result<(), Vec<Fault>> {
    let asked = Asked {
        project,
        functions: functions
            .iter()
            .map(|(field, function, kinds)| AskedFunction {
                field,
                function,
                kinds: kinds.iter().map(|kind| kind.as_str()).collect(),
            })
            .collect(),
    };
    let told = ask(env, &asked).await.map_err(|reason| {
        vec![Fault::internal(format!(
            "the check of plugin functions failed: {reason}"
        ))]
    })?;
    let faults: Vec<Fault> = told.problems.into_iter().map(fault).collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults)
    }
}

async fn ask(env: &Environment, asked: &Asked<'_>) -> Result<Told, String> {
    let body = serde_json::to_vec(asked).map_err(|error| error.to_string())?;
    let mut child = Command::new(&env.python)
        .args(["-P", "-m", "paddock.check"])
        .env("PYTHONPATH", &env.sdk)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().ok_or("it has no input")?;
    let exchange = async {
        let write = async {
            let written = stdin.write_all(&body).await;
            drop(stdin);
            written
        };
        let (written, output) = tokio::join!(write, child.wait_with_output());
        written.and(output)
    };
    let output = tokio::time::timeout(LIMIT, exchange)
        .await
        .map_err(|_| format!("no answer within {} s", LIMIT.as_secs()))?
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = words.lines().rev().find(|l| !l.trim().is_empty());
        last.unwrap_or("it said nothing").to_owned()
    })
}

fn fault(problem: Problem) -> Fault {
    let advice = match problem.advice.as_str() {
        "" => "correct the function or the field that names it",
        advice => advice,
    };
    Fault::invalid_value(problem.message.clone(), advice).at(Location {
        file: problem.file.filter(|file| !file.is_empty()),
        line: problem.line.filter(|&line| line > 0),
        field: Some(problem.field),
        ..Location::default()
    })
}
