//! Fields of IP packets that the TUN emulator reads or changes.

use crate::frame::{checksum, ipv4, ipv6, udp};
use jitlat_proto::wire::Field;

fn version(packet: &[u8]) -> Option<u8> {
    packet.first().map(|b| b >> 4)
}

/// Returns a packet's UDP ports, source first, and its UDP payload; `None` if it is not UDP or is a fragment
/// after the first.
pub(super) fn parse_udp(packet: &[u8]) -> Option<(u16, u16, &[u8])> {
    let header = match version(packet)? {
        4 => {
            let offset = ipv4::FRAGMENT.read(packet)? & ipv4::FRAGMENT_OFFSET;
            if ipv4::PROTOCOL.read(packet)? != udp::PROTOCOL || offset != 0 {
                return None;
            }
            usize::from(ipv4::VERSION_LENGTH.read(packet)? & 0x0f) * 4
        }
        // Only packets whose UDP header follows the IPv6 header directly, that is, without fragmentation and
        // extension headers.
        6 if ipv6::NEXT_HEADER.read(packet)? == udp::PROTOCOL => ipv6::LENGTH,
        _ => return None,
    };
    let segment = packet.get(header..)?;
    Some((udp::SOURCE.read(segment)?, udp::DESTINATION.read(segment)?, segment.get(udp::LENGTH..)?))
}

/// Returns the TOS or traffic-class octet of a packet; `None` if the packet is too short.
pub(super) fn traffic_class(packet: &[u8]) -> Option<u8> {
    match version(packet)? {
        4 => ipv4::TOS.read(packet),
        6 => ipv6::VERSION_CLASS_FLOW.read(packet).map(|word| (word >> ipv6::CLASS_SHIFT) as u8),
        _ => None,
    }
}

/// Writes the TOS or traffic-class octet of a packet, and updates the checksum of an IPv4 header (RFC 1624,
/// equation 3).
pub(super) fn set_traffic_class(packet: &mut [u8], octet: u8) {
    /// 16-bit word of the IPv4 header that contains the TOS octet.
    const WORD: Field<u16> = Field::at(0);
    match version(packet) {
        Some(4) if packet.len() >= ipv4::LENGTH => {
            let (Some(old), Some(sum)) = (WORD.read(packet), ipv4::CHECKSUM.read(packet)) else { return };
            ipv4::TOS.write(packet, octet);
            let new = old & 0xff00 | u16::from(octet);
            ipv4::CHECKSUM.write(packet, checksum(u64::from(!sum) + u64::from(!old) + u64::from(new)));
        }
        Some(6) if packet.len() >= ipv6::LENGTH => {
            let Some(word) = ipv6::VERSION_CLASS_FLOW.read(packet) else { return };
            let class = u32::from(octet) << ipv6::CLASS_SHIFT;
            let mask = 0xff << ipv6::CLASS_SHIFT;
            ipv6::VERSION_CLASS_FLOW.write(packet, word & !mask | class);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(header: &[u8]) -> u16 {
        let mut sum: u32 = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    fn v4() -> Vec<u8> {
        let mut p = vec![0x45, 0xb8, 0, 32, 1, 2, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let checksum = !sum(&p);
        p[10..12].copy_from_slice(&checksum.to_be_bytes());
        p.extend([0x10, 0, 0x0a, 0x6b, 0, 12, 0, 0, 1, 2, 3, 4]);
        p
    }

    fn v6() -> Vec<u8> {
        let mut p = vec![0x6b, 0x81, 2, 3, 0, 12, 17, 64];
        p.extend([0; 32]);
        p.extend([0x10, 0, 0x0a, 0x6b, 0, 12, 0, 0, 1, 2, 3, 4]);
        p
    }

    #[test]
    fn udp_is_found_in_both_versions() {
        for p in [v4(), v6()] {
            assert_eq!(parse_udp(&p), Some((4096, 2667, &[1, 2, 3, 4][..])));
            for n in 0..p.len() - 4 {
                assert_eq!(parse_udp(&p[..n]), None, "{n}");
            }
        }
        let mut fragment = v4();
        fragment[7] = 1;
        let mut tcp = v6();
        tcp[6] = 6;
        assert_eq!((parse_udp(&fragment), parse_udp(&tcp), parse_udp(&[0x45; 3])), (None, None, None));
    }

    #[test]
    fn remarking_changes_the_octet_alone_and_keeps_the_checksum() {
        for octet in 0..=255 {
            let mut p = v4();
            set_traffic_class(&mut p, octet);
            assert_eq!((traffic_class(&p), sum(&p[..20])), (Some(octet), 0xffff));
            assert_eq!((&p[2..10], &p[12..]), (&v4()[2..10], &v4()[12..]));
            let mut p = v6();
            set_traffic_class(&mut p, octet);
            assert_eq!((traffic_class(&p), p[0] >> 4, p[1] & 15), (Some(octet), 6, 1));
            assert_eq!(p[2..], v6()[2..]);
        }
    }
}
