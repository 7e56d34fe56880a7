//! The exact analysis: every figure from the accepted packets, a few passes over three columns.

use super::assemble::{self, Counted, Findings, Kind, Known};
use super::{Gathered, Options, Samples, windows};
use crate::compare::Comparable;
use crate::distribution::{Distribution, Sample};
use crate::metrics::clock::ClockEstimate;
use crate::metrics::dejitter::{self, Dejitter, DelayBasis, Receiver};
use crate::metrics::delay::Unconditional;
use crate::metrics::entry::Stream;
use crate::metrics::ipdv::ipdv;
use crate::metrics::loss::LossScan;
use crate::metrics::mapdv2::Mapdv2;
use crate::metrics::moments::{CoMoments, Extremes, Line, Moments};
use crate::metrics::periods::Extent;
use crate::metrics::reorder::reordering;
use crate::metrics::schedule_error::Errors;
use crate::metrics::seqset::{SeqSet, absent, without};
use crate::metrics::series::Series;
use crate::metrics::trend::Evidence;
use crate::metrics::{self, METRICS, OnePass, bootstrap, confidence, gilbert_elliott, rfc3550, stalls};
use crate::session::Session;
use crate::spec::{Direction, Transport};
use crate::summary::{
    Duplicates, FarEnd, Inference, IntendedLatency, Interval, Ipdv, LocalQueue, Loss, Periods, Regression,
    Reordering, Rfc3550, ScheduleError, Segment, SkewHull, Stalls, Stamps, Trend, Within,
};
use crate::time::WallTime;
use crate::verdict::{self, Judgement, Material, Notes};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// Packets taken at a time by several figures, one after the other.
const IN_CACHE: usize = 1 << 10;

/// All accepted packets at hand. What takes a pass of its own is computed when it is asked for, once.
pub(super) struct Exact<'a> {
    gathered: &'a Gathered,
    known: Known<'a>,
    kind: Kind,
    series: Series<'a>,
    /// The numbers of all packets that came, with a delay or without.
    came: Cow<'a, SeqSet>,
    sample: Sample,
    moments: Moments,
    /// Delay on send time, and on arrival time.
    lines: (Option<Line>, Option<Line>),
    rfc3550_jitter: Option<Rfc3550>,
    mapdv2: Option<f64>,
    hull: OnceCell<Option<SkewHull>>,
    segments: OnceCell<Vec<Segment>>,
    trend: OnceCell<Option<Trend>>,
    errors: OnceCell<Option<Errors>>,
}

/// The clocks of a test whose gathered packets lie between the times of the stream.
pub(super) fn clock(gathered: &Gathered, session: &Session) -> ClockEstimate {
    ClockEstimate::new(session, stream_times(&gathered.samples, session.spec.direction()))
}

