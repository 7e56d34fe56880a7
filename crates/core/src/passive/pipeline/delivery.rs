//! [`Delivery`]: what a live point hands over.

use crate::passive::{Frame, LinkType, PacketPreview, Point, Sighting};
use crate::time::WallTime;

/// Frames in one piece of memory.
#[derive(Clone, Debug, Default)]
pub struct FrameBatch {
    bytes: Vec<u8>,
    /// Of each frame: time, link type, length on the wire, and where its bytes end.
    heads: Vec<(WallTime, LinkType, u32, usize)>,
}

impl FrameBatch {
    /// Adds a frame.
    pub fn push(&mut self, f: &Frame<'_>) {
        self.bytes.extend_from_slice(f.data);
        self.heads.push((f.at, f.link, f.wire_length, self.bytes.len()));
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The latest time among them.
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

/// What a point saw.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Delivered {
    /// Packets, with their beginning.
    Frames(FrameBatch),
    /// Previews that another host sends before there is a plan.
    Previews(Vec<PacketPreview>),
    /// And after: packets that were named there.
    Sightings(Vec<Sighting>),
    /// That time went by.
    Nothing,
}

/// A delivery of a live point.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Which point.
    pub point: Point,
    /// What it saw.
    pub what: Delivered,
    /// From and up to which time everything has been delivered, on the point's clock.
    pub covered: Option<(WallTime, WallTime)>,
}
