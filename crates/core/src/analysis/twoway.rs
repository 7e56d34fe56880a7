//! Two-way tests: each packet is viewed as a round trip, as a packet up and as a packet down, and each view
//! is analysed as a stream.

use super::assemble::{self, DirectionFacts};
use super::engine::Engine;
use super::found::Test;
use super::{Options, Samples};
use crate::clock::ClockProbe;
use crate::evidence::Judgement;
use crate::helpers::Helpers;
use crate::metrics::known::{ArrivalCounts, DelayKind};
use crate::metrics::seqset::SeqRun;
use crate::record::{Moment, PacketRecord};
use crate::session::{HostFacts, Session};
use crate::summary::{Loss, Summary, Warning};
use crate::time::{Span, WallTime};
use crate::twoway::{
    DirectionResult, Directions, LossRun, LossSide, NotAnswers, Processing, RecordView, SendingMode, TwoWay,
    TwoWayFigures, far_clock, lacks_delay, processing, project,
};
use crate::units::eng4;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Number of equal parts into which a test is divided. The fastest exchange of each part is used to estimate
/// the clocks.
pub(super) const STRETCHES: usize = 8;

/// The views of a two-way test, in the order of their analyses. The first one describes the test as a whole.
pub(super) const VIEWS: [RecordView; 3] = [RecordView::RoundTrip, RecordView::Up, RecordView::Down];

/// State of a two-way test that belongs to no single view.
#[derive(Clone, Debug)]
pub(super) struct BothWays {
    pub far_clock: bool,
    pub processing_apart: bool,
    pub packets: u32,
    pub fastest: [Option<ClockProbe>; STRETCHES],
    pub processing: Option<Processing>,
    pub processing_sum: i128,
    pub returned: Returned,
}

/// Return times of the answers, to detect that this host's clock was set back.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Returned {
    pub first: Option<WallTime>,
    pub last: Option<WallTime>,
    /// Number of answers whose return time is before that of the previous answer.
    pub back: u64,
}

impl Returned {
    fn push(&mut self, at: WallTime) {
        self.append(Returned { first: Some(at), last: Some(at), back: 0 });
    }

    fn append(&mut self, next: Returned) {
        let went_back = self.last.zip(next.first).is_some_and(|(last, first)| first < last);
        self.back += next.back + u64::from(went_back);
        self.first = self.first.or(next.first);
        self.last = next.last.or(self.last);
    }
}

impl BothWays {
    pub fn new(session: &Session, facts: &TwoWay) -> BothWays {
        BothWays {
            far_clock: facts.far_clock,
            processing_apart: facts.processing_apart,
            packets: session.spec.packets(),
            fastest: [None; STRETCHES],
            processing: None,
            processing_sum: 0,
            returned: Returned::default(),
        }
    }

    /// Adds the next records, in arrival order, to every view.
    pub fn push_all(&mut self, views: &mut [Engine], records: &[PacketRecord]) {
        for record in records {
            self.update_common(record);
            if self.far_clock {
                self.probe(record);
            }
        }
        // Without times of the far host there are no separate directions.
        let seen = if self.far_clock { VIEWS.len() } else { 1 };
        for (engine, view) in views.iter_mut().zip(VIEWS).take(seen) {
            self.push_view(engine, view, records);
        }
    }

    fn push_view(&self, engine: &mut Engine, view: RecordView, records: &[PacketRecord]) {
        let mut seen: Vec<PacketRecord> = Vec::with_capacity(records.len());
        for record in records {
            let Some(projected) = project(record, view) else { continue };
            let is_delayless = projected.flags.is_clean() && lacks_delay(record, view, self.processing_apart);
            if is_delayless {
                // Rows must stay in order of arrival.
                engine.push_all(&seen);
                seen.clear();
                engine.push_delayless(&projected);
            } else {
                seen.push(projected);
            }
        }
        engine.push_all(&seen);
    }

