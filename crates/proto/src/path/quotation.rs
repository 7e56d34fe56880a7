//! [`Quotation`]: the packet that an ICMP error quotes.
//!
//! ICMP errors may come from any host, so every length is checked, and each kind of invalid message has its
//! own error. The kernel verifies the checksums of the messages.

use crate::echo::checksum;
use crate::wire::Field;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use jitlat_core::path::Label;

/// Maximum number of MPLS labels stored per packet, more than any network uses.
pub const MAX_LABELS: usize = 16;
/// Length in bytes to which routers that send no length field pad the quoted packet before extensions (RFC
/// 4884 §5.5).
const PADDED_BYTES: usize = 128;

mod icmp {
    use super::Field;
    pub const TYPE: Field<u8> = Field::at(0);
    pub(crate) const CODE: Field<u8> = TYPE.then();
    /// Length of the quoted packet in 32-bit words (ICMP). Zero if the sender does not support RFC 4884.
    pub(crate) const LENGTH_V4: Field<u8> = Field::at(5);
    /// Length of the quoted packet in 64-bit words (ICMPv6).
    pub(crate) const LENGTH_V6: Field<u8> = Field::at(4);
    pub const HEADER: usize = 8;
}

mod v4 {
    use super::Field;
    pub const VERSION_LENGTH: Field<u8> = Field::at(0);
    pub const TOS: Field<u8> = VERSION_LENGTH.then();
    pub const FRAGMENT: Field<u16> = Field::at(6);
    pub const TTL: Field<u8> = FRAGMENT.then();
    pub const PROTOCOL: Field<u8> = TTL.then();
    pub const SOURCE: Field<[u8; 4]> = Field::at(12);
    pub const DESTINATION: Field<[u8; 4]> = SOURCE.then();
    pub const HEADER: usize = DESTINATION.end();
    pub const OFFSET: u16 = 0x1fff;
}

mod v6 {
    use super::Field;
    /// Version (4 bits), traffic class (8), flow label (20).
    pub const FIRST: Field<u32> = Field::at(0);
    pub(crate) const NEXT: Field<u8> = Field::at(6);
    pub const HOP_LIMIT: Field<u8> = NEXT.then();
    pub const SOURCE: Field<[u8; 16]> = HOP_LIMIT.then();
    pub const DESTINATION: Field<[u8; 16]> = SOURCE.then();
    pub const HEADER: usize = DESTINATION.end();
}

/// First bytes of UDP and TCP.
mod transport {
    use super::Field;
    pub const SOURCE: Field<u16> = Field::at(0);
    pub const DESTINATION: Field<u16> = SOURCE.then();
    /// Length of the UDP header and payload.
    pub(crate) const UDP_LENGTH: Field<u16> = DESTINATION.then();
}

/// Extension structure (RFC 4884 §7) and its objects.
mod extension {
    use super::Field;
    /// Version, in the upper four bits.
    pub const VERSION: Field<u8> = Field::at(0);
    pub const CHECKSUM: Field<u16> = Field::at(2);
    pub const HEADER: usize = CHECKSUM.end();
    /// Length of an object, including this header.
    pub const LENGTH: Field<u16> = Field::at(0);
    pub(crate) const CLASS: Field<u8> = LENGTH.then();
    pub const KIND: Field<u8> = CLASS.then();
    pub(crate) const OBJECT: usize = KIND.end();
    /// Class and type of the object with the packet's MPLS label stack on arrival (RFC 4950).
    pub const MPLS: (u8, u8) = (1, 1);
}

/// IP version of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpFamily {
    /// ICMP.
    V4,
    /// ICMPv6.
    V6,
}

/// Reason why the packet was not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpCause {
    /// The TTL expired.
    TimeExceeded,
    /// No program listens on the port.
    PortUnreachable,
    /// The packet cannot be delivered for another reason; contains the ICMP or ICMPv6 code.
    Unreachable(u8),
}

