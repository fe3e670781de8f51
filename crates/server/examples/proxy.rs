//! Measures what the model proxy adds: `cargo run --release -p paddock-server --example proxy`.
//!
//! A model that answers at once, asked over kept connections as rollouts ask. Clients and server
//! share the machine, so this is the least that the proxy does.

#![expect(clippy::print_stdout, reason = "its result is its output")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use paddock_api::model::{ChatRequest, Choice, Completion, ModelBackend, ModelError};
use paddock_api::path;
use paddock_server::{ServeOptions, serve};
use paddock_store::SqliteStore;
use paddock_types::chat::{Message, Usage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CLIENTS: usize = 32;
const REQUESTS: usize = 2_000;

struct AtOnce;

#[async_trait]
impl ModelBackend for AtOnce {
    async fn complete(&self, _: &str, _: ChatRequest) -> Result<Completion, ModelError> {
        Ok(Completion {
            model: "instant".to_owned(),
            choices: vec![Choice {
                message: Message::text("assistant", "12"),
                finish_reason: "stop",
                logprobs: None,
            }],
            usage: Usage::default(),
            receipt: None,
        })
    }

    async fn model(&self, _: &str) -> Option<String> {
        None
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(folder.path()).await?);
    let backend = Arc::new(AtOnce);
    let server = serve(ServeOptions::default(), store, backend, "owner").await?;
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}],"max_tokens":8}}"#,
        "7 + 5 = ? ".repeat(20)
    );
    let request = Arc::new(format!(
        "POST {} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t\r\ncontent-type: application/json\r\n\
         x-paddock-main: 1\r\ncontent-length: {}\r\n\r\n{body}",
        path::CHAT_COMPLETIONS,
        body.len()
    ));
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let stream = TcpStream::connect(server.addr()).await?;
        tasks.spawn(client(stream, Arc::clone(&request)));
    }
    let mut waits = Vec::new();
    for ended in tasks.join_all().await {
        waits.extend(ended?);
    }
    let seconds = start.elapsed().as_secs_f64();
    waits.sort_unstable();
    let at = |share: f64| waits[(waits.len() as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{} requests over {CLIENTS} connections in {seconds:.2} s: {:.0}/s; p50 {:.2} ms, p99 {:.2} ms",
        waits.len(),
        waits.len() as f64 / seconds,
        at(0.5),
        at(0.99)
    );
    server.shutdown().await;
    Ok(())
}

/// Asks again and again over one connection, and times each answer.
async fn client(mut stream: TcpStream, request: Arc<String>) -> std::io::Result<Vec<Duration>> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 4096];
    let mut waits = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let start = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        let mut read = 0;
        loop {
            let count = stream.read(&mut buffer[read..]).await?;
            if count == 0 {
                return Err(std::io::Error::other("the server closed the connection"));
            }
            read += count;
            if whole(&buffer[..read]) {
                break;
            }
        }
        waits.push(start.elapsed());
    }
    Ok(waits)
}

/// True once headers and body are there.
fn whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
}
