//! [`Foreign`]: counts frames whose contents are not analysed, by their type.

use super::link_layer::{LinkType, Skip};
use super::packet::{ESP, GRE, IpPacket, UDP};
use serde::{Deserialize, Serialize};

/// Name of the type of frames that the snap length cut before the end of their headers.
const CUT: &str = "cut before the end of the headers";
/// Maximum number of types that are distinguished.
const MAX_TYPES: usize = 32;

/// Numbers of frames and packets that were not analysed, by type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreign {
    types: Vec<(String, u64)>,
    others: u64,
}

impl Foreign {
    /// Counts a frame without a usable packet.
    #[cold]
    pub fn skip(&mut self, link: LinkType, data: &[u8], skip: Skip) {
        match skip {
            Skip::Truncated => self.count(CUT, 1),
            Skip::Malformed => self.count("malformed", 1),
            Skip::UnknownLink => self.count(&format!("link type {}", link.0), 1),
            Skip::NotIp => self.count(&name(link, data), 1),
        }
    }

    /// Counts a tunnel packet whose contents cannot be read.
    #[cold]
    pub fn hidden(&mut self, p: &IpPacket<'_>) {
        match p.protocol {
            ESP => self.count("ESP, encrypted", 1),
            GRE => {
                let kind = p.transport().get(2..4).map_or(0, |k| u16::from_be_bytes([k[0], k[1]]));
                self.count(&format!("GRE with type 0x{kind:04x}"), 1);
            }
            UDP => {}
            protocol => self.count(&format!("IP protocol {protocol}"), 1),
        }
    }

    fn count(&mut self, name: &str, n: u64) {
        if let Some((_, count)) = self.types.iter_mut().find(|(known, _)| known == name) {
            *count = count.saturating_add(n);
        } else if self.types.len() < MAX_TYPES {
            self.types.push((name.to_owned(), n));
        } else {
            self.others = self.others.saturating_add(n);
        }
    }

    /// Adds the counts in `other`.
    pub fn add(&mut self, other: &Foreign) {
        other.types.iter().for_each(|(name, n)| self.count(name, *n));
        self.others = self.others.saturating_add(other.others);
    }

    /// Number of frames that the snap length cut before the end of their headers.
    pub fn truncated(&self) -> u64 {
        self.types.iter().find(|(name, _)| name == CUT).map_or(0, |(_, n)| *n)
    }

    /// Returns the types, each with its number of frames, most frequent first.
    pub fn list(&self) -> Vec<(&str, u64)> {
        let mut list: Vec<(&str, u64)> = self.types.iter().map(|(name, n)| (&**name, *n)).collect();
        if self.others > 0 {
            list.push(("others", self.others));
        }
        list.sort_by_key(|(name, n)| (core::cmp::Reverse(*n), *name));
        list
    }

    /// Describes the most frequent types: `3 ARP, 2 LLDP`; `None` without frames.
    pub fn describe(&self) -> Option<String> {
        const SHOWN: usize = 4;
        let list = self.list();
        let rest: u64 = list.iter().skip(SHOWN).map(|(_, n)| n).sum();
        let mut text: Vec<String> = list.iter().take(SHOWN).map(|(name, n)| format!("{n} {name}")).collect();
        if rest > 0 {
            text.push(format!("{rest} others"));
        }
        (!text.is_empty()).then(|| text.join(", "))
    }
}

/// Returns a name for the contents of a frame without an IP packet.
fn name(link: LinkType, data: &[u8]) -> String {
    let at = match link {
        LinkType::ETHERNET => 12,
        LinkType::LINUX_SLL => 14,
        LinkType::LINUX_SLL2 => 0,
        LinkType::C_HDLC => 2,
        LinkType::IEEE802_11 | LinkType::RADIOTAP | LinkType::PRISM | LinkType::AVS | LinkType::PPI => {
            return "802.11 without readable data".to_owned();
        }
        LinkType::PPP
        | LinkType::PPP_HDLC
        | LinkType::PPP_ETHER
        | LinkType::PPP_PPPD
        | LinkType::PPP_WITH_DIRECTION => return "PPP control".to_owned(),
        _ => return "not IP".to_owned(),
    };
    let word = |at: usize| data.get(at..at + 2).map_or(0, |w| u16::from_be_bytes([w[0], w[1]]));
    let mut at = at;
    let mut kind = word(at);
    for _ in 0..4 {
        if !matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
            break;
        }
        at += 4;
        kind = word(at);
    }
    let known = match kind {
        0x0806 => "ARP",
        0x8035 => "RARP",
        0x88cc => "LLDP",
        0x888e => "EAPOL",
        0x8863 => "PPPoE discovery",
        0x8864 => "PPP control",
        0x88f7 => "PTP",
        0x8809 => "slow protocols (LACP)",
        0x8902 => "CFM",
        0x892f => "HSR",
        0x88e5 => "MACsec",
        0x9000 => "loopback test",
        0x8137 => "IPX",
        0x8899 => "Realtek",
        0x0000..0x0600 => "802.3 with LLC",
        kind => return format!("EtherType 0x{kind:04x}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names_and_the_most_frequent_are_listed() {
        let mut foreign = Foreign::default();
        let ethernet = |kind: [u8; 2]| [&[0; 12][..], &kind, &[0; 8]].concat();
        for kind in [[8, 6], [8, 6], [0x88, 0xcc], [0x12, 0x34], [0, 40], [0x88, 0xf7]] {
            foreign.skip(LinkType::ETHERNET, &ethernet(kind), Skip::NotIp);
        }
        foreign.skip(LinkType(147), &[], Skip::UnknownLink);
        assert_eq!(foreign.list()[0], ("ARP", 2));
        let text = foreign.describe().unwrap();
        assert!(text.starts_with("2 ARP, ") && text.ends_with(", 2 others"), "{text}");
        let tagged = [&[0; 12][..], &[0x81, 0, 0, 5, 8, 6]].concat();
        assert_eq!(name(LinkType::ETHERNET, &tagged), "ARP");
        assert_eq!(name(LinkType::LINUX_SLL2, &[0x88, 0xcc]), "LLDP");
        assert_eq!(Foreign::default().describe(), None);
    }

    #[test]
    fn types_are_bounded() {
        let mut foreign = Foreign::default();
        (0..100).for_each(|n| foreign.skip(LinkType(500 + n), &[], Skip::UnknownLink));
        assert_eq!(foreign.list().len(), MAX_TYPES + 1);
        assert_eq!(foreign.list()[0], ("others", 100 - MAX_TYPES as u64));
    }
}
