//! [`ComparisonSide`]: one side of a comparison, consisting of one or several runs of the same kind.

use super::comparison::{Basis, Precondition, Statistic, Unlike};
use super::difference::Estimate;
use crate::sentences::comparison::{self, UnlikeFacts};
use jitlat_core::comparable::{Comparable, median_bounds, minimum_error};
use jitlat_core::distribution::percentile::Percent;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::metrics::dependence::{
    EventCounts, IntervalOf, NoInterval, QuantileInterval, ShareInterval, quantile_interval,
};
use jitlat_core::metrics::ipdv;
use jitlat_core::metrics::series::Samples;
use jitlat_core::metrics::stat::lag1_correlation;
use jitlat_core::spec::{Direction, Dscp, ip_protocol_name};
use jitlat_core::summary::Summary;

/// One side of a comparison. Fields are public so that measurements of other tools can also be compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparisonSide {
    /// Name of the side.
    pub label: String,
    /// True if the delays are round trips; `None` if unknown.
    pub round_trip: Option<bool>,
    /// Mean time between packets, in ns; `None` if unknown.
    pub period: Option<i64>,
    /// Payload size, in bytes; `None` if unknown.
    pub payload: Option<u64>,
    /// Direction; `None` if unknown.
    pub direction: Option<Direction>,
    /// IP protocol number; `None` if unknown.
    pub proto: Option<u8>,
    /// DSCP; `None` if unknown.
    pub dscp: Option<u8>,
    /// Addresses of sender and receiver; `None` if unknown.
    pub path: Option<[String; 2]>,
    /// Number of lost packets and of sent packets; `None` if loss is invisible.
    pub loss: Option<(u64, u64)>,
    /// Lost and sent packets of each run; empty for one run.
    pub loss_counts: Vec<(u64, u64)>,
    /// Loss events of each run, with the number of lost packets; empty if unknown. Losses without known events count as
    /// independent.
    pub loss_events: Vec<(ShareInterval, u64)>,
    /// Compared times, in ns, run after run, each in send order; empty if only the figures below are available.
    pub values: Vec<i64>,
    /// Number of values per run; empty for a single run.
    pub runs: Vec<usize>,
    /// Stored distribution that replaces `values`; `None` if there is none.
    pub comparable: Option<Comparable>,
    /// Smallest of the compared times, in ns.
    pub least: i64,
    /// Median, in ns, if there are no values.
    pub median: Option<f64>,
    /// 99th percentile, in ns, if there are no values.
    pub p99: Option<f64>,
    /// 95 % interval of the median, in ns, if there are no values.
    pub median_ci95: Option<[f64; 2]>,
    /// 95 % interval of the 99th percentile, in ns, if there are no values.
    pub p99_ci95: Option<[f64; 2]>,
    /// Half-width of the 95 % interval of the minimum to which PDV refers, in ns; 0 for other times.
    pub minimum_error: f64,
    /// Measurement error, in ns: the clock bound for delay, the noise of the hosts for PDV.
    pub floor: f64,
    /// Clocks of the runs, if the compared times are PDV and the clock offsets are known.
    pub clocks: Option<DelayClocks>,
}

/// Relation of the PDV of runs to their delays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DelayClocks {
    /// Delay of each run that corresponds to a PDV of 0, corrected for the clocks, in ns.
    pub least: Vec<i64>,
    /// Largest error of the clocks, in ns.
    pub bound: f64,
}

impl ComparisonSide {
    /// Creates a side from the run of `summary`, whose accepted packets are `samples` (empty if not available).
    pub fn new(
        label: &str,
        summary: &Summary,
        samples: &Samples,
        basis: Basis,
        statistic: Statistic,
    ) -> ComparisonSide {
        let described = ComparisonSide::described(label, summary, samples);
        let noise = |percent: u32| {
            let floor = summary.noise.as_ref().and_then(|n| n.floor.pdv(Percent(percent)));
            floor.map_or(0.0, |f| f.0 as f64)
        };
        match basis {
            Basis::Pdv => {
                let percent = if statistic == Statistic::Median { 50_000 } else { 99_000 };
                let min = summary.latency.min.unwrap_or(0);
                let clocks = summary.correction().filter(|_| summary.latency.min.is_some());
                let clocks = clocks.map(|(correction, bound)| DelayClocks {
                    least: vec![min.saturating_sub(correction)],
                    bound,
                });
                let side = described.with_delays(summary, samples, min, noise(percent));
                let known = side.comparable.as_ref().map(Comparable::minimum_error);
                let error = known.unwrap_or_else(|| minimum_error(&side.values));
                ComparisonSide { clocks, minimum_error: error.unwrap_or(f64::INFINITY), ..side }
            }
            Basis::Delay => {
                let (correction, bound) = summary.correction().unwrap_or((0, f64::INFINITY));
                described.with_delays(summary, samples, correction, bound)
            }
            Basis::Ipdv => {
                // The variation between two packets is at most the larger of their PDVs. It therefore exceeds a value
                // at most twice as often as PDV does, and its percentile is at most the PDV percentile with half the
                // tail.
                let percent = if statistic == Statistic::Median { 90_000 } else { 99_900 };
                let values = ipdv::steps(samples).into_iter().map(i64::saturating_abs).collect();
                ComparisonSide { values, floor: noise(percent), ..described }
            }
        }
    }

