//! Exact sums: moments of one variable and co-moments of two, without the cancellation that a clock
//! offset of seconds causes in one-pass floating point (metrics §0).

use super::classify::Packet;
use super::one_pass::{Merge, OnePass};
use serde::{Deserialize, Serialize};

/// A sum of integers, exact while it fits 128 bits and to double precision beyond (absurd stamps only).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sum {
    exact: i128,
    spilt: f64,
}

impl Sum {
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

    fn plus(mut self, other: Sum) -> Sum {
        self.merge(other);
        self
    }

    #[inline]
    fn merge(&mut self, other: Sum) {
        self.spilt += other.spilt;
        self.add(other.exact);
    }

    fn minus(self, other: Sum) -> Sum {
        self.plus(Sum { exact: other.exact.saturating_neg(), spilt: -other.spilt })
    }

    /// Whether it can be the sum of `n` differences of times, which 128 bits hold.
    fn is_possible(self, n: u64) -> bool {
        self.spilt == 0.0 && self.exact.unsigned_abs() <= u128::from(n) << 65
    }

    fn exact(self) -> Option<i128> {
        (self.spilt == 0.0).then_some(self.exact)
    }

    /// The sum as a double.
    pub fn value(self) -> f64 {
        self.exact as f64 + self.spilt
    }
}

#[inline]
fn product(a: i64, b: i64) -> i128 {
    i128::from(a) * i128::from(b)
}

/// Σ(x − x̄)(y − ȳ) of n pairs from Σx, Σy, Σxy. Exact up to the last rounding: the integer parts of the
/// means are taken out in wrapping integers, whose end result fits.
fn centred(n: u64, x: Sum, y: Sum, xy: Sum) -> f64 {
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

/// Count, extremes, sum and sum of squares of integers, mergeable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    n: u64,
    /// The first value; the sums are of differences from it.
    origin: i64,
    min: i64,
    max: i64,
    sum: Sum,
    squares: Sum,
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

    /// Adds all of `values`. Where they lie close to the first one, the sums of a chunk fit 64 bits.
    pub fn add_all(&mut self, values: &[i64]) {
        const CLOSE: i64 = 1 << 26;
        for chunk in values.chunks(512) {
            let low = chunk.iter().copied().fold(i64::MAX, i64::min);
            let high = chunk.iter().copied().fold(i64::MIN, i64::max);
            let close = |x: i64| x.checked_sub(self.origin).is_some_and(|d| (-CLOSE..CLOSE).contains(&d));
            if self.n == 0 || !close(low) || !close(high) {
                chunk.iter().for_each(|x| self.add(*x));
                continue;
            }
            let (mut sum, mut squares) = (0, 0);
            for x in chunk {
                let d = x - self.origin;
                sum += d;
                squares += d * d;
            }
            self.n += chunk.len() as u64;
            self.min = self.min.min(low);
            self.max = self.max.max(high);
            self.sum.add(sum.into());
            self.squares.add(squares.into());
        }
    }

    /// Whether these can be the moments of `n` values, as far as computing relies on it.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let sums = self.sum.is_possible(n) && self.squares.spilt.is_finite();
        self.n == n && self.min <= self.max && sums
    }

    /// Values added.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Smallest.
    pub fn min(&self) -> Option<i64> {
        (self.n > 0).then_some(self.min)
    }

    /// Largest.
    pub fn max(&self) -> Option<i64> {
        (self.n > 0).then_some(self.max)
    }

    /// Mean.
    pub fn mean(&self) -> Option<f64> {
        self.mean_above(0)
    }

    /// Mean of x − `base`.
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

    /// Standard deviation with n − 1; `None` below two values.
    pub fn stddev(&self) -> Option<f64> {
        (self.n > 1).then(|| (self.sum_of_squares() / (self.n - 1) as f64).sqrt())
    }

    /// Standard deviation with n.
    pub fn stddev_pop(&self) -> Option<f64> {
        (self.n > 0).then(|| (self.sum_of_squares() / self.n as f64).sqrt())
    }

    /// Adds the values that `whole` has had since it was `lead`.
    pub(crate) fn add_later(&mut self, whole: Moments, lead: &Moments) {
        // Both count from the same origin, the first value.
        self.merge(Moments {
            n: whole.n.saturating_sub(lead.n),
            sum: whole.sum.minus(lead.sum),
            squares: whole.squares.minus(lead.squares),
            ..whole
        });
    }

    /// Adds all of `other`'s values.
    pub fn merge(&mut self, other: Moments) {
        if self.n == 0 {
            *self = other;
            return;
        }
        if other.n == 0 {
            return;
        }
        // Σ(x + s)² = Σx² + 2sΣx + ns² moves the other's sums to this origin.
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

    fn push(&mut self, packet: &Packet) {
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

/// Sums over (send time, delay), from which both regressions follow: arrival = send + delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoMoments {
    n: u64,
    origin: (i64, i64),
    earliest: i64,
    t: Sum,
    d: Sum,
    tt: Sum,
    td: Sum,
    dd: Sum,
}

/// Least squares as sums: slope and Pearson's r, and the means the line runs through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Slope.
    pub m: f64,
    /// Pearson's; `None` if y does not vary.
    pub r: Option<f64>,
    /// Mean of x.
    pub mean_x: f64,
    /// What y is counted from, so that an offset costs no digit.
    pub origin_y: i64,
    /// Mean of y above that.
    pub mean_y: f64,
    /// Σ(x − x̄)².
    pub sxx: f64,
}

