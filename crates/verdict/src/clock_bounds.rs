//! Bounds of one-way delays by the clocks: how far apart they may be, and how large an error remains.

use jitlat_core::metrics::clock::ClockEstimate;
use jitlat_core::session::Session;

/// Returns true if sender and receiver have the same address, so that one clock stamps both ends.
pub(super) fn is_one_host(session: &Session) -> bool {
    session.src.zip(session.dst).is_some_and(|(src, dst)| src == dst)
}

/// Correction of one-way delays, and its largest error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BoundedClock {
    /// Value to subtract from each raw delay, in ns.
    pub correction_ns: i64,
    /// Largest error of a corrected delay, in ns.
    pub bound_ns: f64,
}

/// Returns the correction of the one-way delays of a stream whose smallest raw delay is `min`; `None` if the clocks do
/// not bound them. Assumes that no clock was set during the stream.
pub(super) fn bounded_clock(min: i64, clock: &ClockEstimate) -> Option<BoundedClock> {
    match (clock.correction_ns, clock.bound_ns) {
        (Some(_), _) if !is_bounded(clock) => None,
        (Some(correction), Some(bound_ns)) if clock.direction_known => {
            Some(BoundedClock { correction_ns: correction, bound_ns })
        }
        // The smallest delay of either direction is between 0 and the smallest round trip.
        (Some(_), _) => clock.min_rtt_ns.map(|rtt| BoundedClock {
            correction_ns: min.saturating_sub(rtt / 2),
            bound_ns: rtt as f64 / 2.0,
        }),
        (None, _) => clock
            .synchronised()
            .filter(|error| *error < MAX_CLOCK_ERROR_NS)
            .map(|error| BoundedClock { correction_ns: 0, bound_ns: error as f64 }),
    }
}

/// Returns the smallest one-way delay, in ns, of a stream whose smallest raw delay is `min`; `None` if the clocks do
/// not bound it. `was_set` is true if a clock was set during the stream.
pub(super) fn smallest_one_way(
    min: i64,
    clock: &ClockEstimate,
    round_trip: bool,
    was_set: bool,
) -> Option<f64> {
    match clock.correction_ns {
        // A one-way delay is between 0 and the round trip, so the error of assuming half of it is at most as large.
        _ if round_trip => Some(min as f64 / 2.0),
        Some(_) if !is_bounded(clock) => None,
        Some(correction) if clock.direction_known && !was_set => Some(min.saturating_sub(correction) as f64),
        Some(_) => clock.min_rtt_ns.map(|rtt| rtt as f64 / 2.0),
        None if was_set => None,
        None => clock.synchronised().filter(|error| *error < MAX_CLOCK_ERROR_NS).map(|_| min as f64),
    }
}

/// Returns the largest error, in ns, by which the clocks change the one-way delays of a stream; 0 for round trips and
/// for streams within one host.
pub(super) fn error_of_one_way(clock: &ClockEstimate, round_trip: bool, one_host: bool) -> f64 {
    match clock.correction_ns {
        _ if round_trip || one_host => 0.0,
        Some(_) => clock.bound_ns.unwrap_or(0.0),
        None => clock.synchronised().map_or(0.0, |error| error as f64),
    }
}

/// Returns true if the clock probes bound one-way delays. Bounds up to [`MAX_PROBE_BOUND_NS`] always do. With a larger
/// bound, each round trip took a second or more. If most probes agree, the path is that slow. If they scatter, the
/// control connection or a host was slow, and the bound does not apply to the path.
fn is_bounded(clock: &ClockEstimate) -> bool {
    let agree = |bound: f64| clock.rtt_spread_ns.is_none_or(|spread| spread <= MAX_PROBE_SCATTER * bound);
    clock.bound_ns.is_some_and(|bound| bound <= MAX_PROBE_BOUND_NS || agree(bound))
}

/// Maximum clock error reported by the kernels, in ns. With a larger error, one-way delays are not computed.
const MAX_CLOCK_ERROR_NS: i64 = 50_000_000;

/// Maximum error of the clock offset, in ns, that is accepted even if the probes do not agree.
const MAX_PROBE_BOUND_NS: f64 = 500e6;

/// Maximum difference between the median and the shortest round trip of the probes, as a share of the bound, if the
/// bound is larger than [`MAX_PROBE_BOUND_NS`].
const MAX_PROBE_SCATTER: f64 = 0.5;