    /// Updates the state that belongs to no view.
    fn update_common(&mut self, record: &PacketRecord) {
        if let Some(at) = record.time(Moment::Returned) {
            self.returned.push(at);
        }
        if let Some(took) = processing(record).filter(|_| record.flags.is_clean()) {
            let p = self.processing.get_or_insert(Processing { n: 0, min: took.0, mean: 0, max: took.0 });
            p.n += 1;
            p.min = p.min.min(took.0);
            p.max = p.max.max(took.0);
            self.processing_sum += i128::from(took.0);
        }
    }

    /// Stores the fastest exchange of each part of the test, which gives the best estimate of the clock
    /// offset.
    fn probe(&mut self, record: &PacketRecord) {
        let times = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
        let [Some(sent), Some(arrived), Some(answered), Some(returned)] = times.map(|m| record.time(m))
        else {
            return;
        };
        let probe = ClockProbe { sent, arrived, answered, returned };
        // A negative round trip contradicts the clock, so its offset would be meaningless.
        if !record.flags.is_clean() || probe.rtt().0 < 0 {
            return;
        }
        let stretch = record.seq.clamp(0, i64::from(self.packets) - 1) as u64 * STRETCHES as u64;
        let slot = &mut self.fastest[(stretch / u64::from(self.packets)) as usize % STRETCHES];
        if slot.is_none_or(|p| probe.rtt() < p.rtt()) {
            *slot = Some(probe);
        }
    }

    pub fn append(&mut self, next: &BothWays) {
        for (mine, theirs) in self.fastest.iter_mut().zip(next.fastest) {
            *mine = match (*mine, theirs) {
                (Some(a), Some(b)) => Some(if b.rtt() < a.rtt() { b } else { a }),
                (a, b) => a.or(b),
            };
        }
        self.append_common(next.returned, next.processing, next.processing_sum);
    }

    /// Adds the view-independent state of the rows that follow.
    pub(super) fn append_common(&mut self, returned: Returned, processing: Option<Processing>, sum: i128) {
        self.returned.append(returned);
        self.processing_sum += sum;
        self.processing = match (self.processing, processing) {
            (Some(a), Some(b)) => {
                Some(Processing { n: a.n + b.n, min: a.min.min(b.min), mean: 0, max: a.max.max(b.max) })
            }
            (a, b) => a.or(b),
        };
    }

