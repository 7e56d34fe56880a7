//! Compares two clocks by the smallest delays in both directions: relative skew and offset.
//!
//! The raw delay in a direction is never below its smallest delay plus the clock offset. Its lower convex
//! hull over time therefore follows that offset. The hull's edge over the middle of the capture gives
//! the skew, and the edges of both directions the offset, with an error of at most half the smallest round
//! trip.

use super::Record;
use core::cmp::Ordering;
use jitlat_core::clock::ClockProbe;
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};
use serde::Serialize;

/// Minimum number of packets in a direction for an estimate of the skew. In fewer packets, a change of the delay is
/// more likely a queue.
const MIN_SKEW_PACKETS: u64 = 10;

/// Maximum number of vertices of a hull.
const MAX_POINTS: usize = 1 << 16;

/// Lower convex hull of one direction's raw delays, updated as they arrive; O(1) amortised.
#[derive(Clone, Debug, Default)]
struct DelayHull {
    points: Vec<(i64, i64)>,
    /// Number of packets added.
    packets: u64,
}

impl DelayHull {
    fn push(&mut self, t: i64, y: i64) {
        self.packets += 1;
        match self.points.last().map(|p| (t.cmp(&p.0), y.cmp(&p.1))) {
            // Reordered at the source: the hull needs ascending times.
            Some((Ordering::Less, _)) | Some((Ordering::Equal, Ordering::Equal | Ordering::Greater)) => {
                return;
            }
            Some((Ordering::Equal, Ordering::Less)) => drop(self.points.pop()),
            Some((Ordering::Greater, _)) | None => {}
        }
        while let [.., a, b] = self.points[..] {
            let cross = difference(b.0, a.0) * difference(y, a.1) - difference(b.1, a.1) * difference(t, a.0);
            if cross > 0 {
                break;
            }
            self.points.pop();
        }
        if self.points.len() >= MAX_POINTS {
            // Only a contrived capture has this many vertices: keep every second one.
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.points.push((t, y));
    }

    /// Returns the slope of the hull's edge at time `t`; `None` if the hull has no edge there.
    fn slope(&self, t: i64) -> Option<f64> {
        let i = self.points.partition_point(|p| p.0 <= t);
        let (a, b) = (self.points.get(i.checked_sub(1)?)?, self.points.get(i)?);
        Some(difference(b.1, a.1) as f64 / difference(b.0, a.0) as f64)
    }

    /// Returns the delay at time 0 of the highest line with `slope` that is above no point; `None` without points.
    fn least(&self, slope: f64) -> Option<f64> {
        self.points.iter().map(|p| p.1 as f64 - slope * p.0 as f64).reduce(f64::min)
    }

    fn span(&self) -> Option<(i64, i64)> {
        Some((self.points.first()?.0, self.points.last()?.0))
    }
}

/// Returns `a − b`, limited to 63 bits and a sign. Real times differ by less, and the difference of products of two
/// such values fits into 128 bits.
#[inline]
fn difference(a: i64, b: i64) -> i128 {
    a.saturating_sub(b).max(-i64::MAX).into()
}

fn middle(from: i64, to: i64) -> i64 {
    from / 2 + to / 2
}

/// Compares the clocks by the delays in both directions.
#[derive(Clone, Debug, Default)]
pub struct ClockComparison {
    hulls: [DelayHull; 2],
    /// Times of the first record. All other times are stored relative to these, so that no precision is lost.
    origin: Option<(i64, i64)>,
}

/// Offset and skew of the monitor's clock relative to the reference clock. Values that are unknown are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockDifference {
    /// Monitor clock minus reference clock in the middle of the capture, in ns.
    pub offset_ns: Option<f64>,
    /// Largest error of the offset, in ns: half the smallest round trip.
    pub offset_bound_ns: Option<f64>,
    /// Skew of the monitor's clock in parts per million, positive if it runs fast. 0 if the two directions
    /// disagree even about the sign, for example because packets become larger during the capture.
    pub skew_ppm: Option<f64>,
    /// Skew estimated from OUT packets alone and from IN packets alone, in parts per million; `None` for a direction
    /// with fewer than ten packets.
    pub skew_ppm_by_way: [Option<f64>; 2],
    /// Time on the reference clock for which the offset is given.
    pub at: Option<WallTime>,
}

impl ClockDifference {
    /// Returns the probe that would have shown this difference at `at` (reference clock), like the probes of active
    /// instruments; `None` if offset or error is unknown.
    pub fn probe(&self, at: WallTime) -> Option<ClockProbe> {
        let (offset, rtt) = (self.offset_ns?, 2.0 * self.offset_bound_ns?);
        let drift = self.skew_ppm.unwrap_or(0.0) * 1e-6 * at.0.saturating_sub(self.at?.0) as f64;
        let sent = at - Span(rtt as i64);
        let there = at - Span((rtt / 2.0) as i64) + Span((offset + drift).round() as i64);
        Some(ClockProbe { sent, arrived: there, answered: there, returned: at })
    }
}

