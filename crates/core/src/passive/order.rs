//! [`InOrder`]: puts slightly disordered sightings of one point into the order of its clock.

use super::Sighting;
use std::collections::VecDeque;

/// Disorder up to this is mended: capture queues of several processors, merged files.
const HORIZON: i64 = 50_000_000;
/// A step back of more than this is a clock that was set, not disorder.
const STEP: i64 = 1_000_000_000;
/// Sightings held back at most.
const HELD: usize = 1 << 16;

/// Holds sightings back for 50 ms and lets them go in (time, arrival) order.
#[derive(Debug, Default)]
pub struct InOrder {
    held: VecDeque<Sighting>,
    disordered: u64,
    steps_back: u64,
}

impl InOrder {
    /// Takes one sighting; those whose turn has come go to `out`.
    #[inline]
    pub fn push(&mut self, s: Sighting, out: &mut impl Extend<Sighting>) {
        let newest = self.held.back().map_or(i64::MIN, |b| b.at.0);
        if s.at.0 >= newest {
            self.held.push_back(s);
        } else if newest.saturating_sub(s.at.0) > STEP {
            self.steps_back += 1;
            out.extend(self.held.drain(..));
            self.held.push_back(s);
        } else {
            self.disordered += 1;
            let i = self.held.partition_point(|h| h.at <= s.at);
            self.held.insert(i, s);
        }
        let newest = self.held.back().map_or(i64::MIN, |b| b.at.0);
        while self.held.len() > HELD
            || self.held.front().is_some_and(|f| newest.saturating_sub(f.at.0) > HORIZON)
        {
            out.extend(self.held.pop_front());
        }
    }

    /// Lets everything go.
    pub fn finish(&mut self, out: &mut impl Extend<Sighting>) {
        out.extend(self.held.drain(..));
    }

    /// Sightings that came after a later one.
    pub fn disordered(&self) -> u64 {
        self.disordered
    }

    /// Times the capture's clock was set back by more than a second.
    pub fn steps_back(&self) -> u64 {
        self.steps_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passive::Way;
    use crate::time::Nanos;

    fn run(times: &[i64]) -> (Vec<i64>, InOrder) {
        let mut order = InOrder::default();
        let mut out = Vec::new();
        for (i, t) in times.iter().enumerate() {
            let s = Sighting { at: Nanos(t * 1_000_000), id: i as u64, length: 0, way: Way::Out, flow: 0 };
            order.push(s, &mut out);
        }
        order.finish(&mut out);
        (out.iter().map(|s| s.at.0 / 1_000_000).collect(), order)
    }

    #[test]
    fn neighbours_out_of_order_are_put_right() {
        let (out, order) = run(&[1, 3, 2, 2, 5, 4, 60, 200, 190]);
        assert_eq!(out, [1, 2, 2, 3, 4, 5, 60, 190, 200]);
        assert_eq!((order.disordered(), order.steps_back()), (4, 0));
    }

    #[test]
    fn a_clock_set_back_starts_over() {
        let (out, order) = run(&[10_000, 10_001, 5_000, 5_001]);
        assert_eq!(out, [10_000, 10_001, 5_000, 5_001]);
        assert_eq!(order.steps_back(), 1);
    }

    #[test]
    fn time_that_stands_still_holds_a_bounded_number() {
        let mut order = InOrder::default();
        let mut out = Vec::new();
        for id in 0..100_000 {
            let s = Sighting { at: Nanos(7), id, length: 0, way: Way::Out, flow: 0 };
            order.push(s, &mut out);
        }
        assert_eq!((order.held.len(), out.len()), (HELD, 100_000 - HELD));
    }
}
