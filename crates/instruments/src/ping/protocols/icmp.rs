//! ICMP and ICMPv6 echo.

use crate::error::Error;
use crate::ping::protocol::{PingClient, PingProtocol, RequestSizes};
use crate::ping::test::{PingResult, PingTest};
use jitlat_core::Transport;
use jitlat_core::spec::MAX_PAYLOAD;
use jitlat_net::twoway::TwoWayLink;
use jitlat_net::twoway::socket::Carrier;
use jitlat_proto::echo::{Echo, HEADER_LEN, IpVersion};

/// Entry of ICMP in the list of protocols.
pub static PROTOCOL: PingProtocol = PingProtocol {
    name: "icmp",
    title: "ICMP",
    answered_by: "any host",
    transport: Transport::Udp,
    payload: "after the ICMP header (56)",
    arguments: &[],
    client: |_| Ok(Box::new(IcmpClient)),
    // The kernel of every host answers.
    server: None,
};

/// Sends ICMP echo requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct IcmpClient;

impl PingClient for IcmpClient {
    fn protocol(&self) -> &'static PingProtocol {
        &PROTOCOL
    }

    fn port(&self) -> u16 {
        0
    }

    fn sizes(&self) -> RequestSizes {
        let header = HEADER_LEN as u64;
        RequestSizes { usual: 56, header, range: (header, MAX_PAYLOAD.into()), beneath: Some(0) }
    }

    fn adapt(&self, link: &mut TwoWayLink) {
        link.carrier = Carrier::Icmp;
        link.marking.port = 0;
        // Echo replies carry the TTL of the replying system, so no TTL is expected; requests use the default
        // TTL, like those of any ping.
        link.marking.ttl = None;
    }

    fn measure(&self, test: &PingTest<'_>) -> Result<PingResult, Error> {
        let family = if test.link.to.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
        let echo =
            |kernel: bool| Echo::new(family, (!kernel).then_some(test.id), test.mark, test.size - HEADER_LEN);
        Ok(test.datagrams(echo)?.0)
    }
}
