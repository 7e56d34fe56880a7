//! The exact analysis: every figure from the accepted packets, a few passes over three columns.

use super::assemble::{self, Counted, Findings, Kind, Known};
use super::tally::Tally;
use super::{Gathered, Options, Samples, windows};
use crate::compare::Comparable;
use crate::distribution::{Distribution, Sample};
use crate::helpers::Helpers;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::dejitter::{self, Dejitter};
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
    Duplicates, Inference, IntendedLatency, Interval, Ipdv, Loss, Periods, Regression, Reordering, Rfc3550,
    ScheduleError, Segment, SkewHull, Stalls, Trend, Within,
};
use crate::time::WallTime;
use crate::verdict::{self, Judgement, Material, Notes};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Packets taken at a time by several figures, one after the other.
const IN_CACHE: usize = 1 << 10;

/// What takes long, in the order in which threads compute it: what others need comes first, then what takes longest.
const AHEAD: [fn(&Exact<'_>); 11] = [
    |found| _ = found.sample(),
    |found| _ = found.trend_of_delay(),
    |found| _ = found.errors(),
    |found| _ = found.judgement(),
    |found| _ = found.ipdv(),
    |found| _ = (found.kind == Kind::OneWay).then(|| found.dejitter()),
    |found| _ = found.comparable(),
    |found| _ = found.inference(),
    |found| _ = found.stalls(),
    |found| _ = found.delays(),
    |found| _ = found.reordering(),
];

/// All accepted packets at hand.
pub(super) struct Exact<'a> {
    gathered: &'a Gathered,
    known: Known<'a>,
    kind: Kind,
    helpers: Option<&'a dyn Helpers>,
    series: Series<'a>,
    /// The numbers of all packets that came, with a delay or without.
    came: Cow<'a, SeqSet>,
    computed: Computed,
}

/// What was computed: each when it is asked for, by whichever thread asks first; others that need it wait.
#[derive(Default)]
struct Computed {
    sums: OnceLock<Sums>,
    sample: OnceLock<Sample>,
    hull: OnceLock<Option<SkewHull>>,
    segments: OnceLock<Vec<Segment>>,
    trend: OnceLock<Option<Trend>>,
    errors: OnceLock<Option<Errors>>,
    ipdv: OnceLock<Ipdv>,
    reordering: OnceLock<Reordering>,
    stalls: OnceLock<Stalls>,
    judgement: OnceLock<Judgement>,
    comparable: OnceLock<Comparable>,
    delays: OnceLock<(Distribution, Distribution)>,
    dejitter: OnceLock<Option<Dejitter>>,
    inference: OnceLock<Inference>,
}

/// What one pass over all packets gives.
struct Sums {
    /// The smallest and the largest delay; None without packets.
    delays: Option<[i64; 2]>,
    moments: Moments,
    /// Delay on send time, and on arrival time.
    lines: [Option<Line>; 2],
    rfc3550_jitter: Option<Rfc3550>,
    mapdv2: Option<f64>,
}

impl Sums {
    fn of(samples: &Samples) -> Sums {
        let (mut sums, mut extremes) = (CoMoments::default(), None);
        let (mut jitter, mut mapdv2) = (rfc3550::Estimator::default(), Mapdv2::default());
        for (sent, delays) in samples.sent.chunks(IN_CACHE).zip(samples.delay.chunks(IN_CACHE)) {
            extremes = Extremes::of_both(extremes, sums.add_all(sent, delays));
            jitter.push_all(delays);
            mapdv2.push_all(delays);
        }
        let delays = extremes.map(|extremes: Extremes| extremes.delay);
        Sums {
            delays,
            moments: delays.map_or_else(Moments::default, |delays| sums.of_delay(delays)),
            lines: sums.output().into(),
            rfc3550_jitter: jitter.output(),
            mapdv2: mapdv2.output(),
        }
    }
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
        helpers: Option<&'a dyn Helpers>,
    ) -> Exact<'a> {
        let Gathered { classifier, samples, copies, tally, .. } = gathered;
        let series = Series::new(samples);
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
        let found = Exact {
            gathered,
            helpers,
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
            computed: Computed::default(),
        };
        if let Some(helpers) = helpers {
            found.compute_ahead(helpers);
        }
        found
    }

    /// Computes what takes long on all threads.
    fn compute_ahead(&self, helpers: &dyn Helpers) {
        let next = AtomicUsize::new(0);
        helpers.run(AHEAD.len(), &|| {
            while let Some(compute) = AHEAD.get(next.fetch_add(1, Ordering::Relaxed)) {
                compute(self);
            }
        });
    }

    fn sums(&self) -> &Sums {
        self.computed.sums.get_or_init(|| Sums::of(&self.gathered.samples))
    }

    /// The delays in order.
    fn sample(&self) -> &Sample {
        let between = |delays| Sample::between(&self.gathered.samples.delay, delays);
        self.computed.sample.get_or_init(|| self.sums().delays.map_or_else(Sample::default, between))
    }

    fn hull(&self) -> Option<&SkewHull> {
        self.computed.hull.get_or_init(|| SkewHull::new(&self.series)).as_ref()
    }

    fn changes(&self) -> &[Segment] {
        self.computed.segments.get_or_init(|| metrics::segments::segments(&self.series))
    }

    /// Of tests whose period is known.
    fn errors(&self) -> Option<&Errors> {
        let errors =
            || self.known.session.period().and_then(|_| Errors::new(&self.series, &self.known.session.spec));
        self.computed.errors.get_or_init(errors).as_ref()
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
            let [on_sent, on_arrived] = self.sums().lines;
            Trend::new(&self.series, on_sent, on_arrived.map(Regression::from), evidence)
        };
        self.computed.trend.get_or_init(trend).as_ref()
    }
}

