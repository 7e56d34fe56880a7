//! Relative clock skew from the lower hull (metrics §16).

use serde::{Deserialize, Serialize};

/// The closest line below all points (send time, delay).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SkewHull {
    /// Slope, in seconds per second.
    pub alpha: f64,
    /// Slope, in parts per million.
    pub alpha_ppm: f64,
    /// Delay on the line at the first send time, in ns.
    pub beta_ns: f64,
    /// Edge of the hull through which the line runs: [[t, delay]; 2], with t in ns from the earliest send time.
    pub edge: [[i64; 2]; 2],
    /// Largest height of a point above the line, in ns.
    pub residual_max_ns: f64,
    /// Mean height of the points above the line, in ns.
    pub residual_mean_ns: f64,
    /// Slopes of the lines below the first and the second half of the packets; `None` if a half has no line, or if the
    /// hull was computed in one pass.
    pub alpha_halves: Option<[f64; 2]>,
    /// True if the slope is a reliable estimate of clock skew: the edge spans more than a quarter of the run, the
    /// slopes of both halves differ from `alpha` by at most half of it, and no evidence suggests a queue.
    pub is_skew: bool,
}

use super::classify::AcceptedPacket;
use super::hull::{Hull, HullPoint, PointSequence};
use super::moments::{FittedLine, Moments};
use super::regression::{Trend, TrendVerdict};
use super::series::Series;
use crate::distribution::percentile::Percent;
use crate::distribution::sample::Sample;
use crate::distribution::{Distribution, DistributionRequest};
use crate::session::{SSRC, Session};
use std::ops::Range;

/// Largest relative skew of two free-running crystal oscillators, and fastest rate at which NTP slews a clock: 1000
/// ppm.
pub(super) const MAX_SKEW: f64 = 1e-3;
/// Largest plausible relative skew of a media clock: 2 %. Gateways derive such clocks from others by approximate
/// ratios.
const MAX_MEDIA_SKEW: f64 = 0.02;

/// Returns the largest plausible relative skew of the clocks of `session`.
pub(super) fn max_skew(session: &Session) -> f64 {
    let is_media = session.tags.iter().any(|(key, _)| key == SSRC);
    if is_media { MAX_MEDIA_SKEW } else { MAX_SKEW }
}

/// Packets of a series whose send times ascend. Times of points are relative to the first send time.
struct SinceFirst<'a> {
    series: &'a Series<'a>,
    first: i64,
}

impl SinceFirst<'_> {
    #[inline]
    fn point(&self, packet: AcceptedPacket) -> HullPoint {
        (packet.sent.saturating_sub(self.first), packet.delay)
    }
}

impl PointSequence for SinceFirst<'_> {
    fn count(&self) -> usize {
        self.series.len()
    }

    fn at(&self, k: usize) -> HullPoint {
        self.point(self.series.get(k))
    }

    #[inline]
    fn lowest(&self, range: Range<usize>) -> i64 {
        self.series.lowest_delay(range)
    }

    #[inline]
    fn times(&self, range: Range<usize>) -> Option<[i64; 2]> {
        let last = range.clone().next_back()?;
        Some([self.at(range.start).0, self.at(last).0])
    }

    #[inline]
    fn fold<B>(&self, range: Range<usize>, start: B, mut next: impl FnMut(B, HullPoint) -> B) -> B {
        self.series.range(range).fold(start, |sum, packet| next(sum, self.point(packet)))
    }
}

/// The hull of a stream, and the facts that show how reliable its slope is.
#[derive(Clone, Debug)]
struct HullFit {
    hull: Hull,
    n: u64,
    sum_t: i128,
}

impl HullFit {
    fn of(points: &(impl PointSequence + ?Sized), range: Range<usize>) -> HullFit {
        let mut fit = HullFit { hull: Hull::default(), n: range.len() as u64, sum_t: 0 };
        fit.hull.add(points, range.clone());
        fit.sum_t = points.fold(range, 0, |sum, (t, _)| sum + i128::from(t));
        fit
    }

