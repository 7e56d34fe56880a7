//! Helpers for tests of verdicts: hand-made packets and tests, and [`first`], which finds a threshold.

use super::case::Case;
use super::causes::{CauseRule, FoundCause};
use super::delays::Delays;
use super::judge::{into_answer, judge};
use super::losses::Scattered;
use jitlat_core::answer::{Answer, Cause, CauseId, Severity};
use jitlat_core::clock::SyncState;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::evidence::KnownPackets;
use jitlat_core::evidence::{Evidence, RowNotes};
use jitlat_core::metrics::classify::AcceptedPacket;
use jitlat_core::metrics::clock::ClockEstimate;
use jitlat_core::metrics::duplicate::Copies;
use jitlat_core::metrics::seqset::{SeqRun, SeqSet};
use jitlat_core::metrics::series::{Samples, Series};
use jitlat_core::session::{Ending, Session};
use jitlat_core::spec::{Direction, Schedule, TestSpec, Transport};
use jitlat_core::summary::ShareInterval;
use jitlat_core::time::{Span, StampSource};
use std::collections::BTreeMap;

pub const US: i64 = 1_000;
pub const MS: i64 = 1_000_000;
pub const SECOND: i64 = 1_000_000_000;

/// State that a kernel reports for a synchronised clock.
pub const SYNCHRONISED: SyncState = SyncState {
    synchronised: true,
    offset: Span(0),
    estimated_error: Span(0),
    maximum_error: Span(5),
    frequency_ppb: 0,
};

/// Returns the smallest number in `range` for which `holds` is true. `holds` must be monotonic. Panics if it is true
/// for the whole range, or false for the whole range.
pub fn first(range: core::ops::RangeInclusive<i64>, holds: impl Fn(i64) -> bool) -> i64 {
    let (mut below, mut from) = (*range.start(), *range.end());
    assert!(!holds(below), "true for {below} already");
    assert!(holds(from), "false for {from} still");
    while from - below > 1 {
        let middle = below + (from - below) / 2;
        if holds(middle) { from = middle } else { below = middle }
    }
    from
}

/// Known packets of a test: the first `sent` packets are known to be received or lost, the next `unknown` packets are
/// not.
pub const fn known(sent: u64, unknown: u64, complete: bool) -> KnownPackets {
    KnownPackets { sent, end: sent, unknown, tail: unknown, complete, doubtful: 0 }
}

/// Run of lost packets.
pub fn run(start: u64, len: u64) -> SeqRun {
    SeqRun { start, len }
}

/// Losses among `sent` packets, given as runs (start, length).
pub fn scattered(sent: u64, runs: impl IntoIterator<Item = (u64, u64)>) -> Scattered {
    Scattered {
        sent,
        runs: runs.into_iter().map(|(start, len)| (run(start, len), run(start, len))).collect(),
    }
}

/// Packets 0, 1, …, sent every `period` ns; `delay(k)` is the delay of the k-th in ns, `None` if it is lost.
pub fn every(period: i64, n: u32, delay: impl Fn(u32) -> Option<i64>) -> Vec<AcceptedPacket> {
    let packet = |seq| delay(seq).map(|delay| AcceptedPacket { seq, sent: i64::from(seq) * period, delay });
    (0..n).filter_map(packet).collect()
}

/// Packets with these send times and delays, in ns.
pub fn packets(times: impl IntoIterator<Item = (i64, i64)>) -> Vec<AcceptedPacket> {
    (0..).zip(times).map(|(seq, (sent, delay))| AcceptedPacket { seq, sent, delay }).collect()
}

/// Series of `packets` in order of arrival. Its memory is leaked, which is acceptable in a test.
pub fn series(packets: &[AcceptedPacket]) -> &'static Series<'static> {
    let mut arrived = packets.to_vec();
    arrived.sort_by_key(AcceptedPacket::arrived);
    as_read(arrived)
}

/// Like [`series`], for packets that were read in the given order, regardless of their stamps.
pub fn as_read(packets: Vec<AcceptedPacket>) -> &'static Series<'static> {
    let mut samples = Samples::default();
    for packet in packets {
        samples.push(packet);
    }
    let samples: &'static Samples = Box::leak(Box::new(samples));
    Box::leak(Box::new(Series::new(samples)))
}

/// Delays of `packets`.
pub fn delays(packets: &[AcceptedPacket]) -> Delays<'static> {
    Delays::new(series(packets))
}

/// Test that can be judged.
pub struct Test {
    pub session: Session,
    pub series: &'static Series<'static>,
    pub accepted: SeqSet,
    pub sample: Sample,
    pub copies: Copies,
    pub clock: ClockEstimate,
    pub notes: RowNotes,
    pub arrived_by: Option<StampSource>,
    pub off_schedule: Option<[i64; 2]>,
    pub round_trip: bool,
}

