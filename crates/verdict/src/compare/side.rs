//! [`ComparisonSide`]: one side of a comparison, consisting of one or several runs of the same kind.

use super::comparison::{Basis, Precondition, Statistic, Unlike};
use crate::sentences::comparison::{self, UnlikeFacts};
use jitlat_core::comparable::Comparable;
use jitlat_core::comparable::ResampledSpread;
use jitlat_core::distribution::percentile::Percent;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::metrics::ipdv;
use jitlat_core::metrics::series::Samples;
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
    /// 95 % interval of the loss ratio that allows for correlation; `None` if unknown.
    pub loss_interval: Option<[f64; 2]>,
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
    /// Measurement error, in ns: the clock bound for delay, the noise of the hosts for PDV.
    pub floor: f64,
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
        let header = &summary.header;
        let described = ComparisonSide {
            label: label.to_owned(),
            round_trip: Some(summary.is_round_trip()),
            period: Some(header.period).filter(|p| *p > 0),
            payload: Some(header.pktlen).filter(|l| *l > 0),
            direction: summary.direction(),
            proto: Some(header.proto),
            dscp: Some(header.dscp),
            path: header.src_ip.clone().zip(header.dst_ip.clone()).map(|(s, d)| [s, d]),
            loss: summary.loss_observable().then_some((summary.counts.lost, summary.counts.sent)),
            loss_interval: summary.loss.wilson95_correlated,
            ..ComparisonSide::default()
        };
        let noise = |percent: u32| {
            let floor = summary.noise.as_ref().and_then(|n| n.floor.pdv(Percent(percent)));
            floor.map_or(0.0, |f| f.0 as f64)
        };
        match basis {
            Basis::Pdv => {
                let percent = if statistic == Statistic::Median { 50_000 } else { 99_000 };
                described.with_delays(summary, samples, summary.latency.min.unwrap_or(0), noise(percent))
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

    /// Adds the delays of `samples` minus `base`, and their measurement error.
    fn with_delays(self, summary: &Summary, samples: &Samples, base: i64, floor: f64) -> ComparisonSide {
        let less = |x: f64| x - base as f64;
        ComparisonSide {
            values: in_send_order(samples).map(|delay| delay.saturating_sub(base)).collect(),
            comparable: summary.comparable.clone().filter(|_| samples.is_empty()),
            least: summary.latency.min.map_or(0, |min| min.saturating_sub(base)),
            median: summary.latency.median.map(less),
            p99: summary.latency.percentile(Percent(99_000)).map(|x| less(x as f64)),
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
            // The median of medians is not the median, and one interval does not follow from two.
            (all.median, all.p99, all.loss_interval) = (None, None, None);
            (all.comparable, all.least) = (None, all.least.min(next.least));
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

    /// Returns the uncertainty of the median and the 99th percentile, both relative to [`ComparisonSide::least`]. `all`
    /// contains the sorted values.
    pub(super) fn spread(&self, all: &Sample, seed: u64) -> Option<ResampledSpread> {
        if self.values.is_empty() {
            return self.comparable.as_ref()?.spread().cloned();
        }
        let least = self.least();
        let above: Vec<Vec<i64>> =
            self.runs().iter().map(|r| r.iter().map(|x| x.saturating_sub(least)).collect()).collect();
        ResampledSpread::of(&above.iter().map(Vec::as_slice).collect::<Vec<_>>(), all, seed)
    }

    /// Returns the stored distribution, or one computed from the packets; `None` for several runs.
    pub(super) fn known(&self, all: &Sample, seed: u64) -> Option<Comparable> {
        if self.values.is_empty() {
            return self.comparable.clone().filter(|c| c.n() > 0);
        }
        self.runs.is_empty().then(|| Comparable::new(self.values.clone(), all, seed))
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
    let known = |side: &ComparisonSide| side.known(&Sample::new(side.values.iter().copied()), 1);
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
