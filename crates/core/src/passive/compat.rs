//! [`CaiaMatcher`]: matching as the CAIA tool does, to compare with it.
//!
//! Per way, the reference sightings form a list. A monitor sighting is searched from the head of that list over at most
//! G entries; on a match both are removed, otherwise the monitor sighting is dropped. Lost packets stay at the head
//! until they are too old, and an old one may match a later packet with the same name: the default matcher does
//! neither.

use super::{Pair, Point, Record, Sighting, Way};
use crate::time::{SECOND, Span};
use std::collections::VecDeque;

/// Matches after which the largest time difference is narrowed.
const TRAINED: u32 = 20;
/// Reference sightings of one way held at most.
const LIST: usize = 4 << 20;

/// The list matcher. Reference sightings must come before the monitor's: see [`Self::wants_reference`].
#[derive(Debug)]
pub struct CaiaMatcher {
    lists: [VecDeque<Sighting>; 2],
    searched: usize,
    offset: i64,
    allowed: i64,
    /// Smoothed |time difference| in seconds, and how many matches it rests on; `None` = not narrowed.
    usual: Option<(f64, u32)>,
    seen: [[u64; 2]; 2],
    matched: [u64; 2],
}

impl CaiaMatcher {
    /// `searched` is G, `allowed` the largest difference of matching packets' times (`-d`), `offset` the
    /// monitor's clock minus the reference clock (`-o`); `narrowing` follows release 0.4 (off with `-T`).
    pub fn new(searched: usize, allowed: Span, offset: Span, narrowing: bool) -> CaiaMatcher {
        CaiaMatcher {
            lists: Default::default(),
            searched: searched.max(1),
            offset: offset.0,
            allowed: allowed.0 / SECOND,
            usual: narrowing.then_some((0.0, 0)),
            seen: [[0; 2]; 2],
            matched: [0; 2],
        }
    }

    /// Whether more reference sightings are needed before monitor sighting `m` can be searched, given the
    /// time of the next one.
    pub fn wants_reference(&self, m: &Sighting, next: crate::time::WallTime) -> bool {
        let latest = m.at.0.saturating_sub(self.offset).saturating_add((self.allowed + 2) * SECOND);
        self.lists[m.way as usize].len() < self.searched && next.0 <= latest
    }

    /// Adds a reference sighting.
    pub fn reference(&mut self, s: Sighting) {
        self.seen[Point::Reference as usize][s.way as usize] += 1;
        let list = &mut self.lists[s.way as usize];
        if list.len() >= LIST {
            list.pop_front();
        }
        list.push_back(s);
    }

    /// Searches a monitor sighting.
    pub fn monitor(&mut self, m: Sighting) -> Option<Record> {
        self.seen[Point::Monitor as usize][m.way as usize] += 1;
        let list = &mut self.lists[m.way as usize];
        let mut i = 0;
        while i < list.len().min(self.searched) {
            let r = list[i];
            if r.id != m.id {
                i += 1;
                continue;
            }
            let common = m.at.0.saturating_sub(self.offset);
            let apart = r.at.0.div_euclid(SECOND) - common.div_euclid(SECOND);
            if apart.abs() > self.allowed + 1 {
                if apart < 0 {
                    list.remove(i);
                    continue;
                }
                return None;
            }
            list.remove(i);
            self.matched[m.way as usize] += 1;
            if let Some((usual, n)) = &mut self.usual {
                let seconds = (common.saturating_sub(r.at.0)) as f64 / SECOND as f64;
                *usual = if *n == 0 { seconds.abs() } else { 0.7 * *usual + 0.3 * seconds.abs() };
                *n += 1;
                if *n > TRAINED {
                    self.allowed = *usual as i64 + 4;
                }
            }
            return Some(Record {
                way: m.way,
                reference: r.at,
                monitor: m.at,
                length: r.length,
                flow: r.flow,
            });
        }
        None
    }

    /// Sightings of a way at a point.
    pub fn seen(&self, point: Point, way: Way) -> u64 {
        self.seen[point as usize][way as usize]
    }

    /// Matches of a way.
    pub fn matched(&self, way: Way) -> u64 {
        self.matched[way as usize]
    }
}

/// The loop of the CAIA tool over the two lists of records, each in the order of the monitor's file: the same
/// pairs as [`Pairer`](super::Pairer), but a pair appears only once a later OUT record has been seen, so that
/// the last one of a file never does.
#[derive(Debug, Default)]
pub struct CaiaPairer {
    current: Option<Record>,
    lists: [VecDeque<Record>; 2],
}

impl CaiaPairer {
    /// Adds the next record; returns a pair that is ready.
    pub fn push(&mut self, r: Record) -> Option<Pair> {
        self.lists[r.way as usize].push_back(r);
        let [outs, ins] = &mut self.lists;
        loop {
            if self.current.is_none() || ins.is_empty() && outs.len() > LIST / 64 {
                self.current = outs.pop_front();
            }
            let Some(out) = self.current else {
                // An IN without an OUT before it is skipped.
                ins.truncate(LIST / 64);
                return None;
            };
            let back = *ins.front()?;
            if out.monitor >= back.monitor {
                ins.pop_front();
                continue;
            }
            let next = *outs.front()?;
            self.current = outs.pop_front();
            if next.monitor >= back.monitor {
                ins.pop_front();
                return Some(Pair { out, back });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::WallTime;

    fn s(at_ms: i64, id: u64) -> Sighting {
        Sighting { at: WallTime(at_ms * 1_000_000), id, length: 9, way: Way::Out, flow: 0 }
    }

    #[test]
    fn lost_packets_at_the_head_stop_a_short_search() {
        let mut m = CaiaMatcher::new(20, Span::seconds(60), Span::ZERO, false);
        (0..40).for_each(|i| m.reference(s(i, i as u64)));
        assert!(m.monitor(s(50, 19)).is_some(), "the twentieth entry is still searched");
        assert!(m.monitor(s(50, 39)).is_none(), "the fortieth is not");
        assert_eq!(m.matched(Way::Out), 1);
    }

    #[test]
    fn a_candidate_too_old_is_discarded() {
        let mut m = CaiaMatcher::new(20, Span::seconds(2), Span::seconds(10), false);
        m.reference(s(0, 1));
        m.reference(s(9_000, 1));
        let r = m.monitor(s(19_100, 1)).unwrap();
        assert_eq!(r.reference, WallTime(9_000_000_000));
        assert!(m.lists[0].is_empty());
    }

    #[test]
    fn the_last_pair_is_held_for_ever() {
        let record =
            |way, t| Record { way, reference: WallTime(0), monitor: WallTime(t), length: 0, flow: 0 };
        let mut p = CaiaPairer::default();
        assert!(p.push(record(Way::In, 0)).is_none());
        assert!(p.push(record(Way::Out, 1)).is_none());
        assert!(p.push(record(Way::In, 2)).is_none());
        assert_eq!(p.push(record(Way::Out, 3)).map(|p| p.back.monitor.0), Some(2));
        assert!(p.push(record(Way::In, 4)).is_none());
    }
}
