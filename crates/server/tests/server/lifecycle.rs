//! How a server starts and ends.

use std::sync::Arc;

use paddock_server::{ServeOptions, serve};

use crate::backend::Scripted;
use crate::fixture::{OWNER, Running};

#[tokio::test]
async fn it_listens_on_loopback_and_ends_when_asked() {
    let running = Running::start().await;
    let addr = running.server.addr();
    assert!(addr.ip().is_loopback());
    running.client.health().await.expect("it answers");
    running.server.shutdown().await;
    let refused = tokio::net::TcpStream::connect(addr).await;
    assert!(refused.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let running = Running::start().await;
    let options = ServeOptions {
        listen: running.server.addr(),
        ..ServeOptions::default()
    };
    let backend = Arc::new(Scripted::default());
    let failed = serve(options, running.store.clone(), backend, OWNER).await;
    let text = failed.expect_err("it is taken").to_string();
    let addr = running.server.addr().to_string();
    assert!(text.contains(&addr), "{text}");
}
