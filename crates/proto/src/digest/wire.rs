//! Messages and their encoding. Every length is checked before anything is read or allocated.

use super::{MAX_ENTRIES, MAX_PREFIXES};
pub use crate::channel::WireError;
use crate::channel::{ChannelHello, put_text, text};
use crate::wire::Reader;
use core::net::{IpAddr, Ipv6Addr};
use jitlat_core::prefix::Prefix;
use jitlat_core::spec::Direction;
use jitlat_core::time::WallTime;
use jitlat_passive::{Identity, IdentityFields, IdentityRule, PacketPreview, PreviewLayer, Sides};

/// Magic number in the first message.
pub(crate) const MAGIC: [u8; 4] = *b"JLTD";
/// Maximum number of warnings in the last message.
const MAX_NOTES: usize = 16;
/// Encoding of an unknown time.
const UNKNOWN: i64 = i64::MIN;

/// The digest of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Capture time on the exporter's clock.
    pub at: WallTime,
    /// Salted hash that identifies the packet.
    pub id: Identity,
    /// Length of the IP packet, in bytes; below 2^31.
    pub length: u32,
    /// Direction of the packet.
    pub direction: Direction,
}

/// Request to start a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// Name of the interface; empty selects the first that is allowed.
    pub interface: String,
    /// Capture only packets of these hosts; empty: packets of all hosts.
    pub hosts: Vec<Prefix>,
    /// Number of bytes of each IP packet that its identity may depend on.
    pub available: u16,
    /// True to report the packets inside tunnels as well, until a rule has been received.
    pub opens_tunnels: bool,
}

/// Rule that selects packets and computes their identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestRule {
    /// Addresses of both sides, as seen by the exporter.
    pub sides: Sides,
    /// Rule for the identities of packets.
    pub identity: IdentityRule,
    /// Report only these protocols; empty: all.
    pub protocols: Vec<u8>,
    /// Report only this port; `None`: all.
    pub port: Option<u16>,
    /// True to exclude ICMP echo requests and replies.
    pub without_echoes: bool,
    /// True to report the packets inside tunnels instead of the tunnel packets.
    pub inside: bool,
}

/// Counts since the capture started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureTotals {
    /// Frames that were captured.
    pub frames: u64,
    /// Frames dropped because a buffer was full.
    pub drops: u64,
}

/// Packets in one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entries {
    /// Packets from which the collector decides how to match; sent until a rule has been received.
    Previews(Vec<PacketPreview>),
    /// Packets that match the rule.
    Digests(Vec<Digest>),
}

impl Entries {
    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        match self {
            Entries::Previews(g) => g.len(),
            Entries::Digests(d) => d.len(),
        }
    }

    /// True if there are no packets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Reason why an exporter refuses a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestRefusal {
    /// The exporter uses another version of the protocol.
    #[error("it speaks another version of the protocol")]
    Version,
    /// The key is missing or wrong.
    #[error("the key is missing or wrong")]
    Key,
    /// The interface does not exist or is not allowed.
    #[error("the interface does not exist or is not allowed")]
    Interface,
    /// Too many collectors.
    #[error("too many collectors")]
    Busy,
    /// Any other reason.
    #[error("it failed")]
    Failed,
}

impl DigestRefusal {
    const ALL: [DigestRefusal; 5] = [
        DigestRefusal::Version,
        DigestRefusal::Key,
        DigestRefusal::Interface,
        DigestRefusal::Busy,
        DigestRefusal::Failed,
    ];
}

