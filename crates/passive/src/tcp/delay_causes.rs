//! Causes of the delay of each record in a stream of equal records, from the segments that transported it.
//!
//! A record's delay above the smallest is divided into four parts: the time until its bytes left the sender;
//! the time until these or earlier bytes were last retransmitted; the time until the receiving program read
//! them; and the rest, which is attributed to the path. The first part is visible at the sending end, the third
//! at the receiving end.

use super::event::EventKind;
use jitlat_core::time::{Span, WallTime};
use serde::Serialize;

/// Tolerance for comparing times of two hosts' clocks, in ns. A tenth of the compared time is added.
const CLOCK_TOLERANCE_NS: i64 = 1_000_000;

/// Transmission of a range of one direction's data, up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentTimes {
    /// Number of bytes from the beginning of the stream to the end of the range.
    pub end: u64,
    /// Time at which the range, or the gap that it filled, was first seen.
    pub first: WallTime,
    /// Time at which the range was last sent before it was acknowledged.
    pub last: WallTime,
    /// Reason for the retransmission of the range; `None` if it was not retransmitted.
    pub why: Option<EventKind>,
}

/// Times at which one direction's data passed the capture point and was acknowledged, from the beginning of the
/// connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryHistory {
    /// Segments, in the order of the stream.
    pub segments: Vec<SegmentTimes>,
    /// Time ranges in which the receiver's window was full or closed.
    pub held_up: Vec<(WallTime, WallTime)>,
}

/// End of the connection at which packets are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureSide {
    /// The sender's end: delay inside the sender is visible.
    Sender,
    /// The receiver's end: delay inside the receiver is visible.
    Receiver,
}

impl CaptureSide {
    /// True if a cause is visible at this end. Invisible causes are counted as the path's share.
    pub fn sees(self, cause: DelayCause) -> bool {
        match cause {
            DelayCause::WindowFull | DelayCause::Sender => self == CaptureSide::Sender,
            DelayCause::Receiver => self == CaptureSide::Receiver,
            _ => true,
        }
    }
}

/// Positions of the records in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFraming {
    /// Number of bytes before the first record.
    pub lead: u64,
    /// Length of a record, in bytes.
    pub length: u64,
}

/// Times of a record, as measured by the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedRecord {
    /// Sequence number, which determines its position in the stream.
    pub seq: u32,
    /// Time at which the record was passed to TCP, on the sender's clock.
    pub sent: WallTime,
    /// Time from `sent` until the record was read, including the clock offset.
    pub delay: Span,
}

/// Cause of a record's delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DelayCause {
    /// The data waited at the sender because the receiver's window was full or closed.
    WindowFull,
    /// The data waited at the sender for another reason: the congestion window, the send buffer, Nagle's
    /// algorithm.
    Sender,
    /// The data was lost and retransmitted after duplicate acknowledgements or SACK.
    Fast,
    /// The data was lost and retransmitted after silence: a retransmission timeout or a probe.
    Timeout,
    /// The data waited for the retransmission of earlier data.
    Behind,
    /// The data waited at the receiver until the program read it.
    Receiver,
    /// Delay on the path, or from causes that are not visible at this end.
    Path,
}

impl DelayCause {
    /// All causes, from sender to receiver.
    pub const ALL: [DelayCause; 7] = [
        DelayCause::WindowFull,
        DelayCause::Sender,
        DelayCause::Fast,
        DelayCause::Timeout,
        DelayCause::Behind,
        DelayCause::Receiver,
        DelayCause::Path,
    ];
}

/// Share of one cause in the delay of a stream's records.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CauseShare {
    /// The cause.
    pub cause: DelayCause,
    /// Number of records for which this cause is the largest part of the delay above the smallest.
    pub packets: u64,
    /// Delay that this cause added to all records together, in ns.
    pub total_ns: i64,
    /// Share of the total delay above the smallest, 0…1; `None` if that total is zero.
    pub share: Option<f64>,
    /// Largest delay that this cause added to one record, in ns.
    pub longest_ns: i64,
}

/// Causes of the delay of a stream's records.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayCauses {
    /// Number of records for which causes are known.
    pub packets: u64,
    /// Total delay of the records above the smallest, in ns.
    pub above_minimum_ns: i64,
    /// Shares of the causes that are visible at the capture point; their sum is `above_minimum_ns`.
    pub causes: Vec<CauseShare>,
}

/// Times of one record at the capture point.
struct PassageTimes {
    left: i64,
    own: i64,
    ready: i64,
    why: Option<EventKind>,
}

