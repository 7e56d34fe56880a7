//! [`IpPacket`]: the parts of a captured frame that the passive instrument uses.
//!
//! [`decode`] parses from the link layer to the transport header without copying. It trusts no length field
//! beyond the captured bytes, so a frame cut by the snap length is still parsed as far as possible.

use super::link_layer::{LinkType, Network, Skip, find_network_layer, plain_ipv4};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use jitlat_core::time::WallTime;

/// One captured frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Time of capture.
    pub at: WallTime,
    /// Link type, which determines the format of the first bytes.
    pub link: LinkType,
    /// Length on the wire, in bytes.
    pub wire_length: u32,
    /// Captured bytes.
    pub data: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Decodes the IP packet in the frame.
    ///
    /// # Errors
    /// Reason why the frame contains no usable IP packet.
    #[inline(always)]
    pub fn packet(&self) -> Result<IpPacket<'a>, Skip> {
        decode(self.link, self.data, self.wire_length)
    }
}

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of IPv4 in IP.
pub(super) const IPV4_INSIDE: u8 = 4;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of IPv6 in IP.
pub(super) const IPV6_INSIDE: u8 = 41;
/// Protocol number of GRE.
pub(super) const GRE: u8 = 47;
/// Protocol number of ESP.
pub(super) const ESP: u8 = 50;
/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;

/// Offsets of the fields of an IPv4 header (RFC 791 §3.1).
mod v4 {
    use core::ops::Range;

    pub(super) const HEADER: usize = 20;
    pub(super) const VERSION_AND_LENGTH: usize = 0;
    pub(super) const TRAFFIC_CLASS: usize = 1;
    pub(super) const TOTAL_LENGTH: usize = 2;
    pub(super) const IDENTIFICATION: usize = 4;
    pub(super) const FRAGMENT: usize = 6;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const ADDRESSES: Range<usize> = 12..20;
    /// Bit of the fragment field that is set if more fragments follow.
    pub(super) const MORE_FRAGMENTS: u16 = 0x2000;
    pub(super) const OFFSET: u16 = 0x1fff;
}

/// Offsets of the fields of an IPv6 header (RFC 8200 §3), and extension headers.
mod v6 {
    use core::ops::Range;

    pub(super) const HEADER: usize = 40;
    pub(super) const VERSION: usize = 0;
    pub(super) const PAYLOAD_LENGTH: usize = 4;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const ADDRESSES: Range<usize> = 8..40;
    pub(super) const SOURCE: usize = 8;
    pub(super) const DESTINATION: usize = 24;

    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION_OPTIONS: u8 = 60;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const HOST_IDENTITY: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
    /// Maximum number of extension headers of a packet.
    pub(super) const MAX_EXTENSIONS: usize = 16;
}

/// Offsets of the fields of a TCP header (RFC 9293 §3.1).
pub(super) mod tcp {
    pub(crate) const SOURCE_PORT: usize = 0;
    pub(crate) const DESTINATION_PORT: usize = 2;
    pub(crate) const SEQUENCE: usize = 4;
    pub(crate) const ACKNOWLEDGEMENT: usize = 8;
    /// Length of the header in words of four bytes, in the upper four bits.
    pub(crate) const DATA_OFFSET: usize = 12;
    pub(crate) const FLAGS: usize = 13;
    pub(crate) const WINDOW: usize = 14;
    pub(crate) const CHECKSUM: usize = 16;
    /// Offset of the options, which is also the smallest length of a header.
    pub(crate) const OPTIONS: usize = 20;

    /// Length of a header with options, in bytes, limited to the captured bytes.
    pub(crate) fn header_length(header: &[u8]) -> usize {
        header.get(DATA_OFFSET).map_or(OPTIONS, |b| usize::from(b >> 4) * 4)
    }
}

/// Offsets of the fields of a UDP header (RFC 768).
pub(super) mod udp {
    pub(crate) const LENGTH: usize = 4;
    pub(crate) const PAYLOAD: usize = 8;
}

