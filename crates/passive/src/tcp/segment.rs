//! [`TcpSegment`]: a TCP segment with the fields that the analysis uses.

use crate::packet::{IpPacket, TCP, tcp};

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

/// Kinds of TCP options.
mod option {
    pub(super) const END: u8 = 0;
    pub(super) const NOTHING: u8 = 1;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
    /// Largest window scale (RFC 7323 §2.3).
    pub(super) const MAX_WINDOW_SCALE: u8 = 14;
}

/// Length of a header whose only option is the timestamp option, and the first bytes of the options of such a header.
const USUAL_HEADER: usize = tcp::OPTIONS + 12;
const USUAL_OPTIONS: [u8; 4] = [option::NOTHING, option::NOTHING, option::TIMESTAMPS, 10];

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|word| u32::from_be_bytes(*word))
}

/// One captured TCP segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSegment {
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Acknowledgement number, if the flag is set.
    pub ack: Option<u32>,
    /// Flags: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, …
    pub flags: u8,
    /// Window field, not scaled.
    pub window: u16,
    /// Payload bytes on the wire.
    pub payload: u32,
    /// Window scale, in bits, offered in a SYN; `None` in other segments.
    pub window_scale: Option<u8>,
    /// TSval and TSecr of the timestamp option; `None` without this option.
    pub timestamps: Option<(u32, u32)>,
    /// First block of a SACK option; `None` without this option.
    pub sack: Option<(u32, u32)>,
    /// IP identification.
    pub ident: u32,
    /// True if the segment was recorded after a packet with a later time.
    pub is_late: bool,
}

