//! A part of the test was not recorded: it is unknown, not lost.

use super::rule::{Found, Rule};
use crate::session::Ending;
use crate::verdict::answer::{CauseId, Severity};
use crate::verdict::case::Case;
use crate::verdict::numbers::{count, percent};

pub const RULE: Rule = Rule {
    id: CauseId::IncompleteLog,
    threshold: "no proof that the record is whole: a log of version 3 without its closing lines or with another ending, a \
                cut line, or (versions 1 and 2) at least ten packets and 1 % or 0.5 s missing at the end, three times the \
                longest loss before",
    source: "definition: what was not recorded is unknown, never lost",
    find,
};

fn find(case: &Case<'_>) -> Vec<Found> {
    let known = case.known;
    if known.complete {
        return Vec::new();
    }
    let session = case.material.session;
    let share = known.unknown as f64 / (known.unknown + known.sent).max(1) as f64;
    let is_recorded = session.truncated || session.has_end_lines();
    let how = match session.ending {
        Ending::PeerLost => "the other host was lost",
        Ending::StorageFailed => "not everything could be stored",
        _ if session.truncated => "the log ends before its own end",
        _ => "the log ends far from the last packet",
    };
    let why = format!(
        "{how}: of {} at the end ({}) nothing is known",
        count(known.unknown, "packet"),
        percent(share)
    );
    let mut found =
        Found::new(CauseId::IncompleteLog, Severity::Unknown, share, if is_recorded { 1.0 } else { 0.7 })
            .share(share)
            .because(why);
    found.cause.packets = [known.sent, (known.sent + known.unknown).saturating_sub(1)];
    found.cause.from_s = case.duration;
    let period = case.material.period().unwrap_or(0) as f64 / 1e9;
    found.cause.to_s = case.duration + period * known.unknown as f64;
    vec![found]
}
