//! Socket buffers: the system's limits, and the sizes that this program's sockets get.

use super::number;
use crate::sockets::enlarge;
use crate::sys;
use serde::Serialize;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, UdpSocket};

/// Limits and sizes of socket buffers, in bytes; `None` if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketReport {
    /// Largest receive buffer that a program may request.
    pub rmem_max: Option<u64>,
    /// Largest send buffer that a program may request.
    pub wmem_max: Option<u64>,
    /// Default receive buffer of a socket.
    pub rmem_default: Option<u64>,
    /// Maximum number of received packets that wait for a processor (`net.core.netdev_max_backlog`).
    pub backlog: Option<u64>,
    /// Receive buffer of a test socket. The kernel counts each packet with its overhead, so small packets use
    /// several times their own size.
    pub receive: Option<u64>,
    /// Send buffer of a test socket.
    pub send: Option<u64>,
    /// True if this program may open ping sockets, which need no privilege if `net.ipv4.ping_group_range`
    /// contains the program's group.
    pub ping: bool,
}

impl SocketReport {
    /// Reads the buffer sizes of this host.
    pub fn read() -> SocketReport {
        let core = |name: &str| number(format!("/proc/sys/net/core/{name}"));
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok();
        let of = |s: &UdpSocket| {
            enlarge(s);
            (sys::receive_buffer(s), sys::send_buffer(s))
        };
        let (receive, send) = socket.as_ref().map_or((None, None), of);
        SocketReport {
            rmem_max: core("rmem_max"),
            wmem_max: core("wmem_max"),
            rmem_default: core("rmem_default"),
            backlog: core("netdev_max_backlog"),
            receive: receive.map(|n| n as u64),
            send: send.map(|n| n as u64),
            ping: Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4)).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_gets_some_room() {
        let s = SocketReport::read();
        assert!(s.receive.is_some_and(|n| n > 2000), "{s:?}");
    }
}
