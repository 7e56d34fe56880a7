//! Inter-packet delay variation in send order (metrics §6; RFC 3393, 5481 §4.1).

use serde::{Deserialize, Serialize};

/// Differences `D_i − D_{i−1}` of packets that were both accepted, in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Ipdv {
    /// Number of pairs with both packets accepted.
    pub defined: u64,
    /// Number of pairs with a packet that was not accepted. There are N − 1 pairs in total.
    pub undefined: u64,
    /// Number of values, equal to `defined`.
    pub n: u64,
    /// Smallest difference.
    pub min: Option<i64>,
    /// Mean difference. Without loss it equals (last − first)/(n − 1), and therefore does not measure
    /// variation.
    pub mean: Option<f64>,
    /// Largest difference.
    pub max: Option<i64>,
    /// Standard deviation with divisor n − 1. It is sensitive to the tails.
    pub stddev: Option<f64>,
    /// Standard deviation with divisor n.
    pub stddev_pop: Option<f64>,
    /// Median difference.
    pub median: Option<f64>,
    /// Lower quartile of the differences.
    pub p25: Option<i64>,
    /// Upper quartile of the differences.
    pub p75: Option<i64>,
    /// Interquartile range, p75 − p25.
    pub iqr: Option<i64>,
    /// Interquartile range from interpolated quartiles.
    pub iqr_linear: Option<f64>,
    /// Mean of the absolute values, called MPPDV in RFC 5481.
    pub mean_abs: Option<f64>,
    /// 0.1th percentile of the differences.
    pub p0_1: Option<i64>,
    /// 99.9th percentile of the differences.
    pub p99_9: Option<i64>,
    /// True if the quartiles are equal although the standard deviation is not zero, because the clock is too coarse.
    pub quantised: bool,
}

use super::classify::AcceptedPacket;
use super::moments::Moments;
use super::series::{Samples, Series};
use crate::distribution::percentile::Percent;
use crate::distribution::sample::Sample;
use crate::distribution::{LogHistogram, OrderStatistics, Precision};
use std::ops::Range;

/// Computes the IPDV of `series`, a stream with `n` packets sent.
pub fn ipdv(series: &Series<'_>, n: u64) -> Ipdv {
    let mut steps = Vec::with_capacity(series.len());
    // Predecessor of the first packet: no packet has the sequence number that follows u32::MAX.
    let mut before = AcceptedPacket { seq: u32::MAX, sent: 0, delay: 0 };
    series.iter().for_each(|packet| {
        if before.seq.wrapping_add(1) == packet.seq && before.seq < u32::MAX {
            steps.push(packet.delay.saturating_sub(before.delay));
        }
        before = packet;
    });
    let sums = StepSums::of(&steps);
    let bounds = [sums.moments.min().unwrap_or(0), sums.moments.max().unwrap_or(0)];
    let order = OrderStatistics::new(steps.iter().copied(), steps.len(), bounds, &PERCENTS);
    sums.figures(n.saturating_sub(1), order.median(), |p| order.edf(p), |p| order.linear(p))
}

/// Percentiles that are reported.
const PERCENTS: [Percent; 5] =
    [Percent(100), Percent(25_000), Percent(50_000), Percent(75_000), Percent(99_900)];

/// Returns the delay differences of consecutive packets that were both accepted, in ns, in send order.
pub fn steps(samples: &Samples) -> Vec<i64> {
    let step = |before: AcceptedPacket, after: AcceptedPacket| {
        (before.seq.checked_add(1) == Some(after.seq)).then(|| after.delay.saturating_sub(before.delay))
    };
    if samples.seq.is_sorted() {
        return samples.iter().zip(samples.iter().skip(1)).filter_map(|(a, b)| step(a, b)).collect();
    }
    let mut packets: Vec<AcceptedPacket> = samples.iter().collect();
    packets.sort_unstable_by_key(|p| p.seq);
    packets.windows(2).filter_map(|pair| step(pair[0], pair[1])).collect()
}

/// Returns the figures of `steps`, and the sorted steps; `possible` is the number of pairs.
pub fn of_steps(steps: Vec<i64>, possible: u64) -> (Ipdv, Sample) {
    let sums = StepSums::of(&steps);
    let sample = Sample::new(steps.into_iter());
    (sums.figures(possible, sample.median(), |p| sample.edf(p), |p| sample.linear(p)), sample)
}

/// Sums over the delay differences of consecutive packets.
struct StepSums {
    moments: Moments,
    /// Sum of the absolute values.
    magnitude: u128,
}

impl StepSums {
    fn of(steps: &[i64]) -> StepSums {
        let mut moments = Moments::default();
        moments.add_all(steps);
        StepSums { moments, magnitude: steps.iter().map(|x| u128::from(x.unsigned_abs())).sum() }
    }

