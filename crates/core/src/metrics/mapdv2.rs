//! Mean absolute packet delay variation 2 (metrics §8; ITU-T G.1020 as described by RFC 5481 §6.7).

use super::classify::AcceptedPacket;
use super::one_pass::OnePass;
use serde::{Deserialize, Serialize};

/// Deviations from a running mean of earlier packets (gain 1/16) in arrival order, positive and negative deviations
/// separately. The measure detects ramps that RTP jitter does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mapdv2 {
    n: u64,
    /// Delay of the first packet, to which all delays are relative. This preserves precision when clocks differ by a
    /// large offset.
    origin: i64,
    mean: f64,
    previous: f64,
    above: (u64, f64),
    below: (u64, f64),
}

impl Mapdv2 {
    /// Adds the packets that `whole` contains in addition to its earlier state `lead`. This requires that the first
    /// packets of `whole` no longer affect its mean.
    pub(crate) fn join(&mut self, whole: Mapdv2, lead: &Mapdv2) {
        let Some(n) = whole.n.checked_sub(lead.n).filter(|n| *n > 0) else { return };
        if self.n == 0 {
            self.origin = whole.origin;
        }
        let moved = whole.origin as f64 - self.origin as f64;
        let later = |mine: (u64, f64), whole: (u64, f64), lead: (u64, f64)| {
            (mine.0 + whole.0.saturating_sub(lead.0), mine.1 + (whole.1 - lead.1))
        };
        *self = Mapdv2 {
            n: self.n + n,
            origin: self.origin,
            mean: whole.mean + moved,
            previous: whole.previous + moved,
            above: later(self.above, whole.above, lead.above),
            below: later(self.below, whole.below, lead.below),
        };
    }

    /// Returns true if this can be the state after `n` packets.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let finite = [self.mean, self.previous, self.above.1, self.below.1].iter().all(|x| x.is_finite());
        self.n == n && finite && self.above.0 <= n && self.below.0 <= n
    }
}

impl Mapdv2 {
    /// Adds the next accepted packets, given by their delays.
    pub fn push_all(&mut self, delays: &[i64]) {
        let Some((first, mut rest)) = delays.split_first() else { return };
        if self.n == 0 {
            self.origin = *first;
        } else {
            rest = delays;
        }
        self.n += delays.len() as u64;
        // The compiler keeps a local copy in registers.
        let mut so_far = *self;
        rest.iter().for_each(|delay| so_far.deviate(*delay));
        *self = so_far;
    }

    #[inline]
    fn deviate(&mut self, delay: i64) {
        self.mean += (self.previous - self.mean) / 16.0;
        self.previous = match delay.checked_sub(self.origin) {
            Some(d) => d as f64,
            None => delay as f64 - self.origin as f64,
        };
        // Adds to both sides although one of the terms is zero, because a branch on the sign would be mispredicted half
        // of the time.
        let deviation = self.previous - self.mean;
        self.above = (self.above.0 + u64::from(deviation > 0.0), self.above.1 + deviation.max(0.0));
        self.below = (self.below.0 + u64::from(deviation < 0.0), self.below.1 + (-deviation).max(0.0));
    }
}

impl OnePass for Mapdv2 {
    type Output = Option<f64>;

    #[inline]
    fn push(&mut self, packet: &AcceptedPacket) {
        self.push_all(&[packet.delay]);
    }