/// An ICMP error and the packet that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quotation {
    /// Kind of error.
    pub cause: IcmpCause,
    /// Source address of the quoted packet.
    pub source: IpAddr,
    /// Destination address of the quoted packet.
    pub destination: IpAddr,
    /// Transport protocol: 17 for UDP, 6 for TCP.
    pub protocol: u8,
    /// TTL or hop limit of the packet when it reached the router.
    pub ttl: u8,
    /// TOS octet or traffic class of the packet when it reached the router.
    pub traffic_class: u8,
    /// Source and destination ports.
    pub ports: [u16; 2],
    /// UDP payload length in bytes, according to the header; `None` for TCP.
    pub payload: Option<u16>,
    /// MPLS labels, outermost first.
    pub labels: Vec<Label>,
}

/// Reason why an ICMP message cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotationError {
    /// The bytes end too early.
    #[error("an ICMP error ends within {0}")]
    Truncated(&'static str),
    /// The message is not an error about a packet.
    #[error("ICMP type {0} is not an error that quotes a packet")]
    NoError(u8),
    /// The quoted packet does not have the IP version of the message, or its header is too short.
    #[error("an ICMP error does not quote an IP packet of its family")]
    NotIp,
    /// The quoted packet is a later fragment, which has no ports.
    #[error("an ICMP error quotes a later fragment")]
    Fragment,
    /// The quoted packet is neither UDP nor TCP.
    #[error("an ICMP error quotes a packet of protocol {0}, neither UDP nor TCP")]
    Protocol(u8),
}

impl Quotation {
    /// Parses an ICMP or ICMPv6 message, which begins with its type.
    ///
    /// # Errors
    /// [`QuotationError`] if the message is invalid. Invalid extensions are ignored.
    pub fn parse(family: IcmpFamily, message: &[u8]) -> Result<Quotation, QuotationError> {
        let truncated = QuotationError::Truncated("its header");
        let kind = icmp::TYPE.read(message).ok_or(truncated)?;
        let code = icmp::CODE.read(message).ok_or(truncated)?;
        let cause = match (family, kind, code) {
            (IcmpFamily::V4, 11, _) | (IcmpFamily::V6, 3, _) => IcmpCause::TimeExceeded,
            (IcmpFamily::V4, 3, 3) | (IcmpFamily::V6, 1, 4) => IcmpCause::PortUnreachable,
            (IcmpFamily::V4, 3, code) | (IcmpFamily::V6, 1, code) => IcmpCause::Unreachable(code),
            _ => return Err(QuotationError::NoError(kind)),
        };
        let body = message.get(icmp::HEADER..).ok_or(truncated)?;
        let stated = match family {
            IcmpFamily::V4 => usize::from(icmp::LENGTH_V4.read(message).unwrap_or(0)) * 4,
            IcmpFamily::V6 => usize::from(icmp::LENGTH_V6.read(message).unwrap_or(0)) * 8,
        };
        let mut quotation = match family {
            IcmpFamily::V4 => ipv4(cause, body)?,
            IcmpFamily::V6 => ipv6(cause, body)?,
        };
        // Routers that do not support RFC 4884 pad to 128 bytes and state no length.
        let at = if stated == 0 { PADDED_BYTES } else { stated };
        quotation.labels = body.get(at..).and_then(labels).unwrap_or_default();
        Ok(quotation)
    }
}

fn ipv4(cause: IcmpCause, packet: &[u8]) -> Result<Quotation, QuotationError> {
    let truncated = QuotationError::Truncated("the quoted IPv4 header");
    let version_length = v4::VERSION_LENGTH.read(packet).ok_or(truncated)?;
    let header = usize::from(version_length & 0x0f) * 4;
    if version_length >> 4 != 4 || header < v4::HEADER {
        return Err(QuotationError::NotIp);
    }
    let fields = || {
        let ips = (v4::SOURCE.read(packet)?, v4::DESTINATION.read(packet)?);
        Some((ips, v4::TOS.read(packet)?, v4::TTL.read(packet)?, v4::PROTOCOL.read(packet)?))
    };
    let ((source, destination), traffic_class, ttl, protocol) = fields().ok_or(truncated)?;
    if v4::FRAGMENT.read(packet).ok_or(truncated)? & v4::OFFSET != 0 {
        return Err(QuotationError::Fragment);
    }
    let (ports, payload) = ports(protocol, packet.get(header..).ok_or(truncated)?)?;
    let [source, destination] = [source, destination].map(|a| IpAddr::V4(Ipv4Addr::from(a)));
    Ok(Quotation {
        cause,
        source,
        destination,
        protocol,
        ttl,
        traffic_class,
        ports,
        payload,
        labels: Vec::new(),
    })
}

