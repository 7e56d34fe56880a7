//! Statistical distributions and confidence intervals that several figures need.

use std::sync::OnceLock;

/// The two-sided 95 % point of the standard normal distribution.
pub const Z95: f64 = 1.959_963_984_540_054;

/// Returns Wilson's 95 % interval of a proportion k/n; `None` for n = 0. The limits are exactly 0 for k = 0
/// and 1 for k = n.
pub fn wilson95(k: u64, n: u64) -> Option<[f64; 2]> {
    let (centre, half) = wilson_parts(k, n)?;
    Some([if k == 0 { 0.0 } else { centre - half }, if k == n { 1.0 } else { centre + half }])
}

/// Returns the centre and the half-width of Wilson's interval; `None` for n = 0.
pub fn wilson_parts(k: u64, n: u64) -> Option<(f64, f64)> {
    if n == 0 {
        return None;
    }
    let (p, n) = (k as f64 / n as f64, n as f64);
    let d = 1.0 + Z95 * Z95 / n;
    let half = Z95 * (p * (1.0 - p) / n + Z95 * Z95 / (4.0 * n * n)).sqrt() / d;
    Some(((p + Z95 * Z95 / (2.0 * n)) / d, half))
}

/// Returns the quantile of the standard normal distribution, 0 < p < 1.
pub fn normal_quantile(p: f64) -> f64 {
    // P(Z < x) = erfc(−x/√2)/2
    bisect(-40.0, 40.0, |x| libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2) / 2.0 < p)
}

/// Returns the point between `low` and `high` at which `below` changes from true to false, with the full precision of a
/// double.
pub(super) fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    loop {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if below(middle) { low = middle } else { high = middle }
    }
}

/// Returns the quantile of Student's t with `df` ≥ 1 degrees of freedom, 0 < p < 1. Uses the finite sums of Abramowitz
/// & Stegun 26.7.3–4 up to 200 degrees of freedom, and expansion 26.7.5 above 200 (error below 1e-10).
pub fn t_quantile(p: f64, df: u64) -> f64 {
    if p < 0.5 {
        return -t_quantile(1.0 - p, df);
    }
    if p == 0.5 {
        return 0.0;
    }
    // Quantiles that every summary needs are cached.
    if p == 0.975
        && let Some(known) = usize::try_from(df).ok().and_then(|df| T95.get(df))
    {
        return *known.get_or_init(|| t_quantile_of_few(p, df));
    }
    if df > 200 {
        let known = Z.iter().find(|(of, _)| *of == p);
        let z = known.map_or_else(|| normal_quantile(p), |(_, z)| *z.get_or_init(|| normal_quantile(p)));
        let v = df as f64;
        let (z2, z3) = (z * z, z * z * z);
        let g1 = (z3 + z) / 4.0;
        let g2 = z * (5.0 * z2 * z2 + 16.0 * z2 + 3.0) / 96.0;
        let g3 = z * (3.0 * z2 * z2 * z2 + 19.0 * z2 * z2 + 17.0 * z2 - 15.0) / 384.0;
        let z4 = z2 * z2;
        let g4 = z * (79.0 * z4 * z4 + 776.0 * z4 * z2 + 1482.0 * z4 - 1920.0 * z2 - 945.0) / 92_160.0;
        return z + (g1 + (g2 + (g3 + g4 / v) / v) / v) / v;
    }
    t_quantile_of_few(p, df)
}

/// Cached quantiles of Student's t, indexed by degrees of freedom.
static T95: [OnceLock<f64>; 32] = [const { OnceLock::new() }; 32];
static Z: [(f64, OnceLock<f64>); 3] =
    [(0.95, OnceLock::new()), (0.975, OnceLock::new()), (0.995, OnceLock::new())];

/// Returns the quantile of Student's t for up to 200 degrees of freedom, p > 0.5.
fn t_quantile_of_few(p: f64, df: u64) -> f64 {
    let inside = 2.0 * p - 1.0;
    let mut high = 1.0;
    while t_inside(high, df) < inside && high < 1e300 {
        high *= 2.0;
    }
    bisect(0.0, high, |t| t_inside(t, df) < inside)
}