    /// Returns the figures, given the percentiles; `possible` is the number of pairs.
    fn figures(
        &self,
        possible: u64,
        median: Option<f64>,
        edf: impl Fn(Percent) -> Option<i64>,
        linear: impl Fn(Percent) -> Option<f64>,
    ) -> Ipdv {
        let StepSums { moments, magnitude } = self;
        let defined = moments.n();
        let (p25, p75) = (edf(Percent(25_000)), edf(Percent(75_000)));
        let iqr = p25.zip(p75).map(|(low, high)| high.saturating_sub(low));
        let stddev = moments.stddev();
        Ipdv {
            defined,
            undefined: possible.saturating_sub(defined),
            n: defined,
            min: moments.min(),
            mean: moments.mean(),
            max: moments.max(),
            stddev,
            stddev_pop: moments.stddev_pop(),
            median,
            p25,
            p75,
            iqr,
            iqr_linear: linear(Percent(75_000)).zip(linear(Percent(25_000))).map(|(h, l)| h - l),
            mean_abs: (defined > 0).then(|| *magnitude as f64 / defined as f64),
            p0_1: edf(Percent(100)),
            p99_9: edf(Percent(99_900)),
            quantised: iqr == Some(0) && stddev.is_some_and(|s| s > 0.0),
        }
    }
}

/// IPDV in one pass and constant memory. Except for percentiles, it is exact if no packet is reordered by more than
/// 4095 packets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamingIpdv {
    /// Recent delays, indexed by sequence number modulo [`DELAY_WINDOW`].
    #[serde(with = "by_number")]
    recent: Vec<Option<(u32, i64)>>,
    moments: Moments,
    magnitude: u128,
    steps: LogHistogram,
}

/// Number of recent delays that are stored.
const DELAY_WINDOW: usize = 4096;

/// Serialises the recent delays by sequence number.
mod by_number {
    use super::DELAY_WINDOW;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::BTreeMap;

