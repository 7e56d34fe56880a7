//! Exact sums: moments of one variable and co-moments of two. One-pass floating-point sums would lose digits to
//! cancellation if clocks differ by seconds (metrics §0).

use super::classify::AcceptedPacket;
use super::one_pass::{Merge, OnePass};
use serde::{Deserialize, Serialize};

/// A sum of integers: exact if it fits into 128 bits. A larger sum, which only absurd stamps produce, has double
/// precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExactSum {
    exact: i128,
    spilt: f64,
}

impl ExactSum {
    /// Adds `x`.
    #[inline]
    pub fn add(&mut self, x: i128) {
        match self.exact.checked_add(x) {
            Some(sum) => self.exact = sum,
            None => {
                self.spilt += self.exact as f64;
                self.exact = x;
            }
        }
    }

    /// Adds `a × b`.
    #[inline]
    pub fn add_product(&mut self, a: i128, b: i128) {
        match (i64::try_from(a), i64::try_from(b)) {
            (Ok(a), Ok(b)) => self.add(i128::from(a) * i128::from(b)),
            _ => self.spilt += a as f64 * b as f64,
        }
    }

    fn plus(mut self, other: ExactSum) -> ExactSum {
        self.merge(other);
        self
    }

    #[inline]
    fn merge(&mut self, other: ExactSum) {
        self.spilt += other.spilt;
        self.add(other.exact);
    }

    fn minus(self, other: ExactSum) -> ExactSum {
        self.plus(ExactSum { exact: other.exact.saturating_neg(), spilt: -other.spilt })
    }

    /// Returns true if this can be the sum of `n` differences of times, which fits into 128 bits.
    fn is_possible(self, n: u64) -> bool {
        self.spilt == 0.0 && self.exact.unsigned_abs() <= u128::from(n) << 65
    }

    fn exact(self) -> Option<i128> {
        (self.spilt == 0.0).then_some(self.exact)
    }

    /// Returns the sum as a double.
    pub fn value(self) -> f64 {
        self.exact as f64 + self.spilt
    }
}

/// Number of values that are summed together.
const CHUNK: usize = 512;
/// Limit of differences. The sum of a chunk of them fits into 64 bits, and the sum of their products into 128 bits.
const MAX_EXACT_DIFFERENCE: i64 = 1 << 53;

#[inline]
fn product(a: i64, b: i64) -> i128 {
    i128::from(a) * i128::from(b)
}

/// Returns Σ(x − x̄)(y − ȳ) of n pairs from Σx, Σy, Σxy, exact up to the last rounding. The integer parts of the means
/// are subtracted with wrapping integers: intermediate results may overflow, but the final one fits.
fn centred(n: u64, x: ExactSum, y: ExactSum, xy: ExactSum) -> f64 {
    let (Some(sx), Some(sy), Some(sxy)) = (x.exact(), y.exact(), xy.exact()) else {
        return xy.value() - x.value() / n as f64 * y.value();
    };
    let n = i128::from(n);
    let (qx, qy) = (sx.div_euclid(n), sy.div_euclid(n));
    let (rx, ry) = (sx.rem_euclid(n), sy.rem_euclid(n));
    let whole = sxy
        .wrapping_sub(qx.wrapping_mul(sy))
        .wrapping_sub(qy.wrapping_mul(sx))
        .wrapping_add(n.wrapping_mul(qx).wrapping_mul(qy));
    whole as f64 - rx as f64 * (ry as f64 / n as f64)
}

/// Count, extremes, sum and sum of squares of integers; mergeable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    n: u64,
    /// The first value. The sums are sums of differences from it.
    origin: i64,
    min: i64,
    max: i64,
    sum: ExactSum,
    squares: ExactSum,
}

