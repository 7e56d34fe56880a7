//! The one place where figures become a [`Summary`] or a [`Way`], whichever analysis they come from.

use super::tally::Tally;
use super::{Options, Samples};
use crate::compare::Comparable;
use crate::distribution::Wanted;
use crate::distribution::{Distribution, Percent};
use crate::metrics::clock::{ClockEstimate, Corrected};
use crate::metrics::dejitter::{Dejitter, Receiver};
use crate::metrics::delay::Unconditional;
use crate::session::Session;
use crate::summary::{
    Counts, Display, Duplicates, Header, Inference, IntendedLatency, Interval, Ipdv, Loss, Noise, Periods,
    Regression, Reordering, Rfc3550, ScheduleError, Segment, SessionInfo, SkewHull, Stalls, Summary, Trend,
    Within, Y1541,
};
use crate::twoway::{FarReport, LossRun, TwoWayFigures, Way};
use crate::verdict::{self, Answer, Judgement, Notes, WayLosses, findings};
use std::collections::BTreeMap;

/// What was counted while packets arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Packets sent, and whether more may have been.
    pub sent: u64,
    pub tail_unknown: bool,
    /// The packets are those with numbers below this one, but for the session's unrecorded ones.
    pub end: u64,
    pub received: u64,
    pub accepted: u64,
    pub duplicate: u64,
    pub invalid: u64,
    pub late: u64,
    pub rx_time_regressions: u64,
}

/// What is known of a stream before its figures are computed.
pub(super) struct Known<'a> {
    pub session: &'a Session,
    pub options: &'a Options,
    pub percents: Vec<Percent>,
    pub clock: ClockEstimate,
    pub counted: Counted,
    pub periods: Periods,
}

impl Known<'_> {
    /// The order statistics that were asked for.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted { percents: &self.percents, method: self.options.method, bins: self.options.bins }
    }

    /// The receiver that plays packets out.
    pub fn receiver(&self) -> Receiver<'_> {
        let Options { codec, delay_model, buffers, spurt, .. } = self.options;
        Receiver { codec, model: *delay_model, buffers, spurt: *spurt }
    }
}

/// What an analysis knows about a stream. Each figure is computed when it is read, and only then; what needs all
/// packets at once is absent from an analysis in constant memory.
pub(super) trait Findings {
    fn known(&self) -> &Known<'_>;
    /// Delay, and its excess over the smallest.
    fn delays(&self) -> (Distribution, Distribution);
    fn ipdv(&self) -> Ipdv;
    fn rfc3550_jitter(&self) -> Option<Rfc3550>;
    fn mapdv2(&self) -> Option<f64>;
    fn loss(&self) -> Loss;
    fn duplicates(&self) -> Duplicates;
    fn reordering(&self) -> Reordering;
    /// Delay on send time, and on arrival time.
    fn regressions(&self) -> [Option<Regression>; 2];
    fn skew_hull(&self) -> Option<SkewHull>;
    fn schedule_error(&self) -> Option<ScheduleError>;
    fn inference(&self) -> Inference;
    /// None without packets.
    fn dejitter(&self) -> Option<Dejitter>;
    /// What was counted of all rows.
    fn tally(&self) -> &Tally;
    /// Of metrics without a field of their own.
    fn figures(&self) -> BTreeMap<String, Option<f64>>;

    fn session(&self) -> &Session {
        self.known().session
    }
    fn options(&self) -> &Options {
        self.known().options
    }
    fn clock(&self) -> &ClockEstimate {
        &self.known().clock
    }
    fn counted(&self) -> Counted {
        self.known().counted
    }
    fn periods(&self) -> Periods {
        self.known().periods.clone()
    }
    /// The accepted packets.
    fn samples(&self) -> Option<&Samples> {
        None
    }
    /// Packets that came and have no delay.
    fn delayless(&self) -> u64 {
        0
    }
    fn unconditional(&self) -> Option<Unconditional> {
        None
    }
    fn within(&self) -> Option<Within> {
        None
    }
    fn trend(&self) -> Option<Trend> {
        None
    }
    fn pdv_deskewed(&self, _pdv: &Distribution) -> Option<Distribution> {
        None
    }
    fn stalls(&self) -> Stalls {
        Stalls::default()
    }
    fn intended_latency(&self, _pdv: &Distribution) -> Option<IntendedLatency> {
        None
    }
    fn segments(&self) -> Vec<Segment> {
        Vec::new()
    }
    fn intervals(&self) -> Vec<Interval> {
        Vec::new()
    }
    fn comparable(&self) -> Option<Comparable> {
        None
    }
    fn judgement(&self) -> Option<Judgement> {
        None
    }
}

/// The kind of delays in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One-way delays between two clocks.
    OneWay,
    /// Round trips. Both their ends are on this host's clock, so there is no skew; and a round trip is not the delay
    /// that play-out buffers and service objectives are about.
    RoundTrips,
}

