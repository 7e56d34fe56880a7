//! [`Packet`]: what the passive instrument needs to know of one captured frame.
//!
//! [`decode`] walks from the link layer to the transport header without copying. It believes no length
//! field further than the bytes that are there, so a frame cut by the snap length is still understood as
//! far as it goes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The link type of a capture, as numbered by the tcpdump group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: a protocol family in the byte order of the capturing host.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet, with any VLAN tags, PPPoE or MPLS inside.
    pub const ETHERNET: LinkType = LinkType(1);
    /// PPP, with or without the HDLC-like address and control bytes.
    pub const PPP: LinkType = LinkType(9);
    /// PPP in HDLC-like framing.
    pub const PPP_HDLC: LinkType = LinkType(50);
    /// PPPoE session frames without the Ethernet header.
    pub const PPP_ETHER: LinkType = LinkType(51);
    /// An IP packet with nothing before it.
    pub const RAW: LinkType = LinkType(101);
    /// OpenBSD loopback: a protocol family in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux cooked capture, version 1.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// IPv4 only, nothing before it.
    pub const IPV4: LinkType = LinkType(228);
    /// IPv6 only, nothing before it.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux cooked capture, version 2 (`tcpdump -i any`).
    pub const LINUX_SLL2: LinkType = LinkType(276);

    /// Whether [`decode`] understands it.
    pub fn is_supported(self) -> bool {
        matches!(self.0, 0 | 1 | 9 | 12 | 14 | 50 | 51 | 101 | 108 | 113 | 228 | 229 | 276)
    }
}

/// Why a frame is not a packet of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Skip {
    /// ARP, LLDP, a PPP control protocol, …
    #[error("not IP")]
    NotIp,
    /// The snap length cut it before the end of its headers.
    #[error("cut before the end of its headers")]
    Truncated,
    /// Its length or version fields contradict each other.
    #[error("malformed")]
    Malformed,
    /// A link type this program does not know.
    #[error("unknown link type")]
    UnknownLink,
}

/// TCP's protocol number.
pub const TCP: u8 = 6;
/// UDP's protocol number.
pub const UDP: u8 = 17;

/// The fixed part of an IP header.
#[derive(Clone, Copy, Debug)]
enum Header<'a> {
    V4(&'a [u8; 20]),
    V6(&'a [u8; 40]),
}

/// One captured IP packet, borrowed from its frame.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: Header<'a>,
    /// Transport protocol, after any IPv6 extension headers.
    pub protocol: u8,
    /// Identification: 16 bits of IPv4, 32 of an IPv6 fragment header, else 0.
    pub ident: u32,
    /// Fragment offset in units of 8 bytes.
    pub fragment_offset: u16,
    /// Whether more fragments follow.
    pub more_fragments: bool,
    /// Length of the IP packet on the wire, in bytes, whatever was captured of it.
    pub length: u32,
    /// The captured bytes from the IP header on, without link-layer padding.
    pub ip: &'a [u8],
    /// Where the transport header begins in [`Self::ip`]; never beyond its end.
    pub transport_at: usize,
}

impl<'a> Packet<'a> {
    /// Source and destination address, IPv4 ones as IPv6 has them (`::ffff:0:0/96`).
    #[inline]
    pub(super) fn ends(&self) -> (u128, u128) {
        let mapped = |a: &[u8; 4]| 0xffff_0000_0000 | u128::from(u32::from_be_bytes(*a));
        match self.header {
            Header::V4([.., s0, s1, s2, s3, d0, d1, d2, d3]) => {
                (mapped(&[*s0, *s1, *s2, *s3]), mapped(&[*d0, *d1, *d2, *d3]))
            }
            Header::V6(h) => (wide(&h[8..]), wide(&h[24..])),
        }
    }

