//! Packets waited in the sending host's own interface.

use super::rule::{Found, Rule};
use crate::verdict::answer::{CauseId, Severity};
use crate::verdict::case::Case;
use crate::verdict::numbers::{moment, percent, time};
use crate::verdict::schedule::WORTH;
use crate::verdict::severity::of_wait;

pub const RULE: Rule = Rule {
    id: CauseId::LocalQueue,
    threshold: "eight packets and 1 % of all stay 5 ms or longer between the program and the interface",
    source: "ITU-T Y.1541 (50 ms); definition: what a host did is not the path's fault",
    find,
};

fn find(case: &Case<'_>) -> Vec<Found> {
    let Some(height) = case.late.height() else { return Vec::new() };
    // A burst of the test's own waits for itself.
    let worth = WORTH.max(height / 6);
    let long = || case.late.queued.iter().filter(|(_, ns)| *ns >= worth);
    let (Some(first), Some(last)) = (long().next(), long().next_back()) else { return Vec::new() };
    let share = long().count() as f64 / case.delays.len().max(1) as f64;
    let severity = if share < 0.02 { of_wait(height).min(Severity::Fair) } else { of_wait(height) };
    let why = format!(
        "from {} to {} {} of the packets waited up to {} in the sending host's own interface, before the path",
        moment(case.place_seconds(first.0)),
        moment(case.place_seconds(last.0)),
        percent(share),
        time(height as f64)
    );
    vec![
        Found::new(CauseId::LocalQueue, severity, share * (height as f64 / 100e6), 0.95)
            .places(case, first.0, last.0 + 1)
            .ns(height)
            .because(why),
    ]
}