/// What a round-trip test shows in addition to its round trips.
pub(super) struct BothWays {
    pub figures: TwoWayFigures,
    /// The answers of the two directions by themselves, if the far host reports its times.
    pub answers: [Option<Answer>; 2],
    /// Where requests without an answer were lost.
    pub losses: Vec<LossRun>,
}

/// The summary of a stream, with what was noted on the way; of a round-trip test with what that tells beside.
pub(super) fn summary(
    found: &dyn Findings,
    kind: Kind,
    both_ways: Option<BothWays>,
    notes: Notes,
) -> Summary {
    let (latency, pdv) = found.delays();
    let loss = found.loss();
    let clocks = match kind {
        Kind::OneWay => BetweenClocks::of(found, &latency, &pdv, Some(&loss)),
        Kind::RoundTrips => BetweenClocks { trend: found.trend(), ..BetweenClocks::default() },
    };
    let mut summary = whole(found, latency, pdv, loss, clocks);
    let mut judged = found.judgement();
    if let Some(BothWays { figures, answers: [up, down], losses }) = both_ways {
        if let Some(report) = figures.far_report {
            of_far_report(&mut summary, &report);
        }
        let losses = WayLosses { runs: &losses };
        let far_report = figures.far_report;
        judged = judged.map(|j| verdict::two_way(j, [up.as_ref(), down.as_ref()], &losses));
        summary.two_way = Some(Box::new(figures));
        if let Some(report) = far_report {
            let answer = Answer::of_counts(summary.counts.sent, report.received);
            summary.answer = judged.take().map(|_| answer);
        }
    }
    if let Some(judged) = judged {
        summary.answer = Some(judged.into_answer());
    }
    summary.warnings = notes.look_at(&summary, found.session(), kind == Kind::RoundTrips);
    summary.verdicts = findings(&summary);
    summary
}

/// Figures that require two clocks and one direction.
#[derive(Default)]
struct BetweenClocks {
    latency_corrected: Option<Corrected>,
    trend: Option<Trend>,
    skew_hull: Option<SkewHull>,
    pdv_deskewed: Option<Distribution>,
    dejitter: Option<Dejitter>,
    objectives: Option<Y1541>,
}

