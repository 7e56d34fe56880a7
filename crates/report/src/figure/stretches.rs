//! [`TimeBins`]: one value per time bin, in constant size. The width of the bins doubles whenever the time
//! exceeds them.

use std::marker::PhantomData;

/// Maximum number of bins.
const MAX_BINS: usize = 512;

/// A way to combine the values in a bin.
pub trait Join {
    /// Combines two values.
    fn join(a: i64, b: i64) -> i64;
}

/// Combines values into their sum.
#[derive(Clone, Copy, Debug)]
pub struct SumJoin;
/// Combines values into the largest one.
#[derive(Clone, Copy, Debug)]
pub struct MaxJoin;
/// Combines values into the smallest one.
#[derive(Clone, Copy, Debug)]
pub struct MinJoin;

impl Join for SumJoin {
    fn join(a: i64, b: i64) -> i64 {
        a.saturating_add(b)
    }
}

impl Join for MaxJoin {
    fn join(a: i64, b: i64) -> i64 {
        a.max(b)
    }
}

impl Join for MinJoin {
    fn join(a: i64, b: i64) -> i64 {
        a.min(b)
    }
}

/// A value for each time bin; see the documentation of the module.
#[derive(Clone, Debug)]
pub struct TimeBins<J> {
    width: i64,
    values: Vec<Option<i64>>,
    how: PhantomData<J>,
}

impl<J: Join> TimeBins<J> {
    /// Creates bins that are initially `width` ns wide.
    pub fn new(width: i64) -> TimeBins<J> {
        TimeBins { width: width.max(1), values: Vec::new(), how: PhantomData }
    }

    /// Adds a value at `x` ns; times before 0 are ignored.
    #[inline]
    pub fn add(&mut self, x: i64, value: i64) {
        if x < 0 {
            return;
        }
        while x / self.width >= MAX_BINS as i64 {
            self.values =
                self.values.chunks(2).map(|c| c.iter().flatten().copied().reduce(J::join)).collect();
            self.width = self.width.saturating_mul(2);
        }
        let i = (x / self.width) as usize;
        if self.values.len() <= i {
            self.values.resize(i + 1, None);
        }
        let slot = &mut self.values[i];
        *slot = Some(slot.map_or(value, |v| J::join(v, value)));
    }

    /// Width of a bin, in ns.
    pub fn width(&self) -> i64 {
        self.width
    }

    /// Returns the start and the value of every bin; `None` for a bin without a value.
    pub fn all(&self) -> impl Iterator<Item = (f64, Option<i64>)> + '_ {
        self.values.iter().enumerate().map(|(i, v)| (i as f64 * self.width as f64, *v))
    }

    /// Returns the middle and the value of every bin that has a value.
    pub fn values(&self) -> Vec<(f64, i64)> {
        self.all().filter_map(|(x, v)| Some((x + self.width as f64 / 2.0, v?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_stretches_double() {
        let (mut sum, mut most) = (TimeBins::<SumJoin>::new(10), TimeBins::<MaxJoin>::new(10));
        for i in 0..100_000i64 {
            sum.add(i * 7, 1);
            most.add(i * 7, i);
        }
        assert_eq!(sum.values().iter().map(|v| v.1).sum::<i64>(), 100_000);
        assert!(sum.values.len() <= MAX_BINS && most.values().is_sorted_by_key(|v| v.1));
        sum.add(i64::MAX, 1);
        sum.add(-5, 1);
        assert!(sum.values.len() <= MAX_BINS);
    }
}