impl Test {
    /// Complete test of `sent` packets, one every `period` ns, of which `packets` were received.
    pub fn new(sent: u32, period: i64, packets: &[AcceptedPacket]) -> Test {
        Test::of(sent, period, packets, Schedule::Periodic)
    }

    /// Like [`Test::new`], with this schedule.
    pub fn of(sent: u32, period: i64, packets: &[AcceptedPacket], schedule: Schedule) -> Test {
        Test::with(sent, period, packets, schedule, (Direction::Up, Transport::Udp))
    }

    /// Like [`Test::of`], with this direction and transport.
    pub fn with(
        sent: u32,
        period: i64,
        packets: &[AcceptedPacket],
        schedule: Schedule,
        (direction, transport): (Direction, Transport),
    ) -> Test {
        let count = u64::from(sent).max(1);
        let spec = TestSpec::new(direction, transport, count, 80, Span(period), schedule).unwrap();
        let mut accepted = SeqSet::default();
        packets.iter().for_each(|p| assert!(accepted.insert(p.seq)));
        Test {
            session: Session { sent: Some(sent), ending: Ending::Complete, ..Session::new(spec) },
            series: series(packets),
            accepted,
            sample: Sample::new(packets.iter().map(|p| p.delay)),
            copies: Copies::default(),
            clock: ClockEstimate::default(),
            notes: RowNotes::default(),
            arrived_by: None,
            off_schedule: None,
            round_trip: false,
        }
    }

    /// Returns the evidence for the rules.
    pub fn material(&self) -> Evidence<'_> {
        Evidence {
            session: &self.session,
            series: self.series,
            came: &self.accepted,
            sample: Some(&self.sample),
            copies: &self.copies,
            clock: &self.clock,
            notes: &self.notes,
            arrived_by: self.arrived_by,
            off_schedule: self.off_schedule,
            round_trip: self.round_trip,
        }
    }

    /// Returns the delays of the test.
    pub fn delays(&self) -> Delays<'static> {
        Delays::new(self.series)
    }
}

/// Cause of this kind, from 1 s to 2 s, with packets 100 to 199.
pub fn cause(id: CauseId) -> Cause {
    Cause {
        from_s: 1.0,
        to_s: 2.0,
        magnitude_ns: Some(30 * MS),
        magnitude: Some(0.05),
        packets: [100, 199],
        because: "evidence: the reason".into(),
        ..Cause::new(id, Severity::Fair, 0.9)
    }
}

/// Verdict with these causes and this severity.
pub fn answer(severity: Severity, causes: Vec<Cause>) -> Answer {
    Answer {
        complete: true,
        severity,
        host: None,
        headline: String::new(),
        buffer_ns: None,
        without_clock_step: None,
        causes,
        profiles: BTreeMap::new(),
        qoo: None,
    }
}

/// Returns the causes that `rule` finds in the case of `test` after `change`.
pub fn found_in(test: &Test, rule: &CauseRule, change: impl FnOnce(&mut Case<'_>)) -> Vec<FoundCause> {
    let material = test.material();
    let mut case = Case::new(&material);
    change(&mut case);
    (rule.find)(&case)
}

/// Test of 1000 packets, one every 10 ms, without jitter.
pub fn quiet() -> Test {
    Test::new(1000, 10 * MS, &every(10 * MS, 1000, |_| Some(20 * MS)))
}

mod tests {
    use super::*;

    #[test]
    fn a_period_is_bounded_and_may_be_unknown() {
        let test = |ns| Test::new(1, ns, &every(MS, 1, |_| Some(0)));
        assert_eq!(test(5).material().period(), Some(5));
        let mut unknown = test(5);
        unknown.session.period_known = false;
        assert_eq!(unknown.material().period(), None);
    }

    #[test]
    fn a_transport_and_a_source_of_stamps_say_what_is_seen() {
        let of = |transport| {
            Test::with(1, MS, &every(MS, 1, |_| Some(0)), Schedule::Periodic, (Direction::Up, transport))
        };
        assert!(of(Transport::Udp).material().shows_loss());
        assert!(!of(Transport::Tcp).material().shows_loss());
        let stamped = |by| Test { arrived_by: by, ..of(Transport::Udp) }.material().is_stamped_by_kernel();
        assert!(!stamped(None) && !stamped(Some(StampSource::User)) && stamped(Some(StampSource::Kernel)));
    }
}

/// Returns the verdict on `test`, without profiles and without an interval of its loss.
pub fn verdict_on(test: &Test) -> Answer {
    into_answer(judge(&test.material(), &[], false), test.session.ending, Some(&ShareInterval::default()))
}
