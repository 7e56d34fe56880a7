//! A TCP segment as the analysis needs it.

use crate::passive::packet::{Packet, TCP, tcp};

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
    /// The largest window scale (RFC 7323 §2.3).
    pub(super) const MOST_SCALE: u8 = 14;
}

/// One captured TCP segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Acknowledgement number, if the flag is set.
    pub ack: Option<u32>,
    /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, …
    pub flags: u8,
    /// Window field, not scaled.
    pub window: u16,
    /// Payload bytes on the wire.
    pub payload: u32,
    /// Window scale offered (SYN only).
    pub window_scale: Option<u8>,
    /// TSval and TSecr of the timestamp option.
    pub timestamps: Option<(u32, u32)>,
    /// First block of a SACK option.
    pub sack: Option<(u32, u32)>,
    /// IP identification.
    pub ident: u32,
}

impl Segment {
    /// Reads a segment; `None` if the packet is not TCP or its header was not captured. Options that were
    /// cut or lie about their length end the list.
    pub fn of(p: &Packet<'_>) -> Option<Segment> {
        if p.protocol != TCP || p.is_later_fragment() {
            return None;
        }
        let t = p.transport();
        let h = t.first_chunk::<{ tcp::OPTIONS }>()?;
        let be32 = |b: &[u8], at: usize| -> Option<u32> {
            b.get(at..)?.first_chunk::<4>().map(|w| u32::from_be_bytes(*w))
        };
        let header = tcp::header_length(h);
        if header < tcp::OPTIONS {
            return None;
        }
        let flags = h[tcp::FLAGS];
        let mut s = Segment {
            ports: p.ports()?,
            seq: be32(h, tcp::SEQUENCE)?,
            ack: (flags & ACK != 0).then(|| be32(h, tcp::ACKNOWLEDGEMENT)).flatten(),
            flags,
            window: u16::from_be_bytes([h[tcp::WINDOW], h[tcp::WINDOW + 1]]),
            payload: p.payload_length(),
            ident: p.ident,
            ..Segment::default()
        };
        let mut o = t.get(tcp::OPTIONS..header.min(t.len())).unwrap_or_default();
        while let [kind, rest @ ..] = o {
            match (*kind, rest) {
                (option::END, _) => break,
                (option::NOTHING, rest) => o = rest,
                (kind, [length, ..]) if *length >= 2 && usize::from(*length) <= o.len() => {
                    let (whole, after) = o.split_at((*length).into());
                    let data = &whole[2..];
                    match (kind, data.len()) {
                        (option::WINDOW_SCALE, 1) if flags & SYN != 0 => {
                            s.window_scale = Some(data[0].min(option::MOST_SCALE));
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
        Some(s)
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sequence numbers it takes: payload, SYN and FIN.
    pub(super) fn length(&self) -> u32 {
        self.payload + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }
}
