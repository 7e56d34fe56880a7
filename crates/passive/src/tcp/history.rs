//! [`DeliveredSegments`]: record of the delivery of one direction's data over time.

use super::delay_causes::{DeliveryHistory, SegmentTimes};
use super::flight::InFlight;
use jitlat_core::time::WallTime;

/// Maximum number of segments recorded per direction, and of time ranges in which a window was full or closed.
const MAX_SEGMENTS: usize = 1 << 20;

/// Record of the deliveries in one direction so far.
#[derive(Clone, Debug, Default)]
pub(super) struct DeliveredSegments {
    /// Sequence number of the stream's first byte, unwrapped; `None` if the SYN was not seen.
    begin: Option<u64>,
    segments: Vec<SegmentTimes>,
    /// Time ranges in which the peer's window was full.
    full: Vec<(WallTime, WallTime)>,
    /// Time ranges in which this side's own window was closed.
    closed: Vec<(WallTime, WallTime)>,
}

impl DeliveredSegments {
    /// Sets the beginning of the stream.
    pub(super) fn begin(&mut self, start: u64) {
        self.begin.get_or_insert(start);
    }

    /// Records the delivery of a byte range.
    pub(super) fn keep(&mut self, x: &InFlight) {
        if let Some(begin) = self.begin
            && x.end > begin
            && self.segments.len() < MAX_SEGMENTS
        {
            self.segments.push(SegmentTimes {
                end: x.end - begin,
                first: x.first,
                last: x.last,
                why: x.again,
            });
        }
    }

    /// Records that the peer's window was full from `since` until `until`.
    pub(super) fn keep_full(&mut self, since: WallTime, until: WallTime) {
        remember(&mut self.full, (since, until));
    }

    /// Records that this side's own window was closed from `since` until `until`.
    pub(super) fn keep_closed(&mut self, since: WallTime, until: WallTime) {
        remember(&mut self.closed, (since, until));
    }

    /// Returns the history so far, including the ranges `open` that are still in flight; `peer` is the history
    /// of the other direction. `None` if the beginning of the stream was not seen.
    pub(super) fn delivered<'a>(
        &self,
        open: impl Iterator<Item = &'a InFlight>,
        peer: Option<&DeliveredSegments>,
    ) -> Option<DeliveryHistory> {
        self.begin?;
        let mut whole = self.clone();
        open.for_each(|x| whole.keep(x));
        let mut held_up = whole.full;
        held_up.extend(peer.iter().flat_map(|p| &p.closed));
        held_up.sort_unstable();
        // A full window may also close: merge overlapping times.
        held_up.dedup_by(|later, earlier| {
            let overlap = later.0 <= earlier.1;
            if overlap {
                earlier.1 = earlier.1.max(later.1);
            }
            overlap
        });
        Some(DeliveryHistory { segments: whole.segments, held_up })
    }
}

fn remember(list: &mut Vec<(WallTime, WallTime)>, times: (WallTime, WallTime)) {
    if list.len() < MAX_SEGMENTS {
        list.push(times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::segment::TcpSegment;

    fn stretch(start: u64, end: u64) -> InFlight {
        InFlight::new(WallTime(end as i64), &TcpSegment::default(), (start, end))
    }

    #[test]
    fn what_arrived_is_counted_from_the_beginning_of_the_stream() {
        let mut h = DeliveredSegments::default();
        h.keep(&stretch(100, 200));
        assert!(h.delivered([].iter(), None).is_none(), "the beginning was not seen");
        h.begin(100);
        h.begin(150);
        [stretch(90, 100), stretch(100, 101), stretch(101, 300)].iter().for_each(|x| h.keep(x));
        let delivered = h.delivered([stretch(300, 400)].iter(), None).unwrap();
        let ends: Vec<_> = delivered.segments.iter().map(|s| (s.end, s.first)).collect();
        assert_eq!(ends, [(1, WallTime(101)), (200, WallTime(300)), (300, WallTime(400))]);
        assert_eq!(h.segments.len(), 2, "what is open is not kept");
    }

    #[test]
    fn a_long_history_is_bounded() {
        let mut h = DeliveredSegments::default();
        h.begin(0);
        for k in 0..MAX_SEGMENTS as u64 + 2 {
            h.keep(&stretch(k, k + 1));
            h.keep_full(WallTime(0), WallTime(1));
        }
        assert_eq!((h.segments.len(), h.full.len()), (MAX_SEGMENTS, MAX_SEGMENTS));
    }

    #[test]
    fn times_that_a_window_held_up_count_once() {
        let at = |(from, to)| (WallTime(from), WallTime(to));
        let (mut h, mut peer) = (DeliveredSegments::default(), DeliveredSegments::default());
        h.begin(0);
        for (from, to) in [(10, 20), (40, 50), (70, 80)] {
            h.keep_full(WallTime(from), WallTime(to));
        }
        h.keep_closed(WallTime(1), WallTime(2));
        for (from, to) in [(20, 30), (42, 44), (81, 90)] {
            peer.keep_closed(WallTime(from), WallTime(to));
        }
        peer.keep_full(WallTime(3), WallTime(4));
        let held_up = |peer| h.delivered([].iter(), peer).unwrap().held_up;
        assert_eq!(held_up(None), [(10, 20), (40, 50), (70, 80)].map(at));
        assert_eq!(held_up(Some(&peer)), [(10, 30), (40, 50), (70, 80), (81, 90)].map(at));
    }
}
