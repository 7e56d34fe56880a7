//! The lower convex hull of points (time, delay). Its edges run through packets that did not wait in a queue.

use crate::distribution::{extremes, lowest};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A point: time and delay, both in ns from an arbitrary origin.
pub type HullPoint = (i64, i64);

/// A sequence of points, mostly ordered by time.
pub trait PointSequence {
    /// Returns the number of points.
    fn count(&self) -> usize;
    /// Returns the k-th point.
    fn at(&self, k: usize) -> HullPoint;
    /// Returns the lowest delay of the points in `range`; `i64::MAX` without points.
    fn lowest(&self, range: Range<usize>) -> i64;
    /// Returns the earliest and the latest time of the points in `range`; `None` without points.
    fn times(&self, range: Range<usize>) -> Option<[i64; 2]>;
    /// Folds over the points in `range`.
    fn fold<B>(&self, range: Range<usize>, start: B, next: impl FnMut(B, HullPoint) -> B) -> B;
}

impl PointSequence for [HullPoint] {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&self, k: usize) -> HullPoint {
        self[k]
    }

    #[inline]
    fn lowest(&self, range: Range<usize>) -> i64 {
        lowest(self[range].iter().map(|p| p.1))
    }

    #[inline]
    fn times(&self, range: Range<usize>) -> Option<[i64; 2]> {
        extremes(self[range].iter().map(|p| p.0))
    }

    #[inline]
    fn fold<B>(&self, range: Range<usize>, start: B, next: impl FnMut(B, HullPoint) -> B) -> B {
        self[range].iter().copied().fold(start, next)
    }
}

/// Points with negated delays.
struct Mirrored<'a>(&'a [HullPoint]);

impl PointSequence for Mirrored<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn at(&self, k: usize) -> HullPoint {
        mirrored(self.0[k])
    }

    #[inline]
    fn lowest(&self, range: Range<usize>) -> i64 {
        lowest(self.0[range].iter().map(|p| mirrored(*p).1))
    }

    #[inline]
    fn times(&self, range: Range<usize>) -> Option<[i64; 2]> {
        self.0.times(range)
    }

    #[inline]
    fn fold<B>(&self, range: Range<usize>, start: B, next: impl FnMut(B, HullPoint) -> B) -> B {
        self.0[range].iter().map(|p| mirrored(*p)).fold(start, next)
    }
}

fn mirrored((t, d): HullPoint) -> HullPoint {
    (t, d.saturating_neg())
}

/// The lower hull of points in order of time. It stores only the vertices of the hull, a few dozen on real
/// paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hull(Vec<HullPoint>);

/// Minimum number of points for the two-step search; among fewer points, all are examined.
const MIN_SIFTED_POINTS: usize = 1024;

impl Hull {
    /// Adds a point, whose time must not be before that of the last one. Of several points with the same time, the
    /// lowest counts.
    #[inline]
    pub fn push(&mut self, point: HullPoint) {
        if let Some(&last) = self.0.last()
            && last.0 == point.0
        {
            if point.1 >= last.1 {
                return;
            }
            self.0.pop();
        }
        while let [.., a, b] = self.0[..]
            && !turns_left(a, b, point)
        {
            self.0.pop();
        }
        self.0.push(point);
    }

    /// Adds the points in `range`, in any order; fast if most of them are in order of time.
    pub fn add(&mut self, points: &(impl PointSequence + ?Sized), range: Range<usize>) {
        let mut some = Vec::new();
        if range.len() < MIN_SIFTED_POINTS {
            points.fold(range, (), |(), point| some.push(point));
        } else {
            candidates(points, range, |point| some.push(point));
        }
        let follow = |last: &HullPoint| some.first().is_none_or(|first| last.0 <= first.0);
        if !self.0.last().is_none_or(follow) || !some.is_sorted_by_key(|p| p.0) {
            some.append(&mut self.0);
            some.sort_unstable();
        }
        some.into_iter().for_each(|point| self.push(point));
    }

    /// Adds `points` to this hull, and their mirror images to `upper`, which is the hull of negated delays.
    pub fn add_to_both(&mut self, upper: &mut Hull, points: &[HullPoint]) {
        self.add(points, 0..points.len());
        upper.add(&Mirrored(points), 0..points.len());
    }

    /// Returns true if these can be the vertices of a hull. Checks only the properties that computations rely
    /// on.
    pub(crate) fn is_possible(&self) -> bool {
        self.0.is_sorted_by(|a, b| a.0 < b.0)
    }

    /// Returns the vertices, ascending by time.
    pub fn vertices(&self) -> &[HullPoint] {
        &self.0
    }