/// A message, numbered as in `docs/protocols/digests.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DigestMessage {
    /// 1, in both directions: greeting.
    Hello(ChannelHello),
    /// 2, in both directions: proof of the key.
    Proof([u8; 32]),
    /// 3, to the exporter: start a capture.
    Listen(Listen),
    /// 4, from the exporter: the capture on this interface has started.
    Listening(String),
    /// 5, to the exporter: report packets by this rule.
    Rule(DigestRule),
    /// 6, from the exporter: report of packets.
    Report {
        /// Number of the first entry. Numbers that are missing between messages belong to entries dropped because a
        /// queue was full or the maximum rate was reached.
        first: u64,
        /// Time range that is completely reported, apart from dropped entries; `None` if no range is complete yet.
        covered: Option<(WallTime, WallTime)>,
        /// Counts of the capture so far.
        totals: CaptureTotals,
        /// Packets in this report.
        entries: Entries,
    },
    /// 7, to the exporter: keep-alive.
    Alive,
    /// 8, to the exporter: end the capture.
    Stop,
    /// 9, from the exporter: the last message.
    End {
        /// Number of entries created, including dropped ones.
        made: u64,
        /// Counts of the whole capture.
        totals: CaptureTotals,
        /// Warnings of the exporter.
        notes: Vec<String>,
    },
    /// 10, from the exporter: refusal.
    Refused(DigestRefusal, String),
}

fn bits(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
        IpAddr::V6(a) => a.octets(),
    }
}

fn address(r: &mut Reader<'_>) -> Result<IpAddr, WireError> {
    let a = Ipv6Addr::from(r.array::<16>()?);
    Ok(a.to_ipv4_mapped().map_or(IpAddr::V6(a), IpAddr::V4))
}

fn put_prefixes(out: &mut Vec<u8>, list: &[Prefix]) {
    let list = &list[..list.len().min(MAX_PREFIXES)];
    out.push(list.len() as u8);
    for prefix in list {
        let (address, length) = prefix.parts();
        out.push(if address.is_ipv4() { length + 96 } else { length });
        out.extend_from_slice(&bits(address));
    }
}

fn prefixes(r: &mut Reader<'_>) -> Result<Vec<Prefix>, WireError> {
    let count = usize::from(r.u8()?);
    if count > MAX_PREFIXES {
        return Err(WireError::Value("number of prefixes"));
    }
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, address) = (r.u8()?, Ipv6Addr::from(r.array::<16>()?));
        let prefix = match address.to_ipv4_mapped() {
            Some(v4) if length >= 96 => Prefix::new(v4.into(), length - 96),
            _ => Prefix::new(address.into(), length),
        };
        list.push(prefix.ok_or(WireError::Value("prefix length"))?);
    }
    Ok(list)
}

fn put_totals(out: &mut Vec<u8>, t: CaptureTotals) {
    out.extend_from_slice(&t.frames.to_be_bytes());
    out.extend_from_slice(&t.drops.to_be_bytes());
}

fn totals(r: &mut Reader<'_>) -> Result<CaptureTotals, WireError> {
    Ok(CaptureTotals { frames: r.u64()?, drops: r.u64()? })
}

const FIELDS_MASK: u8 = 0x80;

impl DigestMessage {
    /// Returns the message number.
    pub fn kind(&self) -> u8 {
        match self {
            DigestMessage::Hello(_) => ChannelHello::KIND,
            DigestMessage::Proof(_) => 2,
            DigestMessage::Listen(_) => 3,
            DigestMessage::Listening(_) => 4,
            DigestMessage::Rule(_) => 5,
            DigestMessage::Report { .. } => 6,
            DigestMessage::Alive => 7,
            DigestMessage::Stop => 8,
            DigestMessage::End { .. } => 9,
            DigestMessage::Refused(..) => 10,
        }
    }

