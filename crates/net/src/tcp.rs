//! TCP connections of test streams.

use crate::udp::mark;
use jitlat_core::Dscp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSlice, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

fn socket(local: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP))?;
    if local.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A port whose last connection still lingers in TIME_WAIT can be had again.
    socket.set_reuse_address(local.port() != 0)?;
    socket.bind(&local.into())?;
    Ok(socket)
}

/// A listener on `local`.
pub fn listen(local: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(local)?;
    socket.listen(128)?;
    Ok(socket.into())
}

/// A socket bound to `local` (port 0: the system chooses), to be [connected](connect).
pub fn bind(local: SocketAddr) -> io::Result<Socket> {
    socket(local)
}

/// Connects within `patience`.
pub fn connect(socket: Socket, peer: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    socket.connect_timeout(&peer.into(), patience)?;
    Ok(socket.into())
}

/// Sets everything a stream needs, and returns what had to be reduced. Nagle's algorithm is off: a
/// record leaves when it is written.
pub fn prepare(stream: &TcpStream, dscp: Option<Dscp>) -> io::Result<Vec<String>> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    Ok(dscp.and_then(|d| mark(stream, d).err()).into_iter().collect())
}

/// Waits until `stream` takes more bytes, for at most `patience`; says whether it does.
pub fn writable(stream: &TcpStream, patience: PollTimeout) -> bool {
    let mut queue = [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)];
    poll(&mut queue, patience).is_ok_and(|n| n > 0)
}

/// Writes as much of `parts`, taken as one, from byte `done` on as the kernel takes without waiting.
pub fn write_some(mut stream: &TcpStream, parts: [&[u8]; 2], done: usize) -> io::Result<usize> {
    let [head, tail] = parts;
    let rest = [&head[done.min(head.len())..], &tail[done.saturating_sub(head.len()).min(tail.len())..]];
    match stream.write_vectored(&rest.map(IoSlice::new)) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        other => other,
    }
}