    /// Adds the hull of later points.
    pub fn merge(&mut self, next: &Hull) {
        next.0.iter().for_each(|&p| self.push(p));
    }

    /// Returns the edge whose span contains the mean time `sum/n` (half-open; the last edge is closed). It is the line
    /// below all points with the smallest sum of distances: the linear programme of Moon, Skelly and Towsley. `None`
    /// below two vertices.
    pub fn edge(&self, sum: i128, n: u64) -> Option<[HullPoint; 2]> {
        let beyond = |t: i64| i128::from(t).saturating_mul(n.into()) > sum;
        let last = self.0.len().checked_sub(1).filter(|last| *last > 0)?;
        let end = self.0.iter().position(|p| beyond(p.0)).unwrap_or(last).max(1);
        Some([self.0[end - 1], self.0[end]])
    }
}

/// Calls `each` for all points in `range` that can be vertices of their hull, and for few other points. A
/// rough hull is built from the lowest points of large groups; chunks that lie above it contain no vertex.
fn candidates(points: &(impl PointSequence + ?Sized), range: Range<usize>, mut each: impl FnMut(HullPoint)) {
    const CHUNK: usize = 32;
    let Some(last) = range.clone().next_back() else { return };
    let chunk = |c: usize| {
        let from = range.start + c * CHUNK;
        from..range.end.min(from + CHUNK)
    };
    let lowest: Vec<i64> = (0..range.len().div_ceil(CHUNK)).map(|c| points.lowest(chunk(c))).collect();
    let in_group = (lowest.len() / 64).clamp(1, 64);
    let mut low: Vec<HullPoint> = vec![points.at(range.start)];
    for (g, group) in lowest.chunks(in_group).enumerate() {
        let (mut c, mut least) = (0, i64::MAX);
        for (k, lowest) in group.iter().enumerate() {
            if *lowest < least {
                (c, least) = (k, *lowest);
            }
        }
        low.extend(chunk(g * in_group + c).map(|k| points.at(k)).find(|p| p.1 == least));
    }
    low.push(points.at(last));
    if !low.is_sorted_by_key(|p| p.0) {
        low.sort_unstable();
    }
    let mut rough = Hull::default();
    low.into_iter().for_each(|point| rough.push(point));
    let mut edges = rough.0.windows(2).peekable();
    for (c, low) in lowest.iter().enumerate() {
        let Some([from, to]) = points.times(chunk(c)) else { continue };
        while edges.next_if(|edge| edge[1].0 < from).is_some() {}
        let above = |edge: &&[HullPoint]| {
            let (a, b) = (edge[0], edge[1]);
            let below = |t: i64| turns_left(a, (t, *low), b);
            a.0 < from && to < b.0 && !below(from) && !below(to)
        };
        if !edges.peek().is_some_and(above) {
            points.fold(chunk(c), (), |(), point| each(point));
        }
    }
}

