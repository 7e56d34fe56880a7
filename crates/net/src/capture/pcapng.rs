//! The pcapng format (draft-ietf-opsawg-pcapng): sections of blocks; each interface has its own link type and time
//! resolution.

use super::buffer::ReadBuffer;
use super::pcap::cut;
use super::{CaptureItem, MAX_FRAME};
use jitlat_core::time::{SECOND, WallTime};
use jitlat_passive::LinkType;
use std::io::{self, ErrorKind};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// Maximum number of interfaces that a section may describe, so that a damaged file cannot use up the memory.
const MAX_INTERFACES: usize = 65_536;
/// Length of the longest block that is parsed, in bytes.
const MAX_BLOCK: u32 = 2 << 20;

#[derive(Default)]
pub(super) struct PcapNg {
    big: bool,
    interfaces: Vec<PcapNgInterface>,
    untimed: u64,
}

struct PcapNgInterface {
    link: LinkType,
    resolution: TimestampResolution,
    /// Offset added to every timestamp, in ns.
    offset: i64,
    drops: u64,
}

#[derive(Clone, Copy)]
enum TimestampResolution {
    /// A unit is this many nanoseconds.
    Times(i64),
    /// A nanosecond is this many units.
    Per(u64),
    /// A unit is 2^-n seconds.
    Binary(u8),
}

impl TimestampResolution {
    fn of(byte: u8) -> TimestampResolution {
        match byte {
            b if b & 0x80 != 0 => TimestampResolution::Binary(b & 0x7f),
            b @ 0..=9 => TimestampResolution::Times(10i64.pow(9 - u32::from(b))),
            b => TimestampResolution::Per(10u64.saturating_pow(u32::from(b) - 9)),
        }
    }

    fn nanos(self, units: u64) -> i64 {
        let clamp = |n: u128| i64::try_from(n).unwrap_or(i64::MAX);
        match self {
            TimestampResolution::Times(ns) => clamp(u128::from(units) * ns as u128),
            TimestampResolution::Per(n) => clamp(u128::from(units / n)),
            TimestampResolution::Binary(n) => clamp((u128::from(units) * SECOND as u128) >> n),
        }
    }
}

impl PcapNg {
    fn u16(&self, b: &[u8], at: usize) -> u16 {
        let Some(w) = b.get(at..).and_then(|b| b.first_chunk::<2>()) else { return 0 };
        if self.big { u16::from_be_bytes(*w) } else { u16::from_le_bytes(*w) }
    }

    fn u32(&self, b: &[u8], at: usize) -> u32 {
        let Some(w) = b.get(at..).and_then(|b| b.first_chunk::<4>()) else { return 0 };
        if self.big { u32::from_be_bytes(*w) } else { u32::from_le_bytes(*w) }
    }

    fn u64(&self, b: &[u8], at: usize) -> u64 {
        let (x, y) = (u64::from(self.u32(b, at)), u64::from(self.u32(b, at + 4)));
        if self.big { x << 32 | y } else { y << 32 | x }
    }

    pub(super) fn next(&mut self, buffer: &mut ReadBuffer, drops: &mut u64) -> io::Result<CaptureItem> {
        loop {
            let Some(h) = buffer.peek(8)? else {
                let note = if buffer.available() > 0 { Some(cut(buffer.offset())) } else { self.farewell() };
                return Ok(CaptureItem::End(note));
            };
            let kind = self.u32(h, 0);
            if kind == SECTION {
                let Some(h) = buffer.peek(12)? else {
                    return Ok(CaptureItem::End(Some(cut(buffer.offset()))));
                };
                self.big = match h[8..12] {
                    [0x1a, 0x2b, 0x3c, 0x4d] => true,
                    [0x4d, 0x3c, 0x2b, 0x1a] => false,
                    _ => return Ok(damaged(buffer, "a section header without the byte-order magic")),
                };
                self.interfaces.clear();
            }
            let length = buffer.peek(8)?.map_or(0, |h| self.u32(h, 4));
            if length < 12 || length % 4 != 0 {
                return Ok(damaged(buffer, "a block of impossible length"));
            }
            if !matches!(kind, INTERFACE | OLD_PACKET | SIMPLE_PACKET | STATISTICS | PACKET) {
                // Skip a block completely or not at all, so that reading of a growing file can continue
                // later.
                let skipped = if length > MAX_BLOCK {
                    match buffer.skip(length.into()) {
                        Err(e) if e.kind() == ErrorKind::WouldBlock => false,
                        skipped => skipped?,
                    }
                } else {
                    let there = buffer.peek(length as usize)?.is_some();
                    buffer.take(length as usize);
                    there
                };
                if !skipped {
                    return Ok(CaptureItem::End(Some(cut(buffer.offset()))));
                }
                continue;
            }
            if length > MAX_BLOCK {
                return Ok(damaged(buffer, &format!("a block that claims {length} bytes")));
            }
            let n = length as usize;
            let Some(block) = buffer.peek(n)? else {
                return Ok(CaptureItem::End(Some(cut(buffer.offset()))));
            };
            let step = match kind {
                PACKET | OLD_PACKET => self.packet(kind, block),
                SIMPLE_PACKET => {
                    self.untimed += 1;
                    Ok(None)
                }
                INTERFACE => {
                    let interface = self.interface(&block[..n - 4]);
                    if self.interfaces.len() >= MAX_INTERFACES {
                        return Ok(damaged(buffer, "too many interfaces"));
                    }
                    self.interfaces.push(interface);
                    Ok(None)
                }
                _ => {
                    let of = self.u32(block, 8) as usize;
                    let dropped = self.statistics(&block[..n - 4]);
                    if let Some(i) = self.interfaces.get_mut(of) {
                        // The counters are cumulative and may be written several times per interface.
                        *drops = drops.saturating_add(dropped.saturating_sub(i.drops));
                        i.drops = i.drops.max(dropped);
                    }
                    Ok(None)
                }
            };
            match step {
                Ok(None) => {
                    buffer.take(n);
                }
                Ok(Some((at, link, wire_length, offset, length))) => {
                    let from = buffer.take(n) + offset;
                    return Ok(CaptureItem::Frame { at, link, wire_length, from, length });
                }
                Err(why) => return Ok(damaged(buffer, why)),
            }
        }
    }