impl TcpSegment {
    /// Parses a segment; `None` if the packet is not TCP or its header was not captured. A truncated or invalid option
    /// ends the list.
    #[inline(always)]
    pub fn of(p: &IpPacket<'_>) -> Option<TcpSegment> {
        if p.protocol != TCP || p.is_later_fragment() {
            return None;
        }
        let t = p.transport();
        let h = t.first_chunk::<{ tcp::OPTIONS }>()?;
        let be16 = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
        let number = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        let header = tcp::header_length(h);
        if header < tcp::OPTIONS {
            return None;
        }
        let flags = h[tcp::FLAGS];
        let mut s = TcpSegment {
            ports: (be16(tcp::SOURCE_PORT), be16(tcp::DESTINATION_PORT)),
            seq: number(tcp::SEQUENCE),
            ack: (flags & ACK != 0).then(|| number(tcp::ACKNOWLEDGEMENT)),
            flags,
            window: be16(tcp::WINDOW),
            payload: p.length.saturating_sub(p.transport_at as u32).saturating_sub(header as u32),
            ident: p.ident,
            ..TcpSegment::default()
        };
        // Nearly all segments have these options, and no others.
        if header == USUAL_HEADER
            && let Some([.., p, q, kind, length, a, b, c, d, e, f, g, h]) = t.first_chunk::<USUAL_HEADER>()
            && [*p, *q, *kind, *length] == USUAL_OPTIONS
        {
            s.timestamps = Some((u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h])));
            return Some(s);
        }
        if header > tcp::OPTIONS {
            s.read_options(t.get(tcp::OPTIONS..header.min(t.len())).unwrap_or_default());
        }
        Some(s)
    }

    #[inline(never)]
    fn read_options(&mut self, options: &[u8]) {
        let (s, mut o) = (self, options);
        while let [kind, rest @ ..] = o {
            match (*kind, rest) {
                (option::END, _) => break,
                (option::NOTHING, rest) => o = rest,
                (kind, [length, ..]) if *length >= 2 && usize::from(*length) <= o.len() => {
                    let (whole, after) = o.split_at((*length).into());
                    let data = &whole[2..];
                    match (kind, data.len()) {
                        (option::WINDOW_SCALE, 1) if s.flags & SYN != 0 => {
                            s.window_scale = Some(data[0].min(option::MAX_WINDOW_SCALE));
                        }
                        (option::SACK, 8..) => s.sack = be32(data, 0).zip(be32(data, 4)),
                        (option::TIMESTAMPS, 8) => s.timestamps = be32(data, 0).zip(be32(data, 4)),
                        _ => {}
                    }
                    o = after;
                }
                _ => break,
            }
        }
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Number of sequence numbers that the segment uses: payload, SYN and FIN.
    pub(super) fn length(&self) -> u32 {
        self.payload + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkType, decode};

    /// Builds an IPv4 packet with a TCP header, including options, and payload.
    fn packet(flags: u8, header: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut v = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        v.extend([0x9c, 0x40, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, header << 4, flags, 0x20, 0x01, 0, 0, 0, 0]);
        v.extend(options);
        v.extend(payload);
        v[3] = v.len() as u8;
        v
    }

    fn segment(v: &[u8]) -> Option<TcpSegment> {
        TcpSegment::of(&decode(LinkType::RAW, v, u32::from(v[3])).unwrap())
    }

    fn with_options(flags: u8, options: &[u8]) -> TcpSegment {
        segment(&packet(flags, 5 + options.len() as u8 / 4, options, &[8, 10, 9, 9, 9, 9, 9, 9, 9, 9]))
            .unwrap()
    }

    #[test]
    fn fields_of_a_segment() {
        let plain = TcpSegment {
            ports: (40_000, 80),
            seq: 0x0102_0304,
            ack: Some(0x0506_0708),
            flags: ACK | 8,
            window: 0x2001,
            payload: 3,
            ident: 0x1234,
            ..TcpSegment::default()
        };
        assert_eq!(segment(&packet(ACK | 8, 5, &[], b"abc")), Some(plain));
        let without = segment(&packet(FIN, 5, &[], &[])).unwrap();
        assert_eq!((without.ack, without.payload, without.length()), (None, 0, 1));
        assert_eq!(segment(&packet(SYN | FIN, 5, &[], b"abc")).unwrap().length(), 5);
    }

    #[test]
    fn options_of_a_segment() {
        let stamps = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
        assert_eq!(with_options(ACK, &stamps).timestamps, Some((7, 9)));
        assert_eq!(with_options(ACK, &stamps).payload, 10);
        let sack = [5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1];
        assert_eq!(with_options(ACK, &sack).sack, Some((1, 2)));
        let two = [5, 18, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1];
        assert_eq!(with_options(ACK, &two).sack, Some((3, 4)));
        for (offered, means) in [(7, 7), (14, 14), (15, 14)] {
            assert_eq!(with_options(SYN, &[3, 3, offered, 1]).window_scale, Some(means));
        }
        assert_eq!(with_options(ACK, &[3, 3, 7, 1]).window_scale, None, "of a SYN only");
        // The end of the option list, and options with a wrong length.
        let ended = [0, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
        assert_eq!(with_options(ACK, &ended).timestamps, None);
        let odd = [8, 6, 0, 0, 0, 7, 3, 4, 7, 7, 5, 2];
        let s = with_options(SYN, &odd);
        assert_eq!((s.timestamps, s.window_scale, s.sack), (None, None, None));
    }

    #[test]
    fn an_option_that_lies_ends_the_list() {
        for lie in [0, 1, 13, 255] {
            let s = with_options(SYN, &[2, lie, 5, 0xb4, 3, 3, 7, 1]);
            assert_eq!(s.window_scale, None, "{lie}");
        }
        assert_eq!(with_options(SYN, &[2, 4, 5, 0xb4, 3, 3, 7, 1]).window_scale, Some(7));
        // An option without a length, and one that fills the list.
        assert_eq!(with_options(SYN, &[1, 1, 1, 3]).window_scale, None);
        assert_eq!(with_options(SYN, &[1, 3, 3, 7]).window_scale, Some(7));
    }

    #[test]
    fn what_is_not_a_whole_header_is_no_segment() {
        let whole = packet(ACK, 5, &[], &[]);
        for (at, value) in [(9, 17), (7, 1), (32, 4 << 4)] {
            let mut v = whole.clone();
            v[at] = value;
            assert_eq!(segment(&v), None, "{at}");
        }
        assert_eq!(segment(&whole[..39]), None);
        // Only the header and a part of its options were captured.
        let stamps = packet(ACK, 8, &[1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9], b"abc");
        assert_eq!(segment(&stamps[..52]).unwrap().timestamps, Some((7, 9)));
        let cut = segment(&stamps[..51]).unwrap();
        assert_eq!((cut.timestamps, cut.payload), (None, 3));
    }
}
