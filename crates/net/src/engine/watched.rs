//! [`WatchedFlow`]: preliminary results of a running stream, for a remote observer.

use crate::ring::Outlet;
use jitlat_core::distribution::Precision;
use jitlat_core::so_far::{ReceivedSoFar, SoFar};
use jitlat_core::{PacketRecord, SteadyTime};
use jitlat_proto::jitlat::flow::WATCHED_EVERY;

/// A watched flow, as seen by the control thread. The receiving thread only copies each record into a ring.
pub(super) struct WatchedFlow {
    records: Outlet<PacketRecord>,
    so_far: SoFar,
    /// Number of packets that did not fit into the ring; they are counted, but their delays are unknown.
    uncounted: u64,
    /// Time at which the last packet was seen; `None` before the first.
    arrived: Option<SteadyTime>,
    /// Time at which the next report is due; `None` before the first check.
    due: Option<SteadyTime>,
}

impl WatchedFlow {
    /// Creates a watched flow; its receiver fills `records`.
    pub fn new(records: Outlet<PacketRecord>) -> WatchedFlow {
        let so_far = SoFar::new(Precision::FLOW);
        WatchedFlow { records, so_far, uncounted: 0, arrived: None, due: None }
    }

    /// Processes new records. Returns the preliminary results if they are due.
    pub fn look(&mut self, now: SteadyTime) -> Option<ReceivedSoFar> {
        let WatchedFlow { records, so_far, uncounted, arrived, due } = self;
        records.drain(|records| {
            *arrived = Some(now);
            for record in records {
                so_far.push(record, record.delay());
            }
        });
        *uncounted += records.take_overflow();
        let due = due.get_or_insert(now + WATCHED_EVERY);
        if now < *due {
            return None;
        }
        *due = now + WATCHED_EVERY;
        let mut figures = ReceivedSoFar { silence: arrived.map(|at| now - at), ..so_far.take() };
        if *uncounted > 0 {
            // Uncounted packets look like losses, and runs of them like loss bursts, so the counts are
            // corrected.
            figures.received += *uncounted;
            figures.missing = figures.missing.saturating_sub(*uncounted);
            (figures.runs, figures.longest) = (0, 0);
        }
        Some(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring;
    use jitlat_core::{Span, WallTime};

    #[test]
    fn what_came_too_fast_is_not_missing() {
        let (mut intake, outlet) = ring::of_slots(10);
        let mut watched = WatchedFlow::new(outlet);
        let at = |ms: i64| SteadyTime(0) + Span::millis(ms);
        assert_eq!(watched.look(at(0)), None);
        assert_eq!(watched.look(at(1500)), Some(ReceivedSoFar::default()), "nothing has arrived");
        let record = |seq: i64| PacketRecord::one_way(seq, WallTime(seq), WallTime(seq + 7));
        (0..30).for_each(|seq| intake.push(record(seq)));
        let report = watched.look(at(2600)).unwrap();
        assert_eq!((report.received, report.missing, report.median()), (30, 0, Some(7)));
        assert_eq!(report.silence, Some(Span::ZERO));
        intake.push(record(30));
        assert_eq!(watched.look(at(2700)), None, "once a second");
        let report = watched.look(at(4700)).unwrap();
        assert_eq!((report.received, report.missing, report.silence), (31, 0, Some(Span::seconds(2))));
    }
}
