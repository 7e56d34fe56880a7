//! [`project`]: converts a two-way record to a one-way record.

use crate::ecn::Ecn;
use crate::record::{Moment, PacketRecord};
use crate::time::{Span, Stamp};

/// Part of a two-way record that is viewed as a one-way record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordView {
    /// The round trip, without the far host's processing time if that is known: (T4 − T1) − (T3 − T2).
    RoundTrip,
    /// The direction up: T2 − T1, from two clocks.
    Up,
    /// The direction down: T4 − T3, from two clocks.
    Down,
}

/// Returns the far host's processing time, T3 − T2; `None` unless both are known.
pub fn processing(record: &PacketRecord) -> Option<Span> {
    record.time(Moment::Answered)?.checked_since(record.time(Moment::Arrived)?)
}

/// Returns the round-trip time, without the far host's processing time if that is known.
pub fn round_trip(record: &PacketRecord) -> Option<Span> {
    let whole = record.time(Moment::Returned)?.checked_since(record.time(Moment::Sent)?)?;
    Some(whole - processing(record).unwrap_or_default())
}

/// Returns true if the delay of the answer `record` in this view is unknown, in one of two cases: the processing time
/// of the far host is longer than the whole round trip, so one of the four times is wrong; or the processing time is
/// missing, so the round trip includes it although those of other answers do not. `processing_apart` is
/// [`TwoWay::processing_apart`](super::TwoWay::processing_apart).
pub fn lacks_delay(record: &PacketRecord, view: RecordView, processing_apart: bool) -> bool {
    let impossible = round_trip(record).is_some_and(|rtt| rtt < Span::ZERO);
    impossible || view == RecordView::RoundTrip && processing_apart && processing(record).is_none()
}

/// Returns `record` as a record of a one-way stream: `sent` and `arrived` are the two times of the view. `None` if
/// either is unknown. Lags, size and header fields describe the packet that returned, so only views that end with its
/// arrival retain them.
///
/// In the up direction the receive lag of a request is the time that the far host held it, if that is
/// [`LATE_ANSWER_NS`] or longer.
pub fn project(record: &PacketRecord, view: RecordView) -> Option<PacketRecord> {
    let (from, to) = match view {
        RecordView::RoundTrip => (Moment::Sent, Moment::Returned),
        RecordView::Up => (Moment::Sent, Moment::Arrived),
        RecordView::Down => (Moment::Answered, Moment::Returned),
    };
    let start = record.stamp(from)?;
    let mut end = record.stamp(to)?;
    if view == RecordView::RoundTrip {
        end = Stamp { at: start.at + round_trip(record)?, ..end };
    }
    let mut seen = PacketRecord::new(record.seq);
    seen.flags = record.flags;
    seen.set(Moment::Sent, start);
    seen.set(Moment::Arrived, end);
    if view != RecordView::Down {
        seen.set_send_lag(record.send_lag());
        seen.set_entry_lag(record.entry_lag());
    }
    if view == RecordView::Up {
        // A far host that answers very late read the request late: it stalled.
        let held = processing(record).filter(|held| held.0 >= LATE_ANSWER_NS);
        seen.set_receive_lag(held);
        // Only the ECN bits of this octet are known.
        seen.set_traffic_class(record.request_mark().map(Ecn::bits));
    }
    if view != RecordView::Up {
        seen.set_receive_lag(record.receive_lag());
        seen.set_size(record.size());
        seen.set_ttl(record.ttl());
        seen.set_traffic_class(record.traffic_class());
        seen.set_answer_mark(record.answer_mark());
    }
    Some(seen)
}

/// Minimum processing time of a request, in ns, at which the far host is considered to have read the request late.
/// Normal processing takes less.
pub const LATE_ANSWER_NS: i64 = 40_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{StampSource, WallTime};

    fn record(times: [Option<i64>; 4]) -> PacketRecord {
        let mut r = PacketRecord::new(3);
        let moments = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
        for (moment, t) in moments.into_iter().zip(times) {
            if let Some(t) = t {
                r.set(moment, Stamp { at: WallTime(t), source: StampSource::Kernel });
            }
        }
        r
    }

    #[test]
    fn the_three_views() {
        let r = record([Some(1000), Some(51_500), Some(51_800), Some(3000)]);
        let delay = |v| project(&r, v).unwrap().delay().unwrap().0;
        assert_eq!(
            (delay(RecordView::RoundTrip), delay(RecordView::Up), delay(RecordView::Down)),
            (1700, 50_500, -48_800)
        );
        assert_eq!(processing(&r), Some(Span(300)));
    }

    #[test]
    fn a_round_trip_is_not_negative() {
        // The far host reports a processing time longer than the whole round trip.
        let r = record([Some(1000), Some(51_500), Some(53_600), Some(3000)]);
        assert_eq!(round_trip(&r), Some(Span(-100)));
        let lacks = |r, view| [false, true].map(|apart| lacks_delay(r, view, apart));
        for view in [RecordView::RoundTrip, RecordView::Up, RecordView::Down] {
            assert_eq!(lacks(&r, view), [true; 2], "nor is the split by direction known");
        }
        let r = record([Some(1000), Some(51_500), Some(53_500), Some(3000)]);
        assert_eq!(lacks(&r, RecordView::RoundTrip), [false; 2]);
        let r = record([Some(1000), Some(51_500), None, Some(3000)]);
        assert_eq!(lacks(&r, RecordView::RoundTrip), [false, true]);
        assert_eq!(lacks(&r, RecordView::Up), [false; 2]);
    }

    #[test]
    fn what_is_not_known_is_not_seen() {
        let r = record([Some(1000), None, None, Some(3000)]);
        assert_eq!(project(&r, RecordView::RoundTrip).unwrap().delay(), Some(Span(2000)));
        assert!(project(&r, RecordView::Up).is_none() && project(&r, RecordView::Down).is_none());
        assert!(project(&record([Some(1), None, None, None]), RecordView::RoundTrip).is_none());
    }
}
