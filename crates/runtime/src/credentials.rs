//! Which of the host's processes a slot is: the kernel says it with the first bytes that the slot sends.
//!
//! Behind a fence a process has two ids. The one that it knows of itself is good for the reaper, which
//! lives behind the same fence; what the host looks at or signals itself it must know by its own.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt::set_socket_passcred,
};
use rustix::process::Pid;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// More than a slot's first word has.
const FIRST: usize = 1 << 10;

/// From now on, whoever sends to this socket is named. To be asked before the other end is given away.
pub(crate) fn ask(socket: impl AsFd) -> io::Result<()> {
    Ok(set_socket_passcred(socket, true)?)
}

/// No need to name them any more.
pub(crate) fn enough(socket: impl AsFd) {
    // Where it stays on, it costs a little and changes nothing.
    let _ = set_socket_passcred(socket, false);
}

/// The next bytes, and who has sent them. No bytes: the other side has closed. Cancel-safe.
pub(crate) async fn receive(
    socket: &UnixStream,
    buffer: &mut impl Extend<u8>,
) -> io::Result<(usize, Option<Pid>)> {
    let mut bytes = [0; FIRST];
    let (count, sender) = socket
        .async_io(Interest::READABLE, || receive_now(socket, &mut bytes))
        .await?;
    buffer.extend(bytes[..count].iter().copied());
    Ok((count, sender))
}

fn receive_now(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<Pid>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(bytes)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut slices, &mut ancillary, flags)?;
    let mut sender = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmCredentials(told) = message {
            sender = Some(told.pid);
        }
    }
    Ok((received.bytes, sender))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream as Blocking;
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn the_sender_is_named_whoever_made_the_socket() {
        let (ours, theirs) = Blocking::pair().expect("a socket pair");
        ours.set_nonblocking(true).expect("set");
        let ours = UnixStream::from_std(ours).expect("registered");
        ask(&ours).expect("asked");
        let mut child = Command::new("echo")
            .arg("hello")
            .stdout(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .spawn()
            .expect("it starts");
        let mut heard = Vec::new();
        let (count, sender) = receive(&ours, &mut heard).await.expect("bytes came");
        assert_eq!(&heard[..count], b"hello\n");
        let sender = sender.map(|pid| pid.as_raw_nonzero().get());
        assert_eq!(sender, Some(child.id() as i32));
        child.wait().expect("collected");
    }
}