    fn edge(&self) -> Option<[HullPoint; 2]> {
        self.hull.edge(self.sum_t, self.n)
    }
}

fn slope([(t1, d1), (t2, d2)]: [HullPoint; 2]) -> f64 {
    (i128::from(d2) - i128::from(d1)) as f64 / (i128::from(t2) - i128::from(t1)) as f64
}

impl SkewHull {
    /// Returns the line along `edge`, without the figures about points above the line.
    fn along(edge: [HullPoint; 2]) -> SkewHull {
        let (alpha, [(t1, d1), (t2, d2)]) = (slope(edge), edge);
        SkewHull {
            alpha,
            alpha_ppm: alpha * 1e6,
            beta_ns: d1 as f64 - alpha * t1 as f64,
            edge: [[t1, d1], [t2, d2]],
            ..SkewHull::default()
        }
    }

    /// Returns true if the edge spans more than a quarter of the run, which lasts from 0 to `end` ns.
    fn spans_a_quarter(&self, end: i64) -> bool {
        let [[t1, _], [t2, _]] = self.edge;
        t2.saturating_sub(t1) as f64 > end as f64 / 4.0
    }

    /// Fits the line to `series` by send time; `None` if there are fewer than two different send times.
    pub fn new(series: &Series<'_>) -> Option<SkewHull> {
        let since = SinceFirst { series, first: series.earliest()? };
        // Send times follow sequence numbers unless a clock stepped.
        if series.sent_in_order() {
            return SkewHull::fit(&since);
        }
        let mut points: Vec<HullPoint> = series.iter().map(|p| since.point(p)).collect();
        points.sort_unstable();
        SkewHull::fit(&points[..])
    }

    fn fit(points: &(impl PointSequence + ?Sized)) -> Option<SkewHull> {
        let n = points.count();
        let (early, late) = (HullFit::of(points, 0..n / 2), HullFit::of(points, n / 2..n));
        let slopes = early.edge().zip(late.edge()).map(|(a, b)| [slope(a), slope(b)]);
        let mut whole = early;
        whole.hull.merge(&late.hull);
        whole.n += late.n;
        whole.sum_t += late.sum_t;
        let line = SkewHull::along(whole.edge()?);
        let lasting = slopes.is_some_and(|halves| {
            halves.iter().all(|half| (half - line.alpha).abs() <= 0.5 * line.alpha.abs())
        });
        let (max, sum) = points.fold(0..n, (0.0f64, 0.0), |(max, sum), (t, delay)| {
            let height = line.height(t, delay);
            (max.max(height), sum + height)
        });
        Some(SkewHull {
            residual_max_ns: max,
            residual_mean_ns: sum / n as f64,
            alpha_halves: slopes,
            is_skew: lasting && line.spans_a_quarter(points.at(n - 1).0),
            ..line
        })
    }

    /// Returns the line with `is_skew` set to false if `trend` shows a filling or draining queue, or if the slope is
    /// steeper than `max_skew`, the largest plausible skew of a clock.
    pub fn judged(self, trend: Option<&Trend>, max_skew: f64) -> SkewHull {
        let queue =
            trend.is_some_and(|t| matches!(t.verdict, TrendVerdict::Overload | TrendVerdict::Draining));
        SkewHull { is_skew: self.is_skew && !queue && self.alpha.abs() <= max_skew, ..self }
    }

