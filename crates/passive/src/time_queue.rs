//! [`TimeQueue`]: queue of items sorted by time, which are added nearly in that order.

use jitlat_core::time::WallTime;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of items that are moved to insert one; an item that belongs farther from both ends is stored in
/// `late`.
const MAX_MOVE: usize = 64;

/// A queue that needs constant time while items arrive in order, and at most logarithmic time otherwise. Items
/// with equal times leave in the order they arrived, except those that were late by many positions.
#[derive(Clone, Debug)]
pub struct TimeQueue<T> {
    ready: VecDeque<(WallTime, T)>,
    /// Items that belong more than [`MAX_MOVE`] positions from both ends of `ready`, by time and order of arrival.
    late: BTreeMap<(WallTime, u64), T>,
    came_late: u64,
}

impl<T> Default for TimeQueue<T> {
    fn default() -> TimeQueue<T> {
        TimeQueue { ready: VecDeque::new(), late: BTreeMap::new(), came_late: 0 }
    }
}

impl<T> TimeQueue<T> {
    /// Adds an item.
    #[inline]
    pub fn push(&mut self, at: WallTime, item: T) {
        if self.ready.back().is_none_or(|last| last.0 <= at) {
            self.ready.push_back((at, item));
        } else {
            self.insert(at, item);
        }
    }

    #[cold]
    fn insert(&mut self, at: WallTime, item: T) {
        let i = self.ready.partition_point(|r| r.0 <= at);
        if self.ready.len() - i <= MAX_MOVE || i <= MAX_MOVE {
            self.ready.insert(i, (at, item));
        } else {
            self.late.insert((at, self.came_late), item);
            self.came_late += 1;
        }
    }

    /// Returns the earliest item and its time; `None` if the queue is empty.
    #[inline]
    pub fn first(&self) -> Option<(WallTime, &T)> {
        let ready = self.ready.front().map(|(at, item)| (*at, item));
        match self.late.first_key_value() {
            Some(((at, _), item)) if ready.is_none_or(|r| *at < r.0) => Some((*at, item)),
            _ => ready,
        }
    }

    /// Removes and returns the earliest item; `None` if the queue is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<(WallTime, T)> {
        let next = self.ready.front().map(|r| r.0);
        match self.late.first_entry() {
            Some(late) if next.is_none_or(|next| late.key().0 < next) => {
                let ((at, _), item) = late.remove_entry();
                Some((at, item))
            }
            _ => self.ready.pop_front(),
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.ready.len() + self.late.len()
    }

    /// True if the queue has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn items_far_behind_are_kept_apart_and_leave_in_turn() {
        let mut q = TimeQueue::default();
        (0..1000).for_each(|i| q.push(WallTime(i), i));
        [500, 500, 999].into_iter().for_each(|at| q.push(WallTime(at), at));
        assert_eq!((q.late.len(), q.len()), (2, 1003));
        let left: Vec<i64> = std::iter::from_fn(|| q.pop()).map(|(_, i)| i).collect();
        assert!(left.is_sorted() && left.len() == 1003 && q.is_empty());
    }

    #[test]
    fn the_first_is_what_leaves_next() {
        let mut q = TimeQueue::default();
        assert!(q.is_empty() && q.first().is_none());
        (0..1000).for_each(|i| q.push(WallTime(2 * i), i));
        [501, 501, 500].into_iter().for_each(|at| q.push(WallTime(at), -at));
        assert!(!q.is_empty() && q.late.len() == 3);
        let mut last = (WallTime(i64::MIN), 0);
        while let Some((at, item)) = q.first().map(|(at, item)| (at, *item)) {
            assert_eq!(q.pop(), Some((at, item)));
            assert!(last.0 <= at);
            if last.0 == at {
                assert_eq!((last.1, item), if at == WallTime(500) { (250, -500) } else { (-501, -501) });
            }
            last = (at, item);
        }
        assert!(q.is_empty());
    }

    #[test]
    fn an_item_is_moved_so_many_positions_and_no_more() {
        let late = |behind: i64| {
            let mut q = TimeQueue::default();
            (0..1000).for_each(|i| q.push(WallTime(2 * i), i));
            q.push(WallTime(2 * (1000 - behind) - 1), -1);
            q.late.len()
        };
        let moved = MAX_MOVE as i64;
        assert_eq!([1, moved, moved + 1, 999 - moved, 1000 - moved, 999].map(late), [0, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn equal_times_leave_as_they_came() {
        let mut q = TimeQueue::default();
        [(1, 'a'), (2, 'b'), (1, 'c'), (2, 'd')].into_iter().for_each(|(at, c)| q.push(WallTime(at), c));
        assert_eq!(q.first(), Some((WallTime(1), &'a')));
        let left: String = std::iter::from_fn(|| q.pop()).map(|(_, c)| c).collect();
        assert_eq!(left, "acbd");
    }

    #[test]
    fn many_in_the_worst_order_take_no_time() {
        // Each item of the second half belongs into the middle of the first half.
        let mut q = TimeQueue::default();
        (0..100_000).for_each(|i| q.push(WallTime(1_000_000 + i), ()));
        (0..100_000).for_each(|i| q.push(WallTime(1_050_000 - i % 2), ()));
        let mut last = WallTime(0);
        while let Some((at, ())) = q.pop() {
            assert!(at >= last);
            last = at;
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_leaves_sorted(
            list in prop::collection::vec((0i64..400, any::<bool>()), 0..600),
        ) {
            let (mut q, mut truth) = (TimeQueue::default(), BTreeMap::<i64, usize>::new());
            for (at, pop) in list {
                q.push(WallTime(at), at);
                *truth.entry(at).or_default() += 1;
                if pop {
                    let least = truth.first_key_value().map(|(at, _)| *at);
                    prop_assert_eq!(q.first().map(|f| *f.1), least);
                    prop_assert_eq!(q.pop().map(|p| p.0.0), least);
                    let mut entry = truth.first_entry().unwrap();
                    *entry.get_mut() -= 1;
                    if *entry.get() == 0 {
                        entry.remove();
                    }
                }
                prop_assert_eq!(q.len(), truth.values().sum::<usize>());
            }
        }
    }
}
