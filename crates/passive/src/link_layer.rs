//! [`LinkType`]: finds the IP packet in a captured frame.

mod ieee802_11;

/// Reason why a frame does not contain a usable packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Skip {
    /// The frame contains no IP packet, but ARP, LLDP, a PPP control protocol or the like.
    #[error("not IP")]
    NotIp,
    /// The snap length cut the frame before the end of its headers.
    #[error("cut before the end of its headers")]
    Truncated,
    /// Length or version fields are contradictory.
    #[error("malformed")]
    Malformed,
    /// The link type is not supported.
    #[error("unknown link type")]
    UnknownLink,
}

/// Link type of a capture, as numbered by the tcpdump group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: a protocol family in the byte order of the capturing host.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet, with any VLAN tags, PPPoE or MPLS inside.
    pub const ETHERNET: LinkType = LinkType(1);
    /// PPP, with or without the HDLC-like address and control bytes.
    pub const PPP: LinkType = LinkType(9);
    /// [`Self::RAW`] as numbered on some BSD systems.
    pub const RAW_BSD: LinkType = LinkType(12);
    /// [`Self::RAW`] as numbered on OpenBSD.
    pub const RAW_OPENBSD: LinkType = LinkType(14);
    /// PPP in HDLC-like framing.
    pub const PPP_HDLC: LinkType = LinkType(50);
    /// PPPoE session frames without the Ethernet header.
    pub const PPP_ETHER: LinkType = LinkType(51);
    /// IP packet without a link-layer header.
    pub const RAW: LinkType = LinkType(101);
    /// Cisco's HDLC: address, control, EtherType.
    pub const C_HDLC: LinkType = LinkType(104);
    /// IEEE 802.11.
    pub const IEEE802_11: LinkType = LinkType(105);
    /// OpenBSD loopback: a protocol family in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux cooked capture, version 1.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// IEEE 802.11 after a Prism header.
    pub const PRISM: LinkType = LinkType(119);
    /// IEEE 802.11 after a radiotap header.
    pub const RADIOTAP: LinkType = LinkType(127);
    /// IEEE 802.11 after an AVS header.
    pub const AVS: LinkType = LinkType(163);
    /// PPP after a byte with the direction, as written by pppd.
    pub const PPP_PPPD: LinkType = LinkType(166);
    /// IEEE 802.11 after a PPI header.
    pub const PPI: LinkType = LinkType(192);
    /// PPP after a byte with the direction.
    pub const PPP_WITH_DIRECTION: LinkType = LinkType(204);
    /// IPv4 packet without a link-layer header.
    pub const IPV4: LinkType = LinkType(228);
    /// IPv6 packet without a link-layer header.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux cooked capture, version 2 (`tcpdump -i any`).
    pub const LINUX_SLL2: LinkType = LinkType(276);

    /// True if [`decode`](super::decode) supports this link type.
    pub fn is_supported(self) -> bool {
        !matches!(find_network_layer(self, &[]), Err(Skip::UnknownLink))
    }
}

/// EtherTypes.
pub(super) mod ethertype {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const IPV6: u16 = 0x86dd;
    pub(super) const VLAN: u16 = 0x8100;
    pub(super) const SERVICE_VLAN: u16 = 0x88a8;
    pub(super) const OLD_SERVICE_VLAN: u16 = 0x9100;
    pub(super) const PPPOE_SESSION: u16 = 0x8864;
    pub(crate) const MPLS: u16 = 0x8847;
    pub(super) const MPLS_MULTICAST: u16 = 0x8848;
    /// Ethernet frame in a tunnel.
    pub(super) const BRIDGED: u16 = 0x6558;
    /// Smallest EtherType; a lower value is the length of an IEEE 802.3 frame.
    pub(super) const LEAST: u16 = 1536;
}

/// Protocol numbers of PPP.
mod ppp_protocol {
    pub(super) const IPV4: u16 = 0x0021;
    pub(super) const IPV6: u16 = 0x0057;
}

/// Protocol families of BSD loopback headers. The value for IPv6 differs between systems.
mod family {
    pub(super) const INET: u32 = 2;
    pub(super) const INET6: [u32; 4] = [10, 24, 28, 30];
}

