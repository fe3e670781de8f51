//! A network with loopback only. What is to be reached from within is listened for here, by sockets that are
//! handed to the outside: accepting needs no interface.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::UnshareFlags;

use super::namespaces::unshare;

/// Leaves the host's network, and listens on these ports of the new one.
pub(super) fn make(ports: &[u16]) -> io::Result<Vec<OwnedFd>> {
    unshare(UnshareFlags::NEWNET)?;
    raise_loopback()?;
    let listen = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).map(OwnedFd::from);
    ports.iter().map(listen).collect()
}

/// Loopback begins down.
#[expect(unsafe_code, reason = "no crate in the tree has this call")]
fn raise_loopback() -> io::Result<()> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: a structure of numbers and bytes, for which 0 is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is the kernel's own layout, initialised, and lives through the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