impl<'a> Exact<'a> {
    /// Of what was gathered; `late` packets of it were taken out.
    pub fn new(
        gathered: &'a Gathered,
        session: &'a Session,
        options: &'a Options,
        kind: Kind,
        clock: ClockEstimate,
        late: u64,
    ) -> Exact<'a> {
        let Gathered { classifier, samples, copies, tally, .. } = gathered;
        let series = Series::new(samples);
        let (mut sums, mut extremes) = (CoMoments::default(), None);
        let (mut jitter, mut mapdv2) = (rfc3550::Estimator::default(), Mapdv2::default());
        for (sent, delays) in samples.sent.chunks(IN_CACHE).zip(samples.delay.chunks(IN_CACHE)) {
            extremes = Extremes::of_both(extremes, sums.add_all(sent, delays));
            jitter.push_all(delays);
            mapdv2.push_all(delays);
        }
        let delays = extremes.map(|extremes| extremes.delay);
        let moments = delays.map_or_else(Moments::default, |delays| sums.of_delay(delays));
        let came = gathered.came();
        let extent = verdict::Known::of(session, &came);
        let accepted = samples.len() as u64 + gathered.delayless.len();
        let counted = Counted {
            sent: extent.sent.max(accepted),
            tail_unknown: !extent.complete,
            end: extent.end,
            received: classifier.received,
            accepted,
            duplicate: copies.len(),
            invalid: classifier.invalid,
            late,
            rx_time_regressions: tally.rx_time_regressions,
        };
        Exact {
            gathered,
            known: Known {
                session,
                options,
                percents: options.all_percents(),
                clock,
                counted,
                periods: Periods::new(session, &Extent::of(&series)),
            },
            kind,
            series,
            came,
            sample: delays.map_or_else(Sample::default, |delays| Sample::between(&samples.delay, delays)),
            moments,
            lines: sums.output(),
            rfc3550_jitter: jitter.output(),
            mapdv2: mapdv2.output(),
            hull: OnceCell::new(),
            segments: OnceCell::new(),
            trend: OnceCell::new(),
            errors: OnceCell::new(),
        }
    }

    fn hull(&self) -> Option<&SkewHull> {
        self.hull.get_or_init(|| SkewHull::new(&self.series)).as_ref()
    }

    fn changes(&self) -> &[Segment] {
        self.segments.get_or_init(|| metrics::segments::segments(&self.series))
    }

    /// Of tests whose period is known.
    fn errors(&self) -> Option<&Errors> {
        let errors =
            || self.known.session.period().and_then(|_| Errors::new(&self.series, &self.known.session.spec));
        self.errors.get_or_init(errors).as_ref()
    }

    fn trend_of_delay(&self) -> Option<&Trend> {
        let trend = || {
            let evidence = Evidence {
                hull: self.hull(),
                periods: &self.known.periods,
                clock: &self.known.clock,
                direction: self.known.session.spec.direction(),
                jumps: !self.changes().is_empty(),
                clock_set_back: self.known.counted.rx_time_regressions > 0,
            };
            Trend::new(&self.series, self.lines.0, self.lines.1.map(Regression::from), evidence)
        };
        self.trend.get_or_init(trend).as_ref()
    }
}