/// Returns true if a → b → c turns strictly left, that is, if b is a vertex of the lower hull.
#[inline]
fn turns_left(a: HullPoint, b: HullPoint, c: HullPoint) -> bool {
    let steps = (b.0.checked_sub(a.0), b.1.checked_sub(a.1), c.0.checked_sub(a.0), c.1.checked_sub(a.1));
    if let (Some(bx), Some(by), Some(cx), Some(cy)) = steps {
        let product = |x: i64, y: i64| i128::from(x) * i128::from(y);
        return product(bx, cy) > product(by, cx);
    }
    let difference = |x: i64, y: i64| i128::from(x) - i128::from(y);
    let (bx, by) = (difference(b.0, a.0), difference(b.1, a.1));
    let (cx, cy) = (difference(c.0, a.0), difference(c.1, a.1));
    bx.saturating_mul(cy) > by.saturating_mul(cx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hull(points: &[HullPoint]) -> Hull {
        let mut hull = Hull::default();
        points.iter().for_each(|&p| hull.push(p));
        hull
    }

    #[test]
    fn the_worked_example() {
        // metrics §16, V19.
        let points = [
            (0, 1000),
            (10, 1004),
            (20, 1001),
            (30, 1010),
            (40, 1003),
            (50, 1003),
            (60, 1020),
            (70, 1004),
            (80, 1005),
            (90, 1030),
            (100, 1006),
        ];
        let h = hull(&points);
        assert_eq!(h.vertices(), [(0, 1000), (20, 1001), (70, 1004), (100, 1006)]);
        assert_eq!(h.edge(550, 11), Some([(20, 1001), (70, 1004)]));
    }

    #[test]
    fn edges() {
        assert_eq!(hull(&[]).vertices().len(), 0);
        assert_eq!(hull(&[(3, 4), (3, 2), (3, 9)]).vertices(), [(3, 2)]);
        let wide = [(i64::MIN, i64::MAX), (0, i64::MIN), (i64::MAX, i64::MAX)];
        assert_eq!(hull(&wide).vertices(), wide);
    }

    #[test]
    fn the_edge_below_the_mean_time() {
        let h = hull(&[(0, 0), (10, -5), (20, 0)]);
        assert_eq!(h.edge(0, 3), Some([(0, 0), (10, -5)]), "at the first vertex");
        assert_eq!(h.edge(29, 3), Some([(0, 0), (10, -5)]));
        assert_eq!(h.edge(30, 3), Some([(10, -5), (20, 0)]), "a vertex belongs to the edge after it");
        assert_eq!(h.edge(60, 3), Some([(10, -5), (20, 0)]), "the last edge is closed");
        assert_eq!((hull(&[(3, 4)]).edge(3, 1), hull(&[]).edge(0, 0)), (None, None));
    }

    #[test]
    fn points_on_a_line_are_no_vertices() {
        assert_eq!(hull(&[(0, 0), (1, 1), (2, 2), (3, 0)]).vertices(), [(0, 0), (3, 0)]);
        assert_eq!(hull(&[(0, 0), (1, 1), (2, 2)]).vertices(), [(0, 0), (2, 2)]);
        // Differences that do not fit into 64 bits.
        let far = [(i64::MIN, i64::MIN), (0, 0), (i64::MAX, i64::MAX)];
        assert_eq!(hull(&far).vertices(), [far[0], far[2]]);
        // A single difference that does not fit is enough: b's delay, or c's time.
        assert!(!turns_left((0, i64::MIN), (1, 0), (2, -1)));
        assert!(!turns_left((i64::MIN, 0), (-1, 10), (0, 5)));
    }

    proptest! {
        #[test]
        fn leaving_out_what_lies_above_changes_nothing(
            steps in prop::collection::vec((0i64..4, -50i64..50), 1..300),
            times in 1usize..30,
            bend in -3i64..3,
            apart in 1usize..200,
        ) {
            let (mut t, mut d) = (0, 0);
            let points: Vec<HullPoint> = (0..times as i64)
                .flat_map(|round| steps.iter().map(move |(time, delay)| (time, delay + bend * round * round)))
                .map(|(time, delay)| {
                    (t, d) = (t + time, d + delay / 2);
                    (t, d + delay.pow(2))
                })
                .collect();
            // Points at the same time are sorted by delay, as everywhere.
            let mut points = points;
            points.sort_unstable();
            for range in [0..points.len(), points.len() / 3..points.len(), 0..points.len() / 7] {
                let mut thinned = Hull::default();
                thinned.add(&points[..], range.clone());
                prop_assert_eq!(&thinned, &hull(&points[range]));
            }
            // The same points with some reordering, in two parts.
            let mut late = points.clone();
            (0..points.len().saturating_sub(5)).step_by(apart).for_each(|k| late[k..k + 4].rotate_left(1));
            let (mut lower, mut upper) = (Hull::default(), Hull::default());
            for part in late.chunks(late.len() / 2 + 1) {
                lower.add_to_both(&mut upper, part);
            }
            prop_assert_eq!(&lower, &hull(&points));
            points.iter_mut().for_each(|p| *p = mirrored(*p));
            points.sort_unstable();
            prop_assert_eq!(&upper, &hull(&points));
        }

        #[test]
        fn lies_below_and_merges(mut points in prop::collection::vec((0i64..200, -50i64..50), 2..60), cut in 0usize..60) {
            points.sort_unstable();
            let whole = hull(&points);
            for w in whole.vertices().windows(2) {
                for p in &points {
                    if (w[0].0..=w[1].0).contains(&p.0) {
                        prop_assert!((w[1].0 - w[0].0) * (p.1 - w[0].1) >= (w[1].1 - w[0].1) * (p.0 - w[0].0));
                    }
                }
            }
            let cut = cut.min(points.len());
            let mut halves = hull(&points[..cut]);
            halves.merge(&hull(&points[cut..]));
            prop_assert_eq!(halves, whole);
        }
    }

    #[test]
    fn times_of_a_state_ascend() {
        assert!(Hull(vec![]).is_possible() && Hull(vec![(3, 9), (4, 2)]).is_possible());
        assert!(!Hull(vec![(3, 9), (3, 2)]).is_possible() && !Hull(vec![(4, 9), (3, 2)]).is_possible());
    }
}
