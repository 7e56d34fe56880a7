//! A clock was set.

use super::rule::{Found, Rule, merge_if_many};
use crate::verdict::answer::{CauseId, Severity};
use crate::verdict::case::Case;
use crate::verdict::numbers::{moment, time};
use crate::verdict::steps::Reason;

pub const RULE: Rule = Rule {
    id: CauseId::ClockStep,
    threshold: "delays change for good while departures leave their schedule by as much the other way; or while the probes' \
                offset, or what a host says of its clock, changes by as much; or by more than any detour; or packets in \
                order arrive at earlier times",
    source: "RFC 7679 §3.7.1, RFC 5905",
    find,
};

fn find(case: &Case<'_>) -> Vec<Found> {
    let clock = |r: &Reason| matches!(r, Reason::SenderClock | Reason::ReceiverClock);
    let found = case.steps.iter().filter(|(_, r)| clock(r)).map(|(step, reason)| {
        let (who, by) = match reason {
            Reason::SenderClock => ("sending", -step.change),
            _ => ("receiving", step.change),
        };
        let way = if by > 0 { "forward" } else { "back" };
        let why = format!(
            "at {} the {who} host's clock was set {way} by {}: no delay of the path's",
            moment(case.place_seconds(step.place)),
            time(by.abs() as f64)
        );
        let confidence = if *reason == Reason::SenderClock { 0.95 } else { 0.85 };
        Found::new(CauseId::ClockStep, Severity::Good, 1e-3, confidence)
            .places(case, step.place, case.delays.len())
            .ns(by)
            .because(why)
    });
    merge_if_many(found.collect())
}
