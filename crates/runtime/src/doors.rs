//! The ways out of a fence without a network: sockets that listen behind it, accepted on out here.
//!
//! A door leads to one port of this host's loopback, the model proxy's; the last one, under `proxy`, is the
//! egress proxy.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paddock_types::job::Network;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::egress;
use crate::fence::Fence;

/// Connections through one door at a time; more wait.
const CONNECTIONS: usize = 4096;
/// Between two tries to accept when the system has no descriptor left.
const BREATH: Duration = Duration::from_millis(50);

/// Bytes of payload that went out through the egress proxy, and came back.
#[derive(Debug, Default)]
pub(crate) struct Egress {
    out: AtomicU64,
    back: AtomicU64,
}

impl Egress {
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let [out, back] = [&self.out, &self.back].map(|count| count.load(Ordering::Relaxed));
        (out, back)
    }
}

/// What accepts, until it is dropped.
#[derive(Debug)]
pub(crate) struct Doors(Vec<AbortHandle>);

impl Drop for Doors {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl Doors {
    /// Opens the doors of a fence, with the sockets that listen behind it in the order of its ports.
    pub(crate) fn open(
        fence: &Fence,
        listeners: Vec<OwnedFd>,
        egress: &Arc<Egress>,
    ) -> io::Result<Self> {
        let mut doors = Self(Vec::new());
        for (at, listener) in listeners.into_iter().enumerate() {
            let listener = TcpListener::from(listener);
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let way = match (fence.doors.get(at), &fence.network) {
                (Some(port), _) => Way::Model(*port),
                (None, Network::Proxy { allow }) => Way::Egress(allow.clone(), egress.clone()),
                (None, _) => continue,
            };
            doors
                .0
                .push(tokio::spawn(accept(listener, Arc::new(way))).abort_handle());
        }
        Ok(doors)
    }
}

enum Way {
    /// To this port of this host's loopback.
    Model(u16),
    /// To what is allowed, counted.
    Egress(Vec<String>, Arc<Egress>),
}

async fn accept(listener: tokio::net::TcpListener, way: Arc<Way>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    // Dropped with this task, and every connection with it.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok(place) = room.clone().acquire_owned().await {
        while connections.try_join_next().is_some() {}
        let Ok((inner, _)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        let way = way.clone();
        connections.spawn(async move {
            // Whoever is inside sees its connection end; there is nobody else to tell.
            let _ = match &*way {
                Way::Model(port) => lead(inner, *port).await,
                Way::Egress(allow, egress) => egress::serve(inner, allow, egress).await,
            };
            drop(place);
        });
    }
}

async fn lead(mut inner: TcpStream, port: u16) -> io::Result<()> {
    let mut outer = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    inner.set_nodelay(true)?;
    outer.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut inner, &mut outer).await?;
    Ok(())
}

/// Copies both ways until both are done, and counts as it goes.
pub(crate) async fn copy_counted(
    inner: TcpStream,
    outer: TcpStream,
    egress: &Egress,
) -> io::Result<()> {
    let (inner_read, inner_write) = inner.into_split();
    let (outer_read, outer_write) = outer.into_split();
    let out = copy(inner_read, outer_write, &egress.out);
    let back = copy(outer_read, inner_write, &egress.back);
    tokio::try_join!(out, back).map(drop)
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        count.fetch_add(read as u64, Ordering::Relaxed);
    }
}

impl Egress {
    /// Counts what goes out beside the copied streams.
    pub(crate) fn sent(&self, bytes: usize) {
        self.out.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
