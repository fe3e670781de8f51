//! Messages with descriptors over a socket, as the reaper and the forkserver take them.

use std::io;
use std::os::fd::BorrowedFd;

use paddock_jail::channel::{Inbox, encode, send_some};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Sends a whole message.
pub(crate) async fn send(
    socket: &UnixStream,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = encode(message)?;
    let mut sent = 0;
    while sent < bytes.len() {
        let along = if sent == 0 { fds } else { &[] };
        sent += socket
            .async_io(Interest::WRITABLE, || {
                send_some(socket, &bytes[sent..], along)
            })
            .await?;
    }
    Ok(())
}

/// The next message; `None` once the other side has closed. Cancel-safe.
pub(crate) async fn receive<T: DeserializeOwned>(
    socket: &UnixStream,
    inbox: &mut Inbox,
) -> io::Result<Option<T>> {
    loop {
        if let Some(message) = inbox.next_message()? {
            return Ok(Some(message));
        }
        let count = socket
            .async_io(Interest::READABLE, || inbox.receive(socket))
            .await?;
        if count == 0 {
            return Ok(None);
        }
    }
}
