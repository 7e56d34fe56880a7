//! Helper shared by tests: [`first`] finds a boundary.

pub const MS: i64 = 1_000_000;

/// Returns the first number of `range` for which `holds` is true; it must be true for all following numbers.
/// Panics if `holds` is true or false for the whole range, because there is no boundary then.
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
