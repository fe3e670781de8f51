//! Installs requirements: with uv where it is found, with venv and pip otherwise.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use paddock_types::{Fault, Location, SubKind};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;

use super::address::Requirements;
use super::python::Python;

/// Last lines of the installer that are kept in a fault.
const LAST_LINES: usize = 30;
/// How long one command of the installer may take.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Builds the environment in `folder`, from the project's folder.
pub(super) async fn install(
    python: &Python,
    folder: &Path,
    project: &Path,
    requirements: &Requirements,
    progress: &(impl Fn(&str) + Send + Sync),
) -> Result<(), Fault> {
    let with_uv = has_uv().await;
    let tool = if with_uv { "uv" } else { "pip" };
    let count = requirements.count;
    let s = if count == 1 { "" } else { "s" };
    progress(&format!(
        "installing {count} requirement{s} for Python {} with {tool} (once)",
        python.version
    ));
    std::fs::create_dir_all(folder).map_err(|error| place_fault(folder, &error))?;
    let base = folder.with_extension("base.txt");
    std::fs::write(&base, &requirements.base).map_err(|error| place_fault(folder, &error))?;
    let outcome = run_all(with_uv, python, folder, project, requirements, &base).await;
    // It is written anew whenever it is needed.
    let _ = std::fs::remove_file(&base);
    outcome
}

async fn run_all(
    with_uv: bool,
    python: &Python,
    folder: &Path,
    project: &Path,
    requirements: &Requirements,
    base: &Path,
) -> Result<(), Fault> {
    let inside = folder.join("bin/python");
    let mut make = if with_uv {
        let mut command = Command::new("uv");
        command.args(["venv", "--quiet", "--allow-existing", "--python"]);
        command.arg(&python.path);
        command
    } else {
        let mut command = Command::new(&python.path);
        command.args(["-I", "-m", "venv"]);
        command
    };
    make.arg(folder);
    run("the environment could not be made", make, project).await?;
    let mut install = if with_uv {
        let mut command = Command::new("uv");
        command.args(["pip", "install", "--python"]).arg(&inside);
        command
    } else {
        let mut command = Command::new(&inside);
        command.args(["-m", "pip", "install", "--no-input"]);
        command
    };
    for file in [requirements.file.as_deref(), Some(base)]
        .into_iter()
        .flatten()
    {
        install.arg("-r").arg(file);
    }
    let what = match requirements.file {
        Some(_) => "the requirements could not be installed",
        None => "what the SDK needs could not be installed",
    };
    run(what, install, project).await
}

async fn has_uv() -> bool {
    let asked = Command::new("uv")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.await.is_ok_and(|status| status.success())
}

/// Runs one command of the installer; its last words are the fault's evidence.
async fn run(what: &str, mut command: Command, project: &Path) -> Result<(), Fault> {
    let program = command.as_std().get_program().to_owned();
    let spawned = command
        .current_dir(project)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Err(fault(what, &format!("{}: {error}", program.display()), &[])),
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let finished = async {
        let ((), lines, status) = tokio::join!(
            async { drop(last_lines(stdout).await) },
            last_lines(stderr),
            child.wait()
        );
        (lines, status)
    };
    match tokio::time::timeout(LIMIT, finished).await {
        Err(_) => {
            let limit = format!("it took longer than {} s", LIMIT.as_secs());
            Err(fault(what, &limit, &[]))
        }
        Ok((_, Ok(status))) if status.success() => Ok(()),
        Ok((lines, Ok(status))) => {
            let reason = reason(&lines).unwrap_or_else(|| status.to_string());
            Err(fault(what, &reason, &lines))
        }
        Ok((lines, Err(error))) => Err(fault(what, &error.to_string(), &lines)),
    }
}

async fn last_lines(stream: Option<impl AsyncRead + Unpin>) -> Vec<String> {
    let Some(stream) = stream else {
        return Vec::new();
    };
    let mut last = VecDeque::new();
    let mut lines = BufReader::new(stream).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
    }
    last.into()
}

/// The installer's own reason: the last line that it calls an error.
fn reason(lines: &[String]) -> Option<String> {
    let told = |line: &&String| line.to_ascii_lowercase().starts_with("error");
    let line = lines.iter().rev().find(told).or(lines.last())?;
    Some(line.trim().to_owned()).filter(|line| !line.is_empty())
}

fn fault(what: &str, reason: &str, lines: &[String]) -> Fault {
    let fault = Fault::call_plugin(
        SubKind::Create,
        format!("{what}: {reason}"),
        "correct requirements.txt, or the index that the installer is told to use; the installer's last lines are kept as evidence",
    );
    let fault = fault.at(Location {
        file: Some("requirements.txt".to_owned()),
        ..Location::default()
    });
    if lines.is_empty() {
        fault
    } else {
        fault.with("logs", lines.to_vec())
    }
}

fn place_fault(folder: &Path, error: &std::io::Error) -> Fault {
    let shown = folder.display();
    Fault::call_plugin(
        SubKind::Create,
        format!("the environment's folder \"{shown}\" can't be written: {error}"),
        "make the cache folder writable, or name another one",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_installers_own() {
        let lines: Vec<String> = ["Looking", "ERROR: No matching distribution found for x", ""]
            .map(str::to_owned)
            .to_vec();
        let found = reason(&lines);
        assert_eq!(
            found.as_deref(),
            Some("ERROR: No matching distribution found for x")
        );
        assert_eq!(reason(&[]), None);
    }
}