    /// The addresses as they are in the header: 4 or 16 bytes the source, as many the destination.
    #[inline]
    pub(super) fn addresses(&self) -> &'a [u8] {
        match self.header {
            Header::V4(h) => &h[12..20],
            Header::V6(h) => &h[8..40],
        }
    }

    /// Source address.
    pub fn src(&self) -> IpAddr {
        let all = self.addresses();
        address(&all[..all.len() / 2])
    }

    /// Destination address.
    pub fn dst(&self) -> IpAddr {
        let all = self.addresses();
        address(&all[all.len() / 2..])
    }

    /// Time to live or hop limit.
    pub fn ttl(&self) -> u8 {
        match self.header {
            Header::V4(h) => h[8],
            Header::V6(h) => h[7],
        }
    }

    /// TOS or traffic class octet.
    pub fn traffic_class(&self) -> u8 {
        match self.header {
            Header::V4(h) => h[1],
            Header::V6(h) => h[0] << 4 | h[1] >> 4,
        }
    }

    /// The captured bytes from the transport header on.
    #[inline]
    pub fn transport(&self) -> &'a [u8] {
        self.ip.get(self.transport_at..).unwrap_or_default()
    }

    /// Whether it is a fragment other than the first, which has no transport header.
    pub fn is_later_fragment(&self) -> bool {
        self.fragment_offset != 0
    }

    /// Source and destination port of TCP and UDP, where captured.
    #[inline]
    pub fn ports(&self) -> Option<(u16, u16)> {
        if !matches!(self.protocol, TCP | UDP) || self.is_later_fragment() {
            return None;
        }
        let [a, b, c, d] = *self.transport().first_chunk::<4>()?;
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// Bytes after the transport header on the wire, for TCP, UDP; after the IP header otherwise.
    pub fn payload_length(&self) -> u32 {
        let t = self.transport();
        let header = match self.protocol {
            _ if self.is_later_fragment() => 0,
            TCP => t.get(12).map_or(20, |b| u32::from(b >> 4) * 4),
            UDP => 8,
            _ => 0,
        };
        self.length.saturating_sub(self.transport_at as u32).saturating_sub(header)
    }
}

/// An address of 4 or 16 bytes.
fn address(bytes: &[u8]) -> IpAddr {
    match bytes {
        [a, b, c, d] => Ipv4Addr::new(*a, *b, *c, *d).into(),
        other => Ipv6Addr::from_bits(wide(other)).into(),
    }
}

fn wide(bytes: &[u8]) -> u128 {
    bytes.first_chunk().map_or(0, |a| u128::from_be_bytes(*a))
}

/// An address as IPv6 has it.
pub(super) fn bits(a: IpAddr) -> u128 {
    match a {
        IpAddr::V4(a) => a.to_ipv6_mapped().to_bits(),
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// Decodes one frame of `wire_length` bytes of which `data` was captured.
#[inline]
pub fn decode(link: LinkType, data: &[u8], wire_length: u32) -> Result<Packet<'_>, Skip> {
    // Nearly every frame there is: IPv4 straight inside Ethernet.
    match data.split_at_checked(14) {
        Some(([.., 8, 0], ip)) if link == LinkType::ETHERNET => {
            ipv4(ip, wire_length.max(data.len() as u32) - 14)
        }
        _ => decode_any(link, data, wire_length),
    }
}

fn decode_any(link: LinkType, data: &[u8], wire_length: u32) -> Result<Packet<'_>, Skip> {
    let (protocol, at) = network_layer(link, data)?;
    let rest = data.get(at..).ok_or(Skip::Truncated)?;
    let on_wire = wire_length.max(data.len() as u32) - at as u32;
    match protocol {
        Network::V4 => ipv4(rest, on_wire),
        Network::V6 => ipv6(rest, on_wire),
        Network::ByVersion => match rest.first().ok_or(Skip::Truncated)? >> 4 {
            4 => ipv4(rest, on_wire),
            6 => ipv6(rest, on_wire),
            _ => Err(Skip::NotIp),
        },
    }
}

enum Network {
    V4,
    V6,
    ByVersion,
}

fn be16(data: &[u8], at: usize) -> Result<u16, Skip> {
    let b = data.get(at..at + 2).ok_or(Skip::Truncated)?;
    Ok(u16::from_be_bytes([b[0], b[1]]))
}