/// Fixed part of an IP header.
#[derive(Clone, Copy, Debug)]
enum IpHeader<'a> {
    V4(&'a [u8; v4::HEADER]),
    V6(&'a [u8; v6::HEADER]),
}

/// One captured IP packet, borrowed from its frame.
#[derive(Clone, Copy, Debug)]
pub struct IpPacket<'a> {
    header: IpHeader<'a>,
    /// Transport protocol, after any IPv6 extension headers.
    pub protocol: u8,
    /// Identification: 16 bits of IPv4, 32 bits of an IPv6 fragment header, otherwise 0.
    pub ident: u32,
    /// Fragment offset in units of 8 bytes.
    pub fragment_offset: u16,
    /// True if more fragments follow.
    pub more_fragments: bool,
    /// Length of the whole IP packet on the wire, in bytes.
    pub length: u32,
    /// Captured bytes of the IP packet, without link-layer padding.
    pub ip: &'a [u8],
    /// Offset of the transport header in [`Self::ip`]; never beyond its end.
    pub transport_at: usize,
    /// Captured bytes before the IP packet: the header of the link layer, or the headers of the tunnel.
    pub(super) before: &'a [u8],
}

impl<'a> IpPacket<'a> {
    /// Source and destination address, with IPv4 addresses mapped to IPv6 (`::ffff:0:0/96`).
    #[inline]
    pub(super) fn ends(&self) -> (u128, u128) {
        let mapped = |a: &[u8; 4]| 0xffff_0000_0000 | u128::from(u32::from_be_bytes(*a));
        match self.header {
            IpHeader::V4([.., s0, s1, s2, s3, d0, d1, d2, d3]) => {
                (mapped(&[*s0, *s1, *s2, *s3]), mapped(&[*d0, *d1, *d2, *d3]))
            }
            IpHeader::V6(h) => (wide(&h[v6::SOURCE..]), wide(&h[v6::DESTINATION..])),
        }
    }

    /// Source and destination address as in the header: twice 4 or twice 16 bytes.
    #[inline]
    pub(super) fn addresses(&self) -> &'a [u8] {
        match self.header {
            IpHeader::V4(h) => &h[v4::ADDRESSES],
            IpHeader::V6(h) => &h[v6::ADDRESSES],
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
            IpHeader::V4(h) => h[v4::TTL],
            IpHeader::V6(h) => h[v6::HOP_LIMIT],
        }
    }

    /// TOS or traffic-class octet.
    pub fn traffic_class(&self) -> u8 {
        match self.header {
            IpHeader::V4(h) => h[v4::TRAFFIC_CLASS],
            // The eight bits after the version.
            IpHeader::V6(h) => h[0] << 4 | h[1] >> 4,
        }
    }

    /// True if the packet is IPv6.
    pub(super) fn is_v6(&self) -> bool {
        matches!(self.header, IpHeader::V6(_))
    }

    /// True if the packet is a fragment, the first or a later one.
    #[inline]
    pub(super) fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Captured bytes of the transport header and its payload.
    #[inline]
    pub fn transport(&self) -> &'a [u8] {
        self.ip.get(self.transport_at..).unwrap_or_default()
    }

    /// True if the packet is a fragment other than the first; such fragments have no transport header.
    pub fn is_later_fragment(&self) -> bool {
        self.fragment_offset != 0
    }

    /// Source and destination port of TCP and UDP; `None` for other protocols or if not captured.
    #[inline]
    pub fn ports(&self) -> Option<(u16, u16)> {
        if !matches!(self.protocol, TCP | UDP) || self.is_later_fragment() {
            return None;
        }
        let [a, b, c, d] = *self.transport().first_chunk::<4>()?;
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// Number of bytes on the wire after the transport header for TCP and UDP, after the IP header otherwise.
    pub fn payload_length(&self) -> u32 {
        let t = self.transport();
        let header = match self.protocol {
            _ if self.is_later_fragment() => 0,
            TCP => tcp::header_length(t) as u32,
            UDP => udp::PAYLOAD as u32,
            _ => 0,
        };
        self.length.saturating_sub(self.transport_at as u32).saturating_sub(header)
    }
}

