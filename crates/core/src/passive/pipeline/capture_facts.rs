//! [`CaptureFacts`]: what a point's capture is like, beyond its packets.

use crate::passive::LinkType;
use crate::time::{Span, WallTime};

/// Counts of one capture point.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CaptureFacts {
    /// Frames read.
    pub frames: u64,
    /// IP packets among them.
    pub packets: u64,
    /// Of those, packets that are not between the two sides.
    pub elsewhere: u64,
    /// Packets between the two sides, as far as they are of interest.
    pub ours: u64,
    /// Of ours, those of which too little was captured to name them.
    pub too_short: u64,
    /// Of ours, those longer than 1500 bytes.
    pub long: u64,
    /// Length of the longest of ours, in bytes.
    pub longest: u32,
    /// Of ours, IPv4 packets without identification.
    pub unidentified: u64,
    /// Frames cut before the end of their headers.
    pub truncated: u64,
    /// Frames that contradict themselves.
    pub malformed: u64,
    /// A link type that is not understood, and frames of it.
    pub unknown_link: Option<(LinkType, u64)>,
    /// First and last time stamp.
    pub span: Option<(WallTime, WallTime)>,
    /// Packets found out of order.
    pub disordered: u64,
    /// Times the clock was set back.
    pub steps_back: u64,
    /// Packets the capture says it lost.
    pub drops: u64,
    /// What ping measured here: when its requests passed, and how long the replies took.
    pub pings: Vec<(WallTime, Span)>,
    /// What was wrong with the files or the interface, in words.
    pub notes: Vec<String>,
}

impl CaptureFacts {
    /// Counts a packet between the two sides.
    pub fn count_ours(&mut self, length: u32) {
        self.ours += 1;
        self.longest = self.longest.max(length);
        self.long += u64::from(length > 1500);
    }

    /// The capture covers this time, too.
    pub fn extend_span(&mut self, from: WallTime, to: WallTime) {
        self.span = Some(self.span.map_or((from, to), |(a, b)| (a.min(from), b.max(to))));
    }
}
