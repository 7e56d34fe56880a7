//! Pairing: combines an OUT packet and an IN packet into one round trip.
//!
//! In the order of the monitor's clock, a pair is made at every change from OUT to IN: the last OUT record
//! strictly before an IN record, with that IN record. No other record lies between the two packets of a pair at
//! the monitor, so they are as close in time as possible; each packet is used at most once, and no parameter is
//! needed.

use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};

/// A packet seen at both points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Direction of the packet.
    pub direction: Direction,
    /// Time at which the packet passed the reference point, on the reference clock.
    pub reference: WallTime,
    /// Time at which the packet passed the monitor point, on the monitor clock.
    pub monitor: WallTime,
    /// Length of the IP packet, in bytes.
    pub length: u32,
    /// Number of the packet's flow, assigned by the caller.
    pub flow: u32,
}

impl Record {
    /// Raw one-way delay, including the clock offset.
    pub fn delay(&self) -> Span {
        match self.direction {
            Direction::Up => self.monitor - self.reference,
            Direction::Down => self.reference - self.monitor,
        }
    }
}

/// A synthetic pair: a round trip as experienced by an application's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticPair {
    /// Packet from the reference to the monitor point.
    pub out: Record,
    /// Packet from the monitor to the reference point.
    pub back: Record,
}

impl SyntheticPair {
    /// Total pair time: time on the reference clock from the OUT packet to the IN packet.
    pub fn total(&self) -> Span {
        self.back.reference - self.out.reference
    }

    /// Time between the two packets at the monitor, > 0: the far host's processing time if one packet answers
    /// the other ("SPT").
    pub fn turnaround(&self) -> Span {
        self.back.monitor - self.out.monitor
    }

    /// Round-trip time. Each difference is taken on one clock, so a clock offset cancels exactly.
    pub fn rtt(&self) -> Span {
        self.total() - self.turnaround()
    }

    /// Raw one-way delay of the OUT packet, including the clock offset.
    pub fn delay_out(&self) -> Span {
        self.out.delay()
    }

    /// Raw one-way delay of the IN packet, including the clock offset with the opposite sign.
    pub fn delay_in(&self) -> Span {
        self.back.delay()
    }

    /// Middle of the pair on the reference clock, in whole microseconds like that of the CAIA tool.
    pub fn middle(&self) -> WallTime {
        self.back.reference - half(self.total())
    }

    /// Middle of the pair on the monitor clock (CAIA `-m`).
    pub fn middle_at_monitor(&self) -> WallTime {
        self.back.monitor - half(self.turnaround())
    }
}

/// Half a span, rounded down to whole microseconds.
fn half(s: Span) -> Span {
    Span((s.0 / 2).div_euclid(1000) * 1000)
}

/// Makes pairs of records in the order of the monitor's clock.
#[derive(Clone, Debug, Default)]
pub struct Pairer {
    /// Last OUT record older than `latest`.
    before: Option<Record>,
    /// Newest OUT record. An IN record at the same time does not form a pair with it.
    latest: Option<Record>,
}

impl Pairer {
    /// Adds the next record; returns the pair that it completes, if any.
    pub fn push(&mut self, r: Record) -> Option<SyntheticPair> {
        match r.direction {
            Direction::Up => {
                if self.latest.is_none_or(|l| l.monitor < r.monitor) {
                    self.before = self.latest;
                }
                self.latest = Some(r);
                None
            }
            Direction::Down => {
                let out = if self.latest.is_some_and(|l| l.monitor < r.monitor) {
                    self.before = None;
                    self.latest.take()
                } else {
                    self.before.take().filter(|b| b.monitor < r.monitor)
                };
                out.map(|out| SyntheticPair { out, back: r })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(direction: Direction, monitor: i64) -> Record {
        Record { direction, reference: WallTime(0), monitor: WallTime(monitor), length: 100, flow: 0 }
    }

    fn pairs(records: &[(Direction, i64)]) -> Vec<(i64, i64)> {
        let mut p = Pairer::default();
        records
            .iter()
            .filter_map(|(w, t)| p.push(record(*w, *t)))
            .map(|p| (p.out.monitor.0, p.back.monitor.0))
            .collect()
    }

    use Direction::{Down, Up};

    #[test]
    fn the_worked_example() {
        let s = |x: f64| WallTime((x * 1e9) as i64);
        let out = Record { reference: s(1.0), monitor: s(101.2), ..record(Up, 0) };
        let back = Record { reference: s(1.4), monitor: s(101.25), ..record(Down, 0) };
        let p = SyntheticPair { out, back };
        assert_eq!(
            (p.total().0 / 1000, p.turnaround().0 / 1000, p.rtt().0 / 1000),
            (400_000, 50_000, 350_000)
        );
        assert_eq!(p.middle(), WallTime(1_200_000_000));
        assert_eq!(p.middle_at_monitor(), WallTime(101_225_000_000));
        assert_eq!(p.delay_out() + p.delay_in(), p.rtt());
    }

    #[test]
    fn one_pair_at_every_change_from_out_to_in() {
        assert_eq!(pairs(&[(Up, 1), (Up, 2), (Down, 3), (Down, 4), (Up, 5), (Down, 6)]), [(2, 3), (5, 6)]);
        assert_eq!(pairs(&[(Down, 1), (Down, 2), (Up, 3)]), []);
        assert_eq!(pairs(&[(Up, 1), (Down, 2)]), [(1, 2)], "the last pair too");
    }

    #[test]
    fn an_out_at_the_same_instant_does_not_precede() {
        assert_eq!(pairs(&[(Up, 5), (Down, 5)]), []);
        assert_eq!(pairs(&[(Up, 3), (Up, 5), (Down, 5), (Down, 6)]), [(3, 5), (5, 6)]);
        assert_eq!(pairs(&[(Up, 3), (Up, 5), (Up, 5), (Down, 5), (Down, 6)]), [(3, 5), (5, 6)]);
        assert_eq!(pairs(&[(Down, 5), (Up, 5), (Down, 6)]), [(5, 6)]);
        assert_eq!(pairs(&[(Up, 3), (Up, 5), (Down, 3)]), [], "out of order");
    }

    /// The loop of the reference description, literally.
    fn by_the_book(records: &[(Direction, i64)]) -> Vec<(i64, i64)> {
        let list = |w: Direction| records.iter().filter(move |r| r.0 == w).map(|r| r.1);
        let (mut outs, mut ins) = (list(Up), list(Down));
        let mut made = Vec::new();
        let Some(mut cur) = outs.next() else { return made };
        while let Some(mut i) = ins.next() {
            while cur >= i {
                let Some(next) = ins.next() else { return made };
                i = next;
            }
            let mut next = outs.next();
            while let Some(n) = next.filter(|n| *n < i) {
                cur = n;
                next = outs.next();
            }
            made.push((cur, i));
            match next {
                Some(n) => cur = n,
                None => return made,
            }
        }
        made
    }

    proptest! {
        #[test]
        fn the_same_pairs_as_the_loop_of_the_description(steps in prop::collection::vec((any::<bool>(), 0i64..3), 0..60)) {
            let mut t = 0;
            let records: Vec<_> = steps.iter().map(|(out, dt)| { t += dt; (if *out { Up } else { Down }, t) }).collect();
            prop_assert_eq!(pairs(&records), by_the_book(&records));
        }
    }
}
