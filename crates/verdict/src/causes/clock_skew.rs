//! Rule for clocks that run at different rates.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::Case;
use crate::sentences::causes::{clock_adjusted, clock_skew, media_clock};
use crate::slew::Slew;
use jitlat_core::answer::{CauseId, Severity};

pub const RULE: CauseRule = CauseRule {
    id: CauseId::ClockSkew,
    threshold: "the smallest delays follow one straight line of 10 to 1000 ppm over the whole test, which adds up \
                to 0.5 ms and exceeds the jitter of 99 % of the packets outside queues; or two parallel lines with \
                one step between them; or up to 2 % by a media clock; or they change once from one level to another by 1 ms or more, at no time faster \
                than 1000 ppm and never back, and the jitter does not rise (a clock is adjusted)",
    source: "Moon, Skelly and Towsley 1999; RFC 5905 (500 ppm)",
    find,
};

/// Minimum rate difference, as a ratio. Clocks synchronised by NTP or PTP differ by less than 10 ppm.
const MIN_RATE: f64 = 10e-6;
/// Largest rate difference of two crystals, as a ratio. A larger one is due to a media clock.
const MAX_CRYSTAL: f64 = 500e-6;
/// Minimum drift during the test, in ns. Hosts alone cause less variation.
const MIN_DRIFT_NS: i64 = 500_000;

/// Confidence that a slow change of the delay is the adjustment of a clock, if no clock probes confirm it.
const UNCONFIRMED: f64 = 0.85;
/// Maximum number of packets whose waits are sampled.
const MAX_PACKETS: usize = 4096;

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    if let Some(slew) = &case.slew {
        return vec![adjusted(case, slew)];
    }
    let Some(skew) = case.skew else { return Vec::new() };
    let drift = case.clock_drift();
    if drift.saturating_abs() < usual_variation(case).max(MIN_DRIFT_NS) || skew.abs() < MIN_RATE {
        return Vec::new();
    }
    let why = match case.is_media() && skew.abs() > MAX_CRYSTAL {
        true => media_clock(1e6 * skew.abs(), drift),
        false => clock_skew(1e6 * skew.abs(), 1e6 * case.skew_error, drift),
    };
    let mut found =
        FoundCause::of(CauseId::ClockSkew, Severity::Good, 1e-4, 0.95).whole(case).ns(drift).because(why);
    found.cause.magnitude = Some(1e6 * skew.abs());
    vec![found]
}

/// Returns the wait that 99 of 100 packets outside queues do not exceed, in ns; 0 without such packets.
fn usual_variation(case: &Case<'_>) -> i64 {
    let n = case.delays.len();
    let outside = (0..n).step_by(n / MAX_PACKETS + 1).filter(|k| case.episodes.queue_at(*k).is_none());
    let mut waits: Vec<i64> = outside.map(|k| case.delays.excess(k)).collect();
    let at = waits.len() * 99 / 100;
    if waits.is_empty() { 0 } else { *waits.select_nth_unstable(at).1 }
}

/// Returns the cause for a clock that was adjusted during the test.
fn adjusted(case: &Case<'_>, slew: &Slew) -> FoundCause {
    let clock = case.material.clock;
    let is_confirmed = clock.offset_before_ns.is_some() && clock.offset_after_ns.is_some();
    let confidence = if is_confirmed { 0.95 } else { UNCONFIRMED };
    let [from, to] = slew.places;
    let times = [from, to].map(|place| case.stream_seconds_at(place));
    let ppm = 1e6 * slew.rate;
    let why = clock_adjusted(ppm, slew.change(), times, is_confirmed);
    let mut found = FoundCause::of(CauseId::ClockSkew, Severity::Good, 1e-4, confidence)
        .places(case, from, to)
        .ns(slew.change())
        .because(why);
    found.cause.magnitude = Some(ppm);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, Test, every, first, found_in, quiet};

    /// Finds the cause for clocks that drift apart for `seconds`, at a rate of `tenths` times 0.1 ppm.
    fn of(test: &Test, tenths: i64, seconds: f64) -> Option<FoundCause> {
        let found = found_in(test, &RULE, |case| {
            (case.skew, case.duration) = (Some(tenths as f64 / 1e7), seconds);
        });
        found.into_iter().next()
    }

    #[test]
    fn a_drift_is_named_from_10_ppm_and_half_a_millisecond_on() {
        let quiet = quiet();
        assert_eq!(first(0..=5000, |x| of(&quiet, x, 100.0).is_some()), 100);
        assert_eq!(first(0..=5000, |x| of(&quiet, -x, 100.0).is_some()), 100);
        assert_eq!(first(0..=5000, |x| of(&quiet, x, 10.0).is_some()), 500);
        // The drift must also exceed the jitter of 99 % of the packets.
        let lively = Test::new(1000, 10 * MS, &every(10 * MS, 1000, |k| Some(i64::from(k % 2) * 2 * MS)));
        assert_eq!(first(0..=5000, |x| of(&lively, x, 100.0).is_some()), 200);
        assert!(found_in(&quiet, &RULE, |_| ()).is_empty());
    }

    #[test]
    fn a_drift_is_described() {
        let found = of(&quiet(), -500, 100.0).unwrap().cause;
        assert_eq!((found.magnitude_ns, found.packets), (Some(-5 * MS), [0, 999]));
        assert!((found.magnitude.unwrap() - 50.0).abs() < 1e-9);
        assert_eq!(
            found.because,
            "the clocks drift apart by 50.0 ppm, 5.0 ms over the test, which is not a change of the path's delay"
        );
    }
}