impl Moments {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, x: i64) {
        if self.n == 0 {
            *self = Moments { origin: x, min: x, max: x, ..*self };
        }
        self.n += 1;
        self.min = self.min.min(x);
        self.max = self.max.max(x);
        match x.checked_sub(self.origin) {
            Some(d) => {
                self.sum.add(d.into());
                self.squares.add(product(d, d));
            }
            None => {
                let d = i128::from(x) - i128::from(self.origin);
                self.sum.add(d);
                self.squares.add_product(d, d);
            }
        }
    }

    /// Adds all of `values`.
    pub fn add_all(&mut self, values: &[i64]) {
        for chunk in values.chunks(CHUNK) {
            let origin = if self.n == 0 { chunk[0] } else { self.origin };
            let (mut low, mut high, mut sum, mut squares) = (i64::MAX, i64::MIN, 0i64, 0i128);
            for &x in chunk {
                let d = x.wrapping_sub(origin);
                low = low.min(d);
                high = high.max(d);
                sum = sum.wrapping_add(d);
                squares = squares.wrapping_add(product(d, d));
            }
            let range = (origin.checked_add(low).filter(|_| -MAX_EXACT_DIFFERENCE < low))
                .zip(origin.checked_add(high).filter(|_| high < MAX_EXACT_DIFFERENCE));
            let Some((min, max)) = range else {
                chunk.iter().for_each(|x| self.add(*x));
                continue;
            };
            self.add_chunk(chunk.len() as u64, origin, [min, max], (sum.into(), squares));
        }
    }

    /// Adds `n` values, given the sum of their differences from `origin` and the sum of the squares of these
    /// differences. `origin` must be the origin of these moments.
    fn add_chunk(&mut self, n: u64, origin: i64, [min, max]: [i64; 2], (sum, squares): (i128, i128)) {
        if self.n == 0 {
            *self = Moments { origin, min, max, ..*self };
        }
        self.n += n;
        self.min = self.min.min(min);
        self.max = self.max.max(max);
        self.sum.add(sum);
        self.squares.add(squares);
    }

    /// Returns true if these can be the moments of `n` values. Checks only the properties that computations
    /// rely on.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let sums = self.sum.is_possible(n) && self.squares.spilt.is_finite();
        self.n == n && self.min <= self.max && sums
    }

    /// Returns the number of values.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Returns the smallest value; `None` without values.
    pub fn min(&self) -> Option<i64> {
        (self.n > 0).then_some(self.min)
    }

    /// Returns the largest value; `None` without values.
    pub fn max(&self) -> Option<i64> {
        (self.n > 0).then_some(self.max)
    }

    /// Returns the mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        self.mean_above(0)
    }

    /// Returns the mean of x − `base`; `None` without values.
    pub fn mean_above(&self, base: i64) -> Option<f64> {
        if self.n == 0 {
            return None;
        }
        let origin = i128::from(self.origin) - i128::from(base);
        let (sum, n) = (self.sum.exact, i128::from(self.n));
        Some((origin + sum.div_euclid(n)) as f64 + sum.rem_euclid(n) as f64 / n as f64)
    }

    fn sum_of_squares(&self) -> f64 {
        centred(self.n, self.sum, self.sum, self.squares).max(0.0)
    }

    /// Returns the standard deviation with divisor n − 1; `None` for fewer than two values.
    pub fn stddev(&self) -> Option<f64> {
        (self.n > 1).then(|| (self.sum_of_squares() / (self.n - 1) as f64).sqrt())
    }

    /// Returns the standard deviation with divisor n; `None` without values.
    pub fn stddev_pop(&self) -> Option<f64> {
        (self.n > 0).then(|| (self.sum_of_squares() / self.n as f64).sqrt())
    }

    /// Adds the values that `whole` contains in addition to its earlier state `lead`.
    pub(crate) fn join(&mut self, whole: Moments, lead: &Moments) {
        // Both have the same origin, the first value.
        self.merge(Moments {
            n: whole.n.saturating_sub(lead.n),
            sum: whole.sum.minus(lead.sum),
            squares: whole.squares.minus(lead.squares),
            ..whole
        });
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: Moments) {
        if self.n == 0 {
            *self = other;
            return;
        }
        if other.n == 0 {
            return;
        }
        // Σ(x + s)² = Σx² + 2sΣx + ns² converts the other's sums to this origin.
        let shift = i128::from(other.origin) - i128::from(self.origin);
        let n = i128::from(other.n);
        self.n += other.n;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.squares.merge(other.squares);
        let (sum, moved) = (other.sum.exact, shift.saturating_mul(n));
        self.sum.merge(other.sum);
        self.sum.add(moved);
        let cross = sum.checked_mul(2).and_then(|s| s.checked_add(moved)?.checked_mul(shift));
        match cross {
            Some(cross) => self.squares.add(cross),
            None => self.squares.spilt += (2.0 * sum as f64 + moved as f64) * shift as f64,
        }
    }
}

