//! [`PointDelivery`]: a delivery of a live point.

use crate::{CapturePoint, Frame, LinkType, PacketPreview, Sighting};
use jitlat_core::time::WallTime;

/// Frames in one allocation.
#[derive(Clone, Debug, Default)]
pub struct FrameBatch {
    bytes: Vec<u8>,
    /// For each frame: time, link type, length on the wire, and where its bytes end.
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

    /// Whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The latest time among them; `None` without frames.
    pub fn latest(&self) -> Option<WallTime> {
        self.heads.iter().map(|head| head.0).max()
    }

    /// The frames, as they came.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        let mut from = 0;
        self.heads.iter().map(move |&(at, link, wire_length, end)| {
            let data = self.bytes.get(from..end).unwrap_or_default();
            from = end;
            Frame { at, link, wire_length, data }
        })
    }
}

/// What a point has captured.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CapturedBatch {
    /// Packets, with their first bytes.
    Frames(FrameBatch),
    /// Previews that another host sends before there is a plan.
    Previews(Vec<PacketPreview>),
    /// Packets named by another host, once there is a plan.
    Sightings(Vec<Sighting>),
    /// So many packets were dropped in this time, on the point's clock.
    Dropped(u64, WallTime, WallTime),
    /// Nothing, but time has passed.
    Nothing,
}

/// A delivery of a live point.
#[derive(Clone, Debug)]
pub struct PointDelivery {
    /// Which point.
    pub point: CapturePoint,
    /// What it has captured.
    pub what: CapturedBatch,
    /// The time range that is completely delivered, on the point's clock.
    pub covered: Option<(WallTime, WallTime)>,
}

#[cfg(test)]
mod tests;
