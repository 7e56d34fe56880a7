//! Relative clock skew from the lower hull (metrics §16).

use serde::{Deserialize, Serialize};

/// The line below all points (send time, delay) that is closest to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SkewHull {
    /// Slope, seconds a second.
    pub alpha: f64,
    /// The same in parts per million.
    pub alpha_ppm: f64,
    /// Its value at the first send time, in ns.
    pub beta_ns: f64,
    /// The edge of the hull it runs along: [[t, delay]; 2], t in ns from the earliest send time.
    pub edge: [[i64; 2]; 2],
    /// Largest distance above the line, in ns.
    pub residual_max_ns: f64,
    /// Mean distance above the line, in ns.
    pub residual_mean_ns: f64,
    /// Slopes of the first and the second half of the run.
    pub alpha_halves: Option<[f64; 2]>,
    /// Whether it is reliable: the edge spans more than a quarter of the run, both halves have the slope, within half
    /// of it, and nothing indicates a queue instead.
    pub is_skew: bool,
}

use super::classify::Packet;
use super::hull::{Hull, Point, Points};
use super::moments::{Line, Moments};
use super::regression::{Trend, TrendVerdict};
use super::series::Series;
use crate::distribution::percentile::Percent;
use crate::distribution::sample::Sample;
use crate::distribution::{Distribution, Wanted};
use std::ops::Range;

/// The packets of a series by the time since the first was sent.
struct SinceFirst<'a> {
    series: &'a Series<'a>,
    first: i64,
}

impl SinceFirst<'_> {
    fn point(&self, packet: Packet) -> Point {
        (packet.sent.saturating_sub(self.first), packet.delay)
    }
}

impl Points for SinceFirst<'_> {
    fn count(&self) -> usize {
        self.series.len()
    }

    fn at(&self, k: usize) -> Point {
        self.point(self.series.get(k))
    }

    fn fold<B>(&self, range: Range<usize>, start: B, mut next: impl FnMut(B, Point) -> B) -> B {
        self.series.range(range).fold(start, |sum, packet| next(sum, self.point(packet)))
    }
}

/// The hull of a stream, and how reliable it is.
#[derive(Clone, Debug)]
struct Fit {
    hull: Hull,
    n: u64,
    sum_t: i128,
}

impl Fit {
    fn of(points: &(impl Points + ?Sized), range: Range<usize>) -> Fit {
        let mut fit = Fit { hull: Hull::default(), n: range.len() as u64, sum_t: 0 };
        fit.hull.extend(points, range.clone());
        fit.sum_t = points.fold(range, 0, |sum, (t, _)| sum + i128::from(t));
        fit
    }

    fn edge(&self) -> Option<[Point; 2]> {
        if self.hull.vertices().is_empty() {
            return None;
        }
        self.hull.edge(self.sum_t, self.n)
    }
}

fn slope([(t1, d1), (t2, d2)]: [Point; 2]) -> f64 {
    (i128::from(d2) - i128::from(d1)) as f64 / (i128::from(t2) - i128::from(t1)) as f64
}

impl SkewHull {
    /// The hull line of `series` on send time; `None` below two different send times.
    pub fn new(series: &Series<'_>) -> Option<SkewHull> {
        let since = SinceFirst { series, first: series.earliest()? };
        // Send times follow sequence numbers unless a clock stepped.
        if series.sent_in_order() {
            return SkewHull::fit(&since);
        }
        let mut points: Vec<Point> = series.iter().map(|p| since.point(p)).collect();
        points.sort_unstable();
        SkewHull::fit(&points[..])
    }

