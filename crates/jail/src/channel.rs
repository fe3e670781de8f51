//! Messages of `u32 length | JSON` over a Unix socket, with descriptors beside them.
//!
//! Used by the reaper and, from the other side, by the runtime; the forkserver speaks the same.
//! Nothing here waits unless the socket itself is in blocking mode.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Descriptors that one message may carry.
pub const MAX_FDS: usize = 8;
/// Longest message accepted: 16 MiB.
pub const LIMIT: usize = 16 << 20;

/// The bytes of a message.
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4)
        .ok()
        .filter(|&n| n as usize <= LIMIT)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"))?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Sends some of `bytes`, and `fds` along with the first of them.
pub fn send_some(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many descriptors for one message",
        ));
    }
    let sent = sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(sent)
}

/// Sends a whole message on a socket in blocking mode.
pub fn send(socket: impl AsFd, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = encode(message)?;
    let mut sent = 0;
    while sent < bytes.len() {
        let along = if sent == 0 { fds } else { &[] };
        match send_some(&socket, &bytes[sent..], along) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What has arrived on a socket and was not read out yet.
#[derive(Debug, Default)]
pub struct Inbox {
    buffer: Vec<u8>,
    fds: VecDeque<OwnedFd>,
}

impl Inbox {
    /// Takes what the socket has, without waiting. `Ok(0)` means that the other side has closed.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        let mut bytes = [0; 16 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        )?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "more descriptors came than one message may carry",
            ));
        }
        self.buffer.extend_from_slice(&bytes[..received.bytes]);
        Ok(received.bytes)
    }

    /// The next whole message, if it has arrived.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(head) = self.buffer.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*head) as usize;
        if length > LIMIT {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a message of {length} bytes is over the limit of {LIMIT}"),
            ));
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        let message = serde_json::from_slice(&self.buffer[4..4 + length])?;
        self.buffer.drain(..4 + length);
        Ok(Some(message))
    }

    /// All descriptors that came along and weren't taken yet.
    pub fn take_all_fds(&mut self) -> Vec<OwnedFd> {
        self.fds.drain(..).collect()
    }

    /// The next `N` descriptors that came along, if there are so many.
    pub fn take_fds<const N: usize>(&mut self) -> Option<[OwnedFd; N]> {
        if self.fds.len() < N {
            return None;
        }
        let fds: Vec<OwnedFd> = self.fds.drain(..N).collect();
        fds.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn messages_and_descriptors_arrive_together() {
        let (a, b) = UnixStream::pair().expect("a socket pair");
        let (mut left, right) = UnixStream::pair().expect("a socket pair");
        send(&a, &"first", &[]).expect("sent");
        send(&a, &"second", &[right.as_fd()]).expect("sent");
        drop(right);
        let mut inbox = Inbox::default();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            inbox.receive(&b).expect("received");
            while let Some(text) = inbox.next_message::<String>().expect("whole") {
                seen.push(text);
            }
        }
        assert_eq!(seen, ["first", "second"]);
        let [fd] = inbox.take_fds::<1>().expect("one came");
        UnixStream::from(fd).write_all(b"x").expect("written");
        let mut byte = [0];
        left.read_exact(&mut byte).expect("read");
        assert_eq!(&byte, b"x");
        drop(a);
        assert_eq!(inbox.receive(&b).expect("closed"), 0);
    }

    #[test]
    fn a_length_over_the_limit_is_refused() {
        let mut inbox = Inbox::default();
        inbox.buffer.extend_from_slice(&u32::MAX.to_le_bytes());
        assert!(inbox.next_message::<String>().is_err());
    }
}