    /// Returns the summary of the test; the first of the `views` is the round trip.
    pub fn finish(
        self,
        views: Vec<Engine>,
        session: &Session,
        options: &Options,
        helpers: Option<&dyn Helpers>,
    ) -> (Summary, Samples) {
        let Ok([mut round_trip, mut up, down]) = <[Engine; 3]>::try_from(views) else {
            return Default::default();
        };
        // Clock regressions are counted at the host that reads the arrival time, for round trips at this
        // host. The order in which answers return shows nothing about the far host's clock.
        round_trip.tally.rx_time_regressions = self.returned.back;
        up.tally.rx_time_regressions = 0;
        let BothWays { far_clock, fastest, processing, processing_sum, .. } = self;
        let direction_options = Options { comparable: false, ..options.clone() };
        let facts = session.two_way.as_deref().cloned().unwrap_or_default();
        let mut seen = session.clone();
        // Coarse times widen the interval in which the offset must lie, in both directions.
        let resolution = facts.far_resolution.unwrap_or_default();
        let widened = |p: &ClockProbe| ClockProbe {
            sent: p.sent - resolution,
            returned: p.returned + resolution,
            ..*p
        };
        seen.probes = fastest.iter().flatten().map(widened).collect();
        let processing =
            processing.map(|p| Processing { mean: (processing_sum / i128::from(p.n.max(1))) as i64, ..p });
        let round_trips = of_view(session, RecordView::RoundTrip);
        let test = Test { session: &round_trips, options, kind: DelayKind::RoundTrips };
        round_trip.found(test, helpers, |found, notes| {
            let known = found.stream().known;
            // A step of the near clock moves the offset like a step of the far clock.
            let near_set = known.clock.client.step_ns.is_some_and(|s| s.unsigned_abs() > 1_000_000);
            let step = if far_clock && !near_set { far_clock::step(&seen.probes) } else { None };
            let step = step.filter(|step| step.0.unsigned_abs() > 2 * resolution.0.unsigned_abs());
            let analysis = DirectionAnalysis {
                facts: &facts,
                session: &seen,
                options: &direction_options,
                far_clock,
                clock_was_steady: step.is_none(),
                round_trips: known.counted,
                period: known.periods.mean(),
            };
            let ((up, up_judgement), (down, down_judgement)) =
                (analysis.of(up, RecordView::Up).unzip(), analysis.of(down, RecordView::Down).unzip());
            let slowed = facts.marked_slowdown.map_or(0, |slowdown| slowdown.requests);
            let shifts = (session.schedule_shifts.len() as u64).saturating_sub(slowed);
            let longest_shift = session.schedule_shifts.iter().map(|shift| shift.by.0).max();
            let figures = TwoWayFigures {
                sending: if facts.wait.is_some() { SendingMode::StopAndWait } else { SendingMode::OpenLoop },
                wait_ns: facts.wait.map(|w| w.0),
                timeout_ns: facts.timeout.map(|t| t.0),
                up,
                down,
                directions: analysis.known(),
                processing,
                processing_min_ns: processing.map(|p| p.min),
                processing_max_ns: processing.map(|p| p.max),
                without_processing: known.counted.delayless,
                answer_dscp: facts.answer_dscp,
                request_dscp: facts.request_dscp.clone(),
                request_ecn: facts.request_ecn.clone(),
                not_answers: facts.not_answers,
                unsent: session.unsent,
                skipped: facts.skipped,
                marked_slowdown: facts.marked_slowdown,
                schedule_shifts: shifts,
                schedule_shift_max_ns: longest_shift.filter(|_| shifts > 0),
                far_report: facts.far_report,
                tcp: facts.tcp,
                remarks: facts.remarks.clone(),
                protocol: facts.protocol.clone(),
            };
            let judgements = [up_judgement.flatten(), down_judgement.flatten()];
            let both = assemble::BothWays { figures, judgements, losses: facts.losses.clone() };
            let mut summary = assemble::summary(found, Some(both), notes);
            summary.header.proto = session.ip_protocol();
            summary.warnings.extend(step.map(far_clock_step));
            summary.warnings.extend(facts.far_resolution.filter(|_| far_clock).map(far_resolution));
            summary.warnings.extend(not_delivered(&facts));
            summary.warnings.extend(first_arrivals_as_duplicates(&summary));
            summary
        })
    }
}

fn counted(n: u64, one: &str, several: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {several}") }
}

/// Returns warnings about requests that count as lost because hosts refused them or answers were not accepted.
fn not_delivered(facts: &TwoWay) -> Vec<Warning> {
    let NotAnswers { refused, prohibited, other_port, .. } = facts.not_answers;
    let elsewhere = (other_port > 0).then(|| {
        let datagrams = format!(
            "{} came from a UDP port of the far host that did not receive the requests, and were not accepted as \
             answers: use --any-port to accept them",
            counted(other_port, "datagram", "datagrams")
        );
        Warning::new("answers_from_another_port", datagrams)
    });
    let refused = (refused > 0).then(|| {
        let messages = format!(
            "the far host reported {} that the port is closed: requests sent meanwhile count as lost",
            counted(refused, "time", "times")
        );
        Warning::new("requests_refused", messages)
    });
    let prohibited = (prohibited > 0).then(|| {
        let messages = format!(
            "a filter or policy prohibits these packets, according to {}: requests without an answer count as lost",
            counted(prohibited, "ICMP message", "ICMP messages")
        );
        Warning::new("requests_prohibited", messages)
    });
    refused.into_iter().chain(prohibited).chain(elsewhere).collect()
}

/// Returns a warning if the far host reports as many duplicates as packets are missing, which happens with LaTe servers
/// that count first arrivals as duplicates; otherwise `None`.
fn first_arrivals_as_duplicates(s: &Summary) -> Option<Warning> {
    let report = s.two_way.as_ref()?.far_report?;
    let (sent, duplicates) = (s.counts.sent, report.duplicates?);
    let all = report.received.checked_add(duplicates)? == sent && report.received < sent;
    all.then(|| {
        let text = format!(
            "the far host reports {}, exactly as many as packets are missing: probably nothing was lost, and it \
             counted first arrivals as duplicates, as LaTe's server does",
            counted(duplicates, "duplicate", "duplicates")
        );
        Warning::new("duplicates_are_the_missing", text)
    })
}

