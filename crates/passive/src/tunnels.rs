//! Packets inside packets: tunnels of IP in IP, GRE, VXLAN, Geneve, GTP-U, Teredo, MPLS in UDP (RFC 7510), and ESP
//! without encryption.

use super::Skip;
use super::link_layer::{LinkType, Network, after_inner_ethertype, ethertype, find_network_layer};
use super::packet::{self, ESP, GRE, IPV4_INSIDE, IPV6_INSIDE, IpPacket, TCP, UDP, udp};

/// Maximum number of nested tunnels.
const MAX_DEPTH: usize = 6;

/// UDP ports of tunnels.
mod port {
    pub(super) const VXLAN: u16 = 4789;
    /// Port of VXLAN in Linux before one was assigned.
    pub(super) const OLD_VXLAN: u16 = 8472;
    pub(super) const VXLAN_GPE: u16 = 4790;
    pub(super) const GENEVE: u16 = 6081;
    pub(super) const GTP_U: u16 = 2152;
    pub(super) const ESP: u16 = 4500;
    pub(super) const TEREDO: u16 = 3544;
    pub(super) const MPLS: u16 = 6635;
}

/// Flags and protocol types of GRE (RFC 2784, RFC 2890, RFC 2637) and ERSPAN (draft-foschiano-erspan).
mod gre {
    pub(super) const CHECKSUM: u16 = 0x8000;
    pub(super) const ROUTING: u16 = 0x4000;
    pub(super) const KEY: u16 = 0x2000;
    pub(super) const SEQUENCE: u16 = 0x1000;
    /// Flag: version 1 has an acknowledgement number.
    pub(super) const ACKNOWLEDGEMENT: u16 = 0x0080;
    pub(super) const VERSION: u16 = 7;
    pub(super) const ERSPAN: u16 = 0x88be;
    pub(super) const ERSPAN_III: u16 = 0x22eb;
    pub(super) const PPP: u16 = 0x880b;
    pub(super) const WCCP: u16 = 0x883e;
}