/// Parses a quoted IPv6 packet. Probes have no extension headers, so a packet with extension headers is not a
/// probe.
fn ipv6(cause: IcmpCause, packet: &[u8]) -> Result<Quotation, QuotationError> {
    let truncated = QuotationError::Truncated("the quoted IPv6 header");
    let first = v6::FIRST.read(packet).ok_or(truncated)?;
    if first >> 28 != 6 {
        return Err(QuotationError::NotIp);
    }
    let fields = || {
        let ips = (v6::SOURCE.read(packet)?, v6::DESTINATION.read(packet)?);
        Some((ips, v6::HOP_LIMIT.read(packet)?, v6::NEXT.read(packet)?))
    };
    let ((source, destination), ttl, protocol) = fields().ok_or(truncated)?;
    let (ports, payload) = ports(protocol, packet.get(v6::HEADER..).ok_or(truncated)?)?;
    let [source, destination] = [source, destination].map(|a| IpAddr::V6(Ipv6Addr::from(a)));
    Ok(Quotation {
        cause,
        source,
        destination,
        protocol,
        ttl,
        traffic_class: (first >> 20) as u8,
        ports,
        payload,
        labels: Vec::new(),
    })
}

/// Source and destination ports, and the UDP payload length.
type Ports = ([u16; 2], Option<u16>);

fn ports(protocol: u8, header: &[u8]) -> Result<Ports, QuotationError> {
    if !matches!(protocol, 6 | 17) {
        return Err(QuotationError::Protocol(protocol));
    }
    let fields = || Some([transport::SOURCE.read(header)?, transport::DESTINATION.read(header)?]);
    let ports = fields().ok_or(QuotationError::Truncated("the quoted ports"))?;
    let payload = match protocol {
        17 => transport::UDP_LENGTH.read(header).and_then(|l| l.checked_sub(8)),
        _ => None,
    };
    Ok((ports, payload))
}

/// Returns the labels in the extension objects; `None` if the bytes are not an extension structure.
fn labels(structure: &[u8]) -> Option<Vec<Label>> {
    if extension::VERSION.read(structure)? >> 4 != 2 {
        return None;
    }
    // Zero means that there is no checksum. Otherwise, the sum over all bytes must be zero.
    if extension::CHECKSUM.read(structure)? != 0 && checksum(structure) != 0 {
        return None;
    }
    let mut objects = structure.get(extension::HEADER..)?;
    let mut labels = Vec::new();
    while let Some(length) = extension::LENGTH.read(objects).map(usize::from) {
        let Some(object) = objects.get(..length).filter(|o| o.len() >= extension::OBJECT) else { break };
        if (extension::CLASS.read(object), extension::KIND.read(object))
            == (Some(extension::MPLS.0), Some(extension::MPLS.1))
        {
            labels.extend(object[extension::OBJECT..].chunks_exact(4).filter_map(label));
            labels.truncate(MAX_LABELS);
        }
        objects = &objects[length..];
    }
    Some(labels)
}

