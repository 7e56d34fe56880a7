//! Helper for tests: [`first`] finds a threshold.

pub const MS: i64 = 1_000_000;

/// Returns the first number in `range` for which `holds` is true; it must be false for all smaller numbers and true for
/// all larger ones. Panics if the range contains no threshold because `holds` is true, or false, for all of it.
pub fn first(range: core::ops::RangeInclusive<i64>, holds: impl Fn(i64) -> bool) -> i64 {
    let (mut below, mut from) = (*range.start(), *range.end());
    assert!(!holds(below), "true for {below} already");
    assert!(holds(from), "false for {from} still");
    while from - below > 1 {
        let middle = below + (from - below) / 2;
        if holds(middle) { from = middle } else { below = middle }
    }
    from
}