/// Converts 4 or 16 bytes to an address.
fn address(bytes: &[u8]) -> IpAddr {
    match bytes {
        [a, b, c, d] => Ipv4Addr::new(*a, *b, *c, *d).into(),
        other => Ipv6Addr::from_bits(wide(other)).into(),
    }
}

fn wide(bytes: &[u8]) -> u128 {
    bytes.first_chunk().map_or(0, |a| u128::from_be_bytes(*a))
}

/// Decodes one frame of `wire_length` bytes, of which `data` was captured.
///
/// # Errors
/// Reason why the frame contains no usable packet.
#[inline(always)]
pub fn decode(link: LinkType, data: &[u8], wire_length: u32) -> Result<IpPacket<'_>, Skip> {
    match plain_ipv4(link, data) {
        Some((ip, header)) => {
            let packet = ipv4(ip, wire_length.max(data.len() as u32) - header as u32)?;
            Ok(IpPacket { before: &data[..header], ..packet })
        }
        None => decode_any(link, data, wire_length),
    }
}

/// Decodes an IP packet that begins at offset `at` of `data`. `on_wire` is the length of all of `data` on the wire.
pub(super) fn decode_at(
    network: Network,
    data: &[u8],
    at: usize,
    on_wire: u32,
) -> Result<IpPacket<'_>, Skip> {
    let (before, rest) = data.split_at_checked(at).ok_or(Skip::Truncated)?;
    let on_wire = on_wire.max(data.len() as u32) - at as u32;
    let packet = match network {
        Network::V4 => ipv4(rest, on_wire),
        Network::V6 => ipv6(rest, on_wire),
        Network::ByVersion => match rest.first().ok_or(Skip::Truncated)? >> 4 {
            4 => ipv4(rest, on_wire),
            6 => ipv6(rest, on_wire),
            _ => Err(Skip::NotIp),
        },
    }?;
    Ok(IpPacket { before, ..packet })
}

fn decode_any(link: LinkType, data: &[u8], wire_length: u32) -> Result<IpPacket<'_>, Skip> {
    let (network, at) = find_network_layer(link, data)?;
    decode_at(network, data, at, wire_length)
}

