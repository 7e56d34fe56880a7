//! The clocks run at different rates.

use super::rule::{Found, Rule};
use crate::verdict::answer::{CauseId, Severity};
use crate::verdict::case::Case;
use crate::verdict::numbers::time;

pub const RULE: Rule = Rule {
    id: CauseId::ClockSkew,
    threshold: "the smallest delays follow one straight line from end to end, 10 to 1000 ppm, and it adds up to 0.5 ms \
                and more than 99 of 100 packets vary by about it",
    source: "Moon, Skelly and Towsley 1999; RFC 5905 (500 ppm)",
    find,
};

/// Clocks that are kept in step by NTP or PTP stay closer together: 10 ppm.
const LEAST_RATE: f64 = 10e-6;
/// What hosts do by themselves, in ns.
const LEAST_DRIFT: i64 = 500_000;

fn find(case: &Case<'_>) -> Vec<Found> {
    let Some(skew) = case.skew else { return Vec::new() };
    let drift = (skew * case.duration * 1e9) as i64;
    let varies = case.delays.quantile(0, case.delays.len(), 0.99).unwrap_or(0);
    if drift.saturating_abs() < varies.max(LEAST_DRIFT) || skew.abs() < LEAST_RATE {
        return Vec::new();
    }
    let why = format!(
        "the clocks drift apart by {:.1} ppm, {} over the test: no delay of the path's",
        1e6 * skew.abs(),
        time(drift.abs() as f64)
    );
    let mut found =
        Found::new(CauseId::ClockSkew, Severity::Good, 1e-4, 0.85).whole(case).ns(drift).because(why);
    found.cause.magnitude = Some(1e6 * skew.abs());
    vec![found]
}