impl Findings for Exact<'_> {
    fn known(&self) -> &Known<'_> {
        &self.known
    }

    fn delays(&self) -> (Distribution, Distribution) {
        let delays = || {
            let (sample, moments) = (self.sample(), &self.sums().moments);
            let latency = Distribution::new(sample, moments, self.known.wanted());
            let pdv = latency.above_minimum(moments, Some(sample));
            (latency, pdv)
        };
        self.computed.delays.get_or_init(delays).clone()
    }

    fn ipdv(&self) -> Ipdv {
        self.computed.ipdv.get_or_init(|| ipdv(&self.series, self.known.counted.sent)).clone()
    }

    fn rfc3550_jitter(&self) -> Option<Rfc3550> {
        self.sums().rfc3550_jitter
    }

    fn mapdv2(&self) -> Option<f64> {
        self.sums().mapdv2
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
        let session = self.known.session;
        let reordering = || Reordering {
            observable: session.spec.transport() == Transport::Udp,
            ..reordering(&self.series, session.spec.payload())
        };
        self.computed.reordering.get_or_init(reordering).clone()
    }

    fn regressions(&self) -> [Option<Regression>; 2] {
        self.sums().lines.map(|line| line.map(Regression::from))
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
        let inference = || {
            let mut inference = confidence::inference(&self.series, self.sample(), &self.sums().moments);
            if let Some(seed) = self.known.options.bootstrap {
                inference.bootstrap = bootstrap::intervals(&self.series, &inference, seed);
            }
            inference
        };
        self.computed.inference.get_or_init(inference).clone()
    }

    fn dejitter(&self) -> Option<Dejitter> {
        let Known { clock, counted, .. } = &self.known;
        let dejitter = || {
            let reference = dejitter::reference_delay(clock, self.sums().delays.map(|[min, _]| min))?;
            dejitter::dejitter(&self.series, self.sample(), counted.sent, reference, &self.known.receiver())
        };
        self.computed.dejitter.get_or_init(dejitter).clone()
    }

    fn tally(&self) -> &Tally {
        &self.gathered.tally
    }

    fn figures(&self) -> BTreeMap<String, Option<f64>> {
        let stream = Stream {
            session: self.known.session,
            sent: self.known.counted.sent,
            series: &self.series,
            delays: self.sample(),
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
        self.known
            .options
            .unconditional
            .then(|| Unconditional::new(self.sample(), lost, &self.known.percents))
    }

    fn within(&self) -> Option<Within> {
        Within::new(self.sample(), self.sums().moments.mean(), self.known.options.within?)
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
        let stalls =
            || stalls::stalls(&self.series, samples, self.sample(), self.errors(), &tally.waited, spec);
        self.computed.stalls.get_or_init(stalls).clone()
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
        let options = windows::options(self.known.options);
        let summary = |part: &Gathered, session: &Session| {
            let found = Exact::new(part, session, &options, self.kind, clock(part, session), 0, None);
            assemble::summary(&found, self.kind, None, Notes::default())
        };
        windows::analysed(
            windows,
            self.gathered,
            self.known.session,
            &self.series,
            self.known.counted.end,
            self.helpers,
            summary,
        )
    }

    fn judgement(&self) -> Option<Judgement> {
        let Gathered { copies, tally, notes, .. } = self.gathered;
        let notes = notes.as_ref()?;
        let judged = || {
            verdict::judge(&Material {
                session: self.known.session,
                series: &self.series,
                came: &self.came,
                sample: Some(self.sample()),
                copies,
                clock: &self.known.clock,
                notes,
                arrived_by: tally.arrived_by(),
                off_schedule: self.errors().map(Errors::extremes),
                round_trip: self.kind == Kind::RoundTrips,
                profiles: &self.known.options.profiles,
            })
        };
        Some(self.computed.judgement.get_or_init(judged).clone())
    }

    fn comparable(&self) -> Option<Comparable> {
        let seed = self.known.options.comparable?;
        let delays = || self.series.iter().map(|p| p.delay).collect();
        Some(self.computed.comparable.get_or_init(|| Comparable::new(delays(), self.sample(), seed)).clone())
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