/// Returns P(|T| ≥ t) of Student's t with `df` ≥ 1 degrees of freedom, t ≥ 0.
pub fn t_outside(t: f64, df: u64) -> f64 {
    // The sums have df/2 terms; with more degrees of freedom, the distribution hardly changes.
    (1.0 - t_inside(t, df.min(10_000))).clamp(0.0, 1.0)
}

/// Returns P(|T| < t) of Student's t with `df` degrees of freedom.
fn t_inside(t: f64, df: u64) -> f64 {
    let theta = (t / (df as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    let cos2 = cos * cos;
    let odd = df % 2 == 1;
    // Sum of powers of the cosine with the factors of A&S 26.7.3 (odd) and 26.7.4 (even).
    let (mut term, mut sum) = if odd { (cos, if df > 1 { cos } else { 0.0 }) } else { (1.0, 1.0) };
    let mut k = if odd { 3 } else { 2 };
    while k < df {
        term *= cos2 * (k - 1) as f64 / k as f64;
        sum += term;
        k += 2;
    }
    if odd { (theta + sin * sum) * core::f64::consts::FRAC_2_PI } else { sin * sum }
}

/// Returns P(X ≤ x) of the beta distribution with the parameters `a` and `b`, both positive. This is the regularised
/// incomplete beta function, evaluated as a continued fraction by Lentz's method.
pub fn beta_below(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return f64::from(u8::from(x >= 1.0));
    }
    let ln_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = (a * x.ln() + b * (-x).ln_1p() - ln_beta).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

/// Evaluates the continued fraction of the incomplete beta function (Abramowitz & Stegun 26.5.8).
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    // About √max(a, b) terms are needed, so this suffices for hundreds of millions of packets.
    const TERMS: u32 = 20_000;
    let nonzero = |x: f64| if x.abs() < 1e-300 { 1e-300 } else { x };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut product = d;
    for m in (1..TERMS).map(f64::from) {
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = product;
        for term in [even, odd] {
            d = 1.0 / nonzero(1.0 + term * d);
            c = nonzero(1.0 + term / c);
            product *= c * d;
        }
        if (product / before - 1.0).abs() < 1e-14 {
            break;
        }
    }
    product
}

/// Returns the one-sided p-value of Fisher's exact test: the probability that, of `a + b` hits among `n + m` draws, at least
/// `a` are among the first `n`, if hits are equally likely among all. `a` ≤ `n`, `b` ≤ `m`.
pub fn fisher_greater([a, n]: [u64; 2], [b, m]: [u64; 2]) -> f64 {
    let choose = |n: u64, k: u64| {
        let ln = |x: u64| libm::lgamma(x as f64 + 1.0);
        ln(n) - ln(k) - ln(n - k)
    };
    let hits = a + b;
    let all = choose(n + m, hits);
    let most = n.min(hits);
    (a..=most).map(|k| (choose(n, k) + choose(m, hits - k) - all).exp()).sum::<f64>().min(1.0)
}

/// Returns the quantile of the beta distribution with the parameters `a` and `b`, both positive.
pub fn quantile_of_beta(p: f64, a: f64, b: f64) -> f64 {
    bisect(0.0, 1.0, |x| beta_below(x, a, b) < p)
}

/// Returns the correlation of neighbouring values; `None` without variation.
pub fn lag1_correlation(x: &[f64]) -> Option<f64> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let squares: f64 = x.iter().map(|v| (v - mean) * (v - mean)).sum();
    let products: f64 = x.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    (squares > 0.0).then(|| products / squares)
}