impl FromIterator<i64> for Moments {
    fn from_iter<I: IntoIterator<Item = i64>>(values: I) -> Moments {
        let mut moments = Moments::default();
        values.into_iter().for_each(|x| moments.add(x));
        moments
    }
}

/// Moments of delay.
impl OnePass for Moments {
    type Output = Moments;

    fn push(&mut self, packet: &AcceptedPacket) {
        self.add(packet.delay);
    }

    fn output(&self) -> Moments {
        *self
    }
}

impl Merge for Moments {
    fn merge(&mut self, next: Moments) {
        Moments::merge(self, next);
    }
}

/// Sums over pairs (send time, delay). Both regressions follow from these sums because arrival = send + delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoMoments {
    n: u64,
    origin: (i64, i64),
    earliest: i64,
    t: ExactSum,
    d: ExactSum,
    tt: ExactSum,
    td: ExactSum,
    dd: ExactSum,
}

/// Smallest and largest send time and delay of a group of packets, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// Smallest and largest send time.
    pub sent: [i64; 2],
    /// Smallest and largest delay.
    pub delay: [i64; 2],
}

impl Extremes {
    /// Extremes of an empty group.
    const NONE: Extremes = Extremes { sent: [i64::MAX, i64::MIN], delay: [i64::MAX, i64::MIN] };

    /// Returns the extremes of both groups.
    #[inline]
    fn with(self, other: &Extremes) -> Extremes {
        let of = |a: [i64; 2], b: [i64; 2]| [a[0].min(b[0]), a[1].max(b[1])];
        Extremes { sent: of(self.sent, other.sent), delay: of(self.delay, other.delay) }
    }

    /// Returns the extremes of two groups together; `None` stands for an empty group.
    pub fn of_both(a: Option<Extremes>, b: Option<Extremes>) -> Option<Extremes> {
        a.map_or(b, |a| Some(b.map_or(a, |b| a.with(&b))))
    }

    /// Converts differences from `origin` to values; `None` if a value is too far from `origin`.
    fn from(self, origin: (i64, i64)) -> Option<Extremes> {
        let of = |from: i64, [low, high]: [i64; 2]| {
            let near = -MAX_EXACT_DIFFERENCE < low && high < MAX_EXACT_DIFFERENCE;
            Some([from.checked_add(low).filter(|_| near)?, from.checked_add(high)?])
        };
        Some(Extremes { sent: of(origin.0, self.sent)?, delay: of(origin.1, self.delay)? })
    }
}

/// A least-squares line with Pearson's r; it runs through the means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedLine {
    /// Slope of the line.
    pub m: f64,
    /// Pearson's r; `None` if y does not vary.
    pub r: Option<f64>,
    /// Mean of x.
    pub mean_x: f64,
    /// Origin of y, which preserves precision when clocks differ by a large offset.
    pub origin_y: i64,
    /// Mean of y minus its origin.
    pub mean_y: f64,
    /// Sum of squared deviations from the mean of x: Σ(x − x̄)².
    pub sxx: f64,
}

