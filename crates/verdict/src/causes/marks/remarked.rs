//! Rule for marks that are changed on the path in a way that no rule permits.

use super::{Affected, MarkCase, MarkRule, cause};
use crate::sentences::marks;
use jitlat_core::answer::{Cause, CauseId};
use jitlat_core::ecn::Ecn;

pub const RULE: MarkRule = MarkRule {
    id: CauseId::EcnRemarked,
    threshold: "packets sent with ECT(1) arrive as ECT(0), with ECT(0) as ECT(1), or with Not-ECT as anything else; each change is \
                named",
    source: "RFC 3168 §5, RFC 9331 §5.1 and §5.4.1.1: ECT may only change to CE, Not-ECT never",
    find,
};

/// Changes that no node may make, except to Not-ECT and from CE.
const CHANGES: [[Ecn; 2]; 5] = [
    [Ecn::Ect1, Ecn::Ect0],
    [Ecn::Ect0, Ecn::Ect1],
    [Ecn::NotEct, Ecn::Ect1],
    [Ecn::NotEct, Ecn::Ect0],
    [Ecn::NotEct, Ecn::Ce],
];

fn find(case: &MarkCase<'_>) -> Option<Cause> {
    let received = case.received();
    let of =
        |[sent, arrived]: [Ecn; 2]| Affected { count: received[sent][arrived], all: received[sent].total() };
    let changed: Vec<[Ecn; 2]> = CHANGES.into_iter().filter(|change| of(*change).count > 0).collect();
    let largest = changed.iter().copied().max_by_key(|change| of(*change).count)?;
    let parts = changed
        .iter()
        .map(|change| (change.map(|mark| mark.to_string()), of(*change).count, of(*change).all));
    Some(cause(RULE.id, 0.99, of(largest).share(), marks::remarked(&parts.collect::<Vec<_>>())))
}
