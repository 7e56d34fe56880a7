//! [`FlowError`]: reason why a flow cannot start.

use crate::launch::LaunchError;
use crate::privilege::{Capability::NetBindService, explain};
use jitlat_core::spec::TEST_PORT;
use jitlat_core::{Span, Transport, units};
use std::io;
use std::net::SocketAddr;

/// Reason why a flow cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The local port is not available.
    #[error("cannot bind {transport} {local} for the test stream: {}", explain(.source, NetBindService))]
    Bind { transport: Transport, local: SocketAddr, source: io::Error },
    /// The address of the socket cannot be read.
    #[error("cannot read the address of the test socket: {0}")]
    Address(io::Error),
    /// The system rejects a socket option that the stream needs.
    #[error("cannot prepare the test socket of {transport} {local}: {source}")]
    Prepare { transport: Transport, local: SocketAddr, source: io::Error },
    /// Launch times cannot be used.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The socket cannot be connected to the peer.
    #[error(
        "cannot connect the test socket to {transport} {peer}: {source}; is a firewall between the hosts?"
    )]
    Connect { transport: Transport, peer: SocketAddr, source: io::Error },
    /// The peer did not answer greetings in time.
    #[error(
        "UDP {peer} does not answer: {} for {}; is a firewall between the hosts, or is the port taken?{}",
        .reason,
        units::duration(*.timeout),
        forwarding_hint(*.from_peer, .peer.port())
    )]
    Silent {
        peer: SocketAddr,
        reason: &'static str,
        timeout: Span,
        /// True if the peer sends the stream.
        from_peer: bool,
    },
    /// The greeting of a TCP connection failed.
    #[error(
        "the greeting to TCP {peer} for the test stream failed: {source}; is a firewall between the hosts?"
    )]
    Greeting { peer: SocketAddr, source: io::Error },
    /// The program that answers is not a jitlat server.
    #[error("TCP {0} answers, but is not a jitlat server: is the port of the test stream right?")]
    Foreign(SocketAddr),
    /// The peer did not connect in time.
    #[error("no TCP connection from {0} for the test stream arrived: is a firewall between the hosts?")]
    NoConnection(SocketAddr),
    /// The connection was lost before it could be used.
    #[error("the TCP connection of the test stream was lost before the stream started: {0}")]
    Gone(io::Error),
}

/// Returns advice in case a router forwards ports to the peer: by default the peer sends from a port that its system
/// chooses and that the router does not forward. Empty if the advice does not apply.
fn forwarding_hint(from_peer: bool, port: u16) -> String {
    if from_peer && port != TEST_PORT {
        format!(
            " If a router forwards ports to that host, -s {TEST_PORT} makes it send from the forwarded port"
        )
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_from_a_port_that_is_not_forwarded_is_explained() {
        let silent = |port, from_peer| {
            let peer = SocketAddr::new([192, 0, 2, 7].into(), port);
            FlowError::Silent { peer, reason: "no answer received", timeout: Span::seconds(5), from_peer }
                .to_string()
        };
        assert!(silent(40_000, true).ends_with("-s 2667 makes it send from the forwarded port"));
        assert!(silent(TEST_PORT, true).ends_with("is the port taken?"));
        assert!(silent(40_000, false).ends_with("is the port taken?"));
    }
}
