//! Inter-arrival jitter of RTP (metrics §7; RFC 3550 §6.4.1, A.8).

use serde::{Deserialize, Serialize};

/// The running estimate J with gain 1/16, over consecutive arrivals, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Rfc3550 {
    /// J after the last packet: it describes about the last 16 packets only.
    #[serde(rename = "final")]
    pub last: f64,
    /// Mean of J over packets 2…n.
    pub mean: f64,
    /// Largest J.
    pub max: f64,
    /// The integer variant of RFC 3550 A.8.
    #[serde(rename = "final_int")]
    pub last_int: i64,
}

use super::classify::Packet;
use super::one_pass::OnePass;

/// The running estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimator {
    n: u64,
    previous: i64,
    jitter: f64,
    scaled: i128,
    sum: f64,
    max: f64,
}

impl Estimator {
    /// Whether it can have come to this after `n` packets.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let finite = [self.jitter, self.sum, self.max].iter().all(|x| x.is_finite());
        // A.8 settles at 16 times the step, which has 64 bits.
        self.n == n && finite && self.scaled.unsigned_abs() <= 1 << 69
    }

    /// Adds the packets that `whole` has had since it was `lead`, by when the first packets no longer mattered.
    pub(crate) fn add_later(&mut self, whole: Estimator, lead: &Estimator) {
        let Some(n) = whole.n.checked_sub(lead.n).filter(|n| *n > 0) else { return };
        let sum = self.sum + (whole.sum - lead.sum);
        *self = Estimator { n: self.n + n, sum, max: self.max.max(whole.max), ..whole };
    }

    /// J after the packets so far, in ns.
    pub fn jitter(&self) -> f64 {
        self.jitter
    }
}

impl OnePass for Estimator {
    type Output = Option<Rfc3550>;

    #[inline]
    fn push(&mut self, packet: &Packet) {
        self.n += 1;
        if self.n == 1 {
            self.previous = packet.delay;
            return;
        }
        let step = packet.delay.abs_diff(self.previous);
        self.previous = packet.delay;
        self.jitter += (step as f64 - self.jitter) / 16.0;
        self.scaled += i128::from(step) - ((self.scaled + 8) >> 4);
        self.sum += self.jitter;
        self.max = self.max.max(self.jitter);
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
        let mut e = Estimator::default();
        delays
            .iter()
            .map(|&delay| {
                e.push(&Packet { seq: 0, sent: 0, delay });
                (e.jitter(), (e.scaled >> 4) as i64)
            })
            .unzip()
    }

    #[test]
    fn ramp_of_rfc_5481_figure_1() {
        // metrics §7, V6: in ms, and in integer µs.
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
        let mut e = Estimator::default();
        assert_eq!(e.output(), None);
        e.push(&Packet { seq: 0, sent: 0, delay: 5 });
        assert_eq!(e.output(), None);
    }
}
