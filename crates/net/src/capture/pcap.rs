//! The classic pcap format: a 24-byte header, then records with 16-byte headers; timestamps in µs or ns;
//! either byte order.

use super::buffer::ReadBuffer;
use super::{CaptureItem, MAX_FRAME};
use jitlat_core::time::{SECOND, WallTime};
use jitlat_passive::LinkType;
use std::io;

pub(super) struct Pcap {
    big: bool,
    /// Nanoseconds per unit of the timestamp's fraction field.
    unit: i64,
    link: LinkType,
    record_header: usize,
}

fn word(b: &[u8], at: usize, big: bool) -> u32 {
    let Some(w) = b.get(at..).and_then(|b| b.first_chunk::<4>()) else { return 0 };
    if big { u32::from_be_bytes(*w) } else { u32::from_le_bytes(*w) }
}

impl Pcap {
    /// Reads the file header; `None` if the file does not begin with a pcap header.
    pub(super) fn begin(buffer: &mut ReadBuffer) -> io::Result<Option<Pcap>> {
        let Some(h) = buffer.peek(24)? else { return Ok(None) };
        let (big, unit, record_header) = match (word(h, 0, false), word(h, 0, true)) {
            // The magic number shows both the byte order and the unit of the timestamps: microseconds or
            // nanoseconds.
            (0xa1b2_c3d4, _) => (false, 1000, 16),
            (_, 0xa1b2_c3d4) => (true, 1000, 16),
            (0xa1b2_3c4d, _) => (false, 1, 16),
            (_, 0xa1b2_3c4d) => (true, 1, 16),
            // Alexey Kuznetsov's variant, with eight additional bytes in each record header.
            (0xa1b2_cd34, _) => (false, 1000, 24),
            (_, 0xa1b2_cd34) => (true, 1000, 24),
            _ => return Ok(None),
        };
        // The upper bits describe frame check sequences, which are not needed here.
        let link = LinkType((word(h, 20, big) & 0xffff) as u16);
        buffer.take(24);
        Ok(Some(Pcap { big, unit, link, record_header }))
    }

    #[inline]
    pub(super) fn next(&mut self, buffer: &mut ReadBuffer) -> io::Result<CaptureItem> {
        let (header, big) = (self.record_header, self.big);
        let Some(h) = buffer.peek(header)? else {
            let rest = buffer.available();
            return Ok(CaptureItem::End((rest > 0).then(|| cut(buffer.offset()))));
        };
        let (seconds, fraction) = (word(h, 0, big), word(h, 4, big));
        let (length, wire_length) = (word(h, 8, big), word(h, 12, big));
        let captured = length as usize;
        if captured > MAX_FRAME {
            let at = buffer.offset();
            return Ok(CaptureItem::End(Some(format!(
                "damaged at byte {at}: a record claims {length} bytes; the packets before it were used"
            ))));
        }
        if buffer.peek(header + captured)?.is_none() {
            return Ok(CaptureItem::End(Some(cut(buffer.offset()))));
        }
        let from = buffer.take(header + captured) + header;
        let at = WallTime(i64::from(seconds) * SECOND + i64::from(fraction) * self.unit);
        Ok(CaptureItem::Frame { at, link: self.link, wire_length, from, length: captured })
    }
}

pub(super) fn cut(at: u64) -> String {
    format!("ends in the middle of a packet at byte {at}; the packets before it were used")
}
