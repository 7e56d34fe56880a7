//! Rule for marks that are removed on the path.

use super::{Affected, MarkCase, MarkRule, cause, names};
use crate::sentences::marks;
use jitlat_core::answer::{Cause, CauseId};
use jitlat_core::ecn::Ecn;

pub const RULE: MarkRule = MarkRule {
    id: CauseId::EcnBleached,
    threshold: "packets sent with ECT(0) or ECT(1) arrive as Not-ECT; the share and the marks are named",
    source: "RFC 3168 §5, RFC 9331 §5.1: no node may change ECT to Not-ECT",
    find,
};

fn find(case: &MarkCase<'_>) -> Option<Cause> {
    let received = case.received();
    let of = |mark: Ecn| Affected { count: received[mark].not_ect, all: received[mark].total() };
    let bleached: Vec<Ecn> = [Ecn::Ect0, Ecn::Ect1].into_iter().filter(|mark| of(*mark).count > 0).collect();
    let affected = bleached.iter().fold(Affected::default(), |sum, mark| sum.plus(of(*mark)));
    if affected.count == 0 {
        return None;
    }
    let spared: Vec<Ecn> =
        [Ecn::Ect0, Ecn::Ect1].into_iter().filter(|mark| of(*mark).all > 0 && of(*mark).count == 0).collect();
    let because = marks::bleached(&names(&bleached), affected.count, affected.all, &names(&spared));
    Some(cause(RULE.id, if affected.is_all() { 0.99 } else { 0.95 }, affected.share(), because))
}
