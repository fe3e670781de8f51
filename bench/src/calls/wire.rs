//! The bare wire: one slot process, frames written and read from Rust, nothing recorded.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use paddock_wire::{DEFAULT_LIMIT, Decoder, Kind, Outbox};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

use super::Bench;

/// Calls answered in a second by one slot of this mode.
pub(super) async fn measure(
    bench: &Bench,
    mode: &str,
    function: &str,
    in_flight: usize,
) -> anyhow::Result<f64> {
    let (data, control, mut slot) = start(bench, mode, function)?;
    let outcome = drive(bench, data, in_flight).await;
    drop(control);
    slot.kill()?;
    slot.wait()?;
    outcome
}

fn start(
    bench: &Bench,
    mode: &str,
    function: &str,
) -> anyhow::Result<(UnixStream, UnixStream, Child)> {
    let (data, data_end) = UnixStream::pair()?;
    let (control, control_end) = UnixStream::pair()?;
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    let ends = [data_end.into_std()?, control_end.into_std()?];
    for end in &ends {
        end.set_nonblocking(false)?;
    }
    let ends = [
        inherited(&ends[0])?,
        inherited(&ends[1])?,
        inherited(&null)?,
        inherited(&null)?,
        inherited(&null)?,
    ];
    let [data_fd, control_fd, stdout, stderr, stack] = ends.each_ref().map(|fd| fd.as_raw_fd());
    let order = json!({
        "slot": 1, "mode": mode, "capacity": 1, "content_format": "as_is",
        "data": data_fd, "control": control_fd,
        "stdout": stdout, "stderr": stderr, "stack": stack,
        "project": bench.project, "function": format!("grader:{function}"),
    });
    let slot = Command::new(&bench.environment.python)
        .args(["-P", "-m", "paddock._worker", "--slot"])
        .arg(order.to_string())
        .env("PYTHONPATH", &bench.environment.sdk)
        .current_dir(&bench.project)
        .stdin(Stdio::null())
        .spawn()
        .context("the slot did not start")?;
    Ok((data, control, slot))
}

/// A copy that a started program inherits. Nothing else is started meanwhile.
fn inherited(fd: impl AsFd) -> anyhow::Result<OwnedFd> {
    Ok(rustix::io::dup(fd)?)
}

async fn drive(bench: &Bench, data: UnixStream, in_flight: usize) -> anyhow::Result<f64> {
    let (mut read, write) = data.into_split();
    let mut decoder = Decoder::new(DEFAULT_LIMIT);
    let mut outbox = Outbox::new(DEFAULT_LIMIT);
    let mut next = 0u64;
    let mut answered = 0u64;
    let mut start = None;
    loop {
        while let Some(frame) = decoder.next_frame()? {
            match frame.kind {
                Kind::Hello => {
                    for _ in 0..in_flight {
                        next += 1;
                        outbox.push(Kind::Call, next, 1, bench.body.clone())?;
                    }
                }
                Kind::Answer => {
                    if start.is_none() {
                        let text = String::from_utf8_lossy(&frame.body);
                        ensure!(text.contains("\"rewards\":[1.0]"), "it answered {text}");
                    }
                    start.get_or_insert_with(Instant::now);
                    answered += 1;
                    next += 1;
                    outbox.push(Kind::Call, next, 1, bench.body.clone())?;
                }
                _ => {}
            }
        }
        if let Some(start) = start
            && start.elapsed() >= bench.span
        {
            return Ok(answered as f64 / start.elapsed().as_secs_f64());
        }
        outbox.flush(|slices| write.try_write_vectored(slices))?;
        tokio::select! {
            count = read.read_buf(decoder.buffer()) => {
                ensure!(count? > 0, "the slot ended");
            }
            _ = write.writable(), if !outbox.is_empty() => {}
        }
    }
}