    /// Returns the mean positive plus the mean negative deviation, in ns. A side without values contributes 0; `None`
    /// for fewer than two packets.
    fn output(&self) -> Option<f64> {
        let mean = |(n, sum): (u64, f64)| if n > 0 { sum / n as f64 } else { 0.0 };
        (self.n > 1).then(|| mean(self.above) + mean(self.below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapdv2(delays: &[i64]) -> Option<f64> {
        let mut m = Mapdv2::default();
        delays.iter().for_each(|&delay| m.push(&AcceptedPacket { seq: 0, sent: 0, delay }));
        m.output()
    }

    #[test]
    fn figures_of_rfc_5481() {
        // metrics §8, V6.
        assert!((mapdv2(&[20, 10, 20, 25, 20]).unwrap() - 12.149251302).abs() < 1e-9);
        let ramp = [100, 110, 120, 130, 140, 150, 140, 130, 120, 110, 100];
        assert!((mapdv2(&ramp).unwrap() - 31.874254217).abs() < 1e-9);
    }

    #[test]
    fn edges() {
        assert_eq!(mapdv2(&[]), None);
        assert_eq!(mapdv2(&[5]), None);
        assert_eq!(mapdv2(&[5, 5, 5]), Some(0.0));
        // A packet whose delay is the mean is on neither side.
        assert_eq!((mapdv2(&[5, 5, 9]), mapdv2(&[5, 5, 1])), (Some(4.0), Some(4.0)));
        assert_eq!(mapdv2(&[i64::MIN, i64::MAX]), Some(2f64.powi(64)));
    }

    fn of(delays: &[i64]) -> Mapdv2 {
        let mut m = Mapdv2::default();
        delays.iter().for_each(|&delay| m.push(&AcceptedPacket { seq: 0, sent: 0, delay }));
        m
    }

    #[test]
    fn later_packets_are_added_to_those_before() {
        // After this many equal delays, earlier packets no longer have an effect.
        let settled = |first: &[i64]| [first, &[70; 800]].concat();
        let (a, lead, later) = (settled(&[30, 90, 20]), settled(&[110, 40]), [90, 40, 120, 70, 10, 65]);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        let mut mine = of(&a);
        mine.join(of(&[&lead[..], &later].concat()), &of(&lead));
        let whole = of(&[&a[..], &later].concat());
        assert_eq!((mine.n, mine.above.0, mine.below.0), (whole.n, whole.above.0, whole.below.0));
        near(mine.output().unwrap(), whole.output().unwrap());
        // Later packets count on both.
        mine.push(&AcceptedPacket { seq: 0, sent: 0, delay: 300 });
        near(mine.output().unwrap(), of(&[&a[..], &later, &[300]].concat()).output().unwrap());
        // Joining with an empty state before or after.
        let mut first = Mapdv2::default();
        first.join(of(&[50, 60, 20]), &Mapdv2::default());
        assert_eq!(first, of(&[50, 60, 20]));
        first.join(of(&[5, 9]), &of(&[5, 9]));
        assert_eq!(first, of(&[50, 60, 20]));
    }

    #[test]
    fn a_state_has_nothing_beyond_its_packets() {
        let valid = of(&[5, 9, 1]);
        assert!(valid.is_possible(3) && !valid.is_possible(2) && !valid.is_possible(4));
        for x in [f64::NAN, f64::INFINITY] {
            assert!(
                !Mapdv2 { mean: x, ..valid }.is_possible(3)
                    && !Mapdv2 { previous: x, ..valid }.is_possible(3)
            );
            assert!(!Mapdv2 { above: (1, x), ..valid }.is_possible(3));
            assert!(!Mapdv2 { below: (1, x), ..valid }.is_possible(3));
        }
        assert!(Mapdv2 { above: (3, 1.0), below: (3, 1.0), ..valid }.is_possible(3));
        assert!(!Mapdv2 { above: (4, 1.0), ..valid }.is_possible(3));
        assert!(!Mapdv2 { below: (4, 1.0), ..valid }.is_possible(3));
    }

    #[test]
    fn packets_at_once_are_packets_one_by_one() {
        let delays: Vec<i64> =
            (0..100).map(|k| if k == 50 { i64::MIN } else { k * 7919 % 101 * 1000 - 20_000 }).collect();
        for cut in [0, 1, 7, 100] {
            let (mut at_once, mut one_by_one) = (Mapdv2::default(), Mapdv2::default());
            at_once.push_all(&delays[..cut]);
            at_once.push_all(&delays[cut..]);
            delays.iter().for_each(|&delay| one_by_one.push(&AcceptedPacket { seq: 0, sent: 0, delay }));
            assert_eq!(at_once, one_by_one, "{cut}");
        }
    }
}