fn network_layer(link: LinkType, data: &[u8]) -> Result<(Network, usize), Skip> {
    match link.0 {
        1 => ether_type(data, 12),
        113 => ether_type(data, 14),
        276 => match be16(data, 0)? {
            // the protocol is the first field; the header is 20 bytes
            t @ (0x8100 | 0x88a8 | 0x9100) => tagged(data, 20, t),
            t => by_ether_type(data, t, 20),
        },
        9 | 50 => ppp(data, 0),
        51 => ppp(data, 6),
        12 | 14 | 101 => Ok((Network::ByVersion, 0)),
        228 => Ok((Network::V4, 0)),
        229 => Ok((Network::V6, 0)),
        0 | 108 => {
            let family = data.first_chunk::<4>().ok_or(Skip::Truncated)?;
            // Either byte order: the capturing host's is not recorded reliably.
            match u32::from_le_bytes(*family).min(u32::from_be_bytes(*family)) {
                2 => Ok((Network::V4, 4)),
                10 | 24 | 28 | 30 => Ok((Network::V6, 4)),
                _ => Err(Skip::NotIp),
            }
        }
        _ => Err(Skip::UnknownLink),
    }
}

/// The EtherType at `at`, through any number (≤ 8) of VLAN tags.
fn ether_type(data: &[u8], at: usize) -> Result<(Network, usize), Skip> {
    tagged(data, at + 2, be16(data, at)?)
}

fn tagged(data: &[u8], mut at: usize, mut kind: u16) -> Result<(Network, usize), Skip> {
    for _ in 0..8 {
        if !matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
            return by_ether_type(data, kind, at);
        }
        kind = be16(data, at + 2)?;
        at += 4;
    }
    Err(Skip::Malformed)
}

fn by_ether_type(data: &[u8], kind: u16, at: usize) -> Result<(Network, usize), Skip> {
    match kind {
        0x0800 => Ok((Network::V4, at)),
        0x86dd => Ok((Network::V6, at)),
        0x8864 => ppp(data, at + 6),
        0x8847 | 0x8848 => mpls(data, at),
        // 802.3 with LLC/SNAP
        0..=1535 if data.get(at..at + 6) == Some(&[0xaa, 0xaa, 3, 0, 0, 0]) => match be16(data, at + 6)? {
            0x0800 => Ok((Network::V4, at + 8)),
            0x86dd => Ok((Network::V6, at + 8)),
            _ => Err(Skip::NotIp),
        },
        _ => Err(Skip::NotIp),
    }
}

fn ppp(data: &[u8], mut at: usize) -> Result<(Network, usize), Skip> {
    if data.get(at..at + 2) == Some(&[0xff, 0x03]) {
        at += 2;
    }
    let first = *data.get(at).ok_or(Skip::Truncated)?;
    // An odd first byte is a protocol field compressed to one byte (RFC 1661 §6.5).
    let (protocol, at) = if first & 1 == 1 { (first.into(), at + 1) } else { (be16(data, at)?, at + 2) };
    match protocol {
        0x0021 => Ok((Network::V4, at)),
        0x0057 => Ok((Network::V6, at)),
        _ => Err(Skip::NotIp),
    }
}

fn mpls(data: &[u8], mut at: usize) -> Result<(Network, usize), Skip> {
    for _ in 0..16 {
        let bottom = data.get(at + 2).ok_or(Skip::Truncated)? & 1 == 1;
        at += 4;
        if bottom {
            // A zero first nibble is a pseudowire control word; Ethernet follows (RFC 4448).
            return match data.get(at).ok_or(Skip::Truncated)? >> 4 {
                0 => ether_type(data, at + 4 + 12),
                _ => Ok((Network::ByVersion, at)),
            };
        }
    }
    Err(Skip::Malformed)
}