impl<'a> IpPacket<'a> {
    /// Returns the packet that this one carries in a tunnel; `None` if it carries none that is understood.
    #[inline]
    pub fn inside(&self) -> Option<IpPacket<'a>> {
        match self.protocol {
            TCP => None,
            UDP => {
                self.ports().filter(|(a, b)| is_tunnel(*a) || is_tunnel(*b)).and_then(|_| self.inside_udp())
            }
            IPV4_INSIDE | IPV6_INSIDE | GRE | ESP => self.inside_ip(),
            _ => None,
        }
    }

    /// Returns the innermost packet; the packet itself if it carries none.
    #[inline]
    pub fn innermost(self) -> IpPacket<'a> {
        match self.inside() {
            None => self,
            Some(inner) => descend(inner),
        }
    }

    #[cold]
    fn inside_ip(&self) -> Option<IpPacket<'a>> {
        if self.is_fragment() {
            return None;
        }
        match self.protocol {
            IPV4_INSIDE => self.at(Network::V4, 0),
            IPV6_INSIDE => self.at(Network::V6, 0),
            GRE => self.inside_gre(),
            _ => self.inside_esp(self.transport_at),
        }
        .ok()
    }

    #[cold]
    fn inside_udp(&self) -> Option<IpPacket<'a>> {
        if self.is_fragment() {
            return None;
        }
        let (from, to) = self.ports()?;
        let has = |port: u16| from == port || to == port;
        let payload = self.transport().get(udp::PAYLOAD..)?;
        let first = *payload.first()?;
        match () {
            // The flag I: the network identifier is valid (RFC 7348 §5).
            () if (has(port::VXLAN) || has(port::OLD_VXLAN)) && first & 8 != 0 => {
                self.ethernet(udp::PAYLOAD + 8)
            }
            () if has(port::VXLAN_GPE) => match payload.get(3)? {
                1 => self.at(Network::V4, udp::PAYLOAD + 8),
                2 => self.at(Network::V6, udp::PAYLOAD + 8),
                3 => self.ethernet(udp::PAYLOAD + 8),
                _ => return None,
            },
            // Version 0, length of the options in words, control flag (RFC 8926 §3.4).
            () if has(port::GENEVE) && first >> 6 == 0 && payload.get(1)? & 0x80 == 0 => {
                let at = udp::PAYLOAD + 8 + 4 * usize::from(first & 0x3f);
                self.of_type(u16::from_be_bytes([*payload.get(2)?, *payload.get(3)?]), at)
            }
            () if has(port::GTP_U) => self.at(Network::ByVersion, udp::PAYLOAD + gtp_header(payload)?),
            () if has(port::ESP) && payload.get(..4)? != [0; 4] => {
                self.inside_esp(self.transport_at + udp::PAYLOAD)
            }
            () if has(port::TEREDO) && first >> 4 == 6 => self.at(Network::V6, udp::PAYLOAD),
            () if has(port::MPLS) => self.of_type(ethertype::MPLS, udp::PAYLOAD),
            () => return None,
        }
        .ok()
    }

    /// Decodes the IP packet at `at`, counted from the transport header.
    fn at(&self, network: Network, at: usize) -> Result<IpPacket<'a>, Skip> {
        packet::decode_at(network, self.ip, self.transport_at + at, self.length)
    }

    fn ethernet(&self, at: usize) -> Result<IpPacket<'a>, Skip> {
        let at = self.transport_at + at;
        let (network, inner) =
            find_network_layer(LinkType::ETHERNET, self.ip.get(at..).ok_or(Skip::Truncated)?)?;
        packet::decode_at(network, self.ip, at + inner, self.length)
    }

    /// Decodes the packet of the EtherType `kind` at `at`, counted from the transport header.
    fn of_type(&self, kind: u16, at: usize) -> Result<IpPacket<'a>, Skip> {
        let at = self.transport_at + at;
        let (network, at) = after_inner_ethertype(self.ip, kind, at)?;
        packet::decode_at(network, self.ip, at, self.length)
    }

    fn inside_gre(&self) -> Result<IpPacket<'a>, Skip> {
        let h = self.transport();
        let [f0, f1, k0, k1] = *h.first_chunk::<4>().ok_or(Skip::Truncated)?;
        let (flags, kind) = (u16::from_be_bytes([f0, f1]), u16::from_be_bytes([k0, k1]));
        let has = |flag: u16| usize::from(flags & flag != 0) * 4;
        let mut at = 4 + has(gre::KEY) + has(gre::SEQUENCE);
        match flags & gre::VERSION {
            0 => at += has(gre::CHECKSUM | gre::ROUTING),
            1 => at += has(gre::ACKNOWLEDGEMENT),
            _ => return Err(Skip::Malformed),
        }
        match kind {
            // Type I has neither a sequence number nor a header of its own.
            gre::ERSPAN if flags & gre::SEQUENCE == 0 => self.ethernet(at),
            gre::ERSPAN => self.ethernet(at + 8),
            gre::ERSPAN_III => {
                // The flag O announces a sub-header of eight bytes.
                let last = *h.get(at + 11).ok_or(Skip::Truncated)?;
                self.ethernet(at + 12 + 8 * usize::from(last & 1))
            }
            gre::PPP => {
                let from = self.transport_at + at;
                let ppp = self.ip.get(from..).ok_or(Skip::Truncated)?;
                let (network, inner) = find_network_layer(LinkType::PPP, ppp)?;
                packet::decode_at(network, self.ip, from + inner, self.length)
            }
            // The version 2 of WCCP has a header of four bytes, which does not begin like IPv4.
            gre::WCCP => {
                let is_ip = h.get(at).is_some_and(|first| first >> 4 == 4);
                self.at(Network::V4, if is_ip { at } else { at + 4 })
            }
            _ => self.of_type(kind, at),
        }
    }

    /// Decodes the packet in ESP with NULL encryption (RFC 2410). It is recognised by a trailer with padding of 1, 2, 3
    /// … and a known protocol, for one of the usual lengths of the check value (RFC 5879).
    fn inside_esp(&self, header: usize) -> Result<IpPacket<'a>, Skip> {
        const HEADER: usize = 8;
        const CHECK_VALUES: [usize; 4] = [12, 16, 0, 32];
        let whole = self.ip.len() == self.length as usize;
        let body = self.ip.get(header + HEADER..).filter(|_| whole).ok_or(Skip::NotIp)?;
        for check in CHECK_VALUES {
            let Some([padded @ .., pad, next]) = body.len().checked_sub(check).and_then(|n| body.get(..n))
            else {
                continue;
            };
            let Some((inner, padding)) = padded.len().checked_sub((*pad).into()).map(|n| padded.split_at(n))
            else {
                continue;
            };
            let counts = padding.iter().zip(1u8..).all(|(byte, n)| *byte == n);
            let network = match (*next, inner.first().map(|first| first >> 4)) {
                (IPV4_INSIDE, Some(4)) => Network::V4,
                (IPV6_INSIDE, Some(6)) => Network::V6,
                _ => continue,
            };
            let from = header + HEADER;
            if counts
                && let Ok(found) = packet::decode_at(network, self.ip, from, (from + inner.len()) as u32)
                && found.length as usize == inner.len()
            {
                return Ok(found);
            }
        }
        Err(Skip::NotIp)
    }
}

#[inline]
fn is_tunnel(udp: u16) -> bool {
    matches!(
        udp,
        port::VXLAN
            | port::OLD_VXLAN
            | port::VXLAN_GPE
            | port::GENEVE
            | port::GTP_U
            | port::ESP
            | port::TEREDO
            | port::MPLS
    )
}

/// Returns the length of a GTP-U header before a packet (3GPP TS 29.281 §5.1); `None` if the message carries no packet.
fn gtp_header(h: &[u8]) -> Option<usize> {
    const PACKET: u8 = 255;
    let [flags, kind, ..] = *h.first_chunk::<8>()?;
    if flags >> 4 != 3 || kind != PACKET {
        return None;
    }
    if flags & 7 == 0 {
        return Some(8);
    }
    let mut at = 12;
    let mut next = *h.get(11)?;
    // Extension headers: length in words, contents, type of the next one.
    for _ in 0..MAX_DEPTH {
        if next == 0 || flags & 4 == 0 {
            return Some(at);
        }
        let length = 4 * usize::from(*h.get(at)?);
        if length == 0 {
            return None;
        }
        at += length;
        next = *h.get(at - 1)?;
    }
    None
}

#[cold]
fn descend(mut p: IpPacket<'_>) -> IpPacket<'_> {
    for _ in 0..MAX_DEPTH {
        match p.inside() {
            Some(inner) => p = inner,
            None => break,
        }
    }
    p
}

#[cfg(test)]
mod tests;
