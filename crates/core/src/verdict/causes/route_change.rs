//! The path became longer or shorter.

use super::rule::{Found, Rule, merge_if_many};
use crate::verdict::answer::{CauseId, Severity};
use crate::verdict::case::Case;
use crate::verdict::numbers::{count, moment, time};
use crate::verdict::steps::Reason;

pub const RULE: Rule = Rule {
    id: CauseId::RouteChange,
    threshold: "the smallest delay goes from one level that stays to another, by 0.1 ms and more than nine of ten neighbours \
                differ by, within three packets; no clock accounts for it and no ramp, loss or livelier jitter for a queue",
    source: "RFC 5481 §6.2, RFC 2330 §15 (clocks)",
    find,
};

fn find(case: &Case<'_>) -> Vec<Found> {
    let routes: Vec<_> = case.steps.iter().filter(|(_, r)| *r == Reason::Route).map(|(s, _)| s).collect();
    let n = case.delays.len();
    let mut found = Vec::new();
    let mut k = 0;
    while k < routes.len() {
        let step = routes[k];
        let next = routes.get(k + 1);
        // There and back again is one change.
        let back = next.is_some_and(|s| (s.change + step.change).abs() <= step.change.abs() / 4);
        let end = if back { next.map_or(n, |s| s.place) } else { n };
        let how = if step.change > 0 { "longer" } else { "shorter" };
        let until =
            if back { format!(" until {}", moment(case.place_seconds(end))) } else { " and stays so".into() };
        let why = format!(
            "from {} on the path is {} {how}{until}",
            moment(case.place_seconds(step.place)),
            time(step.change.abs() as f64)
        );
        let place = case.delays.seq(step.place);
        let meanwhile =
            case.lost_at_steps.iter().filter(|r| r.start <= place && place <= r.start + r.len + 1);
        let why = match meanwhile.map(|r| r.len).sum() {
            0 => why,
            lost => format!("{why}; {} were lost meanwhile", count(lost, "packet")),
        };
        let severity = if step.change > 150_000_000 { Severity::Fair } else { Severity::Good };
        let harm = step.change.unsigned_abs() as f64 / 1e9 * 0.01;
        found.push(
            Found::new(CauseId::RouteChange, severity, harm, 0.8)
                .places(case, step.place, end)
                .ns(step.change)
                .because(why),
        );
        k += if back { 2 } else { 1 };
    }
    merge_if_many(found)
}
