//! Writes frames in the pcap format with nanosecond timestamps, in this host's byte order.

use super::Frame;
use jitlat_core::time::SECOND;
use jitlat_passive::LinkType;
use std::io::{self, Write};

/// Writes a pcap file with one link type.
pub struct PcapWriter<W> {
    out: W,
}

impl<W: Write> PcapWriter<W> {
    /// Starts a file with a snap length of `snap` bytes.
    pub fn new(mut out: W, link: LinkType, snap: u32) -> io::Result<PcapWriter<W>> {
        out.write_all(&0xa1b2_3c4du32.to_ne_bytes())?;
        out.write_all(&[2u16.to_ne_bytes(), 4u16.to_ne_bytes()].concat())?;
        for word in [0, 0, snap, link.0.into()] {
            out.write_all(&u32::to_ne_bytes(word))?;
        }
        Ok(PcapWriter { out })
    }

    /// Adds a frame. Times before 1970 or after 2106 do not fit the format and are clamped.
    pub fn write(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let seconds = frame.at.0.div_euclid(SECOND).clamp(0, u32::MAX.into()) as u32;
        let nanos = frame.at.0.rem_euclid(SECOND) as u32;
        for word in [seconds, nanos, frame.data.len() as u32, frame.wire_length] {
            self.out.write_all(&word.to_ne_bytes())?;
        }
        self.out.write_all(frame.data)
    }

    /// Flushes the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Capture;
    use jitlat_core::time::WallTime;

    #[test]
    fn what_is_written_is_read_again() {
        let mut file = Vec::new();
        let mut writer = PcapWriter::new(&mut file, LinkType::RAW, 96).unwrap();
        let at = WallTime(1_700_000_000_123_456_789);
        writer.write(&Frame { at, link: LinkType::RAW, wire_length: 1500, data: &[0x45, 1, 2] }).unwrap();
        writer.flush().unwrap();
        let mut capture = Capture::from_reader("memory", io::Cursor::new(file)).unwrap();
        let frame = capture.next_frame().unwrap();
        assert_eq!((frame.at, frame.link, frame.wire_length), (at, LinkType::RAW, 1500));
        assert_eq!(frame.data, [0x45, 1, 2]);
        assert!(capture.next_frame().is_none() && capture.notes().is_empty());
    }

    #[test]
    fn what_is_flushed_has_left_the_writer() {
        let mut writer = PcapWriter::new(io::BufWriter::new(Vec::new()), LinkType::RAW, 96).unwrap();
        let at = WallTime(1_700_000_000_123_456_789);
        writer.write(&Frame { at, link: LinkType::RAW, wire_length: 3, data: &[0x45, 1, 2] }).unwrap();
        assert_eq!(writer.out.get_ref().len(), 0);
        writer.flush().unwrap();
        assert_eq!(writer.out.get_ref().len(), 24 + 16 + 3);
    }
}
