//! [`AllPackets`]: a stream whose accepted packets are all in memory, with the intermediate results that
//! several metrics share.

use super::duplicate::{Copies, Duplicates};
use super::gilbert_elliott;
use super::known::StreamFacts;
use super::loss::{Loss, LossScan};
use super::moments::{CoMoments, Extremes, FittedLine, Moments};
use super::regression::{Regression, Trend};
use super::schedule_error::SendErrors;
use super::segments;
use super::seqset::{SeqSet, absent, without};
use super::series::{Samples, Series};
use super::skew::{SkewHull, max_skew};
use super::trend::TrendEvidence;
use crate::distribution::{Distribution, Sample};
use crate::summary::PathSegment;
use std::borrow::Cow;
use std::sync::OnceLock;

/// All accepted packets of a stream. Intermediate results are computed at first use; other threads that need
/// a result wait for it.
pub(crate) struct AllPackets<'a> {
    pub known: &'a StreamFacts<'a>,
    /// Packets in order of arrival.
    pub samples: &'a Samples,
    /// Packets in send order.
    pub series: Series<'a>,
    /// Sequence numbers of the accepted packets.
    pub accepted: &'a SeqSet,
    /// Sequence numbers of all received packets, including those whose delay is unknown.
    pub came: Cow<'a, SeqSet>,
    pub copies: &'a Copies,
    /// Times in the queue of the sending host's interface, in ns, with sequence numbers.
    pub queued: Vec<(u32, i64)>,
    computed: Computed,
}

#[derive(Default)]
struct Computed {
    sums: OnceLock<PassSums>,
    sample: OnceLock<Sample>,
    hull: OnceLock<Option<SkewHull>>,
    segments: OnceLock<Vec<PathSegment>>,
    trend: OnceLock<Option<Trend>>,
    errors: OnceLock<Option<SendErrors>>,
    delays: OnceLock<(Distribution, Distribution)>,
}

/// Results of one pass over all packets.
struct PassSums {
    /// Smallest and largest delay; `None` without packets.
    delays: Option<[i64; 2]>,
    moments: Moments,
    /// Regression lines of delay on send time and on arrival time.
    lines: [Option<FittedLine>; 2],
}

impl PassSums {
    fn of(samples: &Samples) -> PassSums {
        let mut sums = CoMoments::default();
        let delays = sums.add_all(&samples.sent, &samples.delay).map(|extremes: Extremes| extremes.delay);
        PassSums {
            delays,
            moments: delays.map_or_else(Moments::default, |delays| sums.of_delay(delays)),
            lines: [sums.on_send(), sums.on_arrival()],
        }
    }
}

impl<'a> AllPackets<'a> {
    /// Creates a view of the packets in both orders, without any computed results.
    pub fn new(
        known: &'a StreamFacts<'a>,
        (samples, series): (&'a Samples, Series<'a>),
        accepted: &'a SeqSet,
        came: Cow<'a, SeqSet>,
        copies: &'a Copies,
        queued: Vec<(u32, i64)>,
    ) -> AllPackets<'a> {
        let computed = Computed::default();
        AllPackets { known, samples, series, accepted, came, copies, queued, computed }
    }

    fn sums(&self) -> &PassSums {
        self.computed.sums.get_or_init(|| PassSums::of(self.samples))
    }

    /// Returns the moments of delay.
    pub fn moments(&self) -> &Moments {
        &self.sums().moments
    }

    /// Returns the regression lines of delay on send time and on arrival time.
    pub fn lines(&self) -> [Option<FittedLine>; 2] {
        self.sums().lines
    }

    /// Returns the smallest delay, in ns; `None` without packets.
    pub fn smallest(&self) -> Option<i64> {
        self.sums().delays.map(|[min, _]| min)
    }

    /// Returns the sorted delays.
    pub fn sample(&self) -> &Sample {
        let between = |delays| Sample::between(&self.samples.delay, delays);
        self.computed.sample.get_or_init(|| self.sums().delays.map_or_else(Sample::default, between))
    }

    /// Returns the statistics of delay and of PDV (delay above the smallest).
    pub fn delays(&self) -> &(Distribution, Distribution) {
        self.computed.delays.get_or_init(|| {
            let (sample, moments) = (self.sample(), self.moments());
            let latency = Distribution::new(sample, moments, self.known.wanted());
            let pdv = latency.above_minimum(moments, Some(sample));
            (latency, pdv)
        })
    }

    fn hull(&self) -> Option<&SkewHull> {
        self.computed.hull.get_or_init(|| SkewHull::new(&self.series)).as_ref()
    }

    /// Returns the line below all packets; its `is_skew` is true if the clocks explain the slope.
    pub fn skew_hull(&self) -> Option<SkewHull> {
        let max_skew = max_skew(self.known.session);
        self.hull().map(|hull| hull.clone().judged(self.trend(), max_skew))
    }

    /// Returns the segments between lasting changes of the smallest delay.
    pub fn segments(&self) -> &[PathSegment] {
        self.computed.segments.get_or_init(|| segments::segments(&self.series))
    }

    /// Returns the losses and their clustering.
    pub fn loss(&self) -> Loss {
        let (session, counted) = (self.known.session, self.known.counted);
        let lost = || without(absent(self.came.runs(), counted.end), session.uncounted_in(0, counted.end));
        let mut scan = LossScan::default();
        lost().for_each(|run| scan.push(run));
        let unknown = counted.end.saturating_sub(counted.sent);
        let mut losses = scan.finish(counted.end, unknown, self.known.periods.mean());
        if self.known.options.gilbert_elliott {
            losses.gilbert_elliott = gilbert_elliott::fit(lost(), counted.end, &losses.gilbert);
        }
        losses
    }

    /// Returns the duplicates.
    pub fn duplicates(&self) -> Duplicates {
        self.copies.figures(self.known.counted.accepted, Some((&self.series, self.accepted)))
    }

    /// Returns the sender's schedule errors; `None` if the period is unknown.
    pub fn errors(&self) -> Option<&SendErrors> {
        let errors =
            || self.known.session.period().and_then(|_| SendErrors::new(&self.series, self.known.session));
        self.computed.errors.get_or_init(errors).as_ref()
    }

    /// Returns the sender's errors against the original schedule; `None` if the schedule was not moved during the test.
    pub fn planned_errors(&self) -> Option<SendErrors> {
        let session = self.known.session;
        let is_moved = !session.schedule_shifts.is_empty() && session.period().is_some();
        is_moved.then(|| SendErrors::planned(&self.series, &session.spec)).flatten()
    }

    /// Returns the slope of delay and its explanation.
    pub fn trend(&self) -> Option<&Trend> {
        let trend = || {
            let evidence = TrendEvidence {
                hull: self.hull(),
                periods: &self.known.periods,
                clock: &self.known.clock,
                direction: self.known.session.spec.direction(),
                jumps: !self.segments().is_empty(),
                clock_set_back: self.known.counted.rx_time_regressions > 0,
                max_skew: max_skew(self.known.session),
            };
            let [on_sent, on_arrived] = self.lines();
            Trend::new(&self.series, on_sent, on_arrived.map(Regression::from), evidence)
        };
        self.computed.trend.get_or_init(trend).as_ref()
    }
}