/// Offset of the EtherType in an Ethernet header.
const ETHERNET_ADDRESSES: usize = 12;
/// Length of an Ethernet header.
const ETHERNET_HEADER: usize = ETHERNET_ADDRESSES + ETHERTYPE;
/// Offset of the EtherType in a Linux cooked header, version 1.
const SLL_TYPE_AT: usize = 14;
/// Length of a Linux cooked header, version 2.
const SLL2_HEADER: usize = 20;
/// Length of an EtherType.
const ETHERTYPE: usize = 2;
/// Length of a PPPoE session header.
const PPPOE_HEADER: usize = 6;
/// Length of an MPLS label.
const MPLS_LABEL: usize = 4;
/// Length of a pseudowire's control word.
const CONTROL_WORD: usize = 4;
/// LLC and SNAP header of an encapsulated EtherType (RFC 1042), without the EtherType.
const SNAP: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];
/// Address and control bytes of PPP in HDLC-like framing (RFC 1662 §3.1).
const HDLC: [u8; 2] = [0xff, 0x03];
/// Maximum number of tags and labels of a frame.
const MAX_TAGS: usize = 8;
const MAX_LABELS: usize = 16;

/// Protocol of the network layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    V4,
    V6,
    /// IPv4 or IPv6, distinguished by the version in the first four bits.
    ByVersion,
}

/// Protocol of the network layer, and its offset in the frame.
pub(super) type NetworkLayer = Result<(Network, usize), Skip>;

/// Returns the IP packet of a frame with IPv4 directly in Ethernet, and its offset: a fast path for the most frequent
/// frames. `None` for other frames.
#[inline]
pub(super) fn plain_ipv4(link: LinkType, data: &[u8]) -> Option<(&[u8], usize)> {
    match data.split_at_checked(ETHERNET_HEADER) {
        Some(([.., 0x08, 0x00], ip)) if link == LinkType::ETHERNET => Some((ip, ETHERNET_HEADER)),
        _ => None,
    }
}

/// Finds the network layer of a frame.
pub(super) fn find_network_layer(link: LinkType, data: &[u8]) -> NetworkLayer {
    match link {
        LinkType::ETHERNET => after_ethertype(data, ETHERNET_ADDRESSES),
        LinkType::LINUX_SLL => after_ethertype(data, SLL_TYPE_AT),
        // The protocol is the first field of the header.
        LinkType::LINUX_SLL2 => after_tags(data, SLL2_HEADER, be16(data, 0)?),
        LinkType::PPP | LinkType::PPP_HDLC => after_ppp(data, 0),
        LinkType::PPP_ETHER => after_ppp(data, PPPOE_HEADER),
        LinkType::PPP_PPPD | LinkType::PPP_WITH_DIRECTION => after_ppp(data, 1),
        LinkType::C_HDLC => after_ethertype(data, 2),
        LinkType::IEEE802_11 | LinkType::RADIOTAP | LinkType::PRISM | LinkType::AVS | LinkType::PPI => {
            ieee802_11::find(link, data)
        }
        LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD => Ok((Network::ByVersion, 0)),
        LinkType::IPV4 => Ok((Network::V4, 0)),
        LinkType::IPV6 => Ok((Network::V6, 0)),
        LinkType::NULL | LinkType::LOOP => {
            let word = data.first_chunk::<4>().ok_or(Skip::Truncated)?;
            // Accept either byte order: files do not reliably record that of the capturing host.
            match u32::from_le_bytes(*word).min(u32::from_be_bytes(*word)) {
                family::INET => Ok((Network::V4, word.len())),
                f if family::INET6.contains(&f) => Ok((Network::V6, word.len())),
                _ => Err(Skip::NotIp),
            }
        }
        _ => Err(Skip::UnknownLink),
    }
}

fn be16(data: &[u8], at: usize) -> Result<u16, Skip> {
    let word = data.get(at..).and_then(|b| b.first_chunk()).ok_or(Skip::Truncated)?;
    Ok(u16::from_be_bytes(*word))
}

/// Finds the network layer by the EtherType at `at`.
fn after_ethertype(data: &[u8], at: usize) -> NetworkLayer {
    after_tags(data, at + ETHERTYPE, be16(data, at)?)
}

/// Finds the network layer after an EtherType, through any VLAN tags.
fn after_tags(data: &[u8], mut at: usize, mut kind: u16) -> NetworkLayer {
    use ethertype::{OLD_SERVICE_VLAN, SERVICE_VLAN, VLAN};
    for _ in 0..MAX_TAGS {
        if !matches!(kind, VLAN | SERVICE_VLAN | OLD_SERVICE_VLAN) {
            return by_ethertype(data, kind, at);
        }
        kind = be16(data, at + ETHERTYPE)?;
        at += 2 * ETHERTYPE;
    }
    Err(Skip::Malformed)
}