impl CoMoments {
    /// Returns true if these can be the sums of `n` packets. Checks only the properties that computations
    /// rely on.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let finite = [self.tt, self.td, self.dd].iter().all(|sum| sum.spilt.is_finite());
        self.n == n && self.t.is_possible(n) && self.d.is_possible(n) && finite
    }

    /// Adds the pairs that `whole` contains in addition to its earlier state `lead`.
    pub(crate) fn join(&mut self, whole: CoMoments, lead: &CoMoments) {
        self.merge(CoMoments {
            n: whole.n.saturating_sub(lead.n),
            t: whole.t.minus(lead.t),
            d: whole.d.minus(lead.d),
            tt: whole.tt.minus(lead.tt),
            td: whole.td.minus(lead.td),
            dd: whole.dd.minus(lead.dd),
            ..whole
        });
    }

    /// Adds packets, given by their send times and delays in arrival order. Returns the extremes of the send times and
    /// of the delays; `None` without packets.
    pub fn add_all(&mut self, sent: &[i64], delay: &[i64]) -> Option<Extremes> {
        let chunks = sent.chunks(CHUNK).zip(delay.chunks(CHUNK));
        chunks.fold(None, |all, (sent, delay)| Extremes::of_both(all, Some(self.add_chunk(sent, delay))))
    }

    fn add_chunk(&mut self, sent: &[i64], delay: &[i64]) -> Extremes {
        let origin = if self.n == 0 { (sent[0], delay[0]) } else { self.origin };
        let mut near = Extremes::NONE;
        let (mut t_sum, mut d_sum, mut tt, mut td, mut dd) = (0i64, 0i64, 0i128, 0i128, 0i128);
        for (&sent, &delay) in sent.iter().zip(delay) {
            let (t, d) = (sent.wrapping_sub(origin.0), delay.wrapping_sub(origin.1));
            near = near.with(&Extremes { sent: [t, t], delay: [d, d] });
            (t_sum, d_sum) = (t_sum.wrapping_add(t), d_sum.wrapping_add(d));
            tt = tt.wrapping_add(product(t, t));
            td = td.wrapping_add(product(t, d));
            dd = dd.wrapping_add(product(d, d));
        }
        let Some(found) = near.from(origin) else {
            let packets =
                || sent.iter().zip(delay).map(|(&sent, &delay)| AcceptedPacket { seq: 0, sent, delay });
            packets().for_each(|packet| self.push(&packet));
            let each = packets().map(|p| Extremes { sent: [p.sent; 2], delay: [p.delay; 2] });
            return each.fold(Extremes::NONE, |all, one| all.with(&one));
        };
        if self.n == 0 {
            (self.origin, self.earliest) = (origin, found.sent[0]);
        }
        self.n += sent.len() as u64;
        self.earliest = self.earliest.min(found.sent[0]);
        self.t.add(t_sum.into());
        self.d.add(d_sum.into());
        self.tt.add(tt);
        self.td.add(td);
        self.dd.add(dd);
        found
    }

    /// Returns the moments of delay, given its smallest and largest value.
    pub fn of_delay(&self, [min, max]: [i64; 2]) -> Moments {
        Moments { n: self.n, origin: self.origin.1, min, max, sum: self.d, squares: self.dd }
    }

    /// Returns the number of pairs.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Fits delay on send time. x is the time since the earliest send time, in ns. `None` if no line can be fitted.
    pub fn on_send(&self) -> Option<FittedLine> {
        let x0 = (i128::from(self.origin.0) - i128::from(self.earliest)) as f64;
        self.line(
            self.sxx(),
            centred_checked(self.n, self.t, self.d, self.td)?,
            x0 + self.t.value() / self.n as f64,
        )
    }

    /// Fits delay on arrival time. x is the time since the first arrival, in ns. `None` if no line can be fitted.
    pub fn on_arrival(&self) -> Option<FittedLine> {
        // The origin is the first arrival, so x = t + d, both relative to it. The sums are added as integers and then
        // converted to doubles: when a queue is flushed, arrivals vary far less than send times or delays, and doubles
        // would cancel.
        let (x, xd) = (self.t.plus(self.d), self.td.plus(self.dd));
        let xx = self.tt.plus(self.td).plus(xd);
        let sxx = centred(self.n.max(1), x, x, xx);
        self.line(sxx, centred_checked(self.n, x, self.d, xd)?, x.value() / self.n as f64)
    }

    fn sxx(&self) -> f64 {
        centred(self.n.max(1), self.t, self.t, self.tt)
    }

    fn sdd(&self) -> f64 {
        centred(self.n.max(1), self.d, self.d, self.dd)
    }

    fn line(&self, sxx: f64, sxy: f64, mean_x: f64) -> Option<FittedLine> {
        if self.n < 2 || sxx <= 0.0 {
            return None;
        }
        let syy = self.sdd();
        let mean_y = self.d.value() / self.n as f64;
        let r = (syy > 0.0).then(|| (sxy / (sxx * syy).sqrt()).clamp(-1.0, 1.0));
        Some(FittedLine { m: sxy / sxx, r, mean_x, origin_y: self.origin.1, mean_y, sxx })
    }
}