fn far_resolution(resolution: Span) -> Warning {
    Warning::new(
        "far_resolution",
        format!(
            "the far host's times have a resolution of {}: one-way figures are no more precise, and one-way percentiles \
             below it are not given; round trips are measured by this host's clock",
            eng4(resolution.0)
        ),
    )
}

fn far_clock_step(step: Span) -> Warning {
    Warning::new(
        "far_clock_step",
        format!(
            "the far host's clock was set by {} during the test: one-way delays before and after cannot be \
             compared; use the round trips",
            eng4(step.0)
        ),
    )
}

/// Input of the analysis of both directions: the session, the settings, and facts that cannot be derived from the
/// returned packets.
struct DirectionAnalysis<'a> {
    facts: &'a TwoWay,
    /// The session, with the fastest exchanges as clock probes.
    session: &'a Session,
    options: &'a Options,
    far_clock: bool,
    clock_was_steady: bool,
    round_trips: ArrivalCounts,
    /// Time between requests, in ns.
    period: Option<f64>,
}

impl DirectionAnalysis<'_> {
    /// Returns the far host's packet counts; `None` if it does not count packets.
    fn known(&self) -> Option<Directions> {
        self.facts.directions.filter(|d| d.stateful)
    }

    /// Returns the results of one direction, and the verdict on it if the far host reports its timestamps. `None` if it
    /// reports neither timestamps nor counts.
    fn of(&self, engine: Engine, view: RecordView) -> Option<(DirectionResult, Option<Judgement>)> {
        let known = self.known();
        if !self.far_clock && known.is_none() {
            return None;
        }
        let all_lost = self.round_trips.sent.saturating_sub(self.round_trips.accepted);
        let session = of_view(self.session, view);
        let test = Test { session: &session, options: self.options, kind: DelayKind::Direction };
        let (direction, _) = engine.found(test, None, |found, _| {
            let stream = found.stream();
            let sent = stream.known.counted.sent;
            let (sent, lost, duplicates, reordered) = match (known, view) {
                (None, _) => {
                    let samples = stream.all().map(|all| all.samples).filter(|samples| !samples.is_empty());
                    (None, None, None, samples.map(|samples| count_reordered(samples, view)))
                }
                (Some(d), RecordView::Down) => {
                    let came = sent.saturating_sub(d.up_lost + d.unknown_lost);
                    (Some(came), Some(d.down_lost), Some(d.down_duplicates), Some(d.down_reordered))
                }
                (Some(d), _) => {
                    let known = sent.saturating_sub(d.unknown_lost);
                    (Some(known), Some(d.up_lost), Some(d.up_duplicates), Some(d.up_reordered))
                }
            };
            let known_facts = DirectionFacts {
                sent,
                lost,
                duplicates,
                reordered,
                has_all_losses: all_lost == 0 || lost == Some(all_lost),
                clock_was_steady: self.clock_was_steady,
                far_clock: self.far_clock,
            };
            let direction = assemble::direction(found, &known_facts, |whole| {
                if known.is_none() {
                    return (whole, None);
                }
                losses_of(view, &self.facts.losses, all_lost, whole, self.session, self.period)
            });
            (direction, self.far_clock.then(|| found.judgement()).flatten())
        });
        let (mut direction, judgement) = direction;
        if let Some(resolution) = self.facts.far_resolution {
            direction.omit_percentiles_below(resolution);
        }
        Some((direction, judgement))
    }
}

/// Starts the analysis of one view of the two-way test in `session`.
pub(super) fn view(session: &Session, view: RecordView, options: &Options) -> Engine {
    let mut engine = Engine::new(Arc::new(of_view(session, view)), options);
    if view != RecordView::Up {
        // The far host chooses the marks of its answers.
        engine.tally.take_reported_marks();
    }
    engine
}