    /// Creates a side from delays minus `base`, in ns, whose measurement error is `floor`, in ns: for runs whose delays
    /// are comparable because the same clocks measured them.
    pub fn of_delays(
        label: &str,
        summary: &Summary,
        samples: &Samples,
        base: i64,
        floor: f64,
    ) -> ComparisonSide {
        ComparisonSide::described(label, summary, samples).with_delays(summary, samples, base, floor)
    }

    /// Describes a run without its times.
    fn described(label: &str, summary: &Summary, samples: &Samples) -> ComparisonSide {
        let header = &summary.header;
        ComparisonSide {
            label: label.to_owned(),
            round_trip: Some(summary.is_round_trip()),
            period: Some(header.period).filter(|p| *p > 0),
            payload: Some(header.pktlen).filter(|l| *l > 0),
            direction: summary.direction(),
            proto: Some(header.proto),
            dscp: Some(header.dscp),
            path: header.src_ip.clone().zip(header.dst_ip.clone()).map(|(s, d)| [s, d]),
            loss: summary.loss_observable().then_some((summary.counts.lost, summary.counts.sent)),
            loss_events: loss_events(summary, samples).into_iter().collect(),
            ..ComparisonSide::default()
        }
    }

    /// Adds the delays of `samples` minus `base`, and their measurement error.
    fn with_delays(self, summary: &Summary, samples: &Samples, base: i64, floor: f64) -> ComparisonSide {
        let less = |x: f64| x - base as f64;
        let interval = |of: &QuantileInterval| of.ci95.map(|ends| ends.map(|x| less(x as f64)));
        let least = summary.latency.min.map_or(0, |min| min.saturating_sub(base));
        let bounds = summary.comparable.as_ref().and_then(Comparable::median_bounds);
        let bounds = bounds.map(|ends| ends.map(|x| x.saturating_add(least) as f64));
        ComparisonSide {
            values: in_send_order(samples).map(|delay| delay.saturating_sub(base)).collect(),
            comparable: summary.comparable.clone().filter(|_| samples.is_empty()),
            least,
            median: summary.latency.median.map(less),
            p99: summary.latency.percentile(Percent(99_000)).map(|x| less(x as f64)),
            median_ci95: interval(&summary.inference.median).or(bounds),
            p99_ci95: interval(&summary.inference.p99),
            floor,
            ..self
        }
    }

    /// Pools several runs of the same kind into one side. Properties that differ between them become unknown.
    pub fn pooled(label: &str, sides: Vec<ComparisonSide>) -> ComparisonSide {
        let mut sides = sides.into_iter();
        let Some(mut all) = sides.next() else {
            return ComparisonSide { label: label.to_owned(), ..ComparisonSide::default() };
        };
        all.label = label.to_owned();
        for next in sides {
            if all.runs.is_empty() {
                all.runs.push(all.values.len());
                all.loss_counts.extend(all.loss);
                all.minimum_error = all.minimum_error.powi(2);
            }
            all.runs.push(next.values.len());
            all.values.extend(next.values);
            fn agreed<T: PartialEq>(mine: &mut Option<T>, theirs: &Option<T>) {
                if mine != theirs {
                    *mine = None;
                }
            }
            agreed(&mut all.round_trip, &next.round_trip);
            agreed(&mut all.period, &next.period);
            agreed(&mut all.payload, &next.payload);
            agreed(&mut all.direction, &next.direction);
            agreed(&mut all.proto, &next.proto);
            agreed(&mut all.dscp, &next.dscp);
            agreed(&mut all.path, &next.path);
            all.loss =
                all.loss.zip(next.loss).map(|((l, n), (k, m))| (l.saturating_add(k), n.saturating_add(m)));
            all.floor = all.floor.max(next.floor);
            all.loss_counts.extend(next.loss);
            all.loss_events.extend(next.loss_events);
            all.minimum_error += next.minimum_error.powi(2);
            all.clocks = all.clocks.zip(next.clocks).map(|(mut mine, theirs)| {
                mine.least.extend(theirs.least);
                DelayClocks { bound: mine.bound.max(theirs.bound), ..mine }
            });
            // The median of medians is not the median, and one interval does not follow from two.
            (all.median, all.p99, all.median_ci95, all.p99_ci95) = (None, None, None, None);
            (all.comparable, all.least) = (None, all.least.min(next.least));
        }
        if !all.runs.is_empty() {
            // The minima of the runs are independent, and their mean counts.
            all.minimum_error = all.minimum_error.sqrt() / all.runs.len() as f64;
        }
        // If packets are only available of some runs, they must not represent all runs.
        if all.runs.contains(&0) {
            all.values.clear();
            all.runs.clear();
        }
        all
    }

