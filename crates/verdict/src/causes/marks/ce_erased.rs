//! Rule for CE that is removed on the path, which hides congestion from senders.

use super::{Affected, MarkCase, MarkRule, cause};
use crate::sentences::marks;
use jitlat_core::answer::{Cause, CauseId};

pub const RULE: MarkRule = MarkRule {
    id: CauseId::CeErased,
    threshold: "packets sent with CE arrive as ECT; or as Not-ECT, unless ECT packets do, too (bleached). Only tests with all four \
                marks send CE",
    source: "RFC 3168 §5: CE is never changed back",
    find,
};

fn find(case: &MarkCase<'_>) -> Option<Cause> {
    let received = case.received();
    let is_bleached = received.ect0.not_ect + received.ect1.not_ect > 0;
    let ce = received.ce;
    let to_not_ect = if is_bleached { 0 } else { ce.not_ect };
    let erased = Affected { count: ce.ect1 + ce.ect0 + to_not_ect, all: ce.total() };
    if erased.count == 0 {
        return None;
    }
    Some(cause(RULE.id, 0.99, erased.share(), marks::ce_erased(erased.count, erased.all)))
}
