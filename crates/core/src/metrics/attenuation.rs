//! Quality attenuation (Broadband Forum TR-452): delay and loss of a path as one distribution, which composes over the
//! segments of the path.
//!
//! A lost packet is infinitely late: the distribution lacks the mass of the lost packets. Segments in series compose by
//! convolution if their delays are independent ([`Attenuation::then`]). A segment is what remains of the whole path
//! without another segment ([`remainder`]). The attenuation of one segment has three parts ([`parts`]): G, the delay of
//! a packet of size zero on an empty path; S, the time per byte; and V, the rest, which other traffic causes.

use super::sizes::size_fit;
use crate::evidence::bounded;
use serde::Serialize;
use std::collections::BTreeMap;

/// Number of bins of the widest distribution with a common width.
const MAX_BINS: i64 = 400;
/// Maximum number of bins of any width.
const MOST_BINS: i64 = 1_000_000;
/// Number of iterations of a deconvolution. More of them fit the noise of the sample.
const ITERATIONS: usize = 200;

/// Delay distribution with missing mass: an improper random variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Attenuation {
    /// Width of a bin, in ns.
    width: i64,
    /// Index of the first bin: bin k is centred at k·width.
    first: i64,
    /// Share of all packets sent, by bin. The sum is 1 minus the missing mass.
    mass: Vec<f64>,
    /// Number of packets sent from which the distribution was measured.
    packets: u64,
}

/// Returns the width of the bins with which all of `delays`, given in ns as one list for each segment, can be composed.
pub fn common_width(delays: &[&[i64]]) -> i64 {
    let range = |all: &&[i64]| {
        let least = all.iter().min().copied().map_or(0, bounded);
        all.iter().max().map_or(0, |most| bounded(*most) - least)
    };
    let widest = delays.iter().map(range).max().unwrap_or(0);
    (widest / MAX_BINS + 1).max(1)
}

impl Attenuation {
    /// Returns the distribution of `delays`, in ns, of received packets, in bins of `width` ns; `lost` others were lost.
    /// `None` if nothing was received, or if there would be more than a million bins.
    pub fn of(delays: &[i64], lost: u64, width: i64) -> Option<Attenuation> {
        let width = width.max(1);
        let bin = |delay: i64| bounded(delay).saturating_add(width / 2).div_euclid(width);
        let first = bin(*delays.iter().min()?);
        let last = bin(*delays.iter().max()?);
        if last - first >= MOST_BINS {
            return None;
        }
        let mut counts = vec![0u64; (last - first) as usize + 1];
        for delay in delays {
            if let Some(count) = counts.get_mut((bin(*delay) - first) as usize) {
                *count += 1;
            }
        }
        let packets = delays.len() as u64 + lost;
        let mass = counts.iter().map(|count| *count as f64 / packets as f64).collect();
        Some(Attenuation { width, first, mass, packets })
    }

    /// Returns the missing mass: the share of packets that are lost.
    pub fn missing(&self) -> f64 {
        (1.0 - self.mass.iter().sum::<f64>()).clamp(0.0, 1.0)
    }

    /// Returns the width of a bin, in ns. No delay of the distribution is more precise.
    pub fn width_ns(&self) -> i64 {
        self.width
    }

    /// Returns the smallest delay, in ns.
    pub fn least_ns(&self) -> i64 {
        self.first.saturating_mul(self.width)
    }

    /// Returns the mean delay of the packets that arrive, in ns.
    pub fn mean_ns(&self) -> f64 {
        let received: f64 = self.mass.iter().sum();
        let sum: f64 = (0..).zip(&self.mass).map(|(k, mass)| self.centre(k) * mass).sum();
        sum / received
    }

    /// Returns the delay that this share of all packets sent does not exceed, in ns; `None` if fewer
    /// packets arrive.
    pub fn within(&self, share: f64) -> Option<f64> {
        let mut below = 0.0;
        let reached = |mass: &f64| {
            below += mass;
            below >= share - 1e-12
        };
        self.mass.iter().position(reached).map(|k| self.centre(k as i64))
    }

