//! UDP sockets of test streams.

use crate::stamp::{self, Stamps, Way};
use jitlat_core::Dscp;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// Room asked for in the kernel, each way: tens of thousands of small packets.
const BUFFER: usize = 8 << 20;

/// A UDP socket bound to `local` (port 0: the system chooses). Many may share one port: each that is
/// connected gets its peer's packets, the others what is left.
pub fn bind(local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    if local.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if local.port() != 0 {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&local.into())?;
    Ok(socket.into())
}

/// Sets everything a stream needs but the peer. Returns which stamps can be expected and what had to be
/// reduced. Do it well before the stream: receive stamps begin a while after they are asked for.
pub fn prepare(
    socket: &UdpSocket,
    way: Way,
    dscp: Dscp,
    stamps: Stamps,
) -> io::Result<(Stamps, Vec<String>)> {
    let local = socket.local_addr()?;
    let marked = match way {
        Way::Out => mark(socket, dscp).err(),
        Way::In => {
            observe(socket, local.is_ipv6());
            None
        }
    };
    enlarge(socket);
    // Bounds every wait of a packet thread, so that it notices when it is to stop.
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    let (stamps, mut notes) = stamp::enable(socket.as_fd(), local.ip(), stamps, way);
    notes.extend(marked);
    Ok((stamps, notes))
}

/// Has every packet of `socket`, UDP or TCP, carry `dscp`. On failure a note says so.
pub(crate) fn mark(socket: &impl AsFd, dscp: Dscp) -> Result<(), String> {
    let octet = i32::from(dscp.octet());
    let v4 = setsockopt(socket, sockopt::Ipv4Tos, &octet);
    // An IPv6 socket has both options; an IPv4 one has but the first.
    let v6 = setsockopt(socket, sockopt::Ipv6TClass, &octet);
    v6.or(v4).map_err(|e| format!("DSCP {dscp} was not set: {}", e.desc()))
}

/// Asks for what a receiver can see of each packet. What a kernel does not offer stays missing.
fn observe(socket: &UdpSocket, v6: bool) {
    let _ = setsockopt(socket, sockopt::RxqOvfl, &1);
    if v6 {
        let _ = setsockopt(socket, sockopt::Ipv6RecvTClass, &true);
        let _ = setsockopt(socket, sockopt::Ipv6RecvHopLimit, &true);
    } else {
        let _ = setsockopt(socket, sockopt::IpRecvTos, &true);
        let _ = setsockopt(socket, sockopt::Ipv4RecvTtl, &true);
    }
}

/// Makes the socket's buffers large: past the system's limit where permitted, up to it otherwise.
fn enlarge(socket: &UdpSocket) {
    if setsockopt(socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &BUFFER);
    }
    if setsockopt(socket, sockopt::SndBufForce, &BUFFER).is_err() {
        let _ = setsockopt(socket, sockopt::SndBuf, &BUFFER);
    }
}

/// Discards what arrived at a socket before it was connected: another session's packets.
pub fn discard_waiting(socket: &UdpSocket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // Bounded: a flood cannot keep us here.
    let mut byte = [0];
    for _ in 0..100_000 {
        match socket.recv(&mut byte) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            Err(_) => {}
        }
    }
    socket.set_nonblocking(false)
}
