//! [`History`]: the course of one direction's data, where it is to be remembered.

use super::delay_causes::{DeliveryHistory, SegmentTimes};
use super::flight::InFlight;
use crate::time::WallTime;

/// Segments remembered of a direction, and times at which a window held it up.
const REMEMBERED: usize = 1 << 20;

/// What a direction has delivered so far.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Sequence number of the stream's first byte, unwrapped; missing where the SYN was.
    begin: Option<u64>,
    segments: Vec<SegmentTimes>,
    /// When the peer's window was full, and when one's own was closed.
    full: Vec<(WallTime, WallTime)>,
    closed: Vec<(WallTime, WallTime)>,
}

impl History {
    /// The stream begins here.
    pub(super) fn begin(&mut self, start: u64) {
        self.begin.get_or_insert(start);
    }

    /// Remembers a stretch that has arrived.
    pub(super) fn keep(&mut self, x: &InFlight) {
        if let Some(begin) = self.begin
            && x.end > begin
            && self.segments.len() < REMEMBERED
        {
            self.segments.push(SegmentTimes {
                end: x.end - begin,
                first: x.first,
                last: x.last,
                why: x.again,
            });
        }
    }

    /// The peer's window was full from the one time to the other.
    pub(super) fn keep_full(&mut self, since: WallTime, until: WallTime) {
        remember(&mut self.full, (since, until));
    }

    /// One's own window was closed from the one time to the other.
    pub(super) fn keep_closed(&mut self, since: WallTime, until: WallTime) {
        remember(&mut self.closed, (since, until));
    }

    /// Everything so far, what is still `open` included, given the history of the other direction; `None` if the
    /// beginning was not seen.
    pub(super) fn delivered<'a>(
        &self,
        open: impl Iterator<Item = &'a InFlight>,
        peer: Option<&History>,
    ) -> Option<DeliveryHistory> {
        self.begin?;
        let mut whole = self.clone();
        open.for_each(|x| whole.keep(x));
        let mut held_up = whole.full;
        held_up.extend(peer.iter().flat_map(|p| &p.closed));
        held_up.sort_unstable();
        // A window that is full may close as well: no time counts twice.
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
    if list.len() < REMEMBERED {
        list.push(times);
    }
}