    /// Returns the attenuation of this segment and then `next`, whose delays and losses are independent of it. `None` if
    /// the bins have different widths.
    pub fn then(&self, next: &Attenuation) -> Option<Attenuation> {
        (self.width == next.width).then(|| Attenuation {
            width: self.width,
            first: self.first.saturating_add(next.first),
            mass: convolved(&self.mass, &next.mass),
            packets: self.packets.min(next.packets),
        })
    }

    /// Returns the largest difference between the shares of packets that arrive within any delay, which is known to one
    /// bin: the sum of two rounded delays may be in the bin next to that of their rounded sum.
    pub fn distance(&self, other: &Attenuation) -> f64 {
        let [first, end] = [
            self.first.min(other.first),
            (self.first + self.mass.len() as i64).max(other.first + other.mass.len() as i64) + 1,
        ];
        let at = |of: &Attenuation, bin: i64| {
            usize::try_from(bin - of.first).ok().and_then(|k| of.mass.get(k)).copied().unwrap_or(0.0)
        };
        let (mut within, mut largest) = ([0.0f64; 2], 0.0f64);
        for bin in first..end {
            let before = within;
            within = [within[0] + at(self, bin), within[1] + at(other, bin)];
            largest = largest.max(before[0] - within[1]).max(before[1] - within[0]);
        }
        largest
    }

    /// Returns the largest [`distance`](Attenuation::distance) from `other` that chance explains in 95 % of cases if both
    /// are samples of independent packets from one distribution (Kolmogorov and Smirnov).
    pub fn chance_distance(&self, other: &Attenuation) -> f64 {
        let inverse = |packets: u64| 1.0 / packets.max(1) as f64;
        1.36 * (inverse(self.packets) + inverse(other.packets)).sqrt()
    }

    fn centre(&self, k: i64) -> f64 {
        (self.first + k) as f64 * self.width as f64
    }

    /// Returns the distribution of the packets that arrive.
    fn proper(&self) -> Vec<f64> {
        let received: f64 = self.mass.iter().sum();
        self.mass.iter().map(|mass| mass / received).collect()
    }
}

fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate().filter(|(_, x)| **x > 0.0) {
        for (k, y) in b.iter().enumerate() {
            sum[i + k] += x * y;
        }
    }
    sum
}

/// Segment that remains of a whole path without one of its segments, and the limits of what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Remainder {
    /// Share of packets lost in the remaining segment; `None` if the whole path loses less than the known segment, which is
    /// impossible, or chance.
    pub missing: Option<f64>,
    /// Mean delay of the remaining segment, in ns. It needs no assumption about dependence.
    pub mean_ns: f64,
    /// Distribution of the remaining segment, if its delays are independent of those of the known segment.
    pub distribution: Attenuation,
    /// Largest difference, in shares of packets, between the whole path and the known segment composed with `distribution`.
    pub misfit: f64,
    /// Largest misfit that chance explains. A larger one means that the delays of the segments are not independent.
    pub chance: f64,
    whole: Attenuation,
    known: Attenuation,
}

