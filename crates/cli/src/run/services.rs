//! What a job needs of the process it runs in: the store, its writer, the model proxy, a way to stop.

use std::path::Path;
use std::process::exit;
use std::sync::Arc;

use paddock_engine::Services;
use paddock_engine::session::Sessions;
use paddock_server::{ServeOptions, ServerHandle, owner_token, serve};
use paddock_store::{SqliteStore, Writer, WriterOptions};
use paddock_types::Fault;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{INTERRUPTED, chain};

/// The services of one job.
pub(super) struct Running {
    store: Arc<SqliteStore>,
    writer: Writer,
    sessions: Sessions,
    server: ServerHandle,
}

impl Running {
    /// Opens the store and begins to serve the model, on a free port of this machine alone.
    pub(super) async fn start(data_dir: &Path) -> Result<Self, Box<Fault>> {
        let store = SqliteStore::open(data_dir)
            .await
            .map_err(|e| Box::new(e.to_fault()))?;
        let store = Arc::new(store);
        let writer = Writer::start(store.clone(), WriterOptions::default());
        let sessions = Sessions::default();
        let token = owner_token(data_dir).map_err(|error| failed(&error))?;
        let backend = Arc::new(sessions.clone());
        let server = serve(ServeOptions::default(), store.clone(), backend, &token).await;
        Ok(Self {
            server: server.map_err(|error| failed(&error))?,
            store,
            writer,
            sessions,
        })
    }

    /// What the engine is given.
    pub(super) fn services(&self) -> Services {
        Services {
            store: self.store.clone(),
            writer: self.writer.clone(),
            sessions: self.sessions.clone(),
            proxy_url: format!("{}/v1", self.server.url()),
        }
    }

    /// Ends them, the store last.
    pub(super) async fn close(self) {
        self.server.shutdown().await;
        drop(self.writer);
        self.store.close().await;
    }
}

fn failed(error: &dyn std::error::Error) -> Box<Fault> {
    Box::new(Fault::internal(chain(error)))
}

/// Done at the first Ctrl-C, SIGTERM or SIGHUP. A second one ends the process at once.
pub(super) async fn interrupted() {
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        // The terminal is gone: the job ends as it would by Ctrl-C.
        _ = hangup.recv() => {}
    }
    eprintln!("stopping; once more ends it at once");
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        exit(INTERRUPTED.into());
    });
}