fn centred_checked(n: u64, x: ExactSum, y: ExactSum, xy: ExactSum) -> Option<f64> {
    (n > 1).then(|| centred(n, x, y, xy))
}

impl OnePass for CoMoments {
    type Output = (Option<FittedLine>, Option<FittedLine>);

    #[inline]
    fn push(&mut self, packet: &AcceptedPacket) {
        if self.n == 0 {
            self.origin = (packet.sent, packet.delay);
            self.earliest = packet.sent;
        }
        self.n += 1;
        self.earliest = self.earliest.min(packet.sent);
        let near = packet.sent.checked_sub(self.origin.0).zip(packet.delay.checked_sub(self.origin.1));
        if let Some((t, d)) = near {
            self.t.add(t.into());
            self.d.add(d.into());
            self.tt.add(product(t, t));
            self.td.add(product(t, d));
            self.dd.add(product(d, d));
            return;
        }
        let t = i128::from(packet.sent) - i128::from(self.origin.0);
        let d = i128::from(packet.delay) - i128::from(self.origin.1);
        self.t.add(t);
        self.d.add(d);
        self.tt.add_product(t, t);
        self.td.add_product(t, d);
        self.dd.add_product(d, d);
    }

    /// Returns the lines on send time and on arrival time.
    fn output(&self) -> (Option<FittedLine>, Option<FittedLine>) {
        (self.on_send(), self.on_arrival())
    }
}

impl Merge for CoMoments {
    fn merge(&mut self, next: CoMoments) {
        if self.n == 0 {
            *self = next;
            return;
        }
        if next.n == 0 {
            return;
        }
        let n = i128::from(next.n);
        let a = i128::from(next.origin.0) - i128::from(self.origin.0);
        let b = i128::from(next.origin.1) - i128::from(self.origin.1);
        self.n += next.n;
        self.earliest = self.earliest.min(next.earliest);
        for (mine, theirs, p, q, sp, sq) in [
            (&mut self.tt, next.tt, a, a, next.t, next.t),
            (&mut self.td, next.td, a, b, next.t, next.d),
            (&mut self.dd, next.dd, b, b, next.d, next.d),
        ] {
            // Σ(x + p)(y + q) = Σxy + qΣx + pΣy + npq.
            mine.merge(theirs);
            let terms = || {
                let (sp, sq) = (sp.exact()?, sq.exact()?);
                let cross = sp.checked_mul(q)?.checked_add(sq.checked_mul(p)?)?;
                cross.checked_add(n.checked_mul(p)?.checked_mul(q)?)
            };
            match terms() {
                Some(cross) => mine.add(cross),
                None => {
                    let (p, q) = (p as f64, q as f64);
                    mine.spilt += sp.value() * q + sq.value() * p + n as f64 * p * q;
                }
            }
        }
        for (mine, theirs, shift) in [(&mut self.t, next.t, a), (&mut self.d, next.d, b)] {
            mine.merge(theirs);
            match shift.checked_mul(n) {
                Some(moved) => mine.add(moved),
                None => mine.spilt += shift as f64 * n as f64,
            }
        }
    }
}

#[cfg(test)]
mod tests;
