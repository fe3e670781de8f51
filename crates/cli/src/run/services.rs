//! What a job needs of the process it runs in: the store, its writer, the model proxy, a way to stop.

use std::path::Path;
use std::process::exit;
use std::sync::Arc;

use paddock_engine::Services;
use paddock_engine::session::Sessions;
use paddock_store::{SqliteStore, Writer, WriterOptions};
use paddock_types::Fault;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::INTERRUPTED;

/// The services of one job.
pub(super) struct Running {
    store: Arc<SqliteStore>,
    writer: Writer,
    sessions: Sessions,
    proxy: paddock_server::Proxy,
}

impl Running {
    /// Opens the store and begins to serve the model.
    pub(super) async fn start(data_dir: &Path) -> Result<Self, Box<Fault>> {
        let store = SqliteStore::open(data_dir)
            .await
            .map_err(|e| Box::new(e.to_fault()))?;
        let store = Arc::new(store);
        let writer = Writer::start(store.clone(), WriterOptions::default());
        let sessions = Sessions::default();
        let proxy = paddock_server::Proxy::start(sessions.clone())
            .await
            .map_err(|error| {
                Box::new(Fault::internal(format!(
                    "the model proxy can't be served: {error}"
                )))
            })?;
        Ok(Self {
            store,
            writer,
            sessions,
            proxy,
        })
    }

    /// What the engine is given.
    pub(super) fn services(&self) -> Services {
        Services {
            store: self.store.clone(),
            writer: self.writer.clone(),
            sessions: self.sessions.clone(),
            proxy_url: self.proxy.url(),
        }
    }

    /// Ends them, the store last.
    pub(super) async fn close(self) {
        self.proxy.close().await;
        drop(self.writer);
        self.store.close().await;
    }
}

/// Done at the first Ctrl-C or SIGTERM. A second one ends the process at once.
pub(super) async fn interrupted() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
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