fn by_ethertype(data: &[u8], kind: u16, at: usize) -> NetworkLayer {
    match kind {
        ethertype::IPV4 => Ok((Network::V4, at)),
        ethertype::IPV6 => Ok((Network::V6, at)),
        ethertype::PPPOE_SESSION => after_ppp(data, at + PPPOE_HEADER),
        ethertype::MPLS | ethertype::MPLS_MULTICAST => after_labels(data, at),
        0..ethertype::LEAST => after_llc(data, at),
        _ => Err(Skip::NotIp),
    }
}

/// Finds the network layer after an LLC and SNAP header that begins at `at`.
pub(super) fn after_llc(data: &[u8], at: usize) -> NetworkLayer {
    if data.get(at..at + SNAP.len()) != Some(&SNAP) {
        return Err(Skip::NotIp);
    }
    let at = at + SNAP.len();
    match be16(data, at)? {
        ethertype::IPV4 => Ok((Network::V4, at + ETHERTYPE)),
        ethertype::IPV6 => Ok((Network::V6, at + ETHERTYPE)),
        _ => Err(Skip::NotIp),
    }
}

/// Finds the network layer in the contents of a tunnel, which begin at `at` and have the EtherType `kind`.
pub(super) fn after_inner_ethertype(data: &[u8], kind: u16, at: usize) -> NetworkLayer {
    match kind {
        ethertype::BRIDGED => after_ethertype(data, at + ETHERNET_ADDRESSES),
        kind => after_tags(data, at, kind),
    }
}

fn after_ppp(data: &[u8], mut at: usize) -> NetworkLayer {
    if data.get(at..at + HDLC.len()) == Some(&HDLC) {
        at += HDLC.len();
    }
    let first = *data.get(at).ok_or(Skip::Truncated)?;
    // An odd first byte is a protocol field compressed to one byte (RFC 1661 §6.5).
    let (protocol, at) = if first & 1 == 1 { (first.into(), at + 1) } else { (be16(data, at)?, at + 2) };
    match protocol {
        ppp_protocol::IPV4 => Ok((Network::V4, at)),
        ppp_protocol::IPV6 => Ok((Network::V6, at)),
        _ => Err(Skip::NotIp),
    }
}

fn after_labels(data: &[u8], mut at: usize) -> NetworkLayer {
    for _ in 0..MAX_LABELS {
        // The lowest bit of the third byte marks the bottom of the stack (RFC 3032 §2.1).
        let is_bottom = data.get(at + 2).ok_or(Skip::Truncated)? & 1 == 1;
        at += MPLS_LABEL;
        if is_bottom {
            // A zero first nibble is a pseudowire control word; an Ethernet frame follows (RFC 4448).
            return match data.get(at).ok_or(Skip::Truncated)? >> 4 {
                0 => after_ethertype(data, at + CONTROL_WORD + ETHERNET_ADDRESSES),
                _ => Ok((Network::ByVersion, at)),
            };
        }
    }
    Err(Skip::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(rest: &[u8]) -> NetworkLayer {
        find_network_layer(LinkType::ETHERNET, &[&[0; ETHERNET_ADDRESSES][..], rest].concat())
    }

    #[test]
    fn what_follows_a_length_is_ip_if_a_snap_header_says_so() {
        let snap = [0, 28, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45];
        assert_eq!(ethernet(&snap), Ok((Network::V4, ETHERNET_HEADER + 8)));
        // Spanning tree (LLC 42 42 03), with any payload.
        let spanning_tree = [0, 28, 0x42, 0x42, 3, 0, 0, 0, 8, 0, 0x45];
        assert_eq!(ethernet(&spanning_tree), Err(Skip::NotIp));
    }

    #[test]
    fn behind_labels_a_first_nibble_of_zero_is_a_control_word() {
        let labelled = |first: u8| {
            let pseudowire = [[first, 0, 0, 1].as_slice(), &[0; ETHERNET_ADDRESSES], &[8, 0, 0x45]].concat();
            ethernet(&[&[0x88, 0x47, 0, 0, 0x11, 64][..], &pseudowire].concat())
        };
        let behind = ETHERNET_HEADER + MPLS_LABEL;
        assert_eq!(labelled(0x60), Ok((Network::ByVersion, behind)));
        assert_eq!(labelled(0x45), Ok((Network::ByVersion, behind)));
        assert_eq!(labelled(0x0f), Ok((Network::V4, behind + CONTROL_WORD + ETHERNET_HEADER)));
    }
}
