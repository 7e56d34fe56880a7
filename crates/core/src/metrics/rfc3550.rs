//! Interarrival jitter of RTP (metrics §7; RFC 3550 §6.4.1, A.8).

use serde::{Deserialize, Serialize};

/// Running estimate J with gain 1/16 over consecutive arrivals, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Rfc3550 {
    /// J after the last packet, which depends mostly on the last 16 packets.
    #[serde(rename = "final")]
    pub last: f64,
    /// Mean of J over packets 2…n.
    pub mean: f64,
    /// Largest value of J.
    pub max: f64,
    /// J by the integer algorithm of RFC 3550 A.8.
    #[serde(rename = "final_int")]
    pub last_int: i64,
}

use super::classify::AcceptedPacket;
use super::one_pass::OnePass;

/// Running estimate of J.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JitterEstimator {
    n: u64,
    previous: i64,
    jitter: f64,
    scaled: i128,
    sum: f64,
    max: f64,
}

impl JitterEstimator {
    /// Returns true if this can be the state after `n` packets.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let finite = [self.jitter, self.sum, self.max].iter().all(|x| x.is_finite());
        // A.8 converges to 16 times the step, which has at most 64 bits.
        self.n == n && finite && self.scaled.unsigned_abs() <= 1 << 69
    }

    /// Adds the packets that `whole` received after its earlier state `lead`. This requires that the first
    /// packets of `whole` no longer affect its estimate.
    pub(crate) fn join(&mut self, whole: JitterEstimator, lead: &JitterEstimator) {
        let Some(n) = whole.n.checked_sub(lead.n).filter(|n| *n > 0) else { return };
        let sum = self.sum + (whole.sum - lead.sum);
        *self = JitterEstimator { n: self.n + n, sum, max: self.max.max(whole.max), ..whole };
    }

    /// Returns J after the packets so far, in ns.
    pub fn jitter(&self) -> f64 {
        self.jitter
    }
}

impl JitterEstimator {
    /// Adds the next accepted packets, given by their delays.
    pub fn push_all(&mut self, delays: &[i64]) {
        let Some((first, mut rest)) = delays.split_first() else { return };
        if self.n == 0 {
            self.previous = *first;
        } else {
            rest = delays;
        }
        self.n += delays.len() as u64;
        // The compiler keeps a local copy in registers.
        let mut so_far = *self;
        rest.iter().for_each(|delay| so_far.step_to(*delay));
        *self = so_far;
    }

    #[inline]
    fn step_to(&mut self, delay: i64) {
        let step = delay.abs_diff(self.previous);
        self.previous = delay;
        // Converting a signed integer to a double takes one instruction, an unsigned one several.
        let size = i64::try_from(step).map_or(step as f64, |step| step as f64);
        self.jitter += (size - self.jitter) / 16.0;
        self.scaled += i128::from(step) - ((self.scaled + 8) >> 4);
        self.sum += self.jitter;
        self.max = self.max.max(self.jitter);
    }
}

impl OnePass for JitterEstimator {
    type Output = Option<Rfc3550>;

    #[inline]
    fn push(&mut self, packet: &AcceptedPacket) {
        self.push_all(&[packet.delay]);
    }

