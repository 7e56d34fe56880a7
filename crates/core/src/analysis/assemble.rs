//! Builds a [`Summary`] or a [`DirectionResult`] from the results of either analysis, exact or in constant
//! memory.

use crate::answer::Warning;
use crate::comparable::Comparable;
use crate::evidence::{self, Conclusion, Judgement};
use crate::metrics::clock::ClockEstimate;
use crate::metrics::stream::EndedStream;
use crate::summary::{ClassicHeader, Display, Interval, Loss, SessionInfo, Summary};
use crate::twoway::{DirectionResult, FarReport, LossRun, TwoWayFigures};

/// Results of the analysis of an ended stream.
pub(super) trait Findings {
    /// Returns the ended stream, from which metrics are computed.
    fn stream(&self) -> &EndedStream<'_>;
    /// Writes the results of all metrics to the summary, in the order of the metrics list.
    fn write(&self, to: &mut Summary);

    fn judgement(&self) -> Option<Judgement>;
    /// Returns the windows of `--interval`; empty if none were requested.
    fn intervals(&self) -> Vec<Interval> {
        Vec::new()
    }
    fn comparable(&self) -> Option<Comparable> {
        None
    }
}

/// Per-direction results of a round-trip test, in addition to the results of its round trips.
pub(super) struct BothWays {
    pub figures: TwoWayFigures,
    /// Verdicts on the up and the down direction; `None` if the far host does not report its timestamps.
    pub judgements: [Option<Judgement>; 2],
    /// Runs of requests without an answer, and the direction in which each was lost.
    pub losses: Vec<LossRun>,
}

/// Builds the summary of a stream from its findings and the `notes` of its analysis; `both_ways` adds the
/// directions of a round-trip test.
pub(super) fn summary(found: &dyn Findings, both_ways: Option<BothWays>, notes: Vec<Warning>) -> Summary {
    let known = found.stream().known;
    let both_ways = both_ways.map(|both| {
        let far_report = known.two_way.get_or_init(|| both.figures).far_report;
        (both.judgements, both.losses, far_report)
    });
    let mut summary = computed(found);
    summary.intervals = found.intervals();
    summary.comparable = found.comparable();
    summary.warnings = notes;
    let (mut judgements, mut losses) = (None, Vec::new());
    if let Some((of_ways, lost, far_report)) = both_ways {
        if let Some(report) = far_report {
            of_far_report(&mut summary, &report);
        }
        (judgements, losses) = (Some(of_ways), lost);
    }
    if let Some(judge) = &known.options.judge {
        let conclusion = Conclusion {
            session: known.session,
            round_trips: !known.has_two_clocks(),
            judgement: found.judgement(),
            both_ways: judgements.map(|judgements| evidence::TwoWayEvidence { judgements, losses: &losses }),
        };
        judge.conclude(&mut summary, conclusion);
    }
    summary
}

/// Writes the results of all metrics to an empty summary.
fn computed(found: &dyn Findings) -> Summary {
    let known = found.stream().known;
    let mut summary = Summary {
        header: ClassicHeader::new(known.session, &known.clock),
        session: SessionInfo::new(known.session),
        ..Summary::default()
    };
    found.write(&mut summary);
    summary.display = Display::new(&summary.latency, &summary.pdv);
    summary
}

/// Facts about one direction of a round-trip test that cannot be derived from the returned packets.
pub(super) struct DirectionFacts {
    /// Number of packets sent in this direction. This count and the following ones are `None` if unknown.
    pub sent: Option<u64>,
    pub lost: Option<u64>,
    pub duplicates: Option<u64>,
    pub reordered: Option<u64>,
    /// True if every lost round trip was lost in this direction. The packets that returned and the lost ones together
    /// are then the whole stream of this direction.
    pub has_all_losses: bool,
    /// True if the far host's times come from one clock that was never set during the test.
    pub clock_was_steady: bool,
    /// True if the far host's two times are clock readings: one-way delays are then defined.
    pub far_clock: bool,
}

/// Builds the result of one direction of a round-trip test from the packets that returned.
pub(super) fn direction(
    found: &dyn Findings,
    facts: &DirectionFacts,
    losses: impl FnOnce(Option<Loss>) -> (Option<Loss>, Option<u64>),
) -> DirectionResult {
    let found = computed(found);
    let (loss, undetermined) = losses(facts.has_all_losses.then_some(found.loss));
    let was_steady = facts.clock_was_steady;
    // The other figures also require that every loss is known.
    let complete = was_steady && facts.has_all_losses;
    DirectionResult {
        sent: facts.sent,
        lost: facts.lost,
        lost_pct: facts.sent.zip(facts.lost).and_then(|(sent, lost)| percent(lost, sent)),
        duplicates: facts.duplicates,
        reordered: facts.reordered,
        latency_corrected: found.latency_corrected.filter(|_| was_steady),
        ipdv: found.ipdv,
        rfc3550_jitter: found.rfc3550_jitter,
        mapdv2: found.mapdv2,
        trend: found.trend.filter(|_| was_steady),
        skew_hull: found.skew_hull.filter(|_| was_steady),
        pdv_deskewed: found.pdv_deskewed.filter(|_| was_steady),
        without_clock_step: None,
        loss,
        undetermined,
        dejitter: found.dejitter.filter(|_| complete),
        objectives: found.objectives.filter(|_| complete),
        qoo: None,
        marks: found.marks,
        figures: found.figures,
        clock: if facts.far_clock { found.clock } else { ClockEstimate::default() },
        stamps: found.stamps,
        latency: found.latency,
        pdv: found.pdv,
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// Completes the summary of a test without answers. Counts and delays are copied from the far host's report; everything
/// else remains unknown.
fn of_far_report(s: &mut Summary, report: &FarReport) {
    let sent = s.counts.sent;
    let lost = sent.saturating_sub(report.received);
    let copies = report.duplicates.unwrap_or(0);
    // Windows are computed from packets, and only counts are known here.
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