/// Reads a field of two bytes in network byte order.
#[inline]
fn be16(header: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

#[inline(always)]
fn ipv4(data: &[u8], on_wire: u32) -> Result<IpPacket<'_>, Skip> {
    let h = data.first_chunk::<{ v4::HEADER }>().ok_or(Skip::Truncated)?;
    let header = usize::from(h[v4::VERSION_AND_LENGTH] & 15) * 4;
    if h[v4::VERSION_AND_LENGTH] >> 4 != 4 || header < v4::HEADER {
        return Err(Skip::Malformed);
    }
    // A zero length comes from a sending host whose adapter segments packets: use the frame's length.
    let length = match u32::from(be16(h, v4::TOTAL_LENGTH)) {
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
    let fragment = be16(h, v4::FRAGMENT);
    let packet = IpPacket {
        header: IpHeader::V4(h),
        protocol: h[v4::PROTOCOL],
        ident: be16(h, v4::IDENTIFICATION).into(),
        fragment_offset: fragment & v4::OFFSET,
        more_fragments: fragment & v4::MORE_FRAGMENTS != 0,
        length,
        ip,
        transport_at: header,
        before: &[],
    };
    if packet.protocol == v6::AUTHENTICATION && !packet.is_later_fragment() {
        return behind_authentication(packet);
    }
    Ok(packet)
}

/// Skips the authentication header of an IPv4 packet (RFC 4302 §2), like an extension header of IPv6.
#[cold]
fn behind_authentication(mut p: IpPacket<'_>) -> Result<IpPacket<'_>, Skip> {
    let [next, units] = *p.transport().first_chunk::<2>().ok_or(Skip::Truncated)?;
    let at = p.transport_at + 8 + 4 * usize::from(units);
    if at > p.ip.len() {
        return Err(if at > p.length as usize { Skip::Malformed } else { Skip::Truncated });
    }
    (p.protocol, p.transport_at) = (next, at);
    Ok(p)
}

fn ipv6(data: &[u8], on_wire: u32) -> Result<IpPacket<'_>, Skip> {
    let h = data.first_chunk::<{ v6::HEADER }>().ok_or(Skip::Truncated)?;
    if h[v6::VERSION] >> 4 != 6 {
        return Err(Skip::Malformed);
    }
    let length = match u32::from(be16(h, v6::PAYLOAD_LENGTH)) {
        0 => on_wire,
        l => l + v6::HEADER as u32,
    };
    let ip = &data[..data.len().min(length as usize)];
    let mut p = IpPacket {
        header: IpHeader::V6(h),
        protocol: h[v6::NEXT_HEADER],
        ident: 0,
        fragment_offset: 0,
        more_fragments: false,
        length,
        ip,
        transport_at: v6::HEADER,
        before: &[],
    };
    for _ in 0..v6::MAX_EXTENSIONS {
        let at = p.transport_at;
        let units = || ip.get(at + 1).map(|n| usize::from(*n)).ok_or(Skip::Truncated);
        let step = match p.protocol {
            v6::HOP_BY_HOP
            | v6::ROUTING
            | v6::DESTINATION_OPTIONS
            | v6::MOBILITY
            | v6::HOST_IDENTITY
            | v6::SHIM6 => 8 + 8 * units()?,
            v6::AUTHENTICATION => 8 + 4 * units()?,
            v6::FRAGMENT => {
                // Next header, reserved, offset and flags, identification (RFC 8200 §4.5).
                let f = ip.get(at..).and_then(|f| f.first_chunk::<8>()).ok_or(Skip::Truncated)?;
                let word = be16(f, 2);
                p.fragment_offset = word >> 3;
                p.more_fragments = word & 1 == 1;
                p.ident = u32::from(be16(f, 4)) << 16 | u32::from(be16(f, 6));
                f.len()
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

    fn udp(p: &IpPacket<'_>) {
        assert_eq!((p.protocol, p.ports()), (17, Some((5000, 5001))));
        assert_eq!((p.length, p.ident, p.ttl(), p.traffic_class()), (32, 0x1234, 63, 0xb8));
        assert_eq!((p.src(), p.dst()), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        assert_eq!(p.payload_length(), 4);
    }

    fn check(link: LinkType, header: &[u8]) {
        let frame = [header, &IP4, &[0; 6]].concat(); // padding after the packet
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
        assert_eq!(decode(LinkType(147), &arp, 16).unwrap_err(), Skip::UnknownLink);
        assert!(!LinkType(147).is_supported());
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
    fn ipv6_is_read_behind_every_link_layer() {
        let ip = ip6(17, &IP4[20..]);
        let mac = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let eth = |tail: &[u8]| [&mac[..], tail].concat();
        for (link, header) in [
            (LinkType::ETHERNET, eth(&[0x86, 0xdd])),
            (LinkType::ETHERNET, eth(&[0x81, 0, 0, 5, 0x86, 0xdd])),
            (LinkType::ETHERNET, eth(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 54, 0, 0x57])),
            (LinkType::ETHERNET, eth(&[0x88, 0x47, 0, 0, 0x11, 64])),
            (LinkType::ETHERNET, eth(&[0, 60, 0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd])),
            (LinkType::LINUX_SLL, vec![0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x86, 0xdd]),
            (LinkType::LINUX_SLL2, vec![0x86, 0xdd, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]),
            (LinkType::PPP, vec![0xff, 3, 0, 0x57]),
            (LinkType::NULL, vec![10, 0, 0, 0]),
            (LinkType::NULL, vec![24, 0, 0, 0]),
            (LinkType::NULL, vec![28, 0, 0, 0]),
            (LinkType::LOOP, vec![0, 0, 0, 30]),
            (LinkType::RAW, vec![]),
            (LinkType::IPV6, vec![]),
        ] {
            let frame = [&header[..], &ip].concat();
            let p = decode(link, &frame, frame.len() as u32).unwrap();
            let ends: [IpAddr; 2] = [p.src(), p.dst()];
            assert_eq!(ends, ["fd00::1".parse().unwrap(), "fd00::2".parse::<IpAddr>().unwrap()], "{link:?}");
            assert_eq!((p.ports(), p.length), (Some((5000, 5001)), 52), "{link:?}");
            assert!(link.is_supported());
        }
        assert_eq!(decode(LinkType::NULL, &[&[7, 0, 0, 0][..], &ip].concat(), 56).unwrap_err(), Skip::NotIp);
    }

    #[test]
    fn ipv6_headers_lie_within_the_packet() {
        // Authentication header, whose length field counts words of four bytes, less two.
        let f = ip6(51, &[&[17, 4, 0, 0][..], &[0; 20], &IP4[20..]].concat());
        let p = decode(LinkType::RAW, &f, f.len() as u32).unwrap();
        assert_eq!((p.transport_at, p.ports()), (64, Some((5000, 5001))));
        for cut in 40..64 {
            let cut = decode(LinkType::RAW, &f[..cut], f.len() as u32);
            assert_eq!(cut.unwrap_err(), Skip::Truncated);
        }
        assert_eq!(decode(LinkType::RAW, &f[..64], f.len() as u32).unwrap().ports(), None);
        // A packet that ends after the extension header, and a header that claims to reach beyond the packet.
        let only = ip6(60, &[17, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode(LinkType::RAW, &only, 48).unwrap().transport_at, 48);
        let beyond = ip6(60, &[17, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode(LinkType::RAW, &beyond, 48).unwrap_err(), Skip::Malformed);
        let unfragmented = ip6(44, &[&[17, 0, 0, 0, 0, 1, 0, 2][..], &IP4[20..]].concat());
        let p = decode(LinkType::RAW, &unfragmented, 60).unwrap();
        assert_eq!((p.ident, p.more_fragments, p.fragment_offset), (0x1_0002, false, 0));
    }

    #[test]
    fn ipv4_headers_are_checked() {
        let decoded = |change: fn(&mut [u8; 32])| {
            let mut ip = IP4;
            change(&mut ip);
            decode(LinkType::IPV4, &ip, 32).map(|p| (p.transport_at, p.more_fragments, p.length))
        };
        assert_eq!(decoded(|_| ()), Ok((20, false, 32)));
        assert_eq!(decoded(|ip| ip[0] = 0x55), Err(Skip::Malformed), "version 5");
        assert_eq!(decoded(|ip| ip[0] = 0x44), Err(Skip::Malformed), "a header of 16 bytes");
        assert_eq!(decoded(|ip| ip[0] = 0x46), Ok((24, false, 32)));
        assert_eq!(decoded(|ip| ip[3] = 20), Ok((20, false, 20)), "nothing but a header");
        assert_eq!(decoded(|ip| ip[3] = 19), Err(Skip::Malformed));
        assert_eq!(decoded(|ip| ip[0] = 0x49), Err(Skip::Malformed), "a header beyond the packet");
        assert_eq!(decoded(|ip| ip[6] = 0x20), Ok((20, true, 32)));
        let long = [&[0x48][..], &IP4[1..]].concat();
        assert_eq!(decode(LinkType::IPV4, &long, 32).unwrap().transport_at, 32);
        assert_eq!(decode(LinkType::IPV4, &long[..31], 32).unwrap_err(), Skip::Truncated);
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
