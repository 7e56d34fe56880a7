//! [`Fragments`]: puts packets together from their fragments, as far as an analysis needs the packets: the headers, the
//! beginning of the payload, and the length.

use crate::link_layer::Network;
use crate::packet::{IpPacket, decode_at};
use jitlat_core::time::{Span, WallTime};
use std::collections::VecDeque;

/// Maximum number of packets of which fragments are held. Beyond it, the oldest packet is given up.
const MAX_OPEN: usize = 256;
/// Maximum number of fragments of a packet.
const MAX_FRAGMENTS: usize = 128;
/// Longest payload of a packet, in bytes.
const MAX_PAYLOAD: u32 = 65_535;
/// Time for which fragments are held (RFC 791 has 15 s, RFC 8200 60 s).
const REASSEMBLY_TIMEOUT: Span = Span::seconds(30);

/// Source, destination, protocol (0 for IPv6) and identification of a packet (RFC 791 §3.2, RFC 8200 §4.5).
type PacketKey = (u128, u128, u8, u32);

/// Packet of which some fragments have not been seen yet.
#[derive(Debug)]
struct OpenPacket {
    key: PacketKey,
    first_at: WallTime,
    /// IP header of the first fragment; empty until this fragment is seen.
    header: Vec<u8>,
    protocol: u8,
    /// Beginning of the payload; bytes that have not been seen are 0.
    payload: Vec<u8>,
    /// Ranges of the payload that have been seen, in bytes, ascending.
    ranges: Vec<(u32, u32)>,
    total: Option<u32>,
    /// True if fragments overlap or are invalid, so that the packet cannot be trusted (RFC 5722).
    refused: bool,
    /// Maximum number of payload bytes that are stored.
    kept: usize,
}

/// A packet that was put together.
#[derive(Clone, Debug)]
pub(super) struct WholePacket {
    bytes: Vec<u8>,
    length: u32,
    ident: u32,
}

impl WholePacket {
    /// Decodes the packet; `None` if it cannot be decoded.
    pub(super) fn packet(&self) -> Option<IpPacket<'_>> {
        let mut packet = decode_at(Network::ByVersion, &self.bytes, 0, self.length).ok()?;
        (packet.ident, packet.length) = (self.ident, self.length);
        Some(packet)
    }
}

/// Fragments that wait for the other fragments of their packet.
#[derive(Debug)]
pub(super) struct Fragments {
    open: VecDeque<OpenPacket>,
    /// Maximum number of payload bytes that are stored of a packet.
    kept: usize,
    /// Number of fragments read.
    pub(super) read: u64,
    /// Number of packets put together.
    pub(super) whole: u64,
    /// Number of packets given up, because a fragment is missing or fragments overlap.
    incomplete: u64,
}

impl Fragments {
    /// Stores at most `kept` payload bytes of a packet.
    pub(super) fn keeping(kept: usize) -> Fragments {
        Fragments { open: VecDeque::new(), kept, read: 0, whole: 0, incomplete: 0 }
    }

    /// Adds a fragment. Returns its packet if no other fragment is missing.
    #[cold]
    pub(super) fn push(&mut self, at: WallTime, p: &IpPacket<'_>) -> Option<WholePacket> {
        self.read += 1;
        while self.open.front().is_some_and(|open| at - open.first_at > REASSEMBLY_TIMEOUT) {
            self.give_up();
        }
        let (source, destination) = p.ends();
        let key = (source, destination, if p.is_v6() { 0 } else { p.protocol }, p.ident);
        let known = self.open.iter().rposition(|open| open.key == key);
        let i = match known {
            Some(i) => i,
            None => {
                if self.open.len() >= MAX_OPEN {
                    self.give_up();
                }
                self.open.push_back(OpenPacket::new(key, at, self.kept));
                self.open.len() - 1
            }
        };
        let open = self.open.get_mut(i)?;
        open.add(p);
        let whole = open.whole()?;
        self.open.remove(i);
        self.whole += 1;
        Some(whole)
    }

    fn give_up(&mut self) {
        self.incomplete += u64::from(self.open.pop_front().is_some());
    }

    /// Number of packets that have not been put together.
    pub(super) fn incomplete(&self) -> u64 {
        self.incomplete + self.open.len() as u64
    }
}

impl OpenPacket {
    fn new(key: PacketKey, first_at: WallTime, kept: usize) -> OpenPacket {
        OpenPacket {
            key,
            first_at,
            header: Vec::new(),
            protocol: 0,
            payload: Vec::new(),
            ranges: Vec::new(),
            total: None,
            refused: false,
            kept,
        }
    }

    fn add(&mut self, p: &IpPacket<'_>) {
        let start = u32::from(p.fragment_offset) * 8;
        let length = p.length.saturating_sub(p.transport_at as u32);
        let end = start + length;
        let ends_oddly = p.more_fragments && !length.is_multiple_of(8);
        if length == 0 || end > MAX_PAYLOAD || ends_oddly || self.ranges.len() >= MAX_FRAGMENTS {
            self.refused = true;
            return;
        }
        let i = self.ranges.partition_point(|range| range.0 < start);
        if self.ranges.get(i) == Some(&(start, end)) {
            // The recording, or the path, has the same fragment twice.
            return;
        }
        let before = i.checked_sub(1).and_then(|i| self.ranges.get(i));
        if before.is_some_and(|range| range.1 > start) || self.ranges.get(i).is_some_and(|r| r.0 < end) {
            self.refused = true;
            return;
        }
        self.ranges.insert(i, (start, end));
        if !p.more_fragments {
            self.refused |= self.total.is_some_and(|total| total != end);
            self.total = Some(end);
        }
        self.refused |= self.total.zip(self.ranges.last()).is_some_and(|(total, last)| last.1 > total);
        if start == 0 {
            self.header = p.ip.get(..p.transport_at).unwrap_or_default().to_vec();
            self.protocol = p.protocol;
        }
        let start = start as usize;
        if start < self.kept {
            let bytes = p.transport();
            let bytes = &bytes[..bytes.len().min(self.kept - start)];
            if self.payload.len() < start + bytes.len() {
                self.payload.resize(start + bytes.len(), 0);
            }
            self.payload[start..start + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn whole(&self) -> Option<WholePacket> {
        let total = self.total.filter(|_| !self.refused && !self.header.is_empty())?;
        let complete = self.ranges.first()?.0 == 0 && self.ranges.windows(2).all(|w| w[0].1 == w[1].0);
        if !complete {
            return None;
        }
        let mut bytes = self.header.clone();
        match bytes.first()? >> 4 {
            4 => {
                let length = u16::try_from(bytes.len() as u32 + total).ok()?;
                bytes.get_mut(2..4)?.copy_from_slice(&length.to_be_bytes());
                bytes.get_mut(6..8)?.fill(0);
            }
            _ => {
                // Extension headers are left out: both points see the packet like this.
                bytes.truncate(40);
                bytes.get_mut(4..6)?.copy_from_slice(&u16::try_from(total).ok()?.to_be_bytes());
                *bytes.get_mut(6)? = self.protocol;
            }
        }
        let length = bytes.len() as u32 + total;
        bytes.extend(&self.payload);
        Some(WholePacket { bytes, length, ident: self.key.3 })
    }
}

#[cfg(test)]
mod tests;