/// Returns order statistics (l, u) that enclose the p-quantile of n values (0 < p < 1) with probability ≥ 95 %, and
/// that probability. For a binomial B, l is the largest value with P(B < l) ≤ 2.5 %, u is the smallest with P(B < u) ≥
/// 97.5 %, and the probability is P(l ≤ B < u). l = 0 or u = n + 1 means unbounded. `None` for n = 0.
pub fn quantile_ranks95(n: u64, p: f64) -> Option<(u64, u64, f64)> {
    if n == 0 {
        return None;
    }
    // Probabilities relative to that of the mode, over ±12 standard deviations, then normalised. This avoids
    // factorials and underflow, and takes O(√n).
    let nf = n as f64;
    let odds = p / (1.0 - p);
    let mode = (((nf + 1.0) * p) as u64).min(n);
    let reach = (12.0 * (nf * p * (1.0 - p)).sqrt() + 40.0) as u64;
    let (from, to) = (mode.saturating_sub(reach), (mode + reach).min(n));
    let mut weight = vec![0.0; (to - from + 1) as usize];
    weight[(mode - from) as usize] = 1.0;
    for k in (mode + 1)..=to {
        weight[(k - from) as usize] =
            weight[(k - 1 - from) as usize] * (nf - (k - 1) as f64) / k as f64 * odds;
    }
    for k in (from..mode).rev() {
        weight[(k - from) as usize] =
            weight[(k + 1 - from) as usize] * (k + 1) as f64 / (nf - k as f64) / odds;
    }
    let total: f64 = weight.iter().sum();
    // below(k) = P(B ≤ k) for k = from − 1 …
    let (mut l, mut u, mut below_l, mut below_u) = (0, n + 1, 0.0, 1.0);
    let mut sum = 0.0;
    for (k, w) in (from..).zip(&weight) {
        sum += w / total;
        // sum = P(B ≤ k) = P(B < k + 1)
        if sum <= 0.025 {
            (l, below_l) = (k + 1, sum);
        }
        if sum >= 0.975 && k < n {
            (u, below_u) = (k + 1, sum);
            break;
        }
    }
    Some((l, u, below_u - below_l))
}

/// A set of marked indices below n, stored as a tree of counts with fan-out 64. Marking increments one count per level;
/// counting adds at most 64 counts per level.
#[derive(Clone, Debug)]
pub struct CountTree {
    marks: Vec<u64>,
    /// Number of marks below each node, from the leaves upwards.
    levels: Vec<Vec<u32>>,
}

impl CountTree {
    /// Creates a tree without marks.
    pub fn new(n: usize) -> CountTree {
        let mut nodes = n.div_ceil(64).max(1);
        let marks = vec![0; nodes];
        let mut levels = Vec::new();
        while nodes > 1 {
            levels.push(vec![0; nodes]);
            nodes = nodes.div_ceil(64);
        }
        CountTree { marks, levels }
    }

    /// Marks `index`, which must not be marked yet.
    #[inline]
    pub fn add(&mut self, index: usize) {
        self.marks[index / 64] |= 1 << (index % 64);
        let mut node = index / 64;
        for level in &mut self.levels {
            level[node] += 1;
            node /= 64;
        }
    }