impl CoMoments {
    /// Whether these can be the sums of `n` packets, as far as computing relies on it.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let finite = [self.tt, self.td, self.dd].iter().all(|sum| sum.spilt.is_finite());
        self.n == n && self.t.is_possible(n) && self.d.is_possible(n) && finite
    }

    /// Adds the pairs that `whole` has had since it was `lead`.
    pub(crate) fn add_later(&mut self, whole: CoMoments, lead: &CoMoments) {
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

    /// Pairs.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Delay on send time; x from the earliest send time, in ns.
    pub fn on_send(&self) -> Option<Line> {
        let x0 = (i128::from(self.origin.0) - i128::from(self.earliest)) as f64;
        self.line(
            self.sxx(),
            centred_checked(self.n, self.t, self.d, self.td)?,
            x0 + self.t.value() / self.n as f64,
        )
    }

    /// Delay on arrival time; x from the first arrival, in ns.
    pub fn on_arrival(&self) -> Option<Line> {
        // The origin is the first arrival, so x = t + d with both taken from it. Summed up before they become
        // doubles: where a queue is flushed, arrivals vary far less than either.
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

    fn line(&self, sxx: f64, sxy: f64, mean_x: f64) -> Option<Line> {
        if self.n < 2 || sxx <= 0.0 {
            return None;
        }
        let syy = self.sdd();
        let mean_y = self.d.value() / self.n as f64;
        let r = (syy > 0.0).then(|| (sxy / (sxx * syy).sqrt()).clamp(-1.0, 1.0));
        Some(Line { m: sxy / sxx, r, mean_x, origin_y: self.origin.1, mean_y, sxx })
    }
}

fn centred_checked(n: u64, x: Sum, y: Sum, xy: Sum) -> Option<f64> {
    (n > 1).then(|| centred(n, x, y, xy))
}

impl OnePass for CoMoments {
    type Output = (Option<Line>, Option<Line>);

    #[inline]
    fn push(&mut self, packet: &Packet) {
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

    /// On send time, on arrival time.
    fn output(&self) -> (Option<Line>, Option<Line>) {
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_table() {
        // metrics §2, V4.
        let values = [42000, 43100, 56000, 57200, 56100, 68400, 68300, 74500, 90000, 222000, 300000];
        let m: Moments = values.into_iter().collect();
        assert!((m.mean().unwrap() - 97_963.636_363_636).abs() < 1e-6);
        assert!((m.stddev().unwrap() - 83_599.488_91).abs() < 1e-4);
        assert!((m.stddev_pop().unwrap() - 79_708.985_16).abs() < 1e-4);
    }

    #[test]
    fn a_clock_offset_costs_no_digit() {
        let plain: Moments = (0..1000).map(|i| i * i % 977).collect();
        let offset: Moments = (0..1000).map(|i| 1_000_000_000_000_000_000 + i * i % 977).collect();
        assert_eq!(plain.stddev(), offset.stddev());
    }

    #[test]
    fn absurd_values_neither_panic_nor_vanish() {
        let m: Moments = [i64::MIN, i64::MAX, 0].into_iter().collect();
        assert!((m.stddev().unwrap() / 9.223_372_036_854_775e18 - 1.0).abs() < 1e-9);
        let mut half: Moments = [i64::MIN].into_iter().collect();
        half.merge([i64::MAX, 0].into_iter().collect());
        assert!((half.stddev().unwrap() / m.stddev().unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn extremes_and_means() {
        let none = Moments::default();
        assert_eq!((none.min(), none.max(), none.mean(), none.stddev_pop()), (None, None, None, None));
        let m: Moments = [7, 3, 9, 4].into_iter().collect();
        assert_eq!((m.n(), m.min(), m.max()), (4, Some(3), Some(9)));
        assert_eq!((m.mean(), m.mean_above(2)), (Some(5.75), Some(3.75)));
        assert_eq!([7].into_iter().collect::<Moments>().stddev(), None);
        let mut chunked = Moments::default();
        chunked.add_all(&[5]);
        chunked.add_all(&[3, 9]);
        chunked.add_all(&[5 + (1 << 26), 4]);
        chunked.add_all(&[5 - (1 << 26), 5 - (1 << 26) - 1]);
        let one_by_one = [5, 3, 9, 5 + (1 << 26), 4, 5 - (1 << 26), 5 - (1 << 26) - 1];
        assert_eq!(chunked, one_by_one.into_iter().collect());
    }

    #[test]
    fn sums_beyond_128_bits_are_kept_to_double_precision() {
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        let mut sum = Sum::default();
        sum.add(i128::MAX);
        sum.add(i128::MAX);
        assert_eq!(sum.exact(), None);
        near(sum.value(), 2.0 * i128::MAX as f64);
        sum.add_product(i128::MAX, 3);
        sum.add_product(3, 4);
        near(sum.value(), 5.0 * i128::MAX as f64);
        let mut both = sum;
        both.merge(sum);
        near(both.value(), 10.0 * i128::MAX as f64);
        let mut small = Sum::default();
        small.add_product(-3, 4);
        assert_eq!(small.exact(), Some(-12));
    }

    #[test]
    fn absurd_values_merge_as_they_add() {
        let (a, b) = ([i64::MIN, i64::MIN + 5, -7], [i64::MAX, 3, i64::MAX - 9, 12]);
        let values = || a.into_iter().chain(b);
        let (mut halves, whole): (Moments, Moments) = (a.into_iter().collect(), values().collect());
        halves.merge(b.into_iter().collect());
        let near = |x: Option<f64>, y: Option<f64>| {
            let (x, y) = (x.unwrap(), y.unwrap());
            assert!((x - y).abs() <= 1e-9 * y.abs(), "{x} {y}");
        };
        near(halves.mean_above(i64::MIN), whole.mean_above(i64::MIN));
        near(halves.stddev(), whole.stddev());
        let n = values().count() as f64;
        let mean = values().map(|x| x as f64).sum::<f64>() / n;
        near(whole.stddev_pop(), Some((values().map(|x| (x as f64 - mean).powi(2)).sum::<f64>() / n).sqrt()));
        // Many, so that the sums themselves leave 128 bits.
        let many = |origin: i64| {
            let mut m: Moments = [origin].into_iter().collect();
            (0..40).for_each(|_| m.merge(m));
            m
        };
        let (mut low, high) = (many(i64::MIN), many(i64::MAX));
        low.merge(high);
        near(low.stddev_pop(), Some(i64::MAX as f64));
        near(low.mean_above(i64::MIN), Some(i64::MAX as f64));
        let mut again = low;
        again.merge(low);
        near(again.stddev_pop(), Some(i64::MAX as f64));
        assert_eq!((again.n(), again.min(), again.max()), (1 << 42, Some(i64::MIN), Some(i64::MAX)));
    }

    #[test]
    fn lines_need_two_times() {
        assert_eq!(packets(&[(5, 1)]).output(), (None, None));
        assert_eq!(packets(&[(5, 1), (5, 9)]).on_send(), None);
        let line = packets(&[(105, 3), (100, 1)]).on_send().unwrap();
        assert_eq!((line.m, line.r, line.mean_x, line.origin_y, line.mean_y), (0.4, Some(1.0), 2.5, 3, -1.0));
        let line = packets(&[(100, 1), (105, 3)]).on_arrival().unwrap();
        assert_eq!((line.m, line.mean_x), (2.0 / 7.0, 3.5));
        assert_eq!(packets(&[(100, 1), (105, 1)]).on_send().unwrap().r, None);
    }

    #[test]
    fn absurd_times_and_delays_merge_as_they_add() {
        let rows =
            [(i64::MIN, i64::MAX), (0, i64::MIN), (i64::MAX, 5), (7, -9), (i64::MAX - 4, i64::MIN + 1)];
        let whole = packets(&rows).on_send().unwrap();
        let n = rows.len() as f64;
        let mean = |f: fn(&(i64, i64)) -> i64| rows.iter().map(|r| f(r) as f64).sum::<f64>() / n;
        let (mx, my) = (mean(|r| r.0), mean(|r| r.1));
        let sxx: f64 = rows.iter().map(|r| (r.0 as f64 - mx).powi(2)).sum();
        let sxy: f64 = rows.iter().map(|r| (r.0 as f64 - mx) * (r.1 as f64 - my)).sum();
        assert!((whole.m / (sxy / sxx) - 1.0).abs() < 1e-9, "{} {}", whole.m, sxy / sxx);
        for cut in 1..rows.len() {
            let mut halves = packets(&rows[..cut]);
            halves.merge(packets(&rows[cut..]));
            let line = halves.on_send().unwrap();
            assert!(
                (line.m / whole.m - 1.0).abs() < 1e-9 && (line.sxx / whole.sxx - 1.0).abs() < 1e-9,
                "{line:?}"
            );
            assert!((line.r.unwrap() / whole.r.unwrap() - 1.0).abs() < 1e-9, "{line:?}");
            assert!((line.mean_y / whole.mean_y - 1.0).abs() < 1e-9, "{line:?} {whole:?}");
        }
        // Many, so that the cross sums leave 128 bits.
        let many = |row| {
            let mut sums = packets(&[row]);
            (0..40).for_each(|_| sums.merge(sums));
            sums
        };
        let mut sums = many((i64::MIN, i64::MIN));
        sums.merge(many((i64::MAX, i64::MAX)));
        let line = sums.on_send().unwrap();
        assert!((line.m - 1.0).abs() < 1e-9 && (line.r.unwrap() - 1.0).abs() < 1e-9, "{line:?}");
        assert_eq!(sums.n(), 1 << 41);
    }

    fn packets(rows: &[(i64, i64)]) -> CoMoments {
        let mut sums = CoMoments::default();
        for (seq, &(sent, delay)) in (0..).zip(rows) {
            sums.push(&Packet { seq, sent, delay });
        }
        sums
    }

    proptest! {
        #[test]
        fn halves_merge_to_the_whole(
            rows in prop::collection::vec((-1i64 << 50..1 << 50, -1i64 << 50..1 << 50), 0..60),
            cut in 0usize..60,
        ) {
            let mut all = Moments::default();
            all.add_all(&rows.iter().map(|r| r.1 >> 20).collect::<Vec<_>>());
            prop_assert_eq!(all, rows.iter().map(|r| r.1 >> 20).collect::<Moments>());
            let cut = cut.min(rows.len());
            let mut sums = packets(&rows[..cut]);
            sums.merge(packets(&rows[cut..]));
            prop_assert_eq!(sums.output(), packets(&rows).output());
            let delays = |r: &[(i64, i64)]| r.iter().map(|x| x.1).collect::<Moments>();
            let mut moments = delays(&rows[..cut]);
            moments.merge(delays(&rows[cut..]));
            prop_assert_eq!(moments, delays(&rows));
        }

        #[test]
        fn regression_equals_two_passes(
            rows in prop::collection::vec((0i64..1 << 40, -1i64 << 30..1 << 30), 3..60),
        ) {
            prop_assume!(rows.iter().any(|r| r.0 != rows[0].0));
            let line = packets(&rows).on_send().unwrap();
            let n = rows.len() as f64;
            let (mx, my) = (rows.iter().map(|r| r.0 as f64).sum::<f64>() / n, rows.iter().map(|r| r.1 as f64).sum::<f64>() / n);
            let sxx: f64 = rows.iter().map(|r| (r.0 as f64 - mx).powi(2)).sum();
            let sxy: f64 = rows.iter().map(|r| (r.0 as f64 - mx) * (r.1 as f64 - my)).sum();
            prop_assert!((line.m - sxy / sxx).abs() <= 1e-9 * (1.0 + line.m.abs()));
        }
    }

    #[test]
    fn chunks_with_one_value_far_off() {
        // Far enough for its square not to fit the sum of a chunk; above, below, and all of them negative.
        for far in [1i64 << 45, -(1 << 45), -8] {
            let mut values = vec![-7; 1536];
            values[1000] = far;
            let mut chunks = Moments::default();
            chunks.add_all(&values);
            assert_eq!(chunks, values.iter().copied().collect());
            assert_eq!((chunks.min(), chunks.max()), (Some(far.min(-7)), Some(far.max(-7))));
        }
    }

    #[test]
    fn later_values_are_added_to_those_before() {
        let (a, lead, later) = ([70, 30, 90], [55, 20, 91], [10, 95, 44, -3]);
        let of = |values: &[i64]| values.iter().copied().collect::<Moments>();
        let mut mine = of(&a);
        mine.add_later(of(&[lead, [later[0], later[1], later[2]]].concat()), &of(&lead));
        let whole = of(&[70, 30, 90, 10, 95, 44]);
        // The extremes are those of all values that either had.
        assert_eq!((mine.n(), mine.min(), mine.max()), (6, Some(10), Some(95)));
        assert_eq!((mine.mean(), mine.stddev()), (whole.mean(), whole.stddev()));
        let row = |k: &i64| (k * 3, k * k % 17);
        let of = |values: &[i64]| packets(&values.iter().map(row).collect::<Vec<_>>());
        let mut mine = of(&a);
        mine.add_later(of(&[&lead[..], &later].concat()), &of(&lead));
        assert_eq!(mine.n(), 7);
        assert_eq!(mine.output(), of(&[&a[..], &later].concat()).output());
    }

    #[test]
    fn a_state_has_nothing_beyond_its_values() {
        let valid: Moments = [3, 9].into_iter().collect();
        assert!(valid.is_possible(2) && !valid.is_possible(1) && !valid.is_possible(3));
        let sum = |exact, spilt| Sum { exact, spilt };
        assert!(Moments { sum: sum(2 << 65, 0.0), ..valid }.is_possible(2));
        assert!(Moments { sum: sum(-2 << 65, 0.0), ..valid }.is_possible(2));
        assert!(!Moments { sum: sum((2 << 65) + 1, 0.0), ..valid }.is_possible(2));
        assert!(!Moments { sum: sum(1, 0.5), ..valid }.is_possible(2));
        assert!(Moments { squares: sum(1, 0.5), ..valid }.is_possible(2));
        assert!(!Moments { squares: sum(1, f64::INFINITY), ..valid }.is_possible(2));
        assert!(
            Moments { min: 4, max: 4, ..valid }.is_possible(2)
                && !Moments { min: 5, max: 4, ..valid }.is_possible(2)
        );
        let valid = packets(&[(1, 2), (3, 4)]);
        assert!(valid.is_possible(2) && !valid.is_possible(1) && !valid.is_possible(3));
        let (far, endless) = (sum((2 << 65) + 1, 0.0), sum(1, f64::INFINITY));
        for impossible in [
            CoMoments { t: far, ..valid },
            CoMoments { d: far, ..valid },
            CoMoments { tt: endless, ..valid },
            CoMoments { td: endless, ..valid },
            CoMoments { dd: endless, ..valid },
        ] {
            assert!(!impossible.is_possible(2), "{impossible:?}");
        }
    }

    #[test]
    fn absurd_values_are_added_to_those_before() {
        let of = |values: &[i64]| values.iter().copied().collect::<Moments>();
        let (lead, later) = ([i64::MIN, i64::MAX, 5], [i64::MAX, 3]);
        let mut mine = of(&[0, 8]);
        mine.add_later(of(&[&lead[..], &later].concat()), &of(&lead));
        let whole = of(&[0, 8, i64::MAX, 3]);
        assert!((mine.stddev().unwrap() / whole.stddev().unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(mine.mean(), whole.mean());
    }

    #[test]
    fn delays_are_the_values_of_packets() {
        let of = |delays: &[i64]| {
            let mut moments = Moments::default();
            delays.iter().for_each(|&delay| OnePass::push(&mut moments, &Packet { seq: 0, sent: 0, delay }));
            moments
        };
        let mut halves = of(&[3, 9]);
        Merge::merge(&mut halves, of(&[12]));
        assert_eq!(halves.output(), [3, 9, 12].into_iter().collect());
    }
}
