//! Packet identities: hashes of fields that do not change on the path and rarely repeat, so that a packet is recognised
//! at two points.
//!
//! Never hashed: TTL, header checksum, TOS and ECN, flow label, the "don't fragment" bit (all may be
//! rewritten on the path) and transport checksums (not yet filled in if a sending host is captured).

use super::packet;
use super::packet::{IpPacket, TCP, UDP, tcp, udp};
use jitlat_core::spec::Direction;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// Number of payload bytes in the identity of a UDP packet.
const UDP_PAYLOAD: usize = 40;
/// Number of payload bytes in the identity of a TCP segment.
const TCP_PAYLOAD: usize = 20;
/// Number of bytes after the IP header in the identity of any other packet.
const OTHER_PAYLOAD: usize = 40;
/// Length of the two ports of TCP and UDP, in bytes.
const PORTS: usize = 4;
/// Maximum length of the hashed input, in bytes: fixed fields, 60 bytes of TCP header, payload.
const BUFFER: usize = 160;

/// Fields that identify packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdentityFields {
    /// All fields that do not change on the path.
    Full {
        /// True to include the two addresses; false for a path with NAT.
        addresses: bool,
        /// True to include the ports; false for a path with a NAT that rewrites them.
        ports: bool,
        /// True to include the IP identification; false for a path with a middlebox that rewrites it.
        ident: bool,
    },
    /// Fields of the CAIA tool's `-#` mask.
    Mask(u32),
}

impl IdentityFields {
    /// All fields, for a path without translation.
    pub const ALL: IdentityFields = IdentityFields::Full { addresses: true, ports: true, ident: true };
    /// Only fields that a NAT does not rewrite.
    pub const BEHIND_NAT: IdentityFields =
        IdentityFields::Full { addresses: false, ports: false, ident: true };
}

/// Rule by which packets are identified. Two captures can only be matched under the same rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityRule {
    /// Fields to hash.
    pub fields: IdentityFields,
    /// Number of bytes of the IP packet that both captures are sure to have (the smaller snap length less the
    /// link-layer header); no further bytes are hashed.
    pub available: usize,
}

/// Identity of a packet: equal at both points, and almost certainly different from the identities of other packets.
pub type Identity = u64;

/// Combines an identity with a salt that both points share. The results are equal if the identities are equal, and
/// useless to a host that has collected identities with another salt.
pub fn salted(name: Identity, salt: u64) -> Identity {
    XxHash3_64::oneshot_with_seed(salt, &name.to_be_bytes())
}

impl IdentityRule {
    /// Rule with all fields, for captures that contain whole packets.
    pub const WHOLE: IdentityRule = IdentityRule { fields: IdentityFields::ALL, available: usize::MAX };

    /// Returns the identity of a packet that travels in `direction`; `None` if too few of its bytes were captured for
    /// the rule.
    #[inline]
    pub fn identify(&self, p: &IpPacket<'_>, direction: Option<Direction>) -> Option<Identity> {
        let whole = p.length as usize;
        if p.ip.len() < whole.min(self.available) {
            let needed = p.transport_at + BUFFER;
            if p.ip.len() < whole.min(self.available).min(needed) {
                return None;
            }
        }
        let end = p.ip.len().min(self.available);
        let transport = p.ip.get(p.transport_at..end).unwrap_or_default();
        let mut b = IdentityBytes { bytes: [0; BUFFER], len: 0 };
        match self.fields {
            IdentityFields::Full { addresses, ports, ident } => {
                full(&mut b, p, transport, addresses, ports, ident);
            }
            IdentityFields::Mask(mask) => masked(&mut b, p, transport, mask),
        }
        let seed = match direction {
            None => 0,
            Some(Direction::Up) => 1,
            Some(Direction::Down) => 2,
        };
        Some(XxHash3_64::oneshot_with_seed(seed, &b.bytes[..b.len]))
    }
}

struct IdentityBytes {
    bytes: [u8; BUFFER],
    len: usize,
}

impl IdentityBytes {
    /// Appends as much of `part` as fits.
    #[inline]
    fn put(&mut self, part: &[u8]) {
        let n = part.len().min(BUFFER - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&part[..n]);
        self.len += n;
    }

    /// Appends the first `N` bytes of `part`, or all if it is shorter. Nearly always all `N` bytes are
    /// present; the number of copied bytes is then a compile-time constant.
    #[inline]
    fn put_first<const N: usize>(&mut self, part: &[u8]) {
        match (part.first_chunk::<N>(), self.bytes.get_mut(self.len..self.len + N)) {
            (Some(whole), Some(to)) => {
                to.copy_from_slice(whole);
                self.len += N;
            }
            _ => self.put(&part[..part.len().min(N)]),
        }
    }
}