/// Returns the session of a one-way test that corresponds to one view of the two-way test in `session`.
pub(super) fn of_view(session: &Session, view: RecordView) -> Session {
    let mut seen = session.clone();
    seen.two_way = None;
    match view {
        RecordView::RoundTrip => {
            seen.server = HostFacts::default();
            seen.probes = Vec::new();
        }
        RecordView::Up => {}
        RecordView::Down => {
            seen.spec = seen.spec.reversed();
            (seen.src, seen.dst) = (seen.dst, seen.src);
        }
    }
    seen
}

/// Returns the loss pattern in one direction, and the number of requests that are excluded from it because
/// the direction of their loss is unknown. Returns `whole` if the reported runs do not match the losses.
fn losses_of(
    view: RecordView,
    runs: &[LossRun],
    lost: u64,
    whole: Option<Loss>,
    session: &Session,
    period: Option<f64>,
) -> (Option<Loss>, Option<u64>) {
    let reported: u64 = runs.iter().map(|r| u64::from(r.length)).sum();
    let end = |r: &LossRun| u64::from(r.first) + u64::from(r.length);
    // A log is untrusted input: its runs may overlap or exceed the test.
    let possible = runs.windows(2).all(|w| end(&w[0]) <= w[1].first.into())
        && runs.last().is_none_or(|r| end(r) <= session.packets());
    if reported != lost || !possible {
        return (whole, None);
    }
    let (mine, other) = match view {
        RecordView::Down => (LossSide::Down, LossSide::Up),
        _ => (LossSide::Up, LossSide::Down),
    };
    // Requests lost upstream have no answers that could be lost downstream.
    let skipped = |side: LossSide| side == LossSide::Either || side == other && view == RecordView::Down;
    let (mut out, mut undetermined) = (0, 0);
    let kept: Vec<SeqRun> = runs
        .iter()
        .filter_map(|run| {
            let length = u64::from(run.length);
            let start = u64::from(run.first) - out;
            if skipped(run.side) {
                out += length;
                undetermined += if run.side == LossSide::Either { length } else { 0 };
            }
            (run.side == mine).then_some(SeqRun { start, len: length })
        })
        .collect();
    let n = session.packets().saturating_sub(out);
    (Some(crate::metrics::loss::loss(joined(kept).into_iter(), n, period)), Some(undetermined))
}

/// Joins runs that became neighbours when the packets between them were excluded.
fn joined(runs: Vec<SeqRun>) -> Vec<SeqRun> {
    let mut joined: Vec<SeqRun> = Vec::with_capacity(runs.len());
    for run in runs {
        match joined.last_mut() {
            Some(last) if last.start + last.len == run.start => last.len += run.len,
            _ => joined.push(run),
        }
    }
    joined
}

