//! The sending host's system refused packets.

use super::rule::{Found, Rule};
use crate::verdict::answer::CauseId;
use crate::verdict::case::Case;
use crate::verdict::numbers::{count, percent};
use crate::verdict::severity::of_missing;

pub const RULE: Rule = Rule {
    id: CauseId::SendFailure,
    threshold: "the sending host's system refused at least 0.1 % of the packets",
    source: "definition: what a host did is not the path's fault; ITU-T Y.1541 (0.1 %)",
    find,
};

fn find(case: &Case<'_>) -> Vec<Found> {
    let refused = case.material.session.unsent.min(case.known.sent);
    let share = refused as f64 / case.known.sent.max(1) as f64;
    if refused == 0 || share < 1e-3 {
        return Vec::new();
    }
    let severity = of_missing(share, refused, case.known.sent);
    let runs = &case.losses.runs;
    // Where the losses are, if they are these.
    let lost: u64 = runs.iter().map(|r| r.len).sum();
    let found = Found::new(CauseId::SendFailure, severity, share, 1.0).share(share);
    let found = match (runs.first(), runs.last()) {
        (Some(first), Some(last)) if lost <= refused + refused / 10 => {
            found.packets(case, first.start, last.start + last.len - 1)
        }
        _ => found.whole(case),
    };
    vec![found.because(format!(
        "this host's own system refused to send {} ({}): no loss of the path's",
        count(refused, "packet"),
        percent(share)
    ))]
}