    fn output(&self) -> Option<Rfc3550> {
        (self.n > 1).then(|| Rfc3550 {
            last: self.jitter,
            mean: self.sum / (self.n - 1) as f64,
            max: self.max,
            last_int: i64::try_from(self.scaled >> 4).unwrap_or(i64::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimates(delays: &[i64]) -> (Vec<f64>, Vec<i64>) {
        let mut e = JitterEstimator::default();
        delays
            .iter()
            .map(|&delay| {
                e.push(&AcceptedPacket { seq: 0, sent: 0, delay });
                (e.jitter(), (e.scaled >> 4) as i64)
            })
            .unzip()
    }

    #[test]
    fn ramp_of_rfc_5481_figure_1() {
        // metrics §7, V6: in ms and in integer µs.
        let (j, _) = estimates(&[20, 10, 20, 25, 20]);
        assert_eq!(j, [0.0, 0.625, 1.2109375, 1.44775390625, 1.669769287109375]);
        let (_, j) = estimates(&[20_000, 10_000, 20_000, 25_000, 20_000]);
        assert_eq!(j, [0, 625, 1210, 1447, 1669]);
    }

    #[test]
    fn alternating_transit() {
        // metrics §7, V7.
        let (j, int) = estimates(&[0, 160, 0, 160, 0, 160]);
        assert_eq!(j, [0.0, 10.0, 19.375, 28.1640625, 36.40380859375, 44.128570556640625]);
        assert_eq!(int, [0, 10, 19, 28, 36, 44]);
    }

    #[test]
    fn one_packet_only_primes() {
        let mut e = JitterEstimator::default();
        assert_eq!(e.output(), None);
        e.push(&AcceptedPacket { seq: 0, sent: 0, delay: 5 });
        assert_eq!(e.output(), None);
    }

    fn of(delays: &[i64]) -> JitterEstimator {
        let mut e = JitterEstimator::default();
        delays.iter().for_each(|&delay| e.push(&AcceptedPacket { seq: 0, sent: 0, delay }));
        e
    }

    #[test]
    fn later_packets_are_added_to_those_before() {
        // After this many equal delays, earlier packets no longer have an effect.
        let settled = |first: &[i64]| [first, &[70_000; 900]].concat();
        for (a, lead) in [([30_000, 90_000], [110_000, 40_000]), ([10_000, 990_000], [1_000, 2_000])] {
            let (a, lead, later) = (settled(&a), settled(&lead[..1]), [90_000, 40_000, 700_000]);
            let mut mine = of(&a);
            mine.join(of(&[&lead[..], &later].concat()), &of(&lead));
            let whole = of(&[&a[..], &later].concat());
            assert_eq!((mine.n, mine.previous), (whole.n, whole.previous));
            let (merged, whole) = (mine.output().unwrap(), whole.output().unwrap());
            for (a, b) in [(merged.last, whole.last), (merged.mean, whole.mean), (merged.max, whole.max)] {
                assert!((a / b - 1.0).abs() < 1e-9, "{merged:?} {whole:?}");
            }
            assert_eq!(merged.last_int, whole.last_int);
        }
        let mut mine = of(&[5, 9]);
        mine.join(of(&[3, 8, 1]), &of(&[3, 8, 1]));
        assert_eq!(mine, of(&[5, 9]));
    }

    #[test]
    fn a_state_has_nothing_beyond_its_packets() {
        let valid = of(&[5, 9, 1]);
        assert!(valid.is_possible(3) && !valid.is_possible(2) && !valid.is_possible(4));
        for x in [f64::NAN, f64::INFINITY] {
            assert!(!JitterEstimator { jitter: x, ..valid }.is_possible(3));
            assert!(!JitterEstimator { sum: x, ..valid }.is_possible(3));
            assert!(!JitterEstimator { max: x, ..valid }.is_possible(3));
        }
        let scaled = |scaled| JitterEstimator { scaled, ..valid }.is_possible(3);
        assert!(scaled(1 << 69) && scaled(-1 << 69) && !scaled((1 << 69) + 1) && !scaled((-1 << 69) - 1));
    }

    #[test]
    fn figures_of_alternating_transit() {
        let found = of(&[0, 160, 0, 160]).output().unwrap();
        assert_eq!((found.last, found.max, found.last_int), (28.1640625, 28.1640625, 28));
        assert_eq!(found.mean, (10.0 + 19.375 + 28.1640625) / 3.0);
        assert_eq!(of(&[0, 160, 160]).output().unwrap().max, 10.0);
    }

    #[test]
    fn packets_at_once_are_packets_one_by_one() {
        let delays: Vec<i64> =
            (0..100).map(|k| if k == 50 { i64::MIN } else { k * 7919 % 101 * 1000 - 20_000 }).collect();
        for cut in [0, 1, 7, 100] {
            let (mut at_once, mut one_by_one) = (JitterEstimator::default(), JitterEstimator::default());
            at_once.push_all(&delays[..cut]);
            at_once.push_all(&delays[cut..]);
            delays.iter().for_each(|&delay| one_by_one.push(&AcceptedPacket { seq: 0, sent: 0, delay }));
            assert_eq!(at_once, one_by_one, "{cut}");
        }
    }
}