    /// Returns PDV with the skew removed; `None` unless the skew changes the delay during the run by more than a tenth
    /// of the 99th percentile of PDV.
    pub fn deskewed(
        &self,
        series: &Series<'_>,
        pdv: &Distribution,
        wanted: DistributionRequest<'_>,
    ) -> Option<Distribution> {
        let (first, last) = (series.earliest()?, series.latest()?);
        let drift = (self.alpha * last.wrapping_sub(first) as f64).abs();
        let p99 = pdv.percentile(Percent(99_000))? as f64;
        if !self.is_skew || drift <= p99 / 10.0 {
            return None;
        }
        let mut delays = Vec::with_capacity(series.len());
        series.iter().for_each(|p| {
            let skew = self.alpha * p.sent.wrapping_sub(first) as f64;
            delays.push(p.delay.saturating_sub(skew.round() as i64));
        });
        let mut moments = Moments::default();
        moments.add_all(&delays);
        let sample = Sample::new(delays.iter().copied());
        Some(Distribution::new(&sample, &moments, wanted).above_minimum(&moments, Some(&sample)))
    }

    /// Returns the height of `delay` above the line at `t` ns after the first send time, in ns.
    #[inline]
    pub fn height(&self, t: i64, delay: i64) -> f64 {
        // Computed relative to the edge's first point: small numbers preserve precision.
        let [t1, d1] = self.edge[0];
        delay.wrapping_sub(d1) as f64 - self.alpha * t.wrapping_sub(t1) as f64
    }
}

/// Computes the hull line in one pass, in blocks of packets. Stores the vertices of the lower and the upper hull.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StreamingHull {
    first: Option<i64>,
    block: Vec<HullPoint>,
    lower: Hull,
    /// Hull of the negated delays. One of its vertices is the highest point above the line.
    upper: Hull,
    n: u64,
    sum_t: i128,
}

impl StreamingHull {
    /// Number of packets that are added to the hulls at a time. The two-step search of [`Hull`] is fast only for large
    /// blocks.
    const BLOCK: usize = 4096;

    /// Returns true if `self` can be the state after `n` packets. Checks only the properties that computations rely on.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let counted = self.n.checked_add(self.block.len() as u64) == Some(n);
        let settled = self.lower.is_possible() && self.upper.is_possible();
        let sum = self.sum_t.unsigned_abs() <= u128::from(self.n) << 64;
        counted && settled && sum && self.block.len() < Self::BLOCK
    }

    /// Adds the packets that `whole` contains in addition to its earlier state `lead`.
    pub(crate) fn join(&mut self, mut whole: StreamingHull, mut lead: StreamingHull) {
        [&mut *self, &mut whole, &mut lead].into_iter().for_each(StreamingHull::settle);
        let (Some(first), Some(theirs)) = (self.first.or(whole.first), whole.first) else { return };
        self.first = Some(first);
        let moved = theirs.saturating_sub(first);
        let n = whole.n.saturating_sub(lead.n);
        self.n += n;
        self.sum_t += whole.sum_t - lead.sum_t + i128::from(moved) * i128::from(n);
        for (mine, theirs) in [(&mut self.lower, whole.lower), (&mut self.upper, whole.upper)] {
            let later: Vec<HullPoint> =
                theirs.vertices().iter().map(|(t, d)| (t.saturating_add(moved), *d)).collect();
            mine.add(&later[..], 0..later.len());
        }
    }

    /// Adds the next accepted packet.
    pub fn push(&mut self, packet: &AcceptedPacket) {
        let first = *self.first.get_or_insert(packet.sent);
        self.block.push((packet.sent.saturating_sub(first), packet.delay));
        if self.block.len() >= Self::BLOCK {
            self.settle();
        }
    }

    /// Adds the next accepted packets.
    pub(crate) fn push_all(&mut self, sent: &[i64], delays: &[i64]) {
        let mut points = sent.iter().zip(delays).map(|(sent, delay)| (*sent, *delay));
        while let Some((sent, delay)) = points.next() {
            self.push(&AcceptedPacket { seq: 0, sent, delay });
            // Fill the rest of the block at once.
            let first = self.first.unwrap_or(sent);
            let room = (Self::BLOCK - 1).saturating_sub(self.block.len());
            self.block.extend(points.by_ref().take(room).map(|(t, d)| (t.saturating_sub(first), d)));
        }
    }

    fn settle(&mut self) {
        self.n += self.block.len() as u64;
        self.sum_t += self.block.iter().map(|point| i128::from(point.0)).sum::<i128>();
        self.lower.add_to_both(&mut self.upper, &self.block);
        self.block.clear();
    }

    /// Returns the line; `None` if there are fewer than two different send times. `line` is the regression line of the
    /// same packets, which supplies the means from which the mean residual is computed.
    pub fn figures(mut self, line: Option<FittedLine>) -> Option<SkewHull> {
        self.settle();
        let hull = SkewHull::along(self.lower.edge(self.sum_t, self.n)?);
        let (line, [t1, d1]) = (line?, hull.edge[0]);
        let highest = self.upper.vertices().iter().map(|v| hull.height(v.0, v.1.wrapping_neg()));
        let mean_t = self.sum_t as f64 / self.n as f64 - t1 as f64;
        let mean_d = line.origin_y.wrapping_sub(d1) as f64 + line.mean_y;
        let end = self.lower.vertices().last().map_or(0, |v| v.0);
        Some(SkewHull {
            residual_max_ns: highest.fold(0.0, f64::max),
            residual_mean_ns: mean_d - hull.alpha * mean_t,
            is_skew: hull.spans_a_quarter(end) && hull.alpha.abs() <= MAX_SKEW,
            ..hull
        })
    }
}

