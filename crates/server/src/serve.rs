//! A server from its options to its end.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use paddock_api::model::ModelBackend;
use paddock_store::Store;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::app::app;
use crate::auth::OwnerToken;

/// How long open requests may still take once the server is to end.
const GRACE: Duration = Duration::from_secs(5);

/// What a server needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeOptions {
    /// Where it listens; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Bytes that a chat request may have.
    pub body_limit: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            body_limit: 32 << 20,
        }
    }
}

/// The server can't listen.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on \"{listen}\": choose another address, or end what uses it")]
pub struct ServeError {
    listen: SocketAddr,
    source: std::io::Error,
}

/// A running server. Dropping it ends the server at once.
#[derive(Debug)]
pub struct ServerHandle {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Starts a server on the current tokio runtime; it answers as soon as this returns.
///
/// `token` is the owner's, which opens the API; tokens of trajectories are the backend's.
///
/// # Errors
/// If the address can't be listened on.
pub async fn serve(
    options: ServeOptions,
    store: Arc<dyn Store>,
    backend: Arc<dyn ModelBackend>,
    token: &str,
) -> Result<ServerHandle, ServeError> {
    let failed = |source| ServeError {
        listen: options.listen,
        source,
    };
    let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    // Answers are small and awaited one by one: they must not wait to be gathered.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection gathers small answers");
        }
    });
    let app = app(store, backend, OwnerToken::new(token), options.body_limit);
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let ended = axum::serve(listener, app)
            .with_graceful_shutdown(async {
                // Either is the end: the handle asks for it, or is gone.
                let _ = stopped.await;
            })
            .await;
        if let Err(error) = ended {
            tracing::error!(%error, "the server ended");
        }
    });
    Ok(ServerHandle {
        addr,
        stop: Some(stop),
        task,
    })
}

impl ServerHandle {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its base address: `http://127.0.0.1:8080`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Takes no more requests, and ends once the open ones are answered, or after five seconds.
    pub async fn shutdown(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if tokio::time::timeout(GRACE, &mut self.task).await.is_err() {
            tracing::warn!("requests were still open when the server ended");
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}