impl BetweenClocks {
    /// Without `loss`, nothing that follows from losses is included.
    fn of(
        found: &dyn Findings,
        latency: &Distribution,
        pdv: &Distribution,
        loss: Option<&Loss>,
    ) -> BetweenClocks {
        let (clock, options, sent) = (found.clock(), found.options(), found.counted().sent);
        let latency_corrected = clock.correct(latency);
        let corrected = latency_corrected.is_some_and(|c| c.is_possible());
        let trusted = corrected || clock.synchronised().is_some() || options.trust_clocks;
        let mean = latency_corrected.map_or(latency.mean, |c| c.mean);
        BetweenClocks {
            latency_corrected,
            trend: found.trend(),
            skew_hull: found.skew_hull(),
            pdv_deskewed: found.pdv_deskewed(pdv),
            dejitter: loss.and_then(|_| found.dejitter()),
            objectives: loss.and_then(|loss| {
                Y1541::new(mean, pdv.percentile(Percent(99_900)), loss.ratio, sent, trusted)
            }),
        }
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

fn whole(
    found: &dyn Findings,
    latency: Distribution,
    pdv: Distribution,
    loss: Loss,
    clocks: BetweenClocks,
) -> Summary {
    let (session, counted, reordering) = (found.session(), found.counted(), found.reordering());
    let lost = counted.sent.saturating_sub(counted.accepted);
    let [regression_send, regression_arrival] = found.regressions();
    let floor = session.client.noise.or(session.server.noise);
    Summary {
        header: Header::new(session, found.clock()),
        counts: Counts {
            sent: counted.sent,
            received: counted.received,
            unique_valid: counted.accepted,
            duplicate: counted.duplicate,
            invalid: counted.invalid,
            lost,
            late: counted.late,
            out_of_sequence: reordering.reordered,
            lost_pct: percent(lost, counted.sent),
            duplicate_pct: percent(counted.duplicate, counted.received),
            invalid_pct: percent(counted.invalid, counted.received),
            out_of_sequence_pct: percent(reordering.reordered, counted.accepted),
            rx_time_regressions: counted.rx_time_regressions,
            tail_unknown: counted.tail_unknown,
        },
        periods: found.periods(),
        display: Display::new(&latency, &pdv),
        latency_unconditional: found.unconditional(),
        within: found.within(),
        noise: floor.map(|floor| Noise::new(floor, &latency, &pdv)),
        latency_corrected: clocks.latency_corrected,
        ipdv: found.ipdv(),
        rfc3550_jitter: found.rfc3550_jitter(),
        mapdv2: found.mapdv2(),
        loss,
        duplicates: found.duplicates(),
        reordering,
        regression_arrival,
        regression_send,
        trend: clocks.trend,
        skew_hull: clocks.skew_hull,
        pdv_deskewed: clocks.pdv_deskewed,
        schedule_error: found.schedule_error(),
        stalls: found.stalls(),
        intended_latency: found.intended_latency(&pdv),
        inference: found.inference(),
        dejitter: clocks.dejitter,
        objectives: clocks.objectives,
        clock: found.clock().clone(),
        stamps: found.tally().stamps(found.session()),
        local_queue: found.tally().local_queue(),
        far_end: found.tally().far_end(),
        segments: found.segments(),
        intervals: found.intervals(),
        comparable: found.comparable(),
        figures: found.figures(),
        session: SessionInfo::new(session),
        latency,
        pdv,
        two_way: None,
        answer: None,
        verdicts: Vec::new(),
        warnings: Vec::new(),
    }
}

/// What is known about one direction of a round-trip test besides the packets that returned.
pub(super) struct OnThatWay {
    /// Packets sent, lost, duplicated and overtaken in this direction, as far as known.
    pub sent: Option<u64>,
    pub lost: Option<u64>,
    pub duplicates: Option<u64>,
    pub reordered: Option<u64>,
    /// All losses of the round trips were on this way, so the packets that came back and those that are missing are
    /// its stream.
    pub has_all_losses: bool,
    /// The far host's times are readings of one clock that ran through.
    pub clock_ran_through: bool,
    /// The far host's times are readings of a clock at all.
    pub far_clock: bool,
}

/// One way of a round-trip test, from the packets that came back.
pub(super) fn way(
    found: &dyn Findings,
    on: &OnThatWay,
    losses: impl FnOnce(Option<Loss>) -> (Option<Loss>, Option<u64>),
) -> Way {
    let (latency, pdv) = found.delays();
    let loss = on.has_all_losses.then(|| found.loss());
    let clocks = if on.clock_ran_through {
        BetweenClocks::of(found, &latency, &pdv, loss.as_ref())
    } else {
        BetweenClocks::default()
    };
    let (loss, undetermined) = losses(loss);
    Way {
        sent: on.sent,
        lost: on.lost,
        lost_pct: on.sent.zip(on.lost).and_then(|(sent, lost)| percent(lost, sent)),
        duplicates: on.duplicates,
        reordered: on.reordered,
        latency_corrected: clocks.latency_corrected,
        ipdv: found.ipdv(),
        rfc3550_jitter: found.rfc3550_jitter(),
        mapdv2: found.mapdv2(),
        trend: clocks.trend,
        skew_hull: clocks.skew_hull,
        pdv_deskewed: clocks.pdv_deskewed,
        loss,
        undetermined,
        dejitter: clocks.dejitter,
        objectives: clocks.objectives,
        figures: found.figures(),
        clock: if on.far_clock { found.clock().clone() } else { ClockEstimate::default() },
        stamps: found.tally().stamps(found.session()),
        latency,
        pdv,
    }
}

/// A test that goes one way only: nothing came back, and the counts and delays are those the far host reports. What
/// it does not report is not known.
fn of_far_report(s: &mut Summary, report: &FarReport) {
    let sent = s.counts.sent;
    let lost = sent.saturating_sub(report.received);
    let copies = report.duplicates.unwrap_or(0);
    // Windows count packets, and none is known.
    s.intervals.clear();
    let c = &mut s.counts;
    c.received = report.received + copies;
    c.unique_valid = report.received;
    c.duplicate = copies;
    c.lost = lost;
    c.lost_pct = percent(lost, sent);
    c.duplicate_pct = report.duplicates.and_then(|d| percent(d, report.received + copies));
    c.out_of_sequence = report.out_of_order;
    c.out_of_sequence_pct = percent(report.out_of_order, report.received);
    s.loss = Loss {
        ratio: percent(lost, sent).map(|p| p / 100.0),
        rule_of_three: (lost == 0 && sent > 0).then(|| 3.0 / sent as f64),
        ..Loss::default()
    };
    s.latency.n = report.received.saturating_sub(report.errors);
    s.latency.min = report.min.map(|t| t.0);
    s.latency.mean = report.mean.map(|t| t.0 as f64);
    s.latency.max = report.max.map(|t| t.0);
    s.latency.stddev = report.stddev.map(|t| t.0 as f64);
    s.display = Display::new(&s.latency, &s.pdv);
    if let (Some(mean), Some(stddev), true) = (s.latency.mean, s.latency.stddev, s.latency.n > 1) {
        s.inference = crate::metrics::confidence::of_mean_and_deviation(mean, stddev, s.latency.n);
    }
}