#[inline]
fn ipv4(data: &[u8], on_wire: u32) -> Result<Packet<'_>, Skip> {
    let h = data.first_chunk::<20>().ok_or(Skip::Truncated)?;
    let header = usize::from(h[0] & 15) * 4;
    if h[0] >> 4 != 4 || header < 20 {
        return Err(Skip::Malformed);
    }
    // A zero length is left by a sending host that segments in the adapter: trust the frame.
    let length = match u32::from(u16::from_be_bytes([h[2], h[3]])) {
        0 => on_wire,
        l => l,
    };
    if (length as usize) < header {
        return Err(Skip::Malformed);
    }
    let ip = &data[..data.len().min(length as usize)];
    if ip.len() < header {
        return Err(Skip::Truncated);
    }
    let fragment = u16::from_be_bytes([h[6], h[7]]);
    Ok(Packet {
        header: Header::V4(h),
        protocol: h[9],
        ident: u16::from_be_bytes([h[4], h[5]]).into(),
        fragment_offset: fragment & 0x1fff,
        more_fragments: fragment & 0x2000 != 0,
        length,
        ip,
        transport_at: header,
    })
}

fn ipv6(data: &[u8], on_wire: u32) -> Result<Packet<'_>, Skip> {
    let h = data.first_chunk::<40>().ok_or(Skip::Truncated)?;
    if h[0] >> 4 != 6 {
        return Err(Skip::Malformed);
    }
    let length = match u32::from(u16::from_be_bytes([h[4], h[5]])) {
        0 => on_wire,
        l => l + 40,
    };
    let ip = &data[..data.len().min(length as usize)];
    let mut p = Packet {
        header: Header::V6(h),
        protocol: h[6],
        ident: 0,
        fragment_offset: 0,
        more_fragments: false,
        length,
        ip,
        transport_at: 40,
    };
    for _ in 0..16 {
        let at = p.transport_at;
        let step = match p.protocol {
            // hop-by-hop, routing, destination options, mobility, HIP, shim6
            0 | 43 | 60 | 135 | 139 | 140 => 8 + 8 * usize::from(*ip.get(at + 1).ok_or(Skip::Truncated)?),
            51 => 8 + 4 * usize::from(*ip.get(at + 1).ok_or(Skip::Truncated)?),
            44 if !p.is_later_fragment() => {
                let f = ip.get(at..at + 8).ok_or(Skip::Truncated)?;
                let word = u16::from_be_bytes([f[2], f[3]]);
                p.fragment_offset = word >> 3;
                p.more_fragments = word & 1 == 1;
                p.ident = u32::from_be_bytes([f[4], f[5], f[6], f[7]]);
                8
            }
            _ => return Ok(p),
        };
        if at + step > ip.len() {
            return Err(if at + step > length as usize { Skip::Malformed } else { Skip::Truncated });
        }
        p.protocol = ip[at];
        p.transport_at = at + step;
        if p.is_later_fragment() {
            return Ok(p);
        }
    }
    Err(Skip::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IP4: [u8; 32] = [
        0x45, 0xb8, 0, 32, 0x12, 0x34, 0x40, 0, 63, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
        0x13, 0x88, 0x13, 0x89, 0, 12, 0, 0, 1, 2, 3, 4, // UDP and four bytes
    ];

    fn udp(p: &Packet<'_>) {
        assert_eq!((p.protocol, p.ports()), (17, Some((5000, 5001))));
        assert_eq!((p.length, p.ident, p.ttl(), p.traffic_class()), (32, 0x1234, 63, 0xb8));
        assert_eq!((p.src(), p.dst()), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        assert_eq!(p.payload_length(), 4);
    }

    fn check(link: LinkType, header: &[u8]) {
        let frame = [header, &IP4, &[0; 6]].concat(); // with padding after the packet
        udp(&decode(link, &frame, frame.len() as u32).unwrap());
        for cut in 0..header.len() + 20 {
            assert!(decode(link, &frame[..cut], frame.len() as u32).is_err(), "{link:?} cut at {cut}");
        }
    }

    #[test]
    fn every_link_layer_leads_to_the_same_packet() {
        let mac = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let eth = |tail: &[u8]| [&mac[..], tail].concat();
        check(LinkType::ETHERNET, &eth(&[8, 0]));
        check(LinkType::ETHERNET, &eth(&[0x81, 0, 0, 5, 8, 0]));
        check(LinkType::ETHERNET, &eth(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0]));
        check(LinkType::ETHERNET, &eth(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 34, 0, 0x21]));
        check(LinkType::ETHERNET, &eth(&[0x81, 0, 0, 5, 0x88, 0x64, 0x11, 0, 0, 1, 0, 34, 0, 0x21]));
        check(LinkType::ETHERNET, &eth(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]));
        check(LinkType::ETHERNET, &eth(&[0, 40, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]));
        let pseudowire = [&[0x88, 0x47, 0, 2, 1, 64, 0, 0, 0, 0][..], &mac, &[8, 0]].concat();
        check(LinkType::ETHERNET, &eth(&pseudowire));
        check(LinkType::LINUX_SLL, &[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0]);
        check(LinkType::LINUX_SLL2, &[8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]);
        check(LinkType::PPP, &[0xff, 3, 0, 0x21]);
        check(LinkType::PPP, &[0x21]);
        check(LinkType::PPP_ETHER, &[0x11, 0, 0, 1, 0, 34, 0, 0x21]);
        check(LinkType::NULL, &[2, 0, 0, 0]);
        check(LinkType::LOOP, &[0, 0, 0, 2]);
        check(LinkType::RAW, &[]);
        check(LinkType::IPV4, &[]);
    }

    #[test]
    fn what_is_not_ip_is_said_to_be_so() {
        let arp = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6, 0, 1];
        assert_eq!(decode(LinkType::ETHERNET, &arp, 16).unwrap_err(), Skip::NotIp);
        assert_eq!(decode(LinkType(105), &arp, 16).unwrap_err(), Skip::UnknownLink);
        assert!(!LinkType(105).is_supported());
    }

    fn ip6(next: u8, tail: &[u8]) -> Vec<u8> {
        let mut v = vec![0x6b, 0x80, 0, 0, 0, tail.len() as u8, next, 60];
        v.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        v.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        v.extend(tail);
        v
    }

    #[test]
    fn ipv6_extension_headers_and_fragments() {
        let hop = [60, 0, 0, 0, 0, 0, 0, 0];
        let dest = [17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let f = ip6(0, &[&hop[..], &dest, &IP4[20..]].concat());
        let p = decode(LinkType::IPV6, &f, f.len() as u32).unwrap();
        assert_eq!((p.protocol, p.ports(), p.transport_at), (17, Some((5000, 5001)), 64));
        assert_eq!((p.traffic_class(), p.ttl(), p.length), (0xb8, 60, 76));

        let first = ip6(44, &[&[17, 0, 0, 1, 0, 0, 0, 9][..], &IP4[20..]].concat());
        let p = decode(LinkType::RAW, &first, first.len() as u32).unwrap();
        assert_eq!((p.ident, p.more_fragments, p.ports()), (9, true, Some((5000, 5001))));

        let later = ip6(44, &[17, 0, 5, 0xa8, 0, 0, 0, 9, 1, 2, 3, 4]);
        let p = decode(LinkType::RAW, &later, later.len() as u32).unwrap();
        assert_eq!((p.ident, p.fragment_offset, p.ports()), (9, 181, None));
        assert_eq!(p.payload_length(), 4);
    }

    #[test]
    fn a_zero_length_is_taken_from_the_frame() {
        let mut ip = IP4;
        ip[3] = 0;
        assert_eq!(decode(LinkType::RAW, &ip, 9000).unwrap().length, 9000);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(link in 0u16..300, mut data in prop::collection::vec(any::<u8>(), 0..200), wire: u32, kind in 0usize..8) {
            if let Some(b) = data.get_mut(12..14) {
                b.copy_from_slice(&[[8, 0], [0x86, 0xdd], [0x81, 0], [0x88, 0x64], [0x88, 0x47], [0, 9], [8, 6], [0x88, 0xa8]][kind]);
            }
            for link in [LinkType(link), LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL2] {
                if let Ok(p) = decode(link, &data, wire) {
                    prop_assert!(p.transport_at <= p.ip.len());
                    let _ = (p.ports(), p.payload_length(), p.transport());
                }
            }
        }
    }
}
