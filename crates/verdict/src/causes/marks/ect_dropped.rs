//! Rule for packets that are lost because of their mark.

use super::{Affected, MIN_BLOCKS, MarkCase, MarkRule, cause, names};
use crate::sentences::marks;
use crate::severity::level_of_missing;
use jitlat_core::answer::{Cause, CauseId};
use jitlat_core::ecn::Ecn;
use jitlat_core::metrics::stat::fisher_greater;
use jitlat_core::summary::MarkFigures;

pub const RULE: MarkRule = MarkRule {
    id: CauseId::EctDropped,
    threshold: "at least 200 packets with each mark, and the share of lost packets with a mark is at least one percentage \
                point above that of Not-ECT packets (Fisher's exact test, one-sided, p < 0.001)",
    source: "RFC 3168 §5 and §6.1.1 (ECN-capable packets must not be treated worse); packets of all marks are interleaved at \
             random",
    find,
};

/// Largest p-value at which the difference of two shares of losses counts.
const MAX_P: f64 = 0.001;
/// Smallest difference of the shares that counts.
const MIN_DIFFERENCE: f64 = 0.01;

/// Returns true if there are enough packets of each mark to compare their losses.
pub(crate) fn are_losses_resolved(figures: &MarkFigures) -> bool {
    let sent = figures.sent.unwrap_or_default();
    figures.marking.is_interleaved() && Ecn::ALL.iter().all(|mark| sent[*mark] >= MIN_BLOCKS)
}

fn find(case: &MarkCase<'_>) -> Option<Cause> {
    let (sent, lost) =
        case.figures.sent.zip(case.figures.lost).filter(|_| are_losses_resolved(case.figures))?;
    let of = |mark: Ecn| Affected { count: lost[mark], all: sent[mark] };
    let plain = of(Ecn::NotEct);
    let is_worse = |marked: Affected| {
        marked.share() >= plain.share() + MIN_DIFFERENCE
            && fisher_greater([marked.count, marked.all], [plain.count, plain.all]) < MAX_P
    };
    let dropped: Vec<Ecn> =
        [Ecn::Ect0, Ecn::Ect1, Ecn::Ce].into_iter().filter(|mark| is_worse(of(*mark))).collect();
    let affected = dropped.iter().fold(Affected::default(), |sum, mark| sum.plus(of(*mark)));
    if affected.count == 0 {
        return None;
    }
    let because = marks::ect_dropped(&names(&dropped), affected.is_all(), [affected.share(), plain.share()]);
    let mut cause = cause(RULE.id, 0.99, affected.share(), because);
    cause.severity = level_of_missing(affected.share());
    Some(cause)
}
