//! Limits that stored data must keep to be the state of an analysis.

/// More rows than any test has: sums of counts below this cannot overflow.
pub(crate) const MOST_ROWS: u64 = 1 << 48;

/// Why stored data cannot be the state of an analysis.
#[derive(Debug)]
pub(crate) struct Impossible(pub &'static str);

pub(super) fn require(holds: bool, otherwise: &'static str) -> Result<(), Impossible> {
    if holds { Ok(()) } else { Err(Impossible(otherwise)) }
}