/// Returns the Allan deviation of offsets `x` at spacing `tau0`, for averaging factor `m` (metrics §16); `None` for
/// fewer than 2m + 1 points.
pub fn allan_deviation(x: &[f64], tau0: f64, m: usize) -> Option<f64> {
    let terms = x.len().checked_sub(2 * m).filter(|n| *n > 0 && m > 0)?;
    let sum: f64 = (0..terms).map(|i| (x[i + 2 * m] - 2.0 * x[i + m] + x[i]).powi(2)).sum();
    Some((sum / (2.0 * (m as f64 * tau0).powi(2) * terms as f64)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::super::OnePass;
    use super::super::moments::CoMoments;
    use super::super::series::Samples;
    use super::*;

    fn with<T>(points: &[HullPoint], check: impl FnOnce(&Series<'_>) -> T) -> T {
        let mut samples = Samples::default();
        for (seq, &(sent, delay)) in (0..).zip(points) {
            samples.push(AcceptedPacket { seq, sent, delay });
        }
        check(&Series::new(&samples))
    }

    fn of(points: &[HullPoint]) -> Option<SkewHull> {
        with(points, SkewHull::new)
    }

    fn streaming(points: impl IntoIterator<Item = HullPoint>) -> Option<SkewHull> {
        let (mut hull, mut sums) = (StreamingHull::default(), CoMoments::default());
        for (sent, delay) in points {
            let packet = AcceptedPacket { seq: 0, sent, delay };
            hull.push(&packet);
            sums.push(&packet);
        }
        hull.figures(sums.on_send())
    }

    #[test]
    fn the_worked_example() {
        // metrics §16, V19; least squares would say 0.137.
        let delays = [1000, 1004, 1001, 1010, 1003, 1003, 1020, 1004, 1005, 1030, 1006];
        let points: Vec<HullPoint> = (0..).map(|k| 10 * k).zip(delays).collect();
        let s = of(&points).unwrap();
        assert!((s.alpha - 0.06).abs() < 1e-15 && (s.beta_ns - 999.8).abs() < 1e-9);
        assert_eq!(s.edge, [[20, 1001], [70, 1004]]);
        // Heights above the line: 0.2, 3.6, 0, 8.4, 0.8, 0.2, 16.6, 0, 0.4, 24.8, 0.2.
        assert!((s.residual_max_ns - 24.8).abs() < 1e-9 && (s.residual_mean_ns - 55.2 / 11.0).abs() < 1e-9);
        assert!((s.height(30, 1010) - 8.4).abs() < 1e-9 && (s.height(0, 990) + 9.8).abs() < 1e-9);
        // The edge of the first half is (20, 1001) – (40, 1003), that of the second (70, 1004) – (100, 1006).
        assert_eq!((s.alpha_ppm.round(), s.alpha_halves), (60_000.0, Some([0.1, 2.0 / 30.0])));
        assert!(!s.is_skew);
        let backwards: Vec<HullPoint> = points.iter().rev().copied().collect();
        assert_eq!(of(&backwards).map(|s| s.edge), Some(s.edge));
    }

    #[test]
    fn edges() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(5, 5)]), None);
        assert_eq!(of(&[(5, 5), (5, 6)]), None);
        assert_eq!(of(&[(0, 5), (10, 6)]).map(|s| s.alpha), Some(0.1));
        assert_eq!((streaming([]), streaming([(5, 5)]), streaming([(5, 5), (5, 6)])), (None, None, None));
    }

    /// Returns 101 packets, one every 2^20 ns. All except those in `lowest` have a delay at least a
    /// millisecond longer.
    fn lowest(lowest: [HullPoint; 4]) -> Vec<HullPoint> {
        let delay = |k| lowest.iter().find(|p| p.0 == k).map_or(1_000_000, |p| p.1);
        (0..=100).map(|k| (7_000_000_000 + (k << 20), 50_000 + delay(k))).collect()
    }

    #[test]
    fn a_skew_lasts_and_spans_a_quarter_of_the_run() {
        // Corners of the hull, in packets and ns. The second of the three edges is the longest; the first
        // half of the run follows the slope before it, the second half the slope after it.
        for (corners, is_skew) in [
            ([(0, 0), (29, 2610), (55, 5210), (100, 10_160)], true),
            ([(0, 0), (30, 2700), (55, 5200), (100, 10_150)], false), // Exactly a quarter.
            ([(0, 0), (30, 1500), (60, 4500), (100, 10_500)], true), // Half the slope before, and one and a half times after.
            ([(0, 0), (30, 1499), (60, 4499), (100, 10_499)], false),
            ([(0, 0), (30, 1500), (60, 4500), (100, 10_501)], false),
            ([(0, 12_000), (30, 7500), (60, 4500), (100, 2500)], true), // Falling.
        ] {
            let points = lowest(corners);
            let backwards: Vec<HullPoint> = points.iter().rev().copied().collect();
            let (s, streamed) = (of(&points).unwrap(), streaming(points).unwrap());
            assert_eq!(of(&backwards).as_ref(), Some(&s));
            let edge = [1, 2].map(|k: usize| [corners[k].0 << 20, 50_000 + corners[k].1]);
            assert_eq!((s.edge, s.is_skew), (edge, is_skew), "{corners:?}");
            // In one pass, the halves are not checked.
            let spans = 4 * (corners[2].0 - corners[1].0) > 100;
            assert_eq!((streamed.edge, streamed.is_skew), (edge, spans), "{corners:?}");
        }
        // 1000 ppm can be a skew, more cannot.
        let slope = |ns: i64| streaming([(0, 0), (1_000_000, ns)]).map(|s| s.is_skew);
        assert_eq!([1000, -1000, 1001, -1001].map(slope), [true, true, false, false].map(Some));
    }

    #[test]
    fn a_queue_is_no_skew() {
        use TrendVerdict::*;
        let judged = |is_skew, alpha, verdict: Option<TrendVerdict>| {
            let trend = verdict.map(|verdict| Trend { verdict, ..Trend::default() });
            SkewHull { is_skew, alpha, ..SkewHull::default() }.judged(trend.as_ref(), MAX_SKEW).is_skew
        };
        for verdict in [Option::None, Some(None), Some(Skew), Some(Undecided)] {
            assert!(judged(true, 1e-3, verdict) && judged(true, -1e-3, verdict), "{verdict:?}");
            assert!(!judged(true, 1.1e-3, verdict) && !judged(true, -1.1e-3, verdict), "{verdict:?}");
            assert!(!judged(false, 1e-4, verdict), "{verdict:?}");
        }
        assert!(!judged(true, 1e-4, Some(Overload)) && !judged(true, 1e-4, Some(Draining)));
    }

    /// Returns the PDV of `points` with the skew removed.
    fn deskewed(points: &[HullPoint], is_skew: bool) -> Option<Distribution> {
        let wanted = DistributionRequest {
            percents: &crate::distribution::percentile::DEFAULT_PERCENTS,
            method: crate::distribution::percentile::Method::Edf,
            bins: crate::distribution::histogram::Bins::default(),
        };
        let (sample, moments): (_, Moments) =
            (Sample::new(points.iter().map(|p| p.1)), points.iter().map(|p| p.1).collect());
        let pdv = Distribution::new(&sample, &moments, wanted).above_minimum(&moments, Some(&sample));
        let hull = SkewHull { is_skew, ..of(points)? };
        with(points, |series| hull.deskewed(series, &pdv, wanted))
    }

    #[test]
    fn the_skew_is_taken_out() {
        // 100 ppm over 100 ms, and noise of 0 to 49 ns, 0 at both ends.
        let noise = |k: i64| k * 37 % 50;
        let points: Vec<HullPoint> =
            (0..=100).map(|k| (3 + k * 1_000_000, 5000 + 100 * k + noise(k))).collect();
        let d = deskewed(&points, true).unwrap();
        assert_eq!((d.min, d.max, d.n), (Some(0), Some(49), 101));
        let mean = (0..=100).map(noise).sum::<i64>() as f64 / 101.0;
        assert!((d.mean.unwrap() - mean).abs() < 1e-9, "{:?}", d.mean);
        assert_eq!(deskewed(&points, false), None);
        // The skew adds 1000 ns over the run. It is removed only if ten times that exceeds the 99th
        // percentile, the 100th of 101 values.
        let peaks = |pdv: i64| {
            let delay = |k| if k == 33 || k == 60 { pdv } else { 10 * k };
            deskewed(&(0..=100).map(|k| (k * 10_000, delay(k))).collect::<Vec<_>>(), true).is_some()
        };
        assert_eq!([9_999, 10_000].map(peaks), [true, false]);
    }

    #[test]
    fn one_pass_equals_two() {
        // A skew of 2 ppm below a queue, over three blocks. Some neighbours are swapped, and the lower delay
        // of two packets sent at the same time comes after the end of a block.
        let queue = |k: i64| 3 * (k * 7_919 % 1000) * (k * 104_729 % 1000 / 10);
        let mut points: Vec<HullPoint> =
            (0..14_000).map(|k| (9_000_000_000 + k * 1_000_000, -700_000 + 2 * k + queue(k))).collect();
        points[4095] = (points[4096].0, points[4096].1 + 90_000_000);
        points[4096].1 -= queue(4096) + 2000;
        for k in (1..13_998).step_by(5).filter(|k| *k != 4096) {
            points.swap(k, k + 2);
        }
        let (two, one) = (of(&points).unwrap(), streaming(points.iter().copied()).unwrap());
        assert!(one.edge.contains(&[4_096_000_000, -700_000 + 2 * 4096 - 2000]), "{:?}", one.edge);
        assert_eq!((one.edge, one.alpha, one.beta_ns), (two.edge, two.alpha, two.beta_ns));
        assert_eq!((one.residual_max_ns, two.residual_max_ns > 88_000_000.0), (two.residual_max_ns, true));
        assert!((one.residual_mean_ns / two.residual_mean_ns - 1.0).abs() < 1e-9);
        // Also with a packet that is reordered by more than a block.
        points.push((9_000_500_000, -800_000));
        let (two, one) = (of(&points).unwrap(), streaming(points).unwrap());
        assert_eq!((one.edge, one.residual_max_ns), (two.edge, two.residual_max_ns));
        assert_eq!(one.edge[0], [500_000, -800_000]);
        assert!((one.residual_mean_ns / two.residual_mean_ns - 1.0).abs() < 1e-9);
    }

    #[test]
    fn allan() {
        // metrics §16, V20.
        let x = [0.0, 3.0, 5.0, 10.0, 8.0, 15.0, 17.0];
        assert!((allan_deviation(&x, 1.0, 1).unwrap() - 4.062_019_202).abs() < 1e-9);
        assert!((allan_deviation(&x, 1.0, 2).unwrap() - 1.354_006_401).abs() < 1e-9);
        assert!((allan_deviation(&x, 2.0, 2).unwrap() - 1.354_006_401 / 2.0).abs() < 1e-9);
        assert_eq!((allan_deviation(&x[1..], 1.0, 3), allan_deviation(&x, 1.0, 4)), (None, None));
        assert_eq!(allan_deviation(&x, 1.0, 0), None);
    }

    fn hull_of(points: &[HullPoint]) -> StreamingHull {
        let mut hull = StreamingHull::default();
        points.iter().for_each(|&(sent, delay)| hull.push(&AcceptedPacket { seq: 0, sent, delay }));
        hull
    }

    #[test]
    fn later_packets_are_added_to_those_before() {
        let queue = |k: i64| k * 7_919 % 1000 * (k * 104_729 % 10);
        let points: Vec<HullPoint> =
            (0..3000).map(|k| (9_000_000_000 + k * 1_000_000, -700_000 + 2 * k + queue(k))).collect();
        let mut sums = CoMoments::default();
        points.iter().for_each(|&(sent, delay)| sums.push(&AcceptedPacket { seq: 0, sent, delay }));
        let whole = streaming(points.iter().copied()).unwrap();
        // The first part has the packets up to `end`, the second those from `begin` on.
        for (begin, end) in [(0, 0), (0, 100), (1000, 1200), (1500, 1500), (2000, 2900)] {
            let mut mine = hull_of(&points[..end]);
            mine.join(hull_of(&points[begin..]), hull_of(&points[begin..end]));
            let merged = mine.figures(sums.on_send()).unwrap();
            assert_eq!((merged.edge, merged.is_skew), (whole.edge, whole.is_skew), "{begin} {end}");
            assert_eq!(merged.residual_max_ns, whole.residual_max_ns);
            assert!((merged.residual_mean_ns / whole.residual_mean_ns - 1.0).abs() < 1e-9, "{begin} {end}");
        }
        let mut mine = hull_of(&points[..50]);
        mine.join(StreamingHull::default(), StreamingHull::default());
        assert_eq!((mine.n, mine.first), (50, Some(9_000_000_000)));
    }

    #[test]
    fn a_state_has_nothing_beyond_its_packets() {
        let mut valid = hull_of(&[(0, 5), (10, 6), (20, 7)]);
        valid.settle();
        valid.block.push((30, 9));
        assert!(valid.is_possible(4) && !valid.is_possible(3) && !valid.is_possible(5));
        let unsorted = || {
            let mut hull = Hull::default();
            [(5, 0), (3, 0)].into_iter().for_each(|p| hull.push(p));
            hull
        };
        assert!(!StreamingHull { lower: unsorted(), ..valid.clone() }.is_possible(4));
        assert!(!StreamingHull { upper: unsorted(), ..valid.clone() }.is_possible(4));
        let sum = |sum_t| StreamingHull { sum_t, ..valid.clone() }.is_possible(4);
        assert!(sum(3 << 64) && sum(-3 << 64) && !sum((3 << 64) + 1) && !sum((-3 << 64) - 1));
        let full = |n: usize| {
            let block = vec![(0, 0); n];
            StreamingHull { block, ..valid.clone() }.is_possible(3 + n as u64)
        };
        assert!(full(StreamingHull::BLOCK - 1) && !full(StreamingHull::BLOCK));
        assert!(!StreamingHull { n: u64::MAX, ..valid.clone() }.is_possible(0));
    }
}
