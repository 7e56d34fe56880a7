//! Rule for packets that get CE on the path.

use super::dual_queue::{self, is_queue_seen};
use super::{Affected, MarkCase, MarkRule, cause, names};
use crate::sentences::marks::{self, CeTime};
use jitlat_core::answer::{Cause, CauseId};
use jitlat_core::ecn::Ecn;

pub const RULE: MarkRule = MarkRule {
    id: CauseId::EcnMarked,
    threshold: "at least 3 ECT packets arrive with CE, and no dual queue is found. CE shows that a node marked, not that a queue \
                was full",
    source: "RFC 3168 §5, RFC 9331 §5.2",
    find,
};

/// Minimum number of packets with CE. Fewer may be accidental.
const MIN_MARKED: u64 = 3;
/// Smallest share of packets with CE at which marking is considered constant, regardless of the queue.
const CONSTANT: f64 = 0.99;

/// Returns the number of packets sent with `mark` that arrived with CE, and the number of all that arrived.
pub(super) fn marked(case: &MarkCase<'_>, mark: Ecn) -> (u64, u64) {
    let received = case.received()[mark];
    (received.ce, received.total())
}

fn find(case: &MarkCase<'_>) -> Option<Cause> {
    if (dual_queue::RULE.find)(case).is_some() {
        return None;
    }
    let of = |mark: Ecn| {
        let (count, all) = marked(case, mark);
        Affected { count, all }
    };
    let named: Vec<Ecn> = [Ecn::Ect0, Ecn::Ect1].into_iter().filter(|mark| of(*mark).count > 0).collect();
    let affected = named.iter().fold(Affected::default(), |sum, mark| sum.plus(of(*mark)));
    if affected.count < MIN_MARKED {
        return None;
    }
    let delay = case.figures.congestion_experienced;
    let time = match delay {
        _ if affected.share() >= CONSTANT => CeTime::Always,
        _ if !is_queue_seen(case.pdv) => CeTime::WithoutQueue,
        Some(delay) => CeTime::Difference(delay.difference_ns),
        None => CeTime::Unknown,
    };
    let because = marks::marked(&names(&named), affected.count, affected.all, time);
    Some(cause(RULE.id, 0.9, affected.share(), because))
}