    pub fn serialize<S: Serializer>(recent: &[Option<(u32, i64)>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(recent.iter().copied().flatten())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Option<(u32, i64)>>, D::Error> {
        let mut recent = vec![None; DELAY_WINDOW];
        for (seq, delay) in BTreeMap::<u32, i64>::deserialize(from)? {
            recent[seq as usize % DELAY_WINDOW] = Some((seq, delay));
        }
        Ok(recent)
    }
}

impl Default for StreamingIpdv {
    fn default() -> StreamingIpdv {
        StreamingIpdv {
            recent: vec![None; DELAY_WINDOW],
            moments: Moments::default(),
            magnitude: 0,
            steps: LogHistogram::around(0, Precision::STREAM),
        }
    }
}

impl StreamingIpdv {
    /// Returns true if this can be the state after `n` packets. Checks only the properties that
    /// computations rely on.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let steps = self.moments.n();
        let magnitude = self.magnitude <= u128::from(steps) << 64;
        steps <= n
            && self.moments.is_possible(steps)
            && magnitude
            && self.steps.is_possible(steps)
            && self.steps.origin() == Some(0)
    }

    /// Adds the packets that `whole` contains in addition to its earlier state `lead`.
    pub(crate) fn join(&mut self, whole: StreamingIpdv, lead: &StreamingIpdv) {
        self.moments.join(whole.moments, &lead.moments);
        self.magnitude += whole.magnitude.saturating_sub(lead.magnitude);
        self.steps.merge(&whole.steps.less(&lead.steps));
        for (mine, theirs) in self.recent.iter_mut().zip(whole.recent) {
            if theirs.is_some_and(|(seq, _)| mine.is_none_or(|(known, _)| known != seq)) {
                *mine = theirs;
            }
        }
    }

    /// Returns the delay of packet `seq`; `None` if it is no longer stored.
    #[inline]
    fn delay_of(&self, seq: u32) -> Option<i64> {
        self.recent[seq as usize % DELAY_WINDOW].filter(|recent| recent.0 == seq).map(|recent| recent.1)
    }

    /// Adds the next accepted packets, as runs of consecutive numbers.
    pub fn push_all(&mut self, runs: &[Range<u32>], mut delays: &[i64]) {
        let mut steps = Vec::with_capacity(delays.len() + runs.len());
        for run in runs {
            let (mine, later) = delays.split_at(run.len());
            delays = later;
            let (Some(first), Some(last)) = (mine.first(), mine.last()) else { continue };
            // Only the first and the last packet of a run can have neighbours outside it.
            let before = run.start.checked_sub(1).and_then(|before| self.delay_of(before));
            let after = self.delay_of(run.end);
            steps.extend(before.map(|before| first.saturating_sub(before)));
            steps.extend(mine.iter().zip(&mine[1..]).map(|(a, b)| b.saturating_sub(*a)));
            steps.extend(after.map(|after| after.saturating_sub(*last)));
            for (seq, delay) in run.clone().zip(mine) {
                self.recent[seq as usize % DELAY_WINDOW] = Some((seq, *delay));
            }
        }
        self.moments.add_all(&steps);
        self.magnitude += steps.iter().map(|step| u128::from(step.unsigned_abs())).sum::<u128>();
        self.steps.add_all(&steps);
    }

    /// Adds the next accepted packet.
    pub fn push(&mut self, packet: &AcceptedPacket) {
        let before = packet.seq.checked_sub(1).and_then(|before| self.delay_of(before));
        let after = packet.seq.checked_add(1).and_then(|after| self.delay_of(after));
        self.recent[packet.seq as usize % DELAY_WINDOW] = Some((packet.seq, packet.delay));
        let steps =
            [before.map(|b| packet.delay.saturating_sub(b)), after.map(|a| a.saturating_sub(packet.delay))];
        for step in steps.into_iter().flatten() {
            self.moments.add(step);
            self.magnitude += u128::from(step.unsigned_abs());
            self.steps.add(step);
        }
    }

    /// Returns the figures for a stream with `n` packets sent.
    pub fn figures(&self, n: u64) -> Ipdv {
        let sums = StepSums { moments: self.moments, magnitude: self.magnitude };
        let quantiles = self.steps.quantiles();
        let median = quantiles.edf(Percent(50_000)).map(|x| x as f64);
        sums.figures(n.saturating_sub(1), median, |p| quantiles.edf(p), |_| None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::seqset::SeqSet;
    use super::super::series::Samples;
    use super::*;

    /// Returns statistics and differences for delays by sequence number, where `None` is a lost packet.
    fn of(delays: &[Option<i64>]) -> (Ipdv, Vec<i64>) {
        let mut samples = Samples::default();
        for (seq, delay) in (0..).zip(delays) {
            if let &Some(delay) = delay {
                samples.push(AcceptedPacket { seq, sent: 0, delay });
            }
        }
        let steps = delays.windows(2).filter_map(|w| Some(w[1]? - w[0]?)).collect();
        (ipdv(&Series::new(&samples), delays.len() as u64), steps)
    }

    fn received(delays: &[i64]) -> Vec<Option<i64>> {
        delays.iter().copied().map(Some).collect()
    }

    #[test]
    fn figures_of_rfc_5481() {
        let (f, _) = of(&received(&[20, 10, 20, 25, 20]));
        assert_eq!((f.mean, f.iqr, f.iqr_linear, f.mean_abs), (Some(0.0), Some(15), Some(12.5), Some(7.5)));
        assert!((f.stddev.unwrap() - 9.128_709_291).abs() < 1e-8);
        // §6.1 figure 3: every second packet lost; figure 4: a long loss.
        let f = of(&[3, -1, 5, -1, 4, -1, 3, -1, 4, -1].map(|d| (d >= 0).then_some(d))).0;
        assert_eq!((f.defined, f.undefined, f.mean), (0, 9, None));
        let f = of(&[3, 4, -1, -1, -1, -1, -1, 5, 4, 3].map(|d| (d >= 0).then_some(d))).0;
        assert_eq!((f.defined, f.undefined, f.min, f.max, f.median), (3, 6, Some(-1), Some(1), Some(-1.0)));
        // §5.3 figure 2 B: the text prints −10 for packet 6, its delays give −20 (metrics §27).
        let b = [100, 110, 150, -1, 120, 100, 110, 150, 130, 120, 100].map(|d| (d >= 0).then_some(d));
        let (f, steps) = of(&b);
        assert_eq!(steps, [10, 40, -20, 10, 40, -20, -10, -20]);
        assert_eq!((f.defined, f.undefined), (8, 2));
    }

    #[test]
    fn one_pass_gives_the_same() {
        // Numbers 0…4, one of them lost and one late, then only equal delays.
        let rows = [(0, 20), (1, 10), (4, 25), (2, 20), (5, 20), (4100, 7), (4101, 9)];
        let (mut samples, mut accepted, mut streaming) =
            (Samples::default(), SeqSet::default(), StreamingIpdv::default());
        for (seq, delay) in rows {
            let packet = AcceptedPacket { seq, sent: 0, delay };
            samples.push(packet);
            accepted.insert(seq);
            streaming.push(&packet);
        }
        let exact = ipdv(&Series::new(&samples), 4102);
        let one_pass = streaming.figures(4102);
        assert_eq!(
            Ipdv { iqr_linear: None, ..exact.clone() },
            Ipdv { median: exact.median, ..one_pass.clone() }
        );
        // Steps −10, 10, −5, 2: the percentiles of the histogram are exact for so few values.
        assert_eq!((one_pass.defined, one_pass.undefined, one_pass.median), (4, 4097, Some(-5.0)));
        assert_eq!((one_pass.mean_abs, one_pass.quantised), (Some(6.75), false));
        let empty = StreamingIpdv::default().figures(5);
        assert_eq!((empty.mean_abs, empty.defined, empty.undefined, empty.quantised), (None, 0, 4, false));
        let coarse = |delays: &[i64]| {
            let mut streaming = StreamingIpdv::default();
            (0..)
                .zip(delays)
                .for_each(|(seq, &delay)| streaming.push(&AcceptedPacket { seq, sent: 0, delay }));
            streaming.figures(delays.len() as u64).quantised
        };
        assert!(coarse(&[5, 5, 5, 5, 5, 5, 5, 5, 5, 9]) && !coarse(&[5, 5, 5, 5]) && !coarse(&[1, 9, 4, 30]));
    }

    #[test]
    fn reordered_packets_keep_theirs() {
        // RFC 4737 §7.1 and §7.2: columns by sequence number.
        let mut samples = Samples::default();
        for (seq, delay) in [(0, 68), (1, 68), (2, 68), (4, 68), (5, 68), (3, 150), (6, 68)] {
            samples.push(AcceptedPacket { seq, sent: 0, delay });
        }
        let f = ipdv(&Series::new(&samples), 7);
        assert_eq!((f.defined, f.min, f.max, f.mean), (6, Some(-82), Some(82), Some(0.0)));
    }

    #[test]
    fn a_coarse_clock_is_seen() {
        let mut delays = vec![Some(5); 40];
        delays[20] = Some(9);
        assert!(of(&delays).0.quantised);
        assert!(!of(&received(&[5, 5, 5])).0.quantised);
    }

    #[test]
    fn later_packets_are_added_to_those_before() {
        let of = |seqs: std::ops::Range<u32>| {
            let mut streaming = StreamingIpdv::default();
            for seq in seqs {
                streaming.push(&AcceptedPacket { seq, sent: 0, delay: i64::from(seq * 7_919 % 101) });
            }
            streaming
        };
        // Both parts have 1990 to 1999; the last packets arrive after the buffer of the first part has
        // wrapped.
        let (mut mine, lead) = (of(0..2000), of(1990..2000));
        mine.join(of(1990..4300), &lead);
        let whole = of(0..4300);
        assert_eq!(mine.figures(4300), whole.figures(4300));
        assert_eq!(mine.recent, whole.recent);
    }

    #[test]
    fn a_state_has_nothing_beyond_its_packets() {
        let mut valid = StreamingIpdv::default();
        (0..5).for_each(|seq| valid.push(&AcceptedPacket { seq, sent: 0, delay: 9 }));
        assert!(valid.is_possible(4) && !valid.is_possible(3));
        let with = |change: fn(&mut StreamingIpdv)| {
            let mut changed = valid.clone();
            change(&mut changed);
            changed.is_possible(5)
        };
        assert!(with(|s| s.magnitude = 4 << 64) && !with(|s| s.magnitude = (4 << 64) + 1));
        assert!(!with(|s| s.moments = (1..=3).collect()), "other steps than the histogram has");
        assert!(!with(|s| s.steps = LogHistogram::around(7, Precision::STREAM)));
        assert!(
            !StreamingIpdv { steps: LogHistogram::around(7, Precision::STREAM), ..StreamingIpdv::default() }
                .is_possible(0)
        );
    }

    #[test]
    fn steps_are_in_send_order() {
        let of = |rows: &[(u32, i64)]| {
            let mut samples = Samples::default();
            rows.iter().for_each(|&(seq, delay)| samples.push(AcceptedPacket { seq, sent: 0, delay }));
            steps(&samples)
        };
        assert_eq!(of(&[(0, 20), (1, 10), (3, 5), (4, 25)]), [-10, 20]);
        assert_eq!(of(&[(1, 10), (0, 20), (4, 25), (3, 5)]), [-10, 20]);
    }

    #[test]
    fn nothing_has_no_mean() {
        let (nothing, _) = of_steps(Vec::new(), 7);
        assert_eq!((nothing.mean_abs, nothing.mean, nothing.undefined), (None, None, 7));
    }

    #[test]
    fn a_state_that_is_read_back_knows_the_delays_before() {
        let mut streaming = StreamingIpdv::default();
        (4095..4097).for_each(|seq| streaming.push(&AcceptedPacket { seq, sent: 0, delay: 9 }));
        let text = serde_json::to_string(&streaming).unwrap();
        let again: StreamingIpdv = serde_json::from_str(&text).unwrap();
        assert_eq!(again.recent, streaming.recent);
    }
}
