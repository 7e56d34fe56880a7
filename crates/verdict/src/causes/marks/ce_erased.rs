//! Rule for CE that is removed on the path, which hides congestion from senders.

use super::{Affected, MarkCase, MarkRule, cause};
use crate::sentences::marks;
use jitlat_core::answer::{Cause, CauseId};
use jitlat_core::metrics::stat::fisher_greater;

pub const RULE: MarkRule = MarkRule {
    id: CauseId::CeErased,
    threshold: "packets sent with CE arrive as ECT; or as Not-ECT, unless the same share of ECT packets does, too (bleached; Fisher's exact test, one-sided, p < \
                0.001). Only tests with all four \
                marks send CE",
    source: "RFC 3168 §5: CE is never changed back",
    find,
};

/// Largest p-value at which CE is removed more often than ECT.
const MAX_P: f64 = 0.001;

fn find(case: &MarkCase<'_>) -> Option<Cause> {
    let received = case.received();
    let ce = received.ce;
    let ect_bleached = received.ect0.not_ect + received.ect1.not_ect;
    let ect = received.ect0.total() + received.ect1.total();
    let is_bleached =
        ect_bleached > 0 && fisher_greater([ce.not_ect, ce.total()], [ect_bleached, ect]) >= MAX_P;
    let to_not_ect = if is_bleached { 0 } else { ce.not_ect };
    let erased = Affected { count: ce.ect1 + ce.ect0 + to_not_ect, all: ce.total() };
    if erased.count == 0 {
        return None;
    }
    Some(cause(RULE.id, 0.99, erased.share(), marks::ce_erased(erased.count, erased.all)))
}
