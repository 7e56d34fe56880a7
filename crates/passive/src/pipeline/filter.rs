//! [`PacketFilter`]: selects the packets of one application.

use crate::IpPacket;
use crate::packet::{ICMP, ICMPV6, TCP, UDP};
use crate::tcp::ConnectionShare;
use core::str::FromStr;

/// Filter by protocol and port, written `tcp`, `udp`, `icmp`, a port, `tcp:PORT` or `udp:PORT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFilter {
    /// Protocol numbers; `None` accepts any.
    pub protocols: Option<&'static [u8]>,
    /// Port at either end; `None` accepts any.
    pub port: Option<u16>,
    /// Part of the connections; `None` accepts all.
    pub share: Option<ConnectionShare>,
}

/// Reason why a text is not a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAFilter {
    /// The text is not of the form `tcp`, `udp`, `icmp`, `PORT`, `tcp:PORT` or `udp:PORT`.
    #[error("use tcp, udp, icmp, a port, tcp:PORT or udp:PORT")]
    Form,
    /// The port is invalid.
    #[error("'{0}' is not a port")]
    Port(String),
}

impl FromStr for PacketFilter {
    type Err = NotAFilter;

    fn from_str(s: &str) -> Result<PacketFilter, NotAFilter> {
        let (name, port) = match s.split_once(':') {
            Some((name, port)) => (Some(name), Some(port)),
            None if s.bytes().all(|b| b.is_ascii_digit()) => (None, Some(s)),
            None => (Some(s), None),
        };
        let protocols: Option<&[u8]> = match name {
            None => None,
            Some("tcp") => Some(&[TCP]),
            Some("udp") => Some(&[UDP]),
            Some("icmp") => Some(&[ICMP, ICMPV6]),
            Some(_) => return Err(NotAFilter::Form),
        };
        let port = port.map(|p| p.parse().map_err(|_| NotAFilter::Port(p.to_owned()))).transpose()?;
        Ok(PacketFilter { protocols, port, share: None })
    }
}

impl PacketFilter {
    /// Returns a filter for TCP segments from or to `port`, or for all TCP segments if it is `None`.
    pub fn tcp(port: Option<u16>) -> PacketFilter {
        PacketFilter { protocols: Some(&[TCP]), port, share: None }
    }

    /// True if the filter accepts a packet.
    pub fn accepts(&self, p: &IpPacket<'_>) -> bool {
        self.protocols.is_none_or(|list| list.contains(&p.protocol))
            && self.port.is_none_or(|port| p.ports().is_some_and(|(a, b)| a == port || b == port))
            && self.share.is_none_or(|share| share.has(p))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkType, decode};

    #[test]
    fn what_is_asked_for_passes() {
        let packet = |protocol: u8, from: u16, to: u16| {
            let mut v = vec![0x45, 0, 0, 28, 0, 7, 0x40, 0, 64, protocol, 1, 2, 10, 0, 0, 1, 10, 0, 0, 2];
            v.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
            v.extend([0; 4]);
            v
        };
        let accepts = |filter: &str, bytes: &[u8]| {
            let filter: PacketFilter = filter.parse().unwrap();
            filter.accepts(&decode(LinkType::RAW, bytes, 28).unwrap())
        };
        let (dns, web, echo) = (packet(17, 4000, 53), packet(6, 443, 4000), packet(1, 2048, 53));
        for (filter, expected) in [
            ("udp", [true, false, false]),
            ("tcp", [false, true, false]),
            ("icmp", [false, false, true]),
            ("53", [true, false, false]),
            ("443", [false, true, false]),
            ("tcp:443", [false, true, false]),
            ("udp:443", [false, false, false]),
        ] {
            assert_eq!([&dns, &web, &echo].map(|p| accepts(filter, p)), expected, "{filter}");
        }
        assert_eq!("sctp".parse::<PacketFilter>(), Err(NotAFilter::Form));
        assert_eq!("tcp:x".parse::<PacketFilter>(), Err(NotAFilter::Port("x".into())));
        assert!("65536".parse::<PacketFilter>().is_err());
    }

    #[test]
    fn segments_of_a_port_or_of_any() {
        assert_eq!(Ok(PacketFilter::tcp(Some(443))), "tcp:443".parse());
        assert_eq!(Ok(PacketFilter::tcp(None)), "tcp".parse());
    }
}