    fn fit(points: &(impl Points + ?Sized)) -> Option<SkewHull> {
        let n = points.count();
        let (early, late) = (Fit::of(points, 0..n / 2), Fit::of(points, n / 2..n));
        let slopes = early.edge().zip(late.edge()).map(|(a, b)| [slope(a), slope(b)]);
        let mut whole = early;
        whole.hull.merge(&late.hull);
        whole.n += late.n;
        whole.sum_t += late.sum_t;
        let edge = whole.edge()?;
        let alpha = slope(edge);
        let lasting =
            slopes.is_some_and(|halves| halves.iter().all(|half| (half - alpha).abs() <= 0.5 * alpha.abs()));
        // Heights above the line, taken from the edge's first point so that only differences count.
        let [(t1, d1), (t2, _)] = edge;
        let height = |(t, d): Point| d.wrapping_sub(d1) as f64 - alpha * t.wrapping_sub(t1) as f64;
        let (max, sum) = points.fold(0..n, (0.0f64, 0.0), |(max, sum), point| {
            let height = height(point);
            (max.max(height), sum + height)
        });
        Some(SkewHull {
            alpha,
            alpha_ppm: alpha * 1e6,
            beta_ns: d1 as f64 - alpha * t1 as f64,
            edge: [[t1, d1], edge[1].into()],
            residual_max_ns: max,
            residual_mean_ns: sum / n as f64,
            alpha_halves: slopes,
            is_skew: lasting && t2.saturating_sub(t1) as f64 > points.at(n - 1).0 as f64 / 4.0,
        })
    }

    /// The same with the verdict on the slope taken into account: a filling or emptying queue is no skew.
    pub fn judged(self, trend: Option<&Trend>) -> SkewHull {
        let queue =
            trend.is_some_and(|t| matches!(t.verdict, TrendVerdict::Overload | TrendVerdict::Draining));
        SkewHull { is_skew: self.is_skew && !queue && self.alpha.abs() <= 1e-3, ..self }
    }

    /// PDV with the skew taken out, where over the run it amounts to more than a tenth of the 99th
    /// percentile of PDV.
    pub fn deskewed(
        &self,
        series: &Series<'_>,
        pdv: &Distribution,
        wanted: Wanted<'_>,
    ) -> Option<Distribution> {
        let (first, last) = (series.earliest()?, series.latest()?);
        let drift = (self.alpha * last.wrapping_sub(first) as f64).abs();
        let p99 = pdv.percentile(Percent(99_000))? as f64;
        if !self.is_skew || drift <= p99 / 10.0 {
            return None;
        }
        let delays = series.iter().map(|p| {
            let skew = self.alpha * p.sent.wrapping_sub(first) as f64;
            p.delay.saturating_sub(skew.round() as i64)
        });
        let moments: Moments = delays.clone().collect();
        let sample = Sample::new(delays);
        Some(Distribution::new(&sample, &moments, wanted).above_minimum(&moments, Some(&sample)))
    }

    /// How far `delay` lies above the line at `t` ns after the first send time, in ns.
    pub fn height(&self, t: i64, delay: i64) -> f64 {
        let [t1, d1] = self.edge[0];
        delay.wrapping_sub(d1) as f64 - self.alpha * t.wrapping_sub(t1) as f64
    }
}

/// The hull line in one pass, by blocks of packets. Memory: the vertices of the lower and the upper hull.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StreamingHull {
    first: Option<i64>,
    block: Vec<Point>,
    lower: Hull,
    /// Of the delays upside down: its vertices hold the largest height above any line.
    upper: Hull,
    n: u64,
    sum_t: i128,
}

impl StreamingHull {
    const BLOCK: usize = 1024;

