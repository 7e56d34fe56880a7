//! [`PathTest`]: probes the routers between this host and another, and how they treat packets.

use crate::error::Error;
use crate::stop::Stop;
use jitlat_core::path::Path;
use jitlat_core::path_history::{FlowNumber, PathEvent};
use jitlat_core::{Dscp, Ecn, Span, Transport};
use jitlat_net::client::AddressFamily;
use jitlat_net::{path, resolve};
use jitlat_proto::path::{MAX_PROBES, TracePlan};
use std::net::{IpAddr, SocketAddr};

/// Destination port of UDP probes: traceroute's default, because normally nothing listens there.
pub const UDP_PORT: u16 = 33_434;
/// Destination port of TCP probes: firewalls usually allow HTTP.
pub const TCP_PORT: u16 = 80;

/// Settings of a path test.
#[derive(Clone, Debug)]
pub struct PathTest {
    /// Name or address of the far host.
    pub host: String,
    /// Address family; `None`: any.
    pub family: Option<AddressFamily>,
    /// Local address; `None`: chosen by the system.
    pub bind: Option<IpAddr>,
    /// Protocol of the probes.
    pub transport: Transport,
    /// Destination port of the probes; `None`: the default of the protocol.
    pub port: Option<u16>,
    /// DSCP of the probes.
    pub dscp: Dscp,
    /// Mark (ECN field) of the probes; only of UDP probes.
    pub mark: Ecn,
    /// Number of probes per hop.
    pub probes: u32,
    /// Time between two probes to the same hop.
    pub period: Span,
    /// Maximum TTL of the probes.
    pub hops: u8,
    /// Time to wait for an answer.
    pub timeout: Span,
    /// Number of flows, at least 1: UDP probes with different source ports, which routers may send along different routes.
    /// They take turns, so that a hop is probed as often as with one.
    pub flows: FlowNumber,
}

impl PathTest {
    /// Creates a test with ten UDP probes, one per second, to each of at most thirty hops.
    pub fn new(host: impl Into<String>) -> PathTest {
        PathTest {
            host: host.into(),
            family: None,
            bind: None,
            transport: Transport::Udp,
            port: None,
            dscp: Dscp::default(),
            mark: Ecn::NotEct,
            probes: 10,
            period: Span::seconds(1),
            hops: 30,
            timeout: Span::seconds(2),
            flows: 1,
        }
    }

    /// Sends the probes; `observer` receives each probe, answer and completed round.
    ///
    /// # Errors
    /// [`Error`] if the host cannot be resolved or reached, or if raw sockets are not permitted.
    pub fn run(&self, stop: &Stop, observer: &mut dyn FnMut(&PathEvent<'_>)) -> Result<Path, Error> {
        let to = self.resolve()?;
        let source = path::source_address(to, self.bind)?;
        let scope = if let SocketAddr::V6(v6) = to { v6.scope_id() } else { 0 };
        let plan = TracePlan {
            scope,
            transport: self.transport,
            port: to.port(),
            dscp: self.dscp,
            mark: self.mark,
            probes: self.probes,
            period: self.period,
            hops: self.hops,
            timeout: self.timeout,
            flows: if self.transport == Transport::Tcp { 1 } else { self.flows.max(1) },
            // Probe identifiers are reused: probes must be far enough apart that an identifier's earlier
            // probe has been answered or has timed out.
            spacing: Span::millis(20).max(Span(self.timeout.0 / i64::from(MAX_PROBES) + 1)),
            ..TracePlan::new(source, to.ip().to_canonical())
        };
        let mut found = path::trace(plan, stop.flag(), observer)?;
        found.max_hops = Some(self.hops);
        Ok(found)
    }

    fn resolve(&self) -> Result<SocketAddr, Error> {
        let port = self.port.unwrap_or(match self.transport {
            Transport::Udp => UDP_PORT,
            Transport::Tcp => TCP_PORT,
        });
        let to = resolve::addresses(&self.host, port, self.family, None)?[0];
        check(to.ip())?;
        Ok(to)
    }
}

/// Refuses an address to which there is no path, because it does not belong to one host.
fn check(to: IpAddr) -> Result<(), Error> {
    let to = to.to_canonical();
    let what = match to {
        _ if to.is_unspecified() => "the address of no host",
        _ if to.is_multicast() => "a multicast address, which belongs to a group of hosts",
        IpAddr::V4(to) if to.is_broadcast() => "a broadcast address, which belongs to all hosts of a segment",
        _ => return Ok(()),
    };
    Err(Error::Settings(format!(
        "{to} is {what}: name one host, because only the path to one can be examined"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_host_has_a_path() {
        for to in ["255.255.255.255", "ff02::1", "0.0.0.0", "::", "224.0.0.1", "::ffff:224.0.0.1"] {
            assert!(check(to.parse().unwrap()).is_err(), "{to}");
        }
        for to in ["192.0.2.1", "::1", "2001:db8::1"] {
            assert!(check(to.parse().unwrap()).is_ok(), "{to}");
        }
    }
}