/// Parses a label stack entry (RFC 3032): label (20 bits), traffic class (3), bottom of stack (1), TTL (8).
fn label(entry: &[u8]) -> Option<Label> {
    let entry = u32::from_be_bytes(entry.try_into().ok()?);
    Some(Label {
        label: entry >> 12,
        traffic_class: (entry >> 9 & 7) as u8,
        bottom: entry >> 8 & 1 == 1,
        ttl: entry as u8,
    })
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Quoted, message};
    use super::*;
    use proptest::prelude::*;

    fn quoted(family: IcmpFamily) -> Quoted {
        Quoted {
            family,
            protocol: 17,
            ports: [40_000, 33_434],
            traffic_class: 46 << 2 | 1,
            ttl: 1,
            payload: 52,
        }
    }

    #[test]
    fn what_routers_quote_is_read() {
        for (family, kind, source) in [(IcmpFamily::V4, 11, "192.0.2.1"), (IcmpFamily::V6, 3, "2001:db8::1")]
        {
            let q = Quotation::parse(family, &message(&quoted(family), [kind, 0], None, &[])).unwrap();
            assert_eq!((q.cause, q.source), (IcmpCause::TimeExceeded, source.parse().unwrap()));
            assert_eq!((q.protocol, q.ttl, q.traffic_class), (17, 1, 46 << 2 | 1));
            assert_eq!((q.ports, q.payload, q.labels), ([40_000, 33_434], Some(52), vec![]));
        }
        let code = |family, kind, code| {
            Quotation::parse(family, &message(&quoted(family), [kind, code], None, &[])).map(|q| q.cause)
        };
        assert_eq!(code(IcmpFamily::V4, 3, 3), Ok(IcmpCause::PortUnreachable));
        assert_eq!(code(IcmpFamily::V6, 1, 4), Ok(IcmpCause::PortUnreachable));
        assert_eq!(code(IcmpFamily::V4, 3, 13), Ok(IcmpCause::Unreachable(13)));
        assert_eq!(code(IcmpFamily::V4, 8, 0), Err(QuotationError::NoError(8)));
        assert_eq!(code(IcmpFamily::V6, 135, 0), Err(QuotationError::NoError(135)));
    }

    #[test]
    fn labels_are_read_with_and_without_a_stated_length() {
        let stack = [
            Label { label: 24_015, traffic_class: 5, bottom: false, ttl: 1 },
            Label { label: 0xfffff, traffic_class: 0, bottom: true, ttl: 255 },
        ];
        for (family, kind) in [(IcmpFamily::V4, 11), (IcmpFamily::V6, 3)] {
            for stated in [None, Some(128), Some(160)] {
                let bytes = message(&quoted(family), [kind, 0], stated, &stack);
                assert_eq!(Quotation::parse(family, &bytes).unwrap().labels, stack, "{family:?} {stated:?}");
            }
            // With a wrong checksum, the bytes are not an extension.
            let mut bytes = message(&quoted(family), [kind, 0], Some(128), &stack);
            *bytes.last_mut().unwrap() ^= 1;
            assert_eq!(Quotation::parse(family, &bytes).unwrap().labels, []);
        }
        // Layout of RFC 4950, written by hand: a single label, 16, at the bottom of the stack.
        let mut object = vec![0x20, 0, 0, 0, 0, 8, 1, 1, 0x00, 0x01, 0x01, 0x40];
        let sum = checksum(&object).to_be_bytes();
        object[2..4].copy_from_slice(&sum);
        let expected = Label { label: 16, traffic_class: 0, bottom: true, ttl: 64 };
        assert_eq!(labels(&object), Some(vec![expected]));
    }

    #[test]
    fn truncated_and_invalid_messages_are_errors() {
        let whole = message(&quoted(IcmpFamily::V4), [11, 0], None, &[]);
        for (cut, part) in
            [(0, "its header"), (7, "its header"), (8, "IPv4 header"), (27, "IPv4 header"), (30, "ports")]
        {
            let error = Quotation::parse(IcmpFamily::V4, &whole[..cut]).unwrap_err().to_string();
            assert!(error.contains(part), "{cut}: {error}");
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[8 + at] = byte;
            Quotation::parse(IcmpFamily::V4, &bytes).unwrap_err()
        };
        assert_eq!(with(0, 0x65), QuotationError::NotIp);
        assert_eq!(with(0, 0x44), QuotationError::NotIp);
        assert_eq!(with(7, 1), QuotationError::Fragment);
        assert_eq!(with(9, 1), QuotationError::Protocol(1));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_keep_many_labels(bytes in proptest::collection::vec(any::<u8>(), 0..400), v6: bool) {
            let family = if v6 { IcmpFamily::V6 } else { IcmpFamily::V4 };
            if let Ok(q) = Quotation::parse(family, &bytes) {
                prop_assert!(q.labels.len() <= MAX_LABELS);
            }
        }

        #[test]
        fn spoilt_quotations_do_no_harm(at in 0usize..220, byte: u8, cut in 0usize..220) {
            let stack = [Label { label: 7, traffic_class: 1, bottom: true, ttl: 3 }];
            let mut bytes = message(&quoted(IcmpFamily::V4), [11, 0], Some(128), &stack);
            let n = bytes.len();
            bytes[at % n] = byte;
            bytes.truncate(cut.max(1));
            let _ = Quotation::parse(IcmpFamily::V4, &bytes);
        }
    }
}