    /// Returns the smallest of the compared times.
    pub(super) fn least(&self) -> i64 {
        self.values.iter().copied().min().unwrap_or(self.least)
    }

    /// Returns median and 99th percentile with their intervals. `all`: the sorted values.
    pub(super) fn estimates(&self, all: &Sample) -> [Option<Estimate>; 2] {
        let neighbours = correlation_of_neighbours(&self.values);
        let of = |kind, percent, known: Option<f64>, ci95: Option<[f64; 2]>| {
            let estimate = if self.values.is_empty() {
                Estimate { value: known?, ci95 }
            } else {
                let found = quantile_interval(kind, &self.values, all, neighbours);
                let value = if kind == IntervalOf::Median { all.median()? } else { all.edf(percent)? as f64 };
                let few = || median_bounds(&self.values, all).filter(|_| kind == IntervalOf::Median);
                Estimate { value, ci95: found.ci95.or_else(few).map(|ends| ends.map(|x| x as f64)) }
            };
            let known = |e: &Estimate| e.ci95.is_some() && self.minimum_error.is_finite();
            let error = Some(estimate).filter(known).map(|e| e.with_error(self.minimum_error));
            Some(error.unwrap_or(Estimate { ci95: None, ..estimate }))
        };
        [
            of(IntervalOf::Median, Percent(50_000), self.median, self.median_ci95),
            of(IntervalOf::P99, Percent(99_000), self.p99, self.p99_ci95),
        ]
    }

    /// Returns this side with delays instead of PDV; `None` if the clocks are unknown.
    pub(super) fn delays(&self) -> Option<ComparisonSide> {
        let clocks = self.clocks.as_ref()?;
        let base = clocks.least.first().copied()? as f64;
        let shifted = self.runs().into_iter().zip(clocks.least.iter().copied());
        let values = shifted.flat_map(|(run, least)| run.iter().map(move |x| x.saturating_add(least)));
        let moved = |ci: Option<[f64; 2]>| ci.map(|ends| ends.map(|x| x + base));
        Some(ComparisonSide {
            values: values.collect(),
            runs: self.runs.clone(),
            median: self.median.map(|x| x + base),
            p99: self.p99.map(|x| x + base),
            median_ci95: moved(self.median_ci95),
            p99_ci95: moved(self.p99_ci95),
            floor: clocks.bound,
            ..ComparisonSide::default()
        })
    }

    /// Returns the stored distribution, or one computed from the packets; `None` for several runs.
    pub(super) fn known(&self, all: &Sample) -> Option<Comparable> {
        if self.values.is_empty() {
            return self.comparable.clone().filter(|c| c.n() > 0);
        }
        self.runs.is_empty().then(|| Comparable::new(self.values.clone(), all))
    }

    /// Returns the number of packets from which the figures were computed.
    pub(super) fn packets(&self) -> u64 {
        match &self.comparable {
            Some(known) if self.values.is_empty() => known.n(),
            _ => self.values.len() as u64,
        }
    }

    /// Returns the values of each run.
    pub(super) fn runs(&self) -> Vec<&[i64]> {
        if self.runs.is_empty() {
            return vec![&self.values];
        }
        let mut rest = self.values.as_slice();
        let mut next = |n: &usize| {
            let (run, after) = rest.split_at((*n).min(rest.len()));
            rest = after;
            run
        };
        self.runs.iter().map(&mut next).filter(|run| !run.is_empty()).collect()
    }
}