#[inline]
fn upto(s: &[u8], from: usize, to: usize) -> &[u8] {
    let to = to.min(s.len());
    s.get(from.min(to)..to).unwrap_or_default()
}

#[inline]
fn after(s: &[u8], from: usize) -> &[u8] {
    s.get(from..).unwrap_or_default()
}

#[inline]
fn full(b: &mut IdentityBytes, p: &IpPacket<'_>, t: &[u8], addresses: bool, ports: bool, ident: bool) {
    // Protocol, more-fragments flag, fragment offset, length.
    let fixed = u64::from(p.protocol) << 56
        | u64::from(p.more_fragments) << 48
        | u64::from(p.fragment_offset) << 32
        | u64::from(p.length);
    b.put_first::<8>(&fixed.to_be_bytes());
    if ident {
        b.put_first::<4>(&p.ident.to_be_bytes());
    }
    if addresses {
        b.put_first::<8>(p.addresses());
        b.put(after(p.addresses(), 8));
    }
    match p.protocol {
        _ if p.is_later_fragment() => b.put_first::<OTHER_PAYLOAD>(t),
        UDP => {
            if ports {
                b.put_first::<PORTS>(t);
            }
            // The length, but not the checksum.
            b.put_first::<2>(after(t, udp::LENGTH));
            b.put_first::<UDP_PAYLOAD>(after(t, udp::PAYLOAD));
        }
        TCP => {
            if ports {
                b.put_first::<PORTS>(t);
            }
            // Sequence, acknowledgement, offset, flags and window, but not the checksum; options and payload.
            b.put_first::<{ tcp::CHECKSUM - tcp::SEQUENCE }>(after(t, tcp::SEQUENCE));
            b.put(upto(t, tcp::OPTIONS, tcp_payload_at(t) + TCP_PAYLOAD));
        }
        _ => b.put_first::<OTHER_PAYLOAD>(t),
    }
}

/// Minimum offset of the payload of a TCP segment.
fn tcp_payload_at(segment: &[u8]) -> usize {
    tcp::header_length(segment).max(tcp::OPTIONS)
}

/// Bits of the CAIA tool's mask, as in its manual.
mod mask {
    pub(super) const SOURCE_ADDRESS: u32 = 1;
    pub(super) const DESTINATION_ADDRESS: u32 = 2;
    pub(super) const PROTOCOL: u32 = 4;
    pub(super) const IDENTIFICATION: u32 = 8;
    pub(super) const SOURCE_PORT: u32 = 16;
    pub(super) const DESTINATION_PORT: u32 = 32;
    pub(super) const TCP_SEQUENCE: u32 = 64;
    pub(super) const TCP_ACKNOWLEDGEMENT: u32 = 128;
    pub(super) const TCP_OFFSET_TO_WINDOW: u32 = 256;
    pub(super) const TCP_CHECKSUM_AND_URGENT: u32 = 512;
    pub(super) const UDP_LENGTH_AND_CHECKSUM: u32 = 1024;
    pub(super) const UDP_PAYLOAD: u32 = 2048;
    pub(super) const OTHER: u32 = 4096;
    pub(super) const TCP_PAYLOAD: u32 = 8192;
    pub(super) const TCP_OPTIONS: u32 = 16_384;
    /// Payload bytes of TCP and UDP, or the bytes after the IP header of other protocols.
    pub(super) const PAYLOAD: usize = 12;
    pub(super) const OTHER_PAYLOAD: usize = 20;
}