impl DeliveryHistory {
    /// Divides the delay of `records` above the smallest among the causes; `None` if this history contains none of the
    /// records.
    pub fn explain(
        &self,
        side: CaptureSide,
        framing: RecordFraming,
        records: &[ObservedRecord],
    ) -> Option<DelayCauses> {
        let mut latest = i64::MIN;
        let ready: Vec<i64> = self
            .segments
            .iter()
            .map(|s| {
                latest = latest.max(s.last.0);
                latest
            })
            .collect();
        let passages: Vec<_> =
            records.iter().filter_map(|r| Some((r, self.passage_times(&ready, framing, r.seq)?))).collect();
        let least = passages.iter().map(|(r, _)| r.delay.0).min()?;
        let edge = |r: &ObservedRecord, p: &PassageTimes| match side {
            CaptureSide::Sender => p.left.saturating_sub(r.sent.0),
            CaptureSide::Receiver => (r.sent + r.delay).0.saturating_sub(p.ready),
        };
        let usual = passages.iter().map(|(r, p)| edge(r, p)).min()?;
        let (mut sums, mut most, mut longest, mut whole) = ([0i64; 7], [0u64; 7], [0i64; 7], 0i64);
        for (r, p) in &passages {
            let mut rest = r.delay.0.saturating_sub(least);
            whole = whole.saturating_add(rest);
            let mut parts = [0i64; 7];
            let mut take = |cause: DelayCause, time: i64| {
                let part = time.clamp(0, rest);
                rest -= part;
                parts[cause as usize] += part;
                rest
            };
            let waited = edge(r, p).saturating_sub(usual);
            let mut left = i64::MAX;
            if side == CaptureSide::Sender {
                let full = self.held_between(r.sent.0, p.left).min(waited.max(0));
                take(DelayCause::WindowFull, full);
                left = take(DelayCause::Sender, waited - full);
            }
            // Data that arrived before the retransmission was not delayed by it.
            let credible = |time: i64| (time - time / 10).saturating_sub(CLOCK_TOLERANCE_NS) <= left;
            let (own, behind) = (p.own.saturating_sub(p.left), p.ready.saturating_sub(p.own));
            let (own, behind) = match () {
                () if credible(own.saturating_add(behind)) => (own, behind),
                () if credible(own) => (own, 0),
                () => (0, 0),
            };
            match p.why {
                Some(EventKind::Fast) => drop(take(DelayCause::Fast, own)),
                Some(EventKind::Timeout | EventKind::Probe) => drop(take(DelayCause::Timeout, own)),
                _ => {}
            }
            take(DelayCause::Behind, behind);
            if side == CaptureSide::Receiver {
                take(DelayCause::Receiver, waited);
            }
            take(DelayCause::Path, i64::MAX);
            for k in 0..parts.len() {
                sums[k] = sums[k].saturating_add(parts[k]);
                longest[k] = longest[k].max(parts[k]);
            }
            if let Some((k, part)) = parts.iter().enumerate().max_by_key(|(_, part)| **part)
                && *part > 0
            {
                most[k] += 1;
            }
        }
        let causes = DelayCause::ALL.into_iter().filter(|c| side.sees(*c)).map(|cause| {
            let k = cause as usize;
            CauseShare {
                cause,
                packets: most[k],
                total_ns: sums[k],
                share: (whole > 0).then(|| sums[k] as f64 / whole as f64),
                longest_ns: longest[k],
            }
        });
        Some(DelayCauses {
            packets: passages.len() as u64,
            above_minimum_ns: whole,
            causes: causes.collect(),
        })
    }

    fn passage_times(&self, ready: &[i64], framing: RecordFraming, seq: u32) -> Option<PassageTimes> {
        let start = framing.lead.checked_add(framing.length.checked_mul(seq.into())?)?;
        let end = start.checked_add(framing.length)?;
        let from = self.segments.partition_point(|s| s.end <= start);
        let to = self.segments.partition_point(|s| s.end < end);
        let carriers = self.segments.get(from..=to)?;
        let slowest = carriers.iter().max_by_key(|s| s.last)?;
        Some(PassageTimes {
            left: carriers.iter().map(|s| s.first.0).max()?,
            own: slowest.last.0,
            ready: *ready.get(to)?,
            why: slowest.why,
        })
    }