/// Returns the loss events of a run, with the number of lost packets; `None` if they were not recorded.
fn loss_events(summary: &Summary, samples: &Samples) -> Option<(ShareInterval, u64)> {
    let (sent, lost) = (summary.counts.sent, summary.counts.lost);
    // Summaries of older versions have no events.
    let has_events =
        summary.loss.events.events > 0 || summary.loss.events.absent == Some(NoInterval::NoEvent);
    if has_events || samples.is_empty() {
        return has_events.then_some((summary.loss.events, lost));
    }
    let mut accepted = samples.seq.clone();
    accepted.sort_unstable();
    let (mut events, mut next) = (EventCounts::default(), 0);
    for seq in accepted.into_iter().map(u64::from).chain([sent]) {
        if seq > next {
            events.push(next, seq - next);
        }
        next = seq + 1;
    }
    Some((events.share(sent, sent), lost))
}

/// Returns the correlation of neighbouring values; `None` without variation.
fn correlation_of_neighbours(values: &[i64]) -> Option<f64> {
    let origin = *values.first()?;
    // Subtracting the first value keeps the numbers small and the mean precise.
    lag1_correlation(&values.iter().map(|x| x.saturating_sub(origin) as f64).collect::<Vec<_>>())
}

/// Returns the delays in the order of sequence numbers.
fn in_send_order(samples: &Samples) -> impl Iterator<Item = i64> + '_ {
    let mut order: Vec<usize> = (0..samples.len()).collect();
    if !samples.seq.is_sorted() {
        order.sort_unstable_by_key(|k| samples.seq[*k]);
    }
    order.into_iter().map(|k| samples.delay[k])
}

/// Returns true if both sides are the same run: all delays that are available are equal, in the same order.
fn is_the_same(a: &ComparisonSide, b: &ComparisonSide) -> bool {
    if !a.values.is_empty() && !b.values.is_empty() {
        return a.values == b.values;
    }
    let known = |side: &ComparisonSide| side.known(&Sample::new(side.values.iter().copied()));
    known(a).zip(known(b)).is_some_and(|(x, y)| a.least() == b.least() && x.is_the_same(&y))
}

/// Returns the preconditions that `a` and `b` do not meet, except the one that the user varied on purpose.
pub(super) fn unlike(a: &ComparisonSide, b: &ComparisonSide, varied: Option<Precondition>) -> Vec<Unlike> {
    fn differs<'a, T: PartialEq>(x: &'a Option<T>, y: &'a Option<T>) -> Option<(&'a T, &'a T)> {
        x.as_ref().zip(y.as_ref()).filter(|(x, y)| x != y)
    }
    let mut found = Vec::new();
    let mut add = |what, facts: UnlikeFacts<'_>| {
        if varied != Some(what) {
            found.push(Unlike { what, text: comparison::unlike(&facts) });
        }
    };
    if differs(&a.round_trip, &b.round_trip).is_some() {
        add(Precondition::Kind, UnlikeFacts::Kind);
    }
    if differs(&a.direction, &b.direction).is_some() {
        add(Precondition::Direction, UnlikeFacts::Direction);
    }
    if is_the_same(a, b) {
        add(Precondition::Independence, UnlikeFacts::SamePackets);
    }
    if let Some((x, y)) = differs(&a.proto, &b.proto) {
        let [x, y] = [*x, *y].map(ip_protocol_name);
        add(Precondition::Transport, UnlikeFacts::Transport(&x, &y));
    }
    if let Some((x, y)) = differs(&a.period, &b.period) {
        add(Precondition::Period, UnlikeFacts::Period(*x, *y));
    }
    if let Some((x, y)) = differs(&a.payload, &b.payload) {
        add(Precondition::Payload, UnlikeFacts::Payload(*x, *y));
    }
    if let Some((x, y)) = a
        .loss
        .map(|l| l.1)
        .zip(b.loss.map(|l| l.1))
        .filter(|(x, y)| *x > y.saturating_mul(2) || *y > x.saturating_mul(2))
    {
        add(Precondition::Length, UnlikeFacts::Length(x, y));
    }
    if let Some((x, y)) = differs(&a.path, &b.path) {
        add(Precondition::Path, UnlikeFacts::Path(x, y));
    }
    if let Some((x, y)) = differs(&a.dscp, &b.dscp) {
        let name = |d: u8| Dscp::new(d.into()).map_or_else(|| d.to_string(), |d| d.to_string());
        add(Precondition::Dscp, UnlikeFacts::Dscp(&name(*x), &name(*y)));
    }
    found
}
