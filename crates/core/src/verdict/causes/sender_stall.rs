//! The sending program stood still.

use super::rule::{Found, Rule, merge_if_many};
use crate::verdict::answer::CauseId;
use crate::verdict::case::Case;
use crate::verdict::numbers::{count, moment, time};
use crate::verdict::severity::{of_host, of_missing};

pub const RULE: Rule = Rule {
    id: CauseId::SenderStall,
    threshold: "packets of a periodic stream leave one and a half periods and 15 ms late or more, and the schedule is caught \
                up with; their stay in the host's interface left out",
    source: "definition: what a host did is not the path's fault",
    find,
};

/// Shorter stalls are named only where they are many.
const WORTH: i64 = 50_000_000;

fn find(case: &Case<'_>) -> Vec<Found> {
    let n = case.known.sent.max(1);
    let stalls = &case.late.stalls;
    let late: usize = stalls.iter().map(|s| s.to - s.from).sum();
    let many = late as f64 >= 0.01 * n as f64;
    let found = stalls.iter().filter(|s| s.length >= WORTH || many).map(|s| {
        let packets = (s.to - s.from) as u64;
        let share = packets as f64 / n as f64;
        let severity = of_host(of_missing(share, packets, n));
        // It began when the first of the packets was due.
        let mut found = Found::new(CauseId::SenderStall, severity, 0.5 * share, 0.9)
            .places(case, s.from, s.to)
            .ns(s.length);
        let sent = found.cause.from_s;
        found.cause.from_s = (sent - s.length as f64 / 1e9).max(0.0);
        found.cause.to_s = sent;
        let why = format!(
            "the sender stood still for {} from {} on: {} left late",
            time(s.length as f64),
            moment(found.cause.from_s),
            count(packets, "packet")
        );
        found.because(why)
    });
    merge_if_many(found.collect())
}