/// Returns the number of packets reordered in one direction according to its own times (RFC 4737): up,
/// packets that arrived after a later packet; down, packets that were answered before a packet that returned
/// earlier.
fn count_reordered(samples: &Samples, view: RecordView) -> u64 {
    let mut packets: Vec<(i64, i64)> = match view {
        RecordView::Down => samples.iter().map(|p| (p.arrived(), p.sent)).collect(),
        _ => samples.iter().map(|p| (p.arrived(), i64::from(p.seq))).collect(),
    };
    packets.sort_unstable();
    let mut highest = i64::MIN;
    let mut late = 0;
    for (_, rank) in packets {
        late += u64::from(rank < highest);
        highest = highest.max(rank);
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u32, length: u32, side: LossSide) -> LossRun {
        LossRun { first, length, side }
    }

    #[test]
    fn as_many_duplicates_as_packets_are_missing_deserve_a_hint() {
        let spec = crate::TestSpec::new(
            crate::Direction::Up,
            crate::Transport::Udp,
            100,
            80,
            crate::Span::millis(10),
            crate::Schedule::Periodic,
        );
        let hint = |received: u64, duplicates: Option<u64>| {
            let mut session = Session::new(spec.clone().unwrap());
            session.sent = Some(100);
            session.ending = crate::session::Ending::Complete;
            let far_report = Some(crate::twoway::FarReport { received, duplicates, ..Default::default() });
            session.two_way = Some(Box::new(TwoWay { far_report, ..TwoWay::default() }));
            let summary = crate::analysis::analyze(&session, [], &crate::analysis::Options::default());
            summary.warnings.iter().any(|w| w.code == "duplicates_are_the_missing")
        };
        assert!(hint(60, Some(40)) && hint(0, Some(100)), "LaTe's server took first arrivals for duplicates");
        assert!(!hint(60, Some(39)) && !hint(100, Some(0)) && !hint(60, None));
    }

    #[test]
    fn losses_cluster_on_the_way_they_were_lost() {
        use LossSide::{Down, Either, Up};
        let spec = crate::TestSpec::new(
            crate::Direction::Up,
            crate::Transport::Udp,
            100,
            80,
            crate::Span::millis(10),
            crate::Schedule::Periodic,
        );
        let session = Session::new(spec.unwrap());
        let runs = [run(10, 2, Up), run(12, 1, Down), run(20, 3, Either), run(23, 2, Down), run(40, 1, Up)];
        let of = |view, runs: &[LossRun], lost| losses_of(view, runs, lost, None, &session, Some(1e7));
        let (up, unknown) = of(RecordView::Up, &runs, 9);
        let up = up.unwrap();
        assert_eq!((up.first_runs, unknown), (vec![[10, 2], [37, 1]], Some(3)));
        assert_eq!(up.ratio, Some(3.0 / 97.0));
        let (down, _) = of(RecordView::Down, &runs, 9);
        let down = down.unwrap();
        assert_eq!((down.first_runs, down.ratio), (vec![[10, 1], [18, 2]], Some(3.0 / 94.0)));
        // Runs that cannot be true are ignored.
        for wrong in [&runs[1..], &[run(10, 9, Up), run(12, 0, Up)], &[run(95, 9, Up)]] {
            assert_eq!(of(RecordView::Up, wrong, 9), (None, None), "{wrong:?}");
        }
    }

    /// A reflector writes the departure time into an answer before the answer leaves. Here it writes 3 µs too much into one
    /// of 10 answers over a path of 2 µs, as seen with IRTT between hosts with one clock.
    #[test]
    fn delays_by_direction_are_known_although_some_answers_carry_late_times() {
        use crate::time::{Stamp, StampSource, WallTime};
        let (up, down, held) = (500, 2_000, 20_000);
        let records = (0..200_i64).map(|k| {
            let sent = 1_000_000_000 + k * 10_000_000 + k * 37 % 1000;
            // Only the requests wait.
            let arrived = sent + up + k * 7919 % 3000;
            let late = if k % 10 == 3 { 3_000 } else { 0 };
            let returned = arrived + held + down;
            let mut record = PacketRecord::new(k);
            let moments = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
            for (moment, at) in moments.into_iter().zip([sent, arrived, arrived + held + late, returned]) {
                record.set(moment, Stamp { at: WallTime(at), source: StampSource::Kernel });
            }
            record
        });
        let period = crate::Span::millis(10);
        let (direction, transport) = (crate::Direction::Up, crate::Transport::Udp);
        let spec = crate::TestSpec::new(direction, transport, 200, 60, period, crate::Schedule::Periodic);
        let mut session = Session::new(spec.unwrap());
        (session.sent, session.ending) = (Some(200), crate::session::Ending::Complete);
        session.two_way = Some(Box::new(TwoWay { far_clock: true, ..TwoWay::default() }));
        let summary = crate::analysis::analyze(&session, records, &crate::analysis::Options::default());
        let two_way = summary.two_way.unwrap();
        for way in [two_way.up.unwrap(), two_way.down.unwrap()] {
            let corrected = way.latency_corrected.unwrap();
            assert!(corrected.is_possible() && way.clock.bound_ns.unwrap() < 5_000.0, "{corrected:?}");
        }
    }

    #[test]
    fn neighbours_after_leaving_out_are_one_run() {
        let runs = [SeqRun { start: 3, len: 2 }, SeqRun { start: 5, len: 1 }, SeqRun { start: 7, len: 1 }];
        assert_eq!(joined(runs.to_vec()), [SeqRun { start: 3, len: 3 }, SeqRun { start: 7, len: 1 }]);
    }
}
