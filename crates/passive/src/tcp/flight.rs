//! [`Flight`]: segments of one direction that were sent and not acknowledged yet.

use super::event::EventKind;
use super::segment::TcpSegment;
use jitlat_core::time::{Span, WallTime};
use std::collections::VecDeque;

/// Maximum number of segments stored.
const MAX_IN_FLIGHT: usize = 1 << 16;
/// Maximum number of segments stored if acknowledgements are not captured, so that arrivals are unknown.
const MAX_UNACKNOWLEDGED: usize = 1 << 12;

/// A range of the stream in transit: sequence numbers from `start` to `end` (exclusive), unwrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InFlight {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Time at which the range, or the gap that it filled, was first seen.
    pub(super) first: WallTime,
    /// Time at which the range was last sent.
    pub(super) last: WallTime,
    /// Reason for the last retransmission of the range; `None` without a retransmission.
    pub(super) again: Option<EventKind>,
    ident: u32,
    /// False if the clock was set after the range was sent, so that its time cannot be compared with the time of its
    /// acknowledgement.
    pub(super) is_timed: bool,
    /// TSval of the segment; `None` if it had none, or if its first transmission was not seen.
    pub(super) timestamp: Option<u32>,
}

impl InFlight {
    /// Creates a range of new bytes of a segment.
    pub(super) fn new(at: WallTime, s: &TcpSegment, (start, end): (u64, u64)) -> InFlight {
        let timestamp = s.timestamps.map(|t| t.0);
        InFlight { start, end, first: at, last: at, again: None, ident: s.ident, is_timed: true, timestamp }
    }

    /// Creates a range of bytes that fill a gap opened at `opened`. They were sent earlier, but not seen at
    /// this point.
    pub(super) fn late(
        at: WallTime,
        s: &TcpSegment,
        range: (u64, u64),
        opened: WallTime,
        why: EventKind,
    ) -> InFlight {
        InFlight { first: opened, again: Some(why), timestamp: None, ..InFlight::new(at, s, range) }
    }
}

/// Ranges in transit, in the order of the stream and without overlaps.
#[derive(Debug, Default)]
pub(super) struct Flight {
    list: VecDeque<InFlight>,
}

impl Flight {
    /// Adds a range that is not in flight yet. A full list drops its first range; the limit is lower if
    /// acknowledgements are not visible ([`MAX_UNACKNOWLEDGED`]), because then nothing else removes ranges.
    #[inline]
    pub(super) fn add(&mut self, new: InFlight, acknowledged: bool) {
        let room = if acknowledged { MAX_IN_FLIGHT } else { MAX_UNACKNOWLEDGED };
        if self.list.len() >= room {
            self.list.pop_front();
        }
        match self.list.back() {
            Some(last) if last.start > new.start => {
                let i = self.list.partition_point(|x| x.start < new.start);
                self.list.insert(i, new);
            }
            _ => self.list.push_back(new),
        }
    }

    /// Removes and returns the first range if it ends at or before `ack`, that is, if it has arrived; otherwise returns
    /// `None`.
    pub(super) fn take_acknowledged(&mut self, ack: u64) -> Option<InFlight> {
        self.list.front().filter(|x| x.end <= ack)?;
        self.list.pop_front()
    }

    /// Iterates over the ranges with bytes between these sequence numbers.
    fn touched(&mut self, (start, end): (u64, u64)) -> impl Iterator<Item = &mut InFlight> {
        let from = self.list.partition_point(|x| x.end <= start);
        self.list.iter_mut().skip(from).take_while(move |x| x.start < end)
    }

    /// Returns the longest time for which bytes of this range have been in transit; `None` if none are.
    pub(super) fn waited(&mut self, at: WallTime, range: (u64, u64)) -> Option<Span> {
        self.touched(range).map(|x| at - x.last).max()
    }

    /// Records that everything in this range was sent again.
    pub(super) fn mark_sent_again(&mut self, at: WallTime, range: (u64, u64), why: EventKind) {
        self.touched(range).for_each(|x| (x.last, x.again) = (at, Some(why)));
    }

    /// True if the IP identification shows that a segment is the same packet as one sent less than `soon` ago.
    pub(super) fn holds_packet(&self, at: WallTime, s: &TcpSegment, start: u64, soon: Span) -> bool {
        let i = self.list.partition_point(|x| x.start < start);
        self.list.get(i).is_some_and(|x| {
            x.start == start
                && x.ident == s.ident
                && s.ident != 0
                && x.timestamp == s.timestamps.map(|t| t.0)
                && at - x.last < soon
        })
    }

    /// Iterates over the ranges in the order of the stream.
    pub(super) fn iter(&self) -> impl Iterator<Item = &InFlight> {
        self.list.iter()
    }

    /// Excludes all ranges in flight from the measurement of round trips, because the clock was set.
    pub(super) fn forget_times(&mut self) {
        self.list.iter_mut().for_each(|x| x.is_timed = false);
    }

    /// True if nothing is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests;