/// Returns the segment that remains of `whole` without the segment `known`; `None` if the bins have different widths, or if
/// nothing arrives.
///
/// The distribution is that of Richardson and Lucy, which contains no negative shares: deconvolution amplifies the noise of
/// a sample, and any other solution must be smoothed, too.
pub fn remainder(whole: &Attenuation, known: &Attenuation) -> Option<Remainder> {
    if whole.width != known.width || whole.missing() >= 1.0 || known.missing() >= 1.0 {
        return None;
    }
    let (sum, part) = (whole.proper(), known.proper());
    // The delays of the remainder are not below the difference of the smallest delays by more than chance adds to these.
    let length = sum.len();
    let mut rest = vec![1.0 / length as f64; length];
    for _ in 0..ITERATIONS {
        let estimate = convolved(&part, &rest);
        let ratio: Vec<f64> = (0..estimate.len())
            .map(|k| sum.get(k).copied().unwrap_or(0.0) / estimate[k].max(1e-12))
            .collect();
        for (k, share) in rest.iter_mut().enumerate() {
            *share *= part.iter().zip(&ratio[k..]).map(|(p, r)| p * r).sum::<f64>();
        }
        let all: f64 = rest.iter().sum();
        rest.iter_mut().for_each(|share| *share /= all.max(1e-12));
    }
    let passed = (1.0 - whole.missing()) / (1.0 - known.missing());
    let missing = Some(1.0 - passed).filter(|missing| *missing >= -1e-12).map(|missing| missing.max(0.0));
    let distribution = Attenuation {
        width: whole.width,
        first: whole.first - known.first,
        mass: rest.iter().map(|share| share * passed.min(1.0)).collect(),
        packets: whole.packets.min(known.packets),
    };
    let again = known.then(&distribution)?;
    Some(Remainder {
        missing,
        mean_ns: whole.mean_ns() - known.mean_ns(),
        misfit: again.distance(whole),
        chance: whole.chance_distance(known),
        distribution,
        whole: whole.clone(),
        known: known.clone(),
    })
}

impl Remainder {
    /// Returns true if independent delays of the two segments explain the whole path.
    pub fn is_explained(&self) -> bool {
        self.misfit <= self.chance
    }

    /// Returns the limits of the delay, in ns, that this share of the packets that arrive does not exceed in the remaining
    /// segment, however the delays of the segments depend on each other (Makarov 1981).
    pub fn limits(&self, share: f64) -> [f64; 2] {
        let sums = |of: &Attenuation| {
            let mut below = 0.0;
            of.proper()
                .iter()
                .map(|mass| {
                    below += mass;
                    below
                })
                .collect::<Vec<f64>>()
        };
        let (whole, known) = (sums(&self.whole), sums(&self.known));
        let at = |sums: &[f64], k: i64| match usize::try_from(k) {
            Ok(k) => sums.get(k).copied().unwrap_or(1.0),
            Err(_) => 0.0,
        };
        let offset = self.whole.first - self.known.first;
        let [low, high] = [offset - known.len() as i64, offset + whole.len() as i64];
        // Shares of packets within `bin`: at least and at most.
        let least = |bin: i64| {
            let each = (0..whole.len() as i64).map(|k| at(&whole, k) - at(&known, k - (bin - offset) - 1));
            each.fold(0.0, f64::max)
        };
        let most = |bin: i64| {
            let each = (-(known.len() as i64)..whole.len() as i64)
                .map(|k| at(&whole, k) - at(&known, k - (bin - offset)));
            1.0 + each.fold(0.0, f64::min)
        };
        let first = |within: &dyn Fn(i64) -> f64| {
            let (mut below, mut from) = (low - 1, high);
            while from - below > 1 {
                let middle = below + (from - below) / 2;
                if within(middle) >= share - 1e-9 { from = middle } else { below = middle }
            }
            from as f64 * self.whole.width as f64
        };
        [first(&most), first(&least)]
    }
}

/// Parts of the attenuation of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttenuationParts {
    /// G: delay of a packet of size zero on an empty path, in ns. With one size, the smallest delay, which is G and S
    /// together.
    pub fixed_ns: f64,
    /// S: time per byte of payload, in ns; `None` if all packets have the same size.
    pub per_byte_ns: Option<f64>,
    /// Smallest and largest S if any one size is left out; `None` below four sizes.
    pub per_byte_range_ns: Option<[f64; 2]>,
    /// V: percentiles of the rest of the delay, which other traffic causes: percentage and ns.
    pub variable_ns: Vec<(f64, f64)>,
    /// Mean of V, in ns.
    pub variable_mean_ns: f64,
    /// Share of lost packets: the missing mass.
    pub missing: f64,
    /// Packets received and smallest delay in ns, by payload in bytes.
    pub sizes: BTreeMap<u32, SizeMinimum>,
}

