//! [`WaitingFlows`]: finds the flow that expects a peer, when the peer's first packet or connection arrives on a port
//! shared by many flows.

use super::packet::{HEADER_LEN, PacketHeader};
use core::net::{IpAddr, SocketAddr};
use jitlat_core::Transport;

/// Peer that a waiting flow expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedPeer {
    /// A peer whose greeting contains this token.
    Token(u64),
    /// Any TCP connection that does not begin with a greeting.
    AnyConnection,
}

/// A waiting flow.
#[derive(Clone, Debug)]
struct WaitingFlow<N> {
    number: u64,
    local: SocketAddr,
    transport: Transport,
    peer: IpAddr,
    expected: ExpectedPeer,
    notify: N,
}

/// Flows that wait for peers with unknown ports. The caller uses the value `N` of a flow to notify it.
///
/// ```
/// use jitlat_core::Transport;
/// use jitlat_proto::jitlat::packet::PacketHeader;
/// use jitlat_proto::jitlat::rendezvous::{ExpectedPeer, WaitingFlows};
///
/// let (local, peer) = ("192.0.2.1:2667".parse()?, "192.0.2.2:40000".parse()?);
/// let mut flows = WaitingFlows::default();
/// let number = flows.add(local, Transport::Udp, "192.0.2.2".parse()?, ExpectedPeer::Token(7), "a flow");
/// assert_eq!(flows.greeted(local, peer, &PacketHeader::hello(8).to_bytes()), None);
/// assert_eq!(flows.greeted(local, peer, &PacketHeader::hello(7).to_bytes()), Some(&"a flow"));
/// flows.remove(number);
/// assert!(!flows.waits_at(local, Transport::Udp));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WaitingFlows<N> {
    waiting: Vec<WaitingFlow<N>>,
    next: u64,
}

impl<N> Default for WaitingFlows<N> {
    fn default() -> WaitingFlows<N> {
        WaitingFlows { waiting: Vec::new(), next: 0 }
    }
}

impl<N> WaitingFlows<N> {
    /// Adds a flow that waits on `local` for `expected` from `peer`. Returns a number for [`Self::remove`].
    pub fn add(
        &mut self,
        local: SocketAddr,
        transport: Transport,
        peer: IpAddr,
        expected: ExpectedPeer,
        notify: N,
    ) -> u64 {
        self.next += 1;
        let peer = peer.to_canonical();
        self.waiting.push(WaitingFlow { number: self.next, local, transport, peer, expected, notify });
        self.next
    }

    /// Removes the flow with this number if it is still waiting.
    pub fn remove(&mut self, number: u64) {
        self.waiting.retain(|w| w.number != number);
    }

    /// True if any flow waits on this port.
    pub fn waits_at(&self, local: SocketAddr, transport: Transport) -> bool {
        self.waiting.iter().any(|w| w.local == local && w.transport == transport)
    }

    /// Returns the flow that waits for the greeting `packet`, which arrived on `local` over UDP; `None` if no flow
    /// does. The flow continues to wait, because the greeting may be repeated.
    pub fn greeted(&self, local: SocketAddr, from: SocketAddr, packet: &[u8]) -> Option<&N> {
        let expected = ExpectedPeer::Token(greeting(packet)?);
        self.position(local, Transport::Udp, from, expected).map(|i| &self.waiting[i].notify)
    }

    /// Removes and returns the flow that waits for the TCP connection to `local` whose first bytes are `head`; `None`
    /// if no flow does.
    pub fn connected(&mut self, local: SocketAddr, from: SocketAddr, head: &[u8]) -> Option<N> {
        let expected = greeting(head).map_or(ExpectedPeer::AnyConnection, ExpectedPeer::Token);
        self.position(local, Transport::Tcp, from, expected).map(|i| self.waiting.remove(i).notify)
    }

    fn position(
        &self,
        local: SocketAddr,
        transport: Transport,
        from: SocketAddr,
        expected: ExpectedPeer,
    ) -> Option<usize> {
        let from = from.ip().to_canonical();
        self.waiting.iter().position(|w| {
            w.transport == transport && w.local == local && w.expected == expected && w.peer == from
        })
    }
}

/// Returns the token of a greeting; `None` if `bytes` is not exactly one greeting.
fn greeting(bytes: &[u8]) -> Option<u64> {
    (bytes.len() == HEADER_LEN).then(|| PacketHeader::parse(bytes)?.hello_token()).flatten()
}
