//! FastAPI behind uvicorn, driven over kept-alive connections by as little HTTP as will do: the
//! client must not be what is measured.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::Bench;

/// Requests answered in a second, over one connection a request in flight.
pub(super) async fn measure(bench: &Bench, path: &str, in_flight: usize) -> anyhow::Result<f64> {
    let mut server = Command::new(&bench.environment.python)
        .arg(bench.project.join("fastapi_app.py"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = server.stdout.take().context("it has an output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    let port: u16 = line.trim().parse().context("the server did not start")?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        bench.body.len()
    );
    let request = Bytes::from([head.as_bytes(), &bench.body].concat());
    let warm = bench.span / 5;
    answer(port, &request, in_flight, warm).await?;
    let start = Instant::now();
    let answered = answer(port, &request, in_flight, bench.span).await?;
    let rate = answered as f64 / start.elapsed().as_secs_f64();
    server.kill().await?;
    Ok(rate)
}

async fn answer(port: u16, request: &Bytes, callers: usize, span: Duration) -> anyhow::Result<u64> {
    let answered = Arc::new(AtomicU64::new(0));
    let tasks = (0..callers).map(|_| {
        let (request, answered) = (request.clone(), answered.clone());
        let task = tokio::spawn(async move {
            let mut stream = connect(port).await?;
            let end = Instant::now() + span;
            let mut buffer = Vec::new();
            while Instant::now() < end {
                stream.write_all(&request).await?;
                read_answer(&mut stream, &mut buffer).await?;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
        async { task.await? }
    });
    try_join_all(tasks).await?;
    Ok(answered.load(Ordering::Relaxed))
}

/// The server prints its port before it accepts.
async fn connect(port: u16) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn read_answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<()> {
    buffer.clear();
    loop {
        ensure!(stream.read_buf(buffer).await? > 0, "the server closed");
        if let Some(end) = whole(buffer)? {
            ensure!(buffer.len() == end, "it sent more than one answer");
            return Ok(());
        }
    }
}

/// The length of the whole answer, once it has arrived.
fn whole(buffer: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(head) = buffer.windows(4).position(|w| w == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&buffer[..head])?.to_ascii_lowercase();
    ensure!(text.starts_with("http/1.1 200"), "it answered {text}");
    let length: usize = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .context("an answer without a length")?
        .trim()
        .parse()?;
    let end = head + 4 + length;
    Ok((buffer.len() >= end).then_some(end))
}