/// Smallest delay of the packets of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeMinimum {
    /// Number of packets received.
    pub packets: u64,
    /// Smallest delay, in ns.
    pub least_ns: i64,
}

/// Percentages of V (draft-ietf-ippm-qoo §3.1.1).
const PERCENTS: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];

/// Returns the parts of the attenuation of a path, from the `delays` in ns of received packets by their payload in bytes;
/// `lost` others were lost. `None` if nothing was received.
///
/// The smallest delay of a size is that of a packet that met no other traffic. This is true only if the path was empty
/// now and then; otherwise G and S contain a part of V.
pub fn parts(delays: &BTreeMap<u32, Vec<i64>>, lost: u64) -> Option<AttenuationParts> {
    let minimum = |(size, delays): (&u32, &Vec<i64>)| {
        let least_ns = *delays.iter().min()?;
        Some((*size, SizeMinimum { packets: delays.len() as u64, least_ns }))
    };
    let sizes: BTreeMap<u32, SizeMinimum> = delays.iter().filter_map(minimum).collect();
    let points: Vec<(f64, f64)> =
        sizes.iter().map(|(size, m)| (f64::from(*size), m.least_ns as f64)).collect();
    // A longer packet is never faster on an empty path.
    let slope = |points: &[(f64, f64)]| size_fit(points).map(|fit| fit.per_byte_robust.max(0.0));
    let per_byte_ns = slope(&points);
    let without = |k: usize| {
        let others: Vec<_> = points.iter().enumerate().filter(|(i, _)| *i != k).map(|(_, p)| *p).collect();
        slope(&others)
    };
    let slopes: Vec<f64> =
        if points.len() < 4 { Vec::new() } else { (0..points.len()).filter_map(without).collect() };
    let ends = slopes.iter().copied().reduce(f64::min).zip(slopes.iter().copied().reduce(f64::max));
    let per_byte = per_byte_ns.unwrap_or(0.0);
    // No packet is faster than an empty path, so that the line lies below every minimum.
    let fixed_ns = points.iter().map(|(size, least)| least - per_byte * size).reduce(f64::min)?;
    let rest = |(size, delays): (&u32, &Vec<i64>)| {
        let empty = fixed_ns + per_byte * f64::from(*size);
        delays.iter().map(|delay| *delay as f64 - empty).collect::<Vec<f64>>()
    };
    let mut variable: Vec<f64> = delays.iter().flat_map(rest).collect();
    variable.sort_unstable_by(f64::total_cmp);
    let n = variable.len();
    let at = |percent: f64| {
        let rank = ((percent / 100.0 * n as f64 - 1e-9).ceil() as usize).clamp(1, n);
        (percent, variable[rank - 1])
    };
    Some(AttenuationParts {
        fixed_ns,
        per_byte_ns,
        per_byte_range_ns: ends.map(|(low, high)| [low, high]),
        variable_ns: PERCENTS.into_iter().map(at).collect(),
        variable_mean_ns: variable.iter().sum::<f64>() / n as f64,
        missing: lost as f64 / (lost + n as u64) as f64,
        sizes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    const MS: i64 = 1_000_000;

    fn uniform(rng: &mut ChaCha8Rng) -> f64 {
        (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Delays of `n` packets: 5 ms, and an exponential wait of 2 ms on average.
    fn waits(n: usize, rng: &mut ChaCha8Rng) -> Vec<i64> {
        (0..n).map(|_| 5 * MS + (-2e6 * (1.0 - uniform(rng)).ln()) as i64).collect()
    }

    /// Delays of `n` packets: 10 ms, or in one of four cases 14 ms.
    fn slots(n: usize, rng: &mut ChaCha8Rng) -> Vec<i64> {
        (0..n).map(|_| 10 * MS + if uniform(rng) < 0.25 { 4 * MS } else { 0 }).collect()
    }

    #[test]
    fn a_lost_packet_is_infinitely_late() {
        assert_eq!(Attenuation::of(&[i64::MIN, i64::MAX], 0, 1), None);
        assert!(Attenuation::of(&[i64::MIN, i64::MAX], 0, common_width(&[&[i64::MIN, i64::MAX]])).is_some());
        let of = Attenuation::of(&[1, 2, 3, 4, 5, 6, 7, 8], 2, 1).unwrap();
        assert!((of.missing() - 0.2).abs() < 1e-12);
        assert_eq!(
            [0.1, 0.5, 0.8, 0.81].map(|share| of.within(share)),
            [Some(1.0), Some(5.0), Some(8.0), None]
        );
        assert!(of.least_ns() == 1 && (of.mean_ns() - 4.5).abs() < 1e-12);
        assert_eq!(Attenuation::of(&[], 5, 1), None);
        assert_eq!(Attenuation::of(&[-7, 5], 0, 4).unwrap().least_ns(), -8);
    }

    #[test]
    fn segments_compose_exactly() {
        // A segment of 1 or 3 ns and one of 10 or 11 ns; they lose a half and a fifth of the packets.
        let first = Attenuation::of(&[1, 3], 2, 1).unwrap();
        let second = Attenuation::of(&[10, 11, 11, 11], 1, 1).unwrap();
        let whole = first.then(&second).unwrap();
        assert!((whole.missing() - (1.0 - 0.5 * 0.8)).abs() < 1e-12);
        let shares: Vec<f64> = whole.mass.iter().map(|mass| (mass * 20.0).round()).collect();
        assert_eq!((whole.least_ns(), shares), (11, vec![1.0, 3.0, 1.0, 3.0]));
        assert!((whole.mean_ns() - (first.mean_ns() + second.mean_ns())).abs() < 1e-9);
        assert_eq!(first.then(&Attenuation::of(&[1], 0, 2).unwrap()), None);
    }

    #[test]
    fn a_composition_minus_a_segment_is_the_other_segment() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let n = 20_000;
        let (near, far) = (waits(n, &mut rng), slots(n, &mut rng));
        // Other packets than those of the segments, because each log is a test of its own.
        let whole: Vec<i64> = waits(n, &mut rng).iter().zip(slots(n, &mut rng)).map(|(a, b)| a + b).collect();
        let width = common_width(&[&near, &far, &whole]);
        let of = |delays: &[i64], lost| Attenuation::of(delays, lost, width).unwrap();
        let (near, far, whole) = (of(&near, 1000), of(&far, 500), of(&whole, 1600));
        let composed = near.then(&far).unwrap();
        assert!(composed.distance(&whole) < 0.02, "{}", composed.distance(&whole));
        let rest = remainder(&whole, &near).unwrap();
        assert!(rest.is_explained(), "{} of {}", rest.misfit, rest.chance);
        let lost = 1.0 - (1.0 - 1600.0 / 21_600.0) / (1.0 - 1000.0 / 21_000.0);
        assert!((rest.missing.unwrap() - lost).abs() < 1e-9);
        assert!((rest.mean_ns - 11e6).abs() < 0.1e6, "{}", rest.mean_ns);
        // The two slots are found again: three of four packets that arrive take 10 ms, the others 14 ms.
        let arrive = 1.0 - lost;
        let within = |ms: f64| rest.distribution.within(ms * arrive).unwrap() / 1e6;
        assert!((within(0.5) - 10.0).abs() < 0.3 && (within(0.9) - 14.0).abs() < 0.3, "{rest:?}");
        for share in [0.1, 0.5, 0.9] {
            let [low, high] = rest.limits(share);
            let truth = if share < 0.75 { 10e6 } else { 14e6 };
            assert!(low <= truth + width as f64 && truth - width as f64 <= high, "{share}: {low} to {high}");
        }
    }

    #[test]
    fn segments_that_wait_together_are_not_explained() {
        // Both segments wait for the same traffic, half of the time; the whole path waits twice as long at these times.
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let n = 5000;
        let busy: Vec<bool> = (0..n).map(|_| uniform(&mut rng) < 0.5).collect();
        let wait = |ms: i64| busy.iter().map(|b| if *b { ms * MS } else { 0 }).collect::<Vec<i64>>();
        // The second segment makes up for what the first one adds: the path takes 30 ms always.
        let (near, whole) = (wait(20), vec![30 * MS; n]);
        let width = common_width(&[&near, &whole]);
        let of = |delays: &[i64]| Attenuation::of(delays, 0, width).unwrap();
        let rest = remainder(&of(&whole), &of(&near)).unwrap();
        assert!(!rest.is_explained(), "{} of {}", rest.misfit, rest.chance);
        // The limits hold all the same: the second segment takes 10 or 30 ms.
        let [low, high] = rest.limits(0.9);
        assert!(low <= 30e6 + width as f64 && 30e6 - width as f64 <= high, "{low} to {high}");
        assert!((rest.mean_ns - 20e6).abs() < 1e6);
    }

    #[test]
    fn a_part_cannot_lose_more_than_the_whole() {
        let whole = Attenuation::of(&[5; 99], 1, 1).unwrap();
        let known = Attenuation::of(&[3; 98], 2, 1).unwrap();
        assert_eq!(remainder(&whole, &known).unwrap().missing, None);
    }

    #[test]
    fn a_constant_segment_leaves_exactly_the_rest() {
        let whole = Attenuation::of(&[12, 14, 14, 20], 0, 1).unwrap();
        let known = Attenuation::of(&[2; 4], 0, 1).unwrap();
        let rest = remainder(&whole, &known).unwrap();
        assert_eq!(
            [0.25, 0.75, 1.0].map(|share| rest.distribution.within(share)),
            [Some(10.0), Some(12.0), Some(18.0)]
        );
        assert_eq!([0.25, 0.75, 1.0].map(|share| rest.limits(share)), [[10.0; 2], [12.0; 2], [18.0; 2]]);
    }

    #[test]
    fn the_parts_of_a_made_path() {
        // 4 ms, 80 ns per byte (100 Mbit/s), and waits of up to 2 ms; each size meets the empty path once at least.
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let mut delay = |size: u32, k: u32| {
            let wait = if k == 17 { 0 } else { (2e6 * uniform(&mut rng)) as i64 };
            4 * MS + 80 * i64::from(size) + wait
        };
        let delays: BTreeMap<u32, Vec<i64>> = [64, 300, 700, 1000, 1400]
            .into_iter()
            .map(|size| (size, (0..500).map(|k| delay(size, k)).collect()))
            .collect();
        let parts = parts(&delays, 25).unwrap();
        assert!((parts.fixed_ns - 4e6).abs() < 1.0 && (parts.per_byte_ns.unwrap() - 80.0).abs() < 1e-6);
        let [low, high] = parts.per_byte_range_ns.unwrap();
        assert!((low - 80.0).abs() < 1e-6 && (high - 80.0).abs() < 1e-6);
        assert!(
            (parts.variable_mean_ns - 1e6).abs() < 0.05e6 && (parts.variable_ns[0].1 - 1e6).abs() < 0.1e6
        );
        assert!((parts.missing - 25.0 / 2525.0).abs() < 1e-12);
        assert_eq!(parts.sizes[&300], SizeMinimum { packets: 500, least_ns: 4 * MS + 24_000 });
    }

    #[test]
    fn one_size_does_not_separate_its_bytes_from_the_rest() {
        let delays = BTreeMap::from([(80, vec![7, 5, 9, 11])]);
        let of = parts(&delays, 0).unwrap();
        assert_eq!((of.fixed_ns, of.per_byte_ns, of.per_byte_range_ns), (5.0, None, None));
        assert_eq!((of.variable_ns[0], of.variable_mean_ns), ((50.0, 2.0), 3.0));
        assert_eq!(parts(&BTreeMap::new(), 3), None);
    }
}