    /// Whether it can be that of `n` packets, as far as computing relies on it.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let counted = self.n.checked_add(self.block.len() as u64) == Some(n);
        let settled = self.lower.is_possible() && self.upper.is_possible();
        let sum = self.sum_t.unsigned_abs() <= u128::from(self.n) << 64;
        counted && settled && sum && self.block.len() < Self::BLOCK
    }

    /// Adds the packets that `whole` has had since it was `lead`.
    pub(crate) fn add_later(&mut self, mut whole: StreamingHull, mut lead: StreamingHull) {
        [&mut *self, &mut whole, &mut lead].into_iter().for_each(StreamingHull::settle);
        let (Some(first), Some(theirs)) = (self.first.or(whole.first), whole.first) else { return };
        self.first = Some(first);
        let moved = theirs.saturating_sub(first);
        let n = whole.n.saturating_sub(lead.n);
        self.n += n;
        self.sum_t += whole.sum_t - lead.sum_t + i128::from(moved) * i128::from(n);
        for (mine, theirs) in [(&mut self.lower, whole.lower), (&mut self.upper, whole.upper)] {
            mine.add(theirs.vertices().iter().map(|(t, d)| (t.saturating_add(moved), *d)));
        }
    }

    /// The next accepted packet.
    pub fn push(&mut self, packet: &Packet) {
        let first = *self.first.get_or_insert(packet.sent);
        self.block.push((packet.sent.saturating_sub(first), packet.delay));
        if self.block.len() >= Self::BLOCK {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.n += self.block.len() as u64;
        self.sum_t += self.block.iter().map(|point| i128::from(point.0)).sum::<i128>();
        self.upper.add(self.block.iter().map(|(t, d)| (*t, d.saturating_neg())));
        self.lower.add(self.block.drain(..));
    }

    /// The figures; `line` gives the means the residuals are taken about.
    pub fn figures(mut self, line: Option<Line>) -> Option<SkewHull> {
        self.settle();
        if self.lower.vertices().is_empty() {
            return None;
        }
        let edge = self.lower.edge(self.sum_t, self.n)?;
        let line = line?;
        let alpha = slope(edge);
        let [(t1, d1), (t2, _)] = edge;
        let height = |t: i64, d: i64| d.wrapping_sub(d1) as f64 - alpha * t.wrapping_sub(t1) as f64;
        let residual_max_ns =
            self.upper.vertices().iter().map(|v| height(v.0, v.1.wrapping_neg())).fold(0.0, f64::max);
        let mean_t = self.sum_t as f64 / self.n as f64 - t1 as f64;
        let mean_d = line.origin_y.wrapping_sub(d1) as f64 + line.mean_y;
        let last = self.lower.vertices().last().map_or(0, |v| v.0);
        Some(SkewHull {
            alpha,
            alpha_ppm: alpha * 1e6,
            beta_ns: d1 as f64 - alpha * t1 as f64,
            edge: [[t1, d1], edge[1].into()],
            residual_max_ns,
            residual_mean_ns: mean_d - alpha * mean_t,
            alpha_halves: None,
            is_skew: t2.saturating_sub(t1) as f64 > last as f64 / 4.0 && alpha.abs() <= 1e-3,
        })
    }
}

/// Allan deviation of offsets `x` at spacing `tau0`, for averaging factor `m` (metrics §16); `None` below
/// 2m + 1 points.
pub fn allan_deviation(x: &[f64], tau0: f64, m: usize) -> Option<f64> {
    let terms = x.len().checked_sub(2 * m).filter(|n| *n > 0 && m > 0)?;
    let sum: f64 = (0..terms).map(|i| (x[i + 2 * m] - 2.0 * x[i + m] + x[i]).powi(2)).sum();
    Some((sum / (2.0 * (m as f64 * tau0).powi(2) * terms as f64)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::super::seqset::SeqSet;
    use super::super::series::Samples;
    use super::*;

    fn of(points: &[Point]) -> Option<SkewHull> {
        let (mut samples, mut accepted) = (Samples::default(), SeqSet::default());
        for (seq, &(sent, delay)) in (0..).zip(points) {
            samples.push(Packet { seq, sent, delay });
            accepted.insert(seq);
        }
        SkewHull::new(&Series::new(&samples, &accepted))
    }

    #[test]
    fn the_worked_example() {
        // metrics §16, V19; least squares would say 0.137.
        let delays = [1000, 1004, 1001, 1010, 1003, 1003, 1020, 1004, 1005, 1030, 1006];
        let points: Vec<Point> = (0..).map(|k| 10 * k).zip(delays).collect();
        let s = of(&points).unwrap();
        assert!((s.alpha - 0.06).abs() < 1e-15 && (s.beta_ns - 999.8).abs() < 1e-9);
        assert_eq!(s.edge, [[20, 1001], [70, 1004]]);
        let backwards: Vec<Point> = points.iter().rev().copied().collect();
        assert_eq!(of(&backwards).map(|s| s.edge), Some(s.edge));
    }

    #[test]
    fn edges() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(5, 5)]), None);
        assert_eq!(of(&[(5, 5), (5, 6)]), None);
        assert_eq!(of(&[(0, 5), (10, 6)]).map(|s| s.alpha), Some(0.1));
    }

    #[test]
    fn allan() {
        // metrics §16, V20.
        let x = [0.0, 3.0, 5.0, 10.0, 8.0, 15.0, 17.0];
        assert!((allan_deviation(&x, 1.0, 1).unwrap() - 4.062_019_202).abs() < 1e-9);
        assert!((allan_deviation(&x, 1.0, 2).unwrap() - 1.354_006_401).abs() < 1e-9);
        assert_eq!(allan_deviation(&x, 1.0, 4), None);
    }
}