    /// Total time between `from` and `to` in which the receiver's window was full or closed, in ns.
    fn held_between(&self, from: i64, to: i64) -> i64 {
        let first = self.held_up.partition_point(|h| h.1.0 <= from);
        let times = self.held_up[first..].iter().take_while(|h| h.0.0 < to);
        times.map(|h| h.1.0.min(to).saturating_sub(h.0.0.max(from)).max(0)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const FRAMING: RecordFraming = RecordFraming { lead: 12, length: 100 };

    /// One segment for each record, sent at once unless `change` delays it.
    fn delivery_history(n: u64, change: impl Fn(u64, &mut SegmentTimes)) -> DeliveryHistory {
        let one = |k: u64| {
            let at = WallTime(k as i64 * 10 * MS);
            let mut c = SegmentTimes { end: 12 + 100 * (k + 1), first: at, last: at, why: None };
            change(k, &mut c);
            c
        };
        DeliveryHistory { segments: (0..n).map(one).collect(), held_up: Vec::new() }
    }

    fn record(seq: u32, delay: i64) -> ObservedRecord {
        ObservedRecord { seq, sent: WallTime(i64::from(seq) * 10 * MS), delay: Span(delay * MS) }
    }

    fn total(e: &DelayCauses, cause: DelayCause) -> (u64, i64) {
        let s = e.causes.iter().find(|c| c.cause == cause).unwrap();
        (s.packets, s.total_ns / MS)
    }

    #[test]
    fn a_loss_delays_its_own_record_and_those_behind_it() {
        let again = |k, c: &mut SegmentTimes| {
            if k == 3 {
                (c.last, c.why) = (WallTime(c.first.0 + 25 * MS), Some(EventKind::Fast));
            }
        };
        let delays = [20, 20, 20, 45, 35, 25, 20, 26];
        let records: Vec<_> = delays.iter().enumerate().map(|(k, d)| record(k as u32, *d)).collect();
        let e = delivery_history(8, again).explain(CaptureSide::Sender, FRAMING, &records).unwrap();
        assert_eq!((e.packets, e.above_minimum_ns / MS), (8, 25 + 15 + 5 + 6));
        assert_eq!(total(&e, DelayCause::Fast), (1, 25));
        assert_eq!(total(&e, DelayCause::Behind), (2, 20));
        assert_eq!(total(&e, DelayCause::Path), (1, 6));
        let share: f64 = e.causes.iter().filter_map(|c| c.share).sum();
        assert!((share - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_was_sent_again_for_nothing_delayed_nothing() {
        let again = |k, c: &mut SegmentTimes| {
            if k == 3 {
                (c.last, c.why) = (WallTime(c.first.0 + 250 * MS), Some(EventKind::Timeout));
            }
        };
        let records: Vec<_> = (0..6).map(|k| record(k, 20 + i64::from(k == 4))).collect();
        let e = delivery_history(6, again).explain(CaptureSide::Sender, FRAMING, &records).unwrap();
        assert_eq!((total(&e, DelayCause::Timeout), total(&e, DelayCause::Behind)), ((0, 0), (0, 0)));
        assert_eq!(total(&e, DelayCause::Path), (1, 1));
    }

    #[test]
    fn waiting_at_the_sender_is_the_windows_as_long_as_it_is_full() {
        let late = |k, c: &mut SegmentTimes| {
            if k == 2 {
                (c.first, c.last) = (WallTime(c.first.0 + 50 * MS), WallTime(c.last.0 + 50 * MS));
            }
        };
        let mut c = delivery_history(3, late);
        c.held_up.push((WallTime(0), WallTime(50 * MS)));
        let records = [record(0, 20), record(1, 20), record(2, 70)];
        let e = c.explain(CaptureSide::Sender, FRAMING, &records).unwrap();
        assert_eq!((total(&e, DelayCause::WindowFull), total(&e, DelayCause::Sender)), ((1, 30), (0, 20)));
    }

    #[test]
    fn at_the_receiving_end_reading_late_is_seen() {
        let c = delivery_history(3, |_, _| ());
        // The capture point is 20 ms further on; the last record was read 7 ms after it had arrived.
        let shifted = c.segments.iter().map(|s| SegmentTimes {
            first: s.first + Span::millis(20),
            last: s.last + Span::millis(20),
            ..*s
        });
        let c = DeliveryHistory { segments: shifted.collect(), ..c };
        let e = c
            .explain(CaptureSide::Receiver, FRAMING, &[record(0, 20), record(1, 20), record(2, 27)])
            .unwrap();
        assert_eq!(total(&e, DelayCause::Receiver), (1, 7));
        assert_eq!(
            c.explain(CaptureSide::Receiver, FRAMING, &[record(9, 20)]),
            None,
            "not in the delivery_history"
        );
    }

    #[test]
    fn each_end_sees_what_waits_there() {
        let seen = |side| {
            let e = delivery_history(2, |_, _| ()).explain(side, FRAMING, &[record(0, 20), record(1, 20)]);
            e.unwrap().causes.iter().map(|c| (c.cause, c.share)).collect::<Vec<_>>()
        };
        // Every record took equally long, so there is no delay to be divided.
        let [full, sender, fast, timeout, behind, receiver, path] = DelayCause::ALL.map(|c| (c, None));
        assert_eq!(seen(CaptureSide::Sender), [full, sender, fast, timeout, behind, path]);
        assert_eq!(seen(CaptureSide::Receiver), [fast, timeout, behind, receiver, path]);
    }

    #[test]
    fn waiting_at_the_sender_goes_on_when_there_is_room_again() {
        let late = |k, c: &mut SegmentTimes| {
            if k == 2 {
                (c.first, c.last) = (WallTime(70 * MS), WallTime(70 * MS));
            }
        };
        // The third record was to leave at 20 ms; there was room at 50 ms.
        let mut c = delivery_history(3, late);
        c.held_up.push((WallTime(0), WallTime(50 * MS)));
        let e =
            c.explain(CaptureSide::Sender, FRAMING, &[record(0, 20), record(1, 20), record(2, 99)]).unwrap();
        let parts = [DelayCause::WindowFull, DelayCause::Sender, DelayCause::Path].map(|c| total(&e, c));
        assert_eq!(parts, [(1, 30), (0, 20), (0, 29)]);
    }

    /// The third of three records takes `above` ms longer; it was retransmitted after `own` ms, and the data
    /// before it after another `before` ms. Returns the delays attributed to the retransmission, to waiting
    /// behind others, and to the path.
    fn repaired(above: i64, own: i64, before: i64, why: EventKind) -> [i64; 3] {
        let again = |k, c: &mut SegmentTimes| {
            if k == 1 {
                c.last = WallTime((20 + own + before) * MS);
            }
            if k == 2 {
                (c.last, c.why) = (WallTime((20 + own) * MS), Some(why));
            }
        };
        let records = [record(0, 20), record(1, 20), record(2, 20 + above)];
        let e = delivery_history(3, again).explain(CaptureSide::Sender, FRAMING, &records).unwrap();
        let repair = if why == EventKind::Fast { DelayCause::Fast } else { DelayCause::Timeout };
        [repair, DelayCause::Behind, DelayCause::Path].map(|c| total(&e, c).1)
    }

    #[test]
    fn a_retransmission_is_believed_as_far_as_the_record_was_late() {
        assert_eq!(repaired(25, 25, 0, EventKind::Timeout), [25, 0, 0]);
        assert_eq!(repaired(25, 25, 0, EventKind::Probe), [25, 0, 0]);
        // Clocks agree to a tenth and a millisecond: of 100 ms, 89 ms are enough.
        assert_eq!(repaired(89, 100, 0, EventKind::Fast), [89, 0, 0]);
        assert_eq!(repaired(88, 100, 0, EventKind::Fast), [0, 0, 88]);
        // Caused by itself and the data before it, by itself alone, by neither.
        assert_eq!(repaired(60, 20, 30, EventKind::Fast), [20, 30, 10]);
        assert_eq!(repaired(25, 20, 300, EventKind::Fast), [20, 0, 5]);
        assert_eq!(repaired(25, 300, 0, EventKind::Fast), [0, 0, 25]);
    }

    proptest::proptest! {
        /// For any times the parts add up, and none is negative.
        #[test]
        fn parts_add_up(times in proptest::collection::vec((-50i64..50, 0i64..80, 0i64..400, 0u8..4), 1..40)) {
            let why = [None, Some(EventKind::Fast), Some(EventKind::Timeout), Some(EventKind::OutOfOrder)];
            let segments = times.iter().enumerate().map(|(k, (early, again, _, w))| SegmentTimes {
                end: 12 + 100 * (k as u64 + 1),
                first: WallTime((k as i64 * 10 + early) * MS),
                last: WallTime((k as i64 * 10 + early + again) * MS),
                why: why[usize::from(*w)],
            });
            let c = DeliveryHistory { segments: segments.collect(), held_up: vec![(WallTime(30 * MS), WallTime(90 * MS))] };
            let records: Vec<_> = times.iter().enumerate().map(|(k, t)| record(k as u32, t.2)).collect();
            for side in [CaptureSide::Sender, CaptureSide::Receiver] {
                let e = c.explain(side, FRAMING, &records).unwrap();
                proptest::prop_assert_eq!(e.causes.iter().map(|c| c.total_ns).sum::<i64>(), e.above_minimum_ns);
                proptest::prop_assert!(e.causes.iter().all(|c| c.total_ns >= 0));
            }
        }
    }
}
