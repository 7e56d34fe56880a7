//! [`History`]: the delivery of one direction's data over time, if it is recorded.

use super::delay_causes::{DeliveryHistory, SegmentTimes};
use super::flight::InFlight;
use crate::time::WallTime;

/// Most segments recorded of a direction, and most times at which a window delayed it.
const REMEMBERED: usize = 1 << 20;

/// What a direction has delivered so far.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Sequence number of the stream's first byte, unwrapped; `None` if the SYN was not seen.
    begin: Option<u64>,
    segments: Vec<SegmentTimes>,
    /// When the peer's window was full, and when this side's own was closed.
    full: Vec<(WallTime, WallTime)>,
    closed: Vec<(WallTime, WallTime)>,
}

impl History {
    /// Sets where the stream begins.
    pub(super) fn begin(&mut self, start: u64) {
        self.begin.get_or_insert(start);
    }

    /// Records a stretch that has arrived.
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

    /// Records that the peer's window was full between these times.
    pub(super) fn keep_full(&mut self, since: WallTime, until: WallTime) {
        remember(&mut self.full, (since, until));
    }

    /// Records that this side's own window was closed between these times.
    pub(super) fn keep_closed(&mut self, since: WallTime, until: WallTime) {
        remember(&mut self.closed, (since, until));
    }

    /// Everything so far, including what is still `open`, given the history of the other direction; `None` if the
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
        // A window that is full may also close: no time counts twice.
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
