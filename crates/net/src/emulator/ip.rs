//! What the TUN emulator needs to know of IP packets.

/// The UDP payload of a packet and its two ports, source first; `None` for anything else, later
/// fragments included.
pub(super) fn udp(packet: &[u8]) -> Option<(u16, u16, &[u8])> {
    const UDP: u8 = 17;
    let header = match packet.first()? >> 4 {
        4 => {
            let offset = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff;
            if packet.get(9)? != &UDP || offset != 0 {
                return None;
            }
            usize::from(packet[0] & 15) * 4
        }
        // A fragment or an extension header is no UDP header.
        6 if packet.get(6)? == &UDP => 40,
        _ => return None,
    };
    let segment = packet.get(header..)?;
    let port = |at: usize| Some(u16::from_be_bytes([*segment.get(at)?, *segment.get(at + 1)?]));
    Some((port(0)?, port(2)?, segment.get(8..)?))
}

/// The TOS or traffic-class octet of a packet.
pub(super) fn traffic_class(packet: &[u8]) -> Option<u8> {
    match packet.first()? >> 4 {
        4 => packet.get(1).copied(),
        6 => Some(packet[0] << 4 | packet.get(1)? >> 4),
        _ => None,
    }
}

/// Writes the TOS or traffic-class octet of a packet and keeps an IPv4 header's checksum right
/// (RFC 1624, equation 3).
pub(super) fn set_traffic_class(packet: &mut [u8], octet: u8) {
    match packet.first().map(|b| b >> 4) {
        Some(4) if packet.len() >= 20 => {
            let old = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] = octet;
            let new = u16::from_be_bytes([packet[0], packet[1]]);
            let checksum = u16::from_be_bytes([packet[10], packet[11]]);
            let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        Some(6) if packet.len() >= 40 => {
            packet[0] = 0x60 | octet >> 4;
            packet[1] = packet[1] & 0x0f | octet << 4;
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
            assert_eq!(udp(&p), Some((4096, 2667, &[1, 2, 3, 4][..])));
            for n in 0..p.len() - 4 {
                assert_eq!(udp(&p[..n]), None, "{n}");
            }
        }
        let mut fragment = v4();
        fragment[7] = 1;
        let mut tcp = v6();
        tcp[6] = 6;
        assert_eq!((udp(&fragment), udp(&tcp), udp(&[0x45; 3])), (None, None, None));
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