/// Appends the fields of a CAIA mask, with the bits and in the order of the tool's manual.
fn masked(b: &mut IdentityBytes, p: &IpPacket<'_>, t: &[u8], mask: u32) {
    let has = |bit: u32| mask & bit != 0;
    let (src, dst) = p.addresses().split_at(p.addresses().len() / 2);
    if has(mask::SOURCE_ADDRESS) {
        b.put(src);
    }
    if has(mask::DESTINATION_ADDRESS) {
        b.put(dst);
    }
    if has(mask::PROTOCOL) {
        b.put(&[p.protocol]);
    }
    if has(mask::IDENTIFICATION) {
        b.put(&p.ident.to_be_bytes());
    }
    // The ports of TCP and UDP are at the same offsets.
    if matches!(p.protocol, packet::TCP | packet::UDP) {
        if has(mask::SOURCE_PORT) {
            b.put(upto(t, tcp::SOURCE_PORT, tcp::DESTINATION_PORT));
        }
        if has(mask::DESTINATION_PORT) {
            b.put(upto(t, tcp::DESTINATION_PORT, PORTS));
        }
    }
    match p.protocol {
        TCP => {
            for (bit, from, to) in [
                (mask::TCP_SEQUENCE, tcp::SEQUENCE, tcp::ACKNOWLEDGEMENT),
                (mask::TCP_ACKNOWLEDGEMENT, tcp::ACKNOWLEDGEMENT, tcp::DATA_OFFSET),
                (mask::TCP_OFFSET_TO_WINDOW, tcp::DATA_OFFSET, tcp::CHECKSUM),
                (mask::TCP_CHECKSUM_AND_URGENT, tcp::CHECKSUM, tcp::OPTIONS),
                (mask::TCP_PAYLOAD, tcp_payload_at(t), tcp_payload_at(t) + mask::PAYLOAD),
                (mask::TCP_OPTIONS, tcp::OPTIONS, tcp_payload_at(t)),
            ] {
                if has(bit) {
                    b.put(upto(t, from, to));
                }
            }
        }
        UDP => {
            if has(mask::UDP_LENGTH_AND_CHECKSUM) {
                b.put(upto(t, udp::LENGTH, udp::PAYLOAD));
            }
            if has(mask::UDP_PAYLOAD) {
                b.put(upto(t, udp::PAYLOAD, udp::PAYLOAD + mask::PAYLOAD));
            }
        }
        _ if has(mask::OTHER) => b.put(upto(t, 0, mask::OTHER_PAYLOAD)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkType, decode};
    use proptest::prelude::*;

    fn udp(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut v = vec![0x45, 0, 0, 68, 0, 7, 0x40, 0, 64, 17, 1, 2, 10, 0, 0, 1, 10, 0, 0, 2];
        v.extend([0x13, 0x88, 0x13, 0x89, 0, 48, 3, 4]);
        v.extend(0..40);
        change(&mut v);
        v
    }

    fn id(bytes: &[u8], fields: IdentityFields, available: usize) -> Option<Identity> {
        let p = decode(LinkType::RAW, bytes, bytes.len() as u32).unwrap();
        IdentityRule { fields, available }.identify(&p, Some(Direction::Up))
    }

    #[test]
    fn what_the_path_rewrites_does_not_count() {
        let reference = id(&udp(|_| ()), IdentityFields::ALL, usize::MAX);
        for at in [1, 8, 10, 11, 26, 27] {
            assert_eq!(id(&udp(|v| v[at] ^= 0x55), IdentityFields::ALL, usize::MAX), reference, "byte {at}");
        }
        assert_eq!(id(&udp(|v| v[6] = 0), IdentityFields::ALL, usize::MAX), reference, "don't fragment");
        for at in [4, 5, 7, 12, 19, 20, 23, 28, 67] {
            assert_ne!(id(&udp(|v| v[at] ^= 0x55), IdentityFields::ALL, usize::MAX), reference, "byte {at}");
        }
    }

    #[test]
    fn translation_leaves_the_rest() {
        let nat = udp(|v| v[12..16].copy_from_slice(&[192, 0, 2, 9]));
        let port = udp(|v| v[12..16].copy_from_slice(&[192, 0, 2, 9]));
        let addresses = IdentityFields::Full { addresses: false, ports: true, ident: true };
        let plain = udp(|_| ());
        assert_eq!(id(&nat, addresses, usize::MAX), id(&plain, addresses, usize::MAX));
        assert_eq!(
            id(&port, IdentityFields::BEHIND_NAT, usize::MAX),
            id(&plain, IdentityFields::BEHIND_NAT, usize::MAX)
        );
        assert_ne!(id(&nat, IdentityFields::ALL, usize::MAX), id(&plain, IdentityFields::ALL, usize::MAX));
    }

    #[test]
    fn captures_cut_at_different_lengths_agree_on_what_both_hold() {
        let whole = udp(|_| ());
        let p = decode(LinkType::RAW, &whole[..52], 68).unwrap();
        let rule = IdentityRule { fields: IdentityFields::ALL, available: 52 };
        assert_eq!(rule.identify(&p, Some(Direction::Up)), id(&whole, IdentityFields::ALL, 52));
        assert!(rule.identify(&p, Some(Direction::Up)).is_some());
        let shorter = decode(LinkType::RAW, &whole[..40], 68).unwrap();
        assert_eq!(rule.identify(&shorter, Some(Direction::Up)), None);
    }

    #[test]
    fn the_two_ways_have_names_of_their_own() {
        let whole = udp(|_| ());
        let p = decode(LinkType::RAW, &whole, 68).unwrap();
        let names =
            [None, Some(Direction::Up), Some(Direction::Down)].map(|w| IdentityRule::WHOLE.identify(&p, w));
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
    }

    #[test]
    fn the_default_mask_sees_identification_but_not_payload() {
        let m = IdentityFields::Mask(63);
        let reference = id(&udp(|_| ()), m, usize::MAX);
        assert_eq!(id(&udp(|v| v[30] ^= 1), m, usize::MAX), reference);
        assert_ne!(id(&udp(|v| v[5] ^= 1), m, usize::MAX), reference);
        assert_ne!(id(&udp(|v| v[30] ^= 1), IdentityFields::Mask(3135), usize::MAX), reference);
        let translated = udp(|v| v[12] = 11);
        assert_eq!(
            id(&translated, IdentityFields::Mask(12), usize::MAX),
            id(&udp(|_| ()), IdentityFields::Mask(12), usize::MAX)
        );
    }

    /// Returns the byte ranges that affect the name, without those that determine the position of other
    /// bytes.
    fn named_by(packet: &[u8], fields: IdentityFields, available: usize) -> Vec<(usize, usize)> {
        let structure: &[usize] = if packet[0] >> 4 == 4 { &[0, 2, 3, 6, 7, 9] } else { &[0, 4, 5, 6] };
        let name = id(packet, fields, available);
        let mut stretches: Vec<(usize, usize)> = Vec::new();
        for at in (0..packet.len()).filter(|at| !structure.contains(at)) {
            let mut other = packet.to_vec();
            other[at] ^= 1;
            match stretches.last_mut() {
                _ if id(&other, fields, available) == name => {}
                Some((_, end)) if *end == at => *end += 1,
                _ => stretches.push((at, at + 1)),
            }
        }
        stretches
    }

    /// Builds an IPv4 packet of `protocol` with this number of bytes after its header.
    fn ipv4(protocol: u8, bytes: u8) -> Vec<u8> {
        let mut v = vec![0x45, 0, 0, 20 + bytes, 0, 7, 0, 0, 64, protocol, 1, 2, 10, 0, 0, 1, 10, 0, 0, 2];
        v.extend(0..bytes);
        v
    }

    /// Builds a TCP segment with 12 bytes of options and 30 bytes of payload.
    fn tcp_segment() -> Vec<u8> {
        let mut v = ipv4(TCP, 62);
        v[32] = 8 << 4;
        v
    }

    #[test]
    fn every_field_names_by_its_bytes() {
        const ALL: usize = usize::MAX;
        let full = |addresses, ports, ident| IdentityFields::Full { addresses, ports, ident };
        let (udp, tcp, icmp) = (udp(|_| ()), tcp_segment(), ipv4(1, 60));
        assert_eq!(named_by(&udp, IdentityFields::ALL, ALL), [(4, 6), (12, 26), (28, 68)]);
        assert_eq!(named_by(&tcp, IdentityFields::ALL, ALL), [(4, 6), (12, 36), (40, 72)]);
        assert_eq!(named_by(&icmp, IdentityFields::ALL, ALL), [(4, 6), (12, 60)]);
        assert_eq!(named_by(&tcp, IdentityFields::ALL, 46), [(4, 6), (12, 36), (40, 46)]);
        assert_eq!(named_by(&udp, IdentityFields::ALL, 32), [(4, 6), (12, 26), (28, 32)]);
        assert_eq!(named_by(&udp, full(false, true, true), ALL), [(4, 6), (20, 26), (28, 68)]);
        assert_eq!(named_by(&udp, full(false, false, true), ALL), [(4, 6), (24, 26), (28, 68)]);
        assert_eq!(named_by(&tcp, full(true, false, false), ALL), [(12, 20), (24, 36), (40, 72)]);
        let mut fragment = udp.clone();
        fragment[7] = 1;
        assert_eq!(named_by(&fragment, IdentityFields::ALL, ALL), [(4, 6), (12, 60)]);
        let mut v6 = vec![0x60, 0, 0, 0, 0, 48, UDP, 64];
        v6.extend((0..80).map(|i| i * 3));
        assert_eq!(named_by(&v6, IdentityFields::ALL, ALL), [(8, 46), (48, 88)]);

        let masks = |packet: &[u8]| -> Vec<_> {
            (0..15)
                .map(|bit| named_by(packet, IdentityFields::Mask(1 << bit), ALL).first().copied())
                .collect()
        };
        let head = [Some((12, 16)), Some((16, 20)), None, Some((4, 6))];
        let ports = [Some((20, 22)), Some((22, 24))];
        let of_tcp = [(24, 28), (28, 32), (32, 36), (36, 40)].map(Some);
        let tcp_data = [None, None, None, Some((52, 64)), Some((40, 52))];
        assert_eq!(masks(&tcp), [&head[..], &ports, &of_tcp, &tcp_data].concat());
        let udp_data = [Some((24, 28)), Some((28, 40)), None, None, None];
        assert_eq!(masks(&udp), [&head[..], &ports, &[None; 4], &udp_data].concat());
        assert_eq!(masks(&icmp), [&head[..], &[None; 8], &[Some((20, 40)), None, None]].concat());
    }

    #[test]
    fn protocol_length_and_fragments_make_names() {
        let icmp = ipv4(1, 80);
        let change = |at: usize, to: u8| {
            let mut v = icmp.clone();
            v[at] = to;
            v
        };
        for (at, to) in [(9, 89), (3, 99), (6, 0x20), (7, 1)] {
            let names = [&icmp, &change(at, to)].map(|v| id(v, IdentityFields::ALL, usize::MAX));
            assert_ne!(names[0], names[1], "byte {at}");
        }
        let names = |mask| [&icmp, &change(9, 89)].map(|v| id(v, IdentityFields::Mask(mask), usize::MAX));
        assert!(names(4)[0] != names(4)[1] && names(3)[0] == names(3)[1]);
    }

    #[test]
    fn as_much_as_a_name_needs_must_be_captured() {
        let mut v = ipv4(17, 0);
        (v[2], v[3]) = (1, 44);
        v.extend((0..280_u16).map(|i| i as u8));
        let name = |captured: usize, available: usize| {
            let p = decode(LinkType::RAW, &v[..captured], 300).unwrap();
            IdentityRule { fields: IdentityFields::ALL, available }.identify(&p, None)
        };
        assert_eq!(name(180, usize::MAX), name(300, usize::MAX));
        assert!(name(180, usize::MAX).is_some() && name(179, usize::MAX).is_none());
        assert!(name(100, 100).is_some() && name(99, 100).is_none());
        assert_eq!(name(100, 100), name(300, 100));
    }

    #[test]
    fn a_salt_hides_names_and_keeps_them_apart() {
        assert_eq!(salted(1, 5), salted(1, 5));
        assert!(salted(1, 5) != salted(2, 5) && salted(1, 5) != salted(1, 6));
    }

    proptest! {
        /// The name depends on nothing that a translator or routers rewrite, and on everything else.
        #[test]
        fn no_translation_changes_a_name(
            source: [u8; 4], target: [u8; 4], ports: [u8; 4], ttl in 1u8..=255, tos: u8, sums: [u8; 2], number: u16, at in 28usize..68,
        ) {
            let plain = udp(|v| v[4..6].copy_from_slice(&number.to_be_bytes()));
            let mut far = plain.clone();
            far[1] = tos;
            far[8] = ttl;
            far[10..12].copy_from_slice(&sums);
            far[12..16].copy_from_slice(&source);
            far[16..20].copy_from_slice(&target);
            far[20..24].copy_from_slice(&ports);
            far[26..28].copy_from_slice(&sums);
            let name = id(&plain, IdentityFields::BEHIND_NAT, usize::MAX);
            prop_assert_eq!(id(&far, IdentityFields::BEHIND_NAT, usize::MAX), name);
            far[at] ^= 1;
            prop_assert_ne!(id(&far, IdentityFields::BEHIND_NAT, usize::MAX), name);
        }

        #[test]
        fn any_packet_can_be_named(mut data in prop::collection::vec(any::<u8>(), 20..160), available in 0usize..200, mask: u32) {
            data[0] = 0x45;
            if let Ok(p) = decode(LinkType::RAW, &data, data.len() as u32) {
                for fields in [IdentityFields::ALL, IdentityFields::BEHIND_NAT, IdentityFields::Mask(mask)] {
                    let _ = IdentityRule { fields, available }.identify(&p, None);
                }
            }
        }
    }
}