    /// Returns the number of marked indices below `index`.
    pub fn below(&self, index: usize) -> u64 {
        let mut node = index / 64;
        let word = self.marks[node] & !(u64::MAX << (index % 64));
        let mut sum = u64::from(word.count_ones());
        for level in &self.levels {
            sum += level[node / 64 * 64..node].iter().map(|c| u64::from(*c)).sum::<u64>();
            node /= 64;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fishers_test_of_known_tables() {
        // The tea-tasting experiment: all 4 right is 1/70, at least 3 right is 17/70.
        assert!((fisher_greater([4, 4], [0, 4]) - 1.0 / 70.0).abs() < 1e-12);
        assert!((fisher_greater([3, 4], [1, 4]) - 17.0 / 70.0).abs() < 1e-12);
        assert!((fisher_greater([0, 10], [5, 10]) - 1.0).abs() < 1e-9);
        assert!(fisher_greater([200, 200], [0, 200]) < 1e-100);
    }

    #[test]
    fn wilson_intervals() {
        // metrics §10, V23.
        for (k, n, low, high) in [
            (0, 1000, 0.0, 0.003_826_76),
            (1, 1000, 0.000_176_547, 0.005_642_56),
            (6, 1000, 0.002_752_67, 0.013_028_17),
            (5, 10, 0.236_593_09, 0.763_406_91),
        ] {
            let [a, b] = wilson95(k, n).unwrap();
            assert!((a - low).abs() < 5e-9 && (b - high).abs() < 5e-9, "{k}/{n}: {a} {b}");
        }
        assert_eq!(wilson95(3, 3).unwrap()[1], 1.0);
        assert_eq!(wilson95(0, 0), None);
    }

    #[test]
    fn student() {
        // metrics §17, V21.
        for (df, t) in [
            (1, 12.706_204_736),
            (4, 2.776_445_105),
            (9, 2.262_157_163),
            (19, 2.093_024_054),
            (29, 2.045_229_642),
            (99, 1.984_216_952),
            (599, 1.963_932_249),
            (999, 1.962_341_461),
        ] {
            assert!((t_quantile(0.975, df) - t).abs() < 1e-9, "{df}: {}", t_quantile(0.975, df));
        }
        // There is no jump where the method changes.
        let step = t_quantile(0.995, 200) - t_quantile(0.995, 201);
        assert!(step > 0.0 && step < 1e-3 && (t_quantile(0.975, 1 << 40) - Z95).abs() < 1e-9);
        assert!((normal_quantile(0.975) - Z95).abs() < 1e-14);
    }

    #[test]
    fn ranks_that_enclose_a_quantile() {
        // metrics §17, V22.
        for (n, p, l, u, coverage) in [
            (10, 0.5, 2, 9, 0.978_516),
            (100, 0.5, 40, 61, 0.964_800),
            (100, 0.9, 84, 96, 0.955_690),
            (100, 0.99, 97, 101, 0.981_626),
            (1000, 0.99, 983, 997, 0.976_095),
            (4000, 0.999, 3992, 4000, 0.960_417),
        ] {
            let (a, b, c) = quantile_ranks95(n, p).unwrap();
            assert_eq!((a, b), (l, u), "{n} {p}");
            assert!((c - coverage).abs() < 1e-6, "{c}");
        }
        assert_eq!(quantile_ranks95(299, 0.99).map(|r| (r.0, r.1)), Some((292, 300)));
        assert_eq!(quantile_ranks95(1000, 0.999).map(|r| (r.0, r.1)), Some((997, 1001)));
        assert_eq!(quantile_ranks95(1, 0.5).map(|r| (r.0, r.1)), Some((0, 2)));
    }

    #[test]
    fn beta() {
        // Symmetrical, uniform, and the relation to the binomial distribution: P(B(10, 0.3) ≥ 4) = I_0.3(4, 7).
        for (x, a, b, p) in [
            (0.5, 3.0, 3.0, 0.5),
            (0.2, 1.0, 1.0, 0.2),
            (0.3, 4.0, 7.0, 0.350_389_281_6),
            (0.25, 0.5, 0.5, 1.0 / 3.0),
        ] {
            assert!((beta_below(x, a, b) - p).abs() < 1e-10, "{x} {a} {b}: {}", beta_below(x, a, b));
            assert!((quantile_of_beta(p, a, b) - x).abs() < 1e-9);
        }
        assert_eq!([-1.0, 0.0, 1.0, 2.0].map(|x| beta_below(x, 2.0, 3.0)), [0.0, 0.0, 1.0, 1.0]);
        // Millions of packets, a few of them lost.
        let [low, high] = [0.025, 0.975].map(|p| quantile_of_beta(p, 10.5, 1e7) * 1e7);
        assert!((low - 5.14).abs() < 0.01 && (high - 17.74).abs() < 0.01, "{low} {high}");
    }

    #[test]
    fn normal() {
        // Abramowitz & Stegun, table 26.5.
        for (p, z) in
            [(0.5, 0.0), (0.9, 1.281_551_565_545), (0.99, 2.326_347_874_041), (1e-9, -5.997_807_015_008)]
        {
            assert!((normal_quantile(p) - z).abs() < 1e-12, "{p}: {}", normal_quantile(p));
        }
    }

    #[test]
    fn student_by_both_methods() {
        // Printed tables of two-sided 99 % and 90 % points.
        for (p, df, t) in [
            (0.995, 1, 63.656_741),
            (0.995, 2, 9.924_843),
            (0.995, 3, 5.840_909),
            (0.995, 10, 3.169_273),
            (0.95, 5, 2.015_048),
            (0.95, 30, 1.697_261),
        ] {
            assert!((t_quantile(p, df) - t).abs() < 1e-6, "{p} {df}: {}", t_quantile(p, df));
            assert!((t_quantile(1.0 - p, df) + t).abs() < 1e-6, "symmetrical");
        }
        assert_eq!((t_quantile(0.5, 3), t_quantile(0.5, 300)), (0.0, 0.0));
        // Compares the expansion with the finite sum where each of its terms matters: high powers of z in the
        // tail, low ones near the median. The difference is the first term that the expansion omits.
        for (p, error) in [(0.55, 4e-14), (0.75, 2e-13), (0.975, 5e-12), (0.9995, 5e-10)] {
            let t = t_quantile(p, 201);
            let exact = bisect(0.0, 10.0, |x| t_inside(x, 201) < 2.0 * p - 1.0);
            assert!((t - exact).abs() < error, "{p}: {t} {exact}");
        }
        assert!((t_inside(t_quantile(0.9995, 200), 200) - 0.999).abs() < 1e-14, "the sum up to 200");
    }

    #[test]
    fn ranks_equal_the_definition() {
        for p in [0.01, 0.1, 0.5, 0.9, 0.99, 0.999] {
            for n in (1..40).chain([100, 1000, 100_000]) {
                // Logarithms of the binomial probabilities, from k = 0 upwards.
                let mut ln = n as f64 * f64::ln(1.0 - p);
                let (mut sum, mut low, mut high) = (0.0, (0, 0.0), (n + 1, 1.0));
                for k in 0..n {
                    sum += ln.exp();
                    if sum <= 0.025 {
                        low = (k + 1, sum);
                    }
                    if sum >= 0.975 {
                        high = (k + 1, sum);
                        break;
                    }
                    ln += ((n - k) as f64 / (k + 1) as f64 * p / (1.0 - p)).ln();
                }
                let (l, u, coverage) = quantile_ranks95(n, p).unwrap();
                assert_eq!((l, u), (low.0, high.0), "{n} {p}");
                assert!((coverage - (high.1 - low.1)).abs() < 1e-8, "{n} {p}: {coverage}");
            }
        }
        assert_eq!(quantile_ranks95(0, 0.5), None);
    }

    #[test]
    fn marks_are_counted_over_three_levels() {
        let n = 600_000;
        let mut tree = CountTree::new(n);
        let marked: Vec<usize> = (0..20_000).map(|k| k * 104_729 % n).collect();
        marked.iter().for_each(|p| tree.add(*p));
        for index in (0..n).step_by(9_973).chain([0, 63, 64, 4_095, 4_096, 262_143, 262_144, 262_145, n - 1])
        {
            let expected = marked.iter().filter(|p| **p < index).count() as u64;
            assert_eq!(tree.below(index), expected, "{index}");
        }
    }

    #[test]
    fn how_often_students_t_is_farther_out() {
        // With one degree of freedom, half of all values lie beyond 1. The others are the 5 % points of the
        // table.
        for (t, df, p) in [(1.0, 1, 0.5), (0.0, 5, 1.0), (2.228_139, 10, 0.05), (1.960_201, 10_000, 0.05)] {
            assert!((t_outside(t, df) - p).abs() < 1e-6, "{t} {df}: {}", t_outside(t, df));
        }
    }
}