    /// Appends the body of the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            DigestMessage::Hello(hello) => hello.encode(MAGIC, out),
            DigestMessage::Proof(proof) => out.extend_from_slice(proof),
            DigestMessage::Listen(l) => {
                put_text(out, &l.interface);
                put_prefixes(out, &l.hosts);
                out.extend_from_slice(&l.available.to_be_bytes());
                out.push(l.opens_tunnels.into());
            }
            DigestMessage::Listening(interface) => put_text(out, interface),
            DigestMessage::Rule(rule) => rule.encode(out),
            DigestMessage::Report { first, covered, totals, entries } => {
                out.extend_from_slice(&first.to_be_bytes());
                let (from, to) = covered.map_or((UNKNOWN, UNKNOWN), |(a, b)| (a.0, b.0));
                out.extend_from_slice(&from.to_be_bytes());
                out.extend_from_slice(&to.to_be_bytes());
                put_totals(out, *totals);
                entries.encode(out);
            }
            DigestMessage::Alive | DigestMessage::Stop => {}
            DigestMessage::End { made, totals, notes } => {
                out.extend_from_slice(&made.to_be_bytes());
                put_totals(out, *totals);
                let notes = &notes[..notes.len().min(MAX_NOTES)];
                out.push(notes.len() as u8);
                notes.iter().for_each(|n| put_text(out, n));
            }
            DigestMessage::Refused(why, text) => {
                out.push(DigestRefusal::ALL.iter().position(|r| r == why).unwrap_or(0) as u8);
                put_text(out, text);
            }
        }
    }

    /// Parses the body of message `kind`. Further bytes belong to a later version and are ignored.
    pub fn decode(kind: u8, body: &[u8]) -> Result<DigestMessage, WireError> {
        let r = &mut Reader::new(body);
        Ok(match kind {
            1 => DigestMessage::Hello(ChannelHello::decode(MAGIC, r)?),
            2 => DigestMessage::Proof(r.array()?),
            3 => DigestMessage::Listen(Listen {
                interface: text(r)?,
                hosts: prefixes(r)?,
                available: r.u16()?,
                // (collectors of earlier versions do not send the flags)
                opens_tunnels: r.u8().is_ok_and(|flags| flags & 1 != 0),
            }),
            4 => DigestMessage::Listening(text(r)?),
            5 => DigestMessage::Rule(DigestRule::decode(r)?),
            6 => {
                let first = r.u64()?;
                let (from, to) = (r.i64()?, r.i64()?);
                let covered = (from != UNKNOWN && to != UNKNOWN).then_some((WallTime(from), WallTime(to)));
                DigestMessage::Report { first, covered, totals: totals(r)?, entries: Entries::decode(r)? }
            }
            7 => DigestMessage::Alive,
            8 => DigestMessage::Stop,
            9 => {
                let (made, totals) = (r.u64()?, totals(r)?);
                let count = usize::from(r.u8()?).min(MAX_NOTES);
                let notes = (0..count).map(|_| text(r)).collect::<Result<_, _>>()?;
                DigestMessage::End { made, totals, notes }
            }
            10 => {
                let why =
                    DigestRefusal::ALL.get(usize::from(r.u8()?)).copied().unwrap_or(DigestRefusal::Failed);
                DigestMessage::Refused(why, text(r)?)
            }
            other => return Err(WireError::Unknown(other)),
        })
    }
}

impl DigestRule {
    fn encode(&self, out: &mut Vec<u8>) {
        put_prefixes(out, &self.sides.reference);
        put_prefixes(out, &self.sides.monitor);
        let (flags, mask) = match self.identity.fields {
            IdentityFields::Full { addresses, ports, ident } => {
                (u8::from(addresses) | u8::from(ports) << 1 | u8::from(ident) << 2, 0)
            }
            IdentityFields::Mask(mask) => (FIELDS_MASK, mask),
        };
        out.push(flags | u8::from(self.without_echoes) << 3 | u8::from(self.inside) << 4);
        out.extend_from_slice(&mask.to_be_bytes());
        let available = u16::try_from(self.identity.available).unwrap_or(u16::MAX);
        out.extend_from_slice(&available.to_be_bytes());
        out.extend_from_slice(&self.port.unwrap_or(0).to_be_bytes());
        let protocols = &self.protocols[..self.protocols.len().min(u8::MAX.into())];
        out.push(protocols.len() as u8);
        out.extend_from_slice(protocols);
    }

    fn decode(r: &mut Reader<'_>) -> Result<DigestRule, WireError> {
        let sides = Sides { reference: prefixes(r)?, monitor: prefixes(r)? };
        let (flags, mask, available) = (r.u8()?, r.u32()?, r.u16()?);
        let has = |bit: u8| flags & bit != 0;
        let fields = if has(FIELDS_MASK) {
            IdentityFields::Mask(mask)
        } else {
            IdentityFields::Full { addresses: has(1), ports: has(2), ident: has(4) }
        };
        let port = Some(r.u16()?).filter(|p| *p != 0);
        let count = usize::from(r.u8()?);
        Ok(DigestRule {
            sides,
            identity: IdentityRule { fields, available: available.into() },
            protocols: r.take(count)?.to_vec(),
            port,
            without_echoes: has(8),
            inside: has(16),
        })
    }
}

