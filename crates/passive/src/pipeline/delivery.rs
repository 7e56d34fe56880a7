//! [`PointDelivery`]: data delivered by a live capture point.

use crate::{CapturePoint, Frame, LinkType, PacketPreview, Sighting};
use jitlat_core::time::WallTime;

/// Frames in a single allocation.
#[derive(Clone, Debug, Default)]
pub struct FrameBatch {
    bytes: Vec<u8>,
    /// Time, link type, length on the wire (in bytes) and end position in `bytes` of each frame.
    heads: Vec<(WallTime, LinkType, u32, usize)>,
}

impl FrameBatch {
    /// Adds a frame.
    pub fn push(&mut self, f: &Frame<'_>) {
        self.bytes.extend_from_slice(f.data);
        self.heads.push((f.at, f.link, f.wire_length, self.bytes.len()));
    }

    /// Number of frames.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// True if there are no frames.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Latest time among the frames; `None` without frames.
    pub fn latest(&self) -> Option<WallTime> {
        self.heads.iter().map(|head| head.0).max()
    }

    /// Iterates over the frames, in the order they arrived.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        let mut from = 0;
        self.heads.iter().map(move |&(at, link, wire_length, end)| {
            let data = self.bytes.get(from..end).unwrap_or_default();
            from = end;
            Frame { at, link, wire_length, data }
        })
    }
}

/// Data captured at a point.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CapturedBatch {
    /// Captured packets with their first bytes.
    Frames(FrameBatch),
    /// Previews sent by another host while there is no plan yet.
    Previews(Vec<PacketPreview>),
    /// Sightings sent by another host once there is a plan.
    Sightings(Vec<Sighting>),
    /// Number of dropped packets, and the time range on the point's clock in which the drops occurred.
    Dropped(u64, WallTime, WallTime),
    /// No packets; only the covered time has advanced.
    Nothing,
}

/// Data delivered by a live point.
#[derive(Clone, Debug)]
pub struct PointDelivery {
    /// Capture point.
    pub point: CapturePoint,
    /// Captured data.
    pub what: CapturedBatch,
    /// Time range that is completely delivered, on the point's clock; `None` if unknown.
    pub covered: Option<(WallTime, WallTime)>,
}

#[cfg(test)]
mod tests;
