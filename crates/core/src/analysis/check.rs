//! Plausibility limits for stored states of an analysis.

/// Maximum number of rows. It is larger than that of any test, but small enough that sums of row counts cannot
/// overflow.
pub(crate) const MOST_ROWS: u64 = 1 << 48;

/// Reason why stored data cannot be the state of an analysis.
#[derive(Debug)]
pub(crate) struct Impossible(pub &'static str);

pub(super) fn require(holds: bool, otherwise: &'static str) -> Result<(), Impossible> {
    if holds { Ok(()) } else { Err(Impossible(otherwise)) }
}