impl ClockComparison {
    /// Adds one matched packet.
    pub fn push(&mut self, r: &Record) {
        let (r0, m0) = *self.origin.get_or_insert((r.reference.0, r.monitor.0));
        let (tr, tm) = (r.reference.0.saturating_sub(r0), r.monitor.0.saturating_sub(m0));
        match r.direction {
            Direction::Up => self.hulls[0].push(tr, tm.saturating_sub(tr)),
            // On the reference clock as well, so that both edges are evaluated at the same time.
            Direction::Down => self.hulls[1].push(tr, tr.saturating_sub(tm)),
        }
    }

    /// Returns the clock offset and skew estimated from the packets so far.
    pub fn difference(&self) -> ClockDifference {
        let Some((r0, m0)) = self.origin else { return ClockDifference::default() };
        let spans = self.hulls.each_ref().map(DelayHull::span);
        let overlap = match spans {
            [Some(a), Some(b)] => Some((a.0.max(b.0), a.1.min(b.1))).filter(|(x, y)| x < y),
            _ => None,
        };
        let by_direction = [0, 1].map(|w| {
            let (from, to) = spans[w].filter(|_| self.hulls[w].packets >= MIN_SKEW_PACKETS)?;
            let slope = self.hulls[w].slope(middle(from, to))?;
            Some(if w == 0 { slope } else { -slope } * 1e6)
        });
        let least = |ppm: &[Option<f64>; 2]| match *ppm {
            // Slopes of opposite sign mean that both directions became slower: the skew lies between them.
            [Some(a), Some(b)] if a * b < 0.0 => Some(0.0),
            // Queues only add delay and make the slope of a loaded direction too large, so the flatter hull
            // is the better one.
            [Some(a), Some(b)] => Some(if a.abs() <= b.abs() { a } else { b }),
            [a, b] => a.or(b),
        };
        let mut d = ClockDifference {
            skew_ppm: least(&by_direction),
            skew_ppm_by_way: by_direction,
            ..Default::default()
        };
        if let Some((from, to)) = overlap {
            let t = middle(from, to);
            // Smallest delay of each direction, moved along the skew, so that a temporary queue does not
            // affect the offset.
            let slope = d.skew_ppm.unwrap_or(0.0) * 1e-6;
            if let (Some(a), Some(b)) = (self.hulls[0].least(slope), self.hulls[1].least(-slope)) {
                d.at = Some(WallTime(r0.saturating_add(t)));
                d.offset_ns = Some((m0.saturating_sub(r0)) as f64 + (a - b) / 2.0 + slope * t as f64);
                d.offset_bound_ns = Some(((a + b) / 2.0).max(0.0));
            }
        }
        d
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::time::SECOND;

    /// The first packets of a calm path, alternately out and back, with clocks that agree.
    fn few(packets: i64) -> ClockDifference {
        let mut c = ClockComparison::default();
        for i in 0..packets {
            let (direction, sent) = if i % 2 == 0 { (Direction::Up, 0) } else { (Direction::Down, 1) };
            let start = 1_700_000_000 * SECOND + i * 20_000_000;
            let times = [start, start + 5_000_000 + i * 1000];
            let (reference, monitor) = (WallTime(times[sent]), WallTime(times[1 - sent]));
            c.push(&Record { direction, reference, monitor, length: 1, flow: 0 });
        }
        c.difference()
    }

    #[test]
    fn a_skew_needs_ten_packets_in_a_direction() {
        let of_two = few(2);
        assert_eq!((of_two.skew_ppm, of_two.skew_ppm_by_way), (None, [None, None]));
        assert_eq!(few(4).skew_ppm, None, "two packets each way: two delays that differ");
        assert_eq!(few(18).skew_ppm, None);
        assert!(few(20).skew_ppm_by_way.iter().all(Option::is_some));
        assert!(few(4).offset_ns.is_some(), "the offset does not need it");
    }

    fn clocks(ppm: i64, offset: i64, queue: impl Fn(i64) -> i64) -> ClockDifference {
        let mut c = ClockComparison::default();
        let monitor = |t: i64| 1_700_000_000 * SECOND + t + offset + t / 1_000_000 * ppm;
        let reference = |t: i64| 1_700_000_000 * SECOND + t;
        for i in 0..3000i64 {
            let t = i * 20_000_000;
            let noise = (i * 7919 % 97) * 10_000;
            let out = t + 12_000_000 + noise + queue(i);
            c.push(&Record {
                direction: Direction::Up,
                reference: WallTime(reference(t)),
                monitor: WallTime(monitor(out)),
                length: 1,
                flow: 0,
            });
            let back = t + 10_000_000 + 8_000_000 + noise;
            c.push(&Record {
                direction: Direction::Down,
                reference: WallTime(reference(back)),
                monitor: WallTime(monitor(t + 10_000_000)),
                length: 1,
                flow: 0,
            });
        }
        c.difference()
    }

    #[test]
    fn skew_and_offset_of_a_drifting_clock() {
        for (ppm, offset) in [(0, 0), (40, 37_500_000_000), (-20, -3 * SECOND)] {
            let d = clocks(ppm, offset, |_| 0);
            assert!((d.skew_ppm.unwrap() - ppm as f64).abs() < 0.1, "{d:?}");
            let truth = offset as f64 + 30.0 * ppm as f64 * 1000.0; // in the middle, after 30 s
            let half_the_asymmetry = 2e6;
            assert!((d.offset_ns.unwrap() - truth - half_the_asymmetry).abs() < 0.1e6, "{d:?} {truth}");
            assert!(
                (d.offset_ns.unwrap() - truth).abs() <= d.offset_bound_ns.unwrap() + 1.0,
                "{d:?} {truth}"
            );
            assert!((d.offset_bound_ns.unwrap() - 10e6).abs() < 0.2e6, "{d:?}");
        }
    }

    #[test]
    fn packets_that_become_larger_do_not_pass_for_skew() {
        let mut c = ClockComparison::default();
        for i in 0..3000i64 {
            // In both directions the delay grows by 3 ms per thousand packets.
            let (t, longer) = (i * 20_000_000, i / 1000 * 3_000_000);
            let record = |direction, reference, monitor| Record {
                direction,
                reference: WallTime(reference),
                monitor: WallTime(monitor),
                length: 1,
                flow: 0,
            };
            c.push(&record(Direction::Up, t, t + 5_000_000 + longer));
            c.push(&record(Direction::Down, t + 15_000_000 + longer, t + 10_000_000));
        }
        let d = c.difference();
        let [out, back] = d.skew_ppm_by_way.map(Option::unwrap);
        assert!(out > 50.0 && back < -50.0 && d.skew_ppm == Some(0.0), "{d:?}");
    }

    #[test]
    fn a_standing_queue_one_way_does_not_pass_for_skew() {
        let d = clocks(0, 0, |i| i * 100_000);
        assert!(d.skew_ppm.unwrap().abs() < 0.1 && d.skew_ppm_by_way[0].unwrap() > 1000.0, "{d:?}");
    }

    #[test]
    fn too_little_is_not_a_figure() {
        assert_eq!(ClockComparison::default().difference(), ClockDifference::default());
        // One packet in each direction, at the same time.
        let mut c = ClockComparison::default();
        for direction in Direction::BOTH {
            c.push(&Record { direction, reference: WallTime(7), monitor: WallTime(9), length: 1, flow: 0 });
        }
        assert_eq!(c.difference(), ClockDifference::default());
    }

    fn hull(points: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let mut h = DelayHull::default();
        points.iter().for_each(|p| h.push(p.0, p.1));
        h.points
    }

    #[test]
    fn a_hull_is_below_all_points_and_convex() {
        assert_eq!(hull(&[(0, 5), (10, 1), (20, 4), (30, 3)]), [(0, 5), (10, 1), (30, 3)]);
        assert_eq!(hull(&[(0, 3), (10, 3), (20, 3)]), [(0, 3), (20, 3)], "what lies on a line is no corner");
        assert_eq!(hull(&[(0, 5), (0, 7), (0, 5)]), [(0, 5)], "the least of one time");
        assert_eq!(hull(&[(0, 5), (10, 9), (10, 2)]), [(0, 5), (10, 2)]);
        assert_eq!(hull(&[(0, 5), (10, 2), (9, 0), (10, 3)]), [(0, 5), (10, 2)], "time does not go back");
    }

    #[test]
    fn a_hull_of_too_many_corners_keeps_every_second_one() {
        let mut h = DelayHull::default();
        for t in 0..=MAX_POINTS as i64 {
            h.push(t, t * t);
        }
        let first: Vec<_> = h.points.iter().take(3).map(|p| p.0).collect();
        assert_eq!((h.points.len(), first), (MAX_POINTS / 2 + 1, vec![0, 2, 4]));
        assert_eq!(h.points.last().map(|p| p.0), Some(MAX_POINTS as i64));
    }

    #[test]
    fn a_probe_would_have_shown_the_difference() {
        assert_eq!((middle(10, 30), middle(-30, 10), middle(i64::MIN, i64::MAX - 1)), (20, -10, -1));
        let d = ClockDifference {
            offset_ns: Some(1000.0),
            offset_bound_ns: Some(500.0),
            skew_ppm: Some(10.0),
            at: Some(WallTime(0)),
            ..ClockDifference::default()
        };
        // One second later the monitor's clock is another 10 µs ahead.
        let there = WallTime(SECOND - 500 + 1000 + 10_000);
        let shown = ClockProbe {
            sent: WallTime(SECOND - 1000),
            arrived: there,
            answered: there,
            returned: WallTime(SECOND),
        };
        assert_eq!(d.probe(WallTime(SECOND)), Some(shown));
    }
}