/// True if an entry at time `at` fits in a message whose times are relative to `base`.
pub(super) fn fits(base: WallTime, at: WallTime) -> bool {
    at.0.checked_sub(base.0).is_some_and(|d| i32::try_from(d).is_ok())
}

impl Entries {
    fn encode(&self, out: &mut Vec<u8>) {
        let (kind, base) = match self {
            Entries::Previews(g) => (0, g.first().map_or(0, |g| g.at.0)),
            Entries::Digests(d) => (1, d.first().map_or(0, |d| d.at.0)),
        };
        out.push(kind);
        out.extend_from_slice(&(self.len() as u16).to_be_bytes());
        out.extend_from_slice(&base.to_be_bytes());
        let delta = |at: WallTime| (at.0.wrapping_sub(base) as i32).to_be_bytes();
        match self {
            Entries::Previews(list) => {
                for g in list {
                    out.extend_from_slice(&delta(g.at));
                    out.extend_from_slice(&bits(g.src));
                    out.extend_from_slice(&bits(g.dst));
                    out.extend_from_slice(&[g.ttl, u8::from(g.ports.is_some()) | g.layer.bits() << 1]);
                    let (from, to) = g.ports.unwrap_or((0, 0));
                    out.extend_from_slice(&from.to_be_bytes());
                    out.extend_from_slice(&to.to_be_bytes());
                    g.names.iter().for_each(|n| out.extend_from_slice(&n.to_be_bytes()));
                }
            }
            Entries::Digests(list) => {
                for d in list {
                    out.extend_from_slice(&delta(d.at));
                    let direction = match d.direction {
                        Direction::Up => 1 << 31,
                        Direction::Down => 0,
                    };
                    out.extend_from_slice(&(d.length & (u32::MAX >> 1) | direction).to_be_bytes());
                    out.extend_from_slice(&d.id.to_be_bytes());
                }
            }
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Entries, WireError> {
        let (kind, count, base) = (r.u8()?, usize::from(r.u16()?), r.i64()?);
        if count > MAX_ENTRIES {
            return Err(WireError::Value("number of entries"));
        }
        let at = |r: &mut Reader<'_>| -> Result<WallTime, WireError> {
            let at = base.checked_add(r.i32()?.into());
            at.map(WallTime).ok_or(WireError::Value("time"))
        };
        let times_begin = |first: Option<WallTime>| match first {
            Some(at) if at.0 != base => Err(WireError::Value("time")),
            _ => Ok(()),
        };
        match kind {
            0 => {
                // The count is not trusted: a message can only contain as many entries as it has bytes for.
                let mut list = Vec::with_capacity(count.min(r.remaining() / 74));
                for _ in 0..count {
                    let (at, src, dst, ttl) = (at(r)?, address(r)?, address(r)?, r.u8()?);
                    let (flags, from, to) = (r.u8()?, r.u16()?, r.u16()?);
                    let ports = (flags & 1 != 0).then_some((from, to));
                    let layer = PreviewLayer::from_bits(flags >> 1);
                    let names = [r.u64()?, r.u64()?, r.u64()?, r.u64()?];
                    list.push(PacketPreview { at, src, dst, ports, ttl, names, layer });
                }
                times_begin(list.first().map(|g| g.at))?;
                Ok(Entries::Previews(list))
            }
            1 => {
                let mut list = Vec::with_capacity(count.min(r.remaining() / 16));
                for _ in 0..count {
                    let (at, word, id) = (at(r)?, r.u32()?, r.u64()?);
                    let direction = if word >> 31 == 1 { Direction::Up } else { Direction::Down };
                    list.push(Digest { at, id, length: word & (u32::MAX >> 1), direction });
                }
                times_begin(list.first().map(|d| d.at))?;
                Ok(Entries::Digests(list))
            }
            _ => Err(WireError::Value("kind of entries")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        for (text, kept) in [
            ("a".repeat(200), 200),
            ("a".repeat(201), 200),
            ("é".repeat(150), 200),
            (format!("a{}", "é".repeat(150)), 199),
            (format!("aa{}", "😀".repeat(60)), 198),
        ] {
            let mut bytes = Vec::new();
            put_text(&mut bytes, &text);
            assert_eq!((usize::from(bytes[0]), bytes.len()), (kept, kept + 1));
            assert_eq!(super::text(&mut Reader::new(&bytes)).unwrap(), text[..kept]);
        }
    }

    #[test]
    fn networks_of_both_families_come_back() {
        let list: Vec<Prefix> = ["192.0.2.0/24", "0.0.0.0/0", "192.0.2.1", "2001:db8::/32", "::/0", "::1"]
            .iter()
            .map(|p| p.parse().unwrap())
            .collect();
        let mut bytes = Vec::new();
        put_prefixes(&mut bytes, &list);
        assert_eq!(prefixes(&mut Reader::new(&bytes)).unwrap(), list);
        assert_eq!(bytes[1], 24 + 96);
        // An IPv6 prefix that contains all of IPv4.
        let mut wide = vec![1, 90];
        wide.extend(bits("192.0.2.1".parse().unwrap()));
        let wide = prefixes(&mut Reader::new(&wide)).unwrap();
        assert_eq!(wide[0].parts().1, 90);
        let mut long = vec![1, 129];
        long.extend([0; 16]);
        assert!(prefixes(&mut Reader::new(&long)).is_err(), "no address has 129 bits");
    }

    #[test]
    fn times_of_a_message_are_within_two_seconds() {
        let fits = |base: i64, at: i64| super::fits(WallTime(base), WallTime(at));
        let (most, least) = (i64::from(i32::MAX), i64::from(i32::MIN));
        assert!(fits(5, 5) && fits(5, 5 + most) && fits(5, 5 + least));
        assert!(!fits(5, 6 + most) && !fits(5, 4 + least) && !fits(i64::MIN, i64::MAX));
    }

    fn digests(times: &[i64]) -> Entries {
        let digest = |at: &i64| Digest { at: WallTime(*at), direction: Direction::Down, length: 100, id: 7 };
        Entries::Digests(times.iter().map(digest).collect())
    }

    #[test]
    fn entries_begin_with_the_time_of_the_first() {
        assert!(digests(&[]).is_empty() && !digests(&[1]).is_empty());
        let mut bytes = Vec::new();
        digests(&[1000, 1500, 900]).encode(&mut bytes);
        assert_eq!(Entries::decode(&mut Reader::new(&bytes)).unwrap(), digests(&[1000, 1500, 900]));
        // Offset of the first entry's time, after kind, count and base.
        let first = 1 + 2 + 8;
        bytes[first + 3] ^= 1;
        assert!(Entries::decode(&mut Reader::new(&bytes)).is_err());
        let many = |count: usize| {
            let mut bytes = Vec::new();
            digests(&vec![5; count]).encode(&mut bytes);
            Entries::decode(&mut Reader::new(&bytes)).is_ok()
        };
        assert!(many(MAX_ENTRIES) && !many(MAX_ENTRIES + 1));
    }

    proptest! {
        #[test]
        fn each_switch_of_a_rule_comes_back(
            switches in any::<[bool; 5]>(),
            mask in prop::option::of(any::<u32>()),
        ) {
            let [addresses, ports, ident, without_echoes, inside] = switches;
            let fields = mask.map_or(IdentityFields::Full { addresses, ports, ident }, IdentityFields::Mask);
            let rule = DigestRule {
                sides: Sides { reference: Vec::new(), monitor: Vec::new() },
                identity: IdentityRule { fields, available: 200 },
                protocols: vec![17],
                port: None,
                without_echoes,
                inside,
            };
            let mut bytes = Vec::new();
            rule.encode(&mut bytes);
            prop_assert_eq!(DigestRule::decode(&mut Reader::new(&bytes)).unwrap(), rule);
        }
    }
}