    #[expect(
        clippy::type_complexity,
        reason = "the fields of Step::Frame, with a position in the buffer instead of the bytes"
    )]
    fn packet(
        &self,
        kind: u32,
        block: &[u8],
    ) -> Result<Option<(WallTime, LinkType, u32, usize, usize)>, &'static str> {
        if block.len() < 32 {
            return Err("a packet block without a header");
        }
        let interface = if kind == PACKET { self.u32(block, 8) } else { self.u16(block, 8).into() };
        let Some(i) = self.interfaces.get(interface as usize) else {
            return Err(match self.interfaces.is_empty() {
                true => "a packet without the description of any interface",
                false => "a packet of an interface that was not described",
            });
        };
        let units = u64::from(self.u32(block, 12)) << 32 | u64::from(self.u32(block, 16));
        let (captured, wire_length) = (self.u32(block, 20) as usize, self.u32(block, 24));
        if captured > block.len() - 32 || captured > MAX_FRAME {
            return Err("a packet longer than its block");
        }
        let at = WallTime(i.resolution.nanos(units).saturating_add(i.offset));
        Ok(Some((at, i.link, wire_length, 28, captured)))
    }

    fn interface(&self, block: &[u8]) -> PcapNgInterface {
        let mut i = PcapNgInterface {
            link: LinkType(self.u16(block, 8)),
            // Microseconds, unless the option if_tsresol specifies another resolution.
            resolution: TimestampResolution::Times(1000),
            offset: 0,
            drops: 0,
        };
        self.options(block.get(16..).unwrap_or_default(), |code, value| match (code, value) {
            // Options if_tsresol and if_tsoffset.
            (9, [r, ..]) => i.resolution = TimestampResolution::of(*r),
            (14, v) if v.len() == 8 => i.offset = (self.u64(v, 0) as i64).saturating_mul(SECOND),
            _ => {}
        });
        i
    }

    /// Returns the number of packets dropped by the interface and by the system.
    fn statistics(&self, block: &[u8]) -> u64 {
        let mut dropped = 0u64;
        self.options(block.get(20..).unwrap_or_default(), |code, value| {
            // Options isb_ifdrop and isb_osdrop.
            if matches!(code, 5 | 7) && value.len() == 8 {
                dropped = dropped.saturating_add(self.u64(value, 0));
            }
        });
        dropped
    }

    fn options(&self, mut rest: &[u8], mut take: impl FnMut(u16, &[u8])) {
        while rest.len() >= 4 {
            let (code, length) = (self.u16(rest, 0), usize::from(self.u16(rest, 2)));
            let Some(value) = rest.get(4..4 + length) else { return };
            if code == 0 {
                return;
            }
            take(code, value);
            rest = rest.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    fn farewell(&self) -> Option<String> {
        (self.untimed > 0).then(|| {
            format!("packets without a timestamp (simple packet blocks) were skipped: {}", self.untimed)
        })
    }
}

fn damaged(buffer: &ReadBuffer, what: &str) -> CaptureItem {
    let at = buffer.offset();
    CaptureItem::End(Some(format!("damaged at byte {at}: {what}; the packets before it were used")))
}
