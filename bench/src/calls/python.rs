//! Peers that are driven from Python, as their users do.

use anyhow::{Context as _, ensure};
use tokio::process::Command;

use super::Bench;

/// Calls answered in a second, as the peer's own script counts them.
pub(super) async fn measure(bench: &Bench, peer: &str, in_flight: usize) -> anyhow::Result<f64> {
    let output = Command::new(&bench.environment.python)
        .arg(bench.project.join("python_peer.py"))
        .arg(peer)
        .arg(&bench.body_file)
        .arg(in_flight.to_string())
        .arg(bench.span.as_secs_f64().to_string())
        .output()
        .await?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{words}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().context("it said nothing")?;
    last.trim()
        .parse()
        .with_context(|| format!("it said \"{last}\""))
}
