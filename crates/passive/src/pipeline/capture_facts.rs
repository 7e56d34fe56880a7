//! [`CaptureFacts`]: facts about the capture at one point.

use crate::{LinkType, RecordingFacts};
use jitlat_core::time::{Span, WallTime};
use serde::{Deserialize, Serialize};

/// Numbers of packets by IP length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LengthCounts {
    /// Counts, indexed by length in bytes.
    counts: Vec<u64>,
    total: u64,
}

impl LengthCounts {
    /// Largest length that is distinguished, in bytes. Longer packets are counted with this length.
    const LONGEST: usize = (1 << 16) - 1;

    #[inline]
    fn count(&mut self, length: u32) {
        let i = (length as usize).min(Self::LONGEST);
        if i >= self.counts.len() {
            self.counts.resize((i + 1).next_power_of_two(), 0);
        }
        if let Some(n) = self.counts.get_mut(i) {
            *n += 1;
        }
        self.total += 1;
    }

    fn append(&mut self, other: &LengthCounts) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(n, more)| *n = n.saturating_add(*more));
        self.total = self.total.saturating_add(other.total);
    }

    /// Total number of packets.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns each length that occurs, in bytes, with the share of packets up to that length.
    pub fn cumulative(&self) -> Vec<(u32, f64)> {
        let mut sum = 0;
        let occurring = self.counts.iter().zip(0u32..).filter(|(n, _)| **n > 0);
        occurring
            .map(|(n, length)| {
                sum += n;
                (length, sum as f64 / self.total as f64)
            })
            .collect()
    }
}

/// Facts about the capture at one point.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CaptureFacts {
    /// Number of frames read.
    pub frames: u64,
    /// Number of IP packets.
    pub packets: u64,
    /// Number of IP packets between addresses other than those of the two sides.
    pub elsewhere: u64,
    /// Number of packets between the two sides that the filter accepts.
    pub ours: u64,
    /// Number of packets in `ours` of which too little was captured to identify them.
    pub too_short: u64,
    /// Number of packets in `ours` longer than 1500 bytes.
    pub long: u64,
    /// Lengths of the packets in `ours`.
    pub lengths: LengthCounts,
    /// Length of the longest packet in `ours`, in bytes.
    pub longest: u32,
    /// Number of IPv4 packets in `ours` without identification.
    pub unidentified: u64,
    /// Number of frames cut before the end of their headers.
    pub truncated: u64,
    /// Number of frames with contradictory fields.
    pub malformed: u64,
    /// The first unsupported link type, and the number of frames with unsupported link types; `None` if there are none.
    pub unknown_link: Option<(LinkType, u64)>,
    /// First and last timestamp; `None` without frames.
    pub span: Option<(WallTime, WallTime)>,
    /// Number of packets found out of order.
    pub disordered: u64,
    /// Facts about the recording itself: its clock, copies, fragments and tunnels.
    #[serde(default)]
    pub recording: RecordingFacts,
    /// Number of packets that the capture reported as dropped.
    pub drops: u64,
    /// Round trips of ping at this point: time of the request, and round trip.
    pub pings: Vec<(WallTime, Span)>,
    /// Messages about errors in the files or on the interface.
    pub notes: Vec<String>,
}

impl CaptureFacts {
    /// Counts a packet between the two sides. `is_whole_again` is true for a packet that was put together from
    /// fragments: it is not counted as long, because the link carried only the fragments.
    pub fn count_ours(&mut self, length: u32, is_whole_again: bool) {
        self.ours += 1;
        self.lengths.count(length);
        if !is_whole_again {
            self.longest = self.longest.max(length);
            self.long += u64::from(length > 1500);
        }
    }

    /// Adds the facts of the following part of the capture.
    pub fn append(&mut self, next: CaptureFacts) {
        let add = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        add(&mut self.frames, next.frames);
        add(&mut self.packets, next.packets);
        add(&mut self.elsewhere, next.elsewhere);
        add(&mut self.ours, next.ours);
        add(&mut self.too_short, next.too_short);
        add(&mut self.long, next.long);
        self.lengths.append(&next.lengths);
        self.longest = self.longest.max(next.longest);
        add(&mut self.unidentified, next.unidentified);
        add(&mut self.truncated, next.truncated);
        add(&mut self.malformed, next.malformed);
        match (&mut self.unknown_link, next.unknown_link) {
            (Some((_, n)), Some((_, more))) => add(n, more),
            (mine, theirs) => *mine = mine.or(theirs),
        }
        if let Some((from, to)) = next.span {
            self.extend_span(from, to);
        }
        add(&mut self.disordered, next.disordered);
        self.recording.append(next.recording);
        self.drops = self.drops.max(next.drops);
        self.pings.extend(next.pings);
        self.notes
            .extend(next.notes.into_iter().filter(|note| !self.notes.contains(note)).collect::<Vec<_>>());
    }

    /// Records that the capture also covers the time from `from` to `to`.
    pub fn extend_span(&mut self, from: WallTime, to: WallTime) {
        self.span = Some(self.span.map_or((from, to), |(a, b)| (a.min(from), b.max(to))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_counted() {
        let mut f = CaptureFacts::default();
        [52, 1500, 1500, 70_000].iter().for_each(|length| f.count_ours(*length, false));
        assert_eq!((f.lengths.total(), f.long, f.longest), (4, 1, 70_000));
        assert_eq!(f.lengths.cumulative(), [(52, 0.25), (1500, 0.75), (65_535, 1.0)]);
        assert_eq!(LengthCounts::default().cumulative(), []);
    }
}