impl Findings for Exact<'_> {
    fn known(&self) -> &Known<'_> {
        &self.known
    }

    fn delays(&self) -> (Distribution, Distribution) {
        let latency = Distribution::new(&self.sample, &self.moments, self.known.wanted());
        let pdv = latency.above_minimum(&self.moments, Some(&self.sample));
        (latency, pdv)
    }

    fn ipdv(&self) -> Ipdv {
        ipdv(&self.series, self.known.counted.sent)
    }

    fn rfc3550_jitter(&self) -> Option<Rfc3550> {
        self.rfc3550_jitter
    }

    fn mapdv2(&self) -> Option<f64> {
        self.mapdv2
    }

    fn loss(&self) -> Loss {
        let Counted { sent, end, .. } = self.known.counted;
        let lost = || {
            let absent = absent(self.came.runs(), end);
            without(absent, self.known.session.unrecorded_in(0, end))
        };
        let mut scan = LossScan::default();
        lost().for_each(|run| scan.push(run));
        let mut losses = scan.finish(end, end.saturating_sub(sent), self.known.periods.mean());
        if self.known.options.gilbert_elliott {
            losses.gilbert_elliott = gilbert_elliott::fit(lost(), end, &losses.gilbert);
        }
        losses
    }

    fn duplicates(&self) -> Duplicates {
        let first = (&self.series, &self.gathered.classifier.accepted);
        self.gathered.copies.figures(self.known.counted.accepted, Some(first))
    }

    fn reordering(&self) -> Reordering {
        Reordering {
            observable: self.known.session.spec.transport() == Transport::Udp,
            ..reordering(&self.series, self.known.session.spec.payload())
        }
    }

    fn regressions(&self) -> [Option<Regression>; 2] {
        [self.lines.0, self.lines.1].map(|line| line.map(Regression::from))
    }

    fn skew_hull(&self) -> Option<SkewHull> {
        self.hull().map(|hull| hull.clone().judged(self.trend_of_delay()))
    }

    fn schedule_error(&self) -> Option<ScheduleError> {
        let errors = self.errors()?;
        let waits = || self.gathered.notes.iter().flat_map(verdict::RowNotes::waits);
        Some(ScheduleError {
            handed_over: errors.handed_over(&self.series, waits()),
            stretched: errors.stretched(&self.series, waits()),
            ..errors.figures()
        })
    }

    fn inference(&self) -> Inference {
        let mut inference = confidence::inference(&self.series, &self.sample, &self.moments);
        if let Some(seed) = self.known.options.bootstrap {
            inference.bootstrap = bootstrap::intervals(&self.series, &inference, seed);
        }
        inference
    }

    fn dejitter(&self, reference: (f64, DelayBasis), receiver: &Receiver<'_>) -> Option<Dejitter> {
        dejitter::dejitter(&self.series, &self.sample, self.known.counted.sent, reference, receiver)
    }

    fn stamps(&self) -> Stamps {
        self.gathered.tally.stamps(self.known.session)
    }

    fn local_queue(&self) -> Option<LocalQueue> {
        self.gathered.tally.local_queue()
    }

    fn far_end(&self) -> FarEnd {
        self.gathered.tally.far_end()
    }

    fn figures(&self) -> BTreeMap<String, Option<f64>> {
        let stream = Stream {
            session: self.known.session,
            sent: self.known.counted.sent,
            series: &self.series,
            delays: &self.sample,
            accepted: &self.gathered.classifier.accepted,
        };
        metrics::entry::computed(METRICS, &stream, &self.gathered.samples)
    }

    fn samples(&self) -> Option<&Samples> {
        Some(&self.gathered.samples)
    }

    fn delayless(&self) -> u64 {
        self.gathered.delayless.len()
    }

    fn unconditional(&self) -> Option<Unconditional> {
        let lost = self.known.counted.sent.saturating_sub(self.known.counted.accepted);
        self.known.options.unconditional.then(|| Unconditional::new(&self.sample, lost, &self.known.percents))
    }

    fn within(&self) -> Option<Within> {
        Within::new(&self.sample, self.moments.mean(), self.known.options.within?)
    }

    fn trend(&self) -> Option<Trend> {
        self.trend_of_delay().cloned()
    }

    fn pdv_deskewed(&self, pdv: &Distribution) -> Option<Distribution> {
        self.skew_hull()?.deskewed(&self.series, pdv, self.known.wanted())
    }

    fn stalls(&self) -> Stalls {
        if self.known.session.period().is_none() {
            return Stalls::default();
        }
        let Gathered { samples, tally, .. } = self.gathered;
        let spec = &self.known.session.spec;
        stalls::stalls(&self.series, samples, &self.sample, self.errors(), &tally.waited, spec)
    }

    fn intended_latency(&self, pdv: &Distribution) -> Option<IntendedLatency> {
        stalls::intended(&self.series, self.errors()?, &self.schedule_error()?, pdv)
    }

    fn segments(&self) -> Vec<Segment> {
        self.changes().to_vec()
    }

    fn intervals(&self) -> Vec<Interval> {
        let Some(length) = self.known.options.interval else { return Vec::new() };
        let windows = windows::of(
            &self.series,
            &self.came,
            self.gathered,
            self.known.session,
            self.known.counted.end,
            length,
        );
        let summary = |part: &Gathered, session: &Session, options: &Options| {
            let found = Exact::new(part, session, options, self.kind, clock(part, session), 0);
            assemble::summary(&found, self.kind, None, Notes::default())
        };
        windows::analysed(
            windows,
            self.gathered,
            self.known.session,
            self.known.options,
            &self.series,
            self.known.counted.end,
            summary,
        )
    }

    fn judgement(&self) -> Option<Judgement> {
        let Gathered { copies, tally, notes, .. } = self.gathered;
        Some(verdict::judge(&Material {
            session: self.known.session,
            series: &self.series,
            came: &self.came,
            sample: Some(&self.sample),
            copies,
            clock: &self.known.clock,
            notes: notes.as_ref()?,
            arrived_by: tally.arrived_by(),
            off_schedule: self.errors().map(Errors::extremes),
            round_trip: self.kind == Kind::RoundTrips,
            profiles: &self.known.options.profiles,
        }))
    }

    fn comparable(&self) -> Option<Comparable> {
        let seed = self.known.options.comparable?;
        Some(Comparable::new(self.series.iter().map(|p| p.delay).collect(), &self.sample, seed))
    }
}

/// First and last time of the stream on the client's clock.
pub(super) fn stream_times(samples: &Samples, direction: Direction) -> Option<(WallTime, WallTime)> {
    let time = |k: usize| match direction {
        Direction::Up => WallTime(samples.sent[k]),
        Direction::Down => WallTime(samples.packet(k).arrived()),
    };
    let last = samples.len().checked_sub(1)?;
    Some((time(0).min(time(last)), time(0).max(time(last))))
}
