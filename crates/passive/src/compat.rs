//! [`CaiaMatcher`]: matches packets as the CAIA tool does, for comparison with it.
//!
//! In each direction the reference sightings form a list. For each monitor sighting, the first G entries of that list
//! are searched; on a match both are removed, otherwise the monitor sighting is dropped. Lost packets stay at the head
//! until they are too old, and an old one may match a later packet with the same identity. The default matcher has
//! neither fault.

use super::{CapturePoint, Record, Sighting, SyntheticPair};
use jitlat_core::spec::Direction;
use jitlat_core::time::{SECOND, Span};
use std::collections::VecDeque;

/// Number of matches after which the largest time difference is narrowed.
const TRAINING_MATCHES: u32 = 20;
/// Maximum number of reference sightings stored for one direction.
const MAX_HELD: usize = 4 << 20;

/// List matcher. Reference sightings must be added before the monitor's: see [`Self::wants_reference`].
#[derive(Debug)]
pub struct CaiaMatcher {
    lists: [VecDeque<Sighting>; 2],
    searched: usize,
    offset: i64,
    allowed: i64,
    /// Smoothed absolute time difference in seconds, and the number of matches it is based on; `None`: not
    /// narrowed.
    usual: Option<(f64, u32)>,
    seen: [[u64; 2]; 2],
    matched: [u64; 2],
}

impl CaiaMatcher {
    /// Creates a matcher. `searched` is G, `allowed` the largest time difference of matching packets (`-d`), `offset`
    /// the monitor's clock minus the reference clock (`-o`); if `narrowing` is true, the largest difference is narrowed
    /// as in release 0.4 (off with `-T`).
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

    /// True if more reference sightings are needed before a match for monitor sighting `m` can be searched.
    /// `next` is the time of the next reference sighting.
    pub fn wants_reference(&self, m: &Sighting, next: jitlat_core::time::WallTime) -> bool {
        let latest = m.at.0.saturating_sub(self.offset).saturating_add((self.allowed + 2) * SECOND);
        self.lists[m.direction as usize].len() < self.searched && next.0 <= latest
    }

    /// Adds a reference sighting.
    pub fn reference(&mut self, s: Sighting) {
        self.seen[CapturePoint::Reference as usize][s.direction as usize] += 1;
        let list = &mut self.lists[s.direction as usize];
        if list.len() >= MAX_HELD {
            list.pop_front();
        }
        list.push_back(s);
    }

    /// Searches the list for a monitor sighting; returns the match, if any.
    pub fn monitor(&mut self, m: Sighting) -> Option<Record> {
        self.seen[CapturePoint::Monitor as usize][m.direction as usize] += 1;
        let list = &mut self.lists[m.direction as usize];
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
            self.matched[m.direction as usize] += 1;
            if let Some((usual, n)) = &mut self.usual {
                let seconds = (common.saturating_sub(r.at.0)) as f64 / SECOND as f64;
                *usual = if *n == 0 { seconds.abs() } else { 0.7 * *usual + 0.3 * seconds.abs() };
                *n += 1;
                if *n > TRAINING_MATCHES {
                    self.allowed = *usual as i64 + 4;
                }
            }
            return Some(Record {
                direction: m.direction,
                reference: r.at,
                monitor: m.at,
                length: r.length,
                flow: r.flow,
            });
        }
        None
    }

    /// Number of sightings in a direction at a point.
    pub fn seen(&self, point: CapturePoint, direction: Direction) -> u64 {
        self.seen[point as usize][direction as usize]
    }

    /// Number of matches in a direction.
    pub fn matched(&self, direction: Direction) -> u64 {
        self.matched[direction as usize]
    }
}

/// Pairs records with the loop of the CAIA tool over the two lists of records, each in the order of the
/// monitor's file. It makes the same pairs as [`Pairer`](super::Pairer), but a pair appears only once a later
/// OUT record has been seen, so the last pair of a file never appears.
#[derive(Debug, Default)]
pub struct CaiaPairer {
    current: Option<Record>,
    lists: [VecDeque<Record>; 2],
}

impl CaiaPairer {
    /// Adds the next record; returns a pair if one is complete.
    pub fn push(&mut self, r: Record) -> Option<SyntheticPair> {
        self.lists[r.direction as usize].push_back(r);
        let [outs, ins] = &mut self.lists;
        loop {
            if self.current.is_none() || ins.is_empty() && outs.len() > MAX_HELD / 64 {
                self.current = outs.pop_front();
            }
            let Some(out) = self.current else {
                // An IN record without an OUT record before it is skipped.
                ins.truncate(MAX_HELD / 64);
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
                return Some(SyntheticPair { out, back });
            }
        }
    }
}

#[cfg(test)]
mod tests;
