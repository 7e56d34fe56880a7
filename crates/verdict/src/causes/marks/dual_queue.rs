//! Rule for a separate queue for ECT(1) and CE, as in L4S.

use super::marked::marked;
use super::{MIN_BLOCKS, MarkCase, MarkRule, cause};
use crate::sentences::marks;
use jitlat_core::answer::{Cause, CauseId};
use jitlat_core::distribution::Percent;
use jitlat_core::ecn::Ecn;
use jitlat_core::summary::Distribution;

pub const RULE: MarkRule = MarkRule {
    id: CauseId::DualQueue,
    threshold: "all four marks in at least 200 whole blocks, of which at least 30 have delays that differ by 0.5 ms or more; in \
                these, ECT(1) and CE are faster than Not-ECT and ECT(0): the 95 % interval of the median difference excludes 0, \
                and the median is 1 ms or more, or 20 % of the median jitter",
    source: "RFC 9331 §5.1, RFC 9332 §2.3; the order of the marks in a block is random, so that the interval needs no assumption",
    find,
};

/// Minimum number of blocks whose delays differ. With fewer, there was no queue in which the marks could differ.
pub(crate) const MIN_QUEUE_BLOCKS: u64 = 30;
/// Smallest median difference, in ns, that shows a separate queue.
const MIN_DIFFERENCE_NS: i64 = 1_000_000;
/// Smallest median difference as a share of the median jitter.
const MIN_SHARE: f64 = 0.2;
/// Smallest 90th percentile of jitter, in ns, that shows a queue.
const MIN_JITTER_NS: i64 = 1_000_000;

/// Returns true if packets waited, so that a second queue could have made a difference.
pub(crate) fn is_queue_seen(pdv: &Distribution) -> bool {
    pdv.percentile(Percent(90_000)).is_some_and(|p90| p90 >= MIN_JITTER_NS)
}

fn find(case: &MarkCase<'_>) -> Option<Cause> {
    let delay = case.figures.delay.as_ref()?;
    let queue = &delay.difference_in_queue;
    let ([low, high], median) = queue.interval_ns.zip(queue.median_ns)?;
    let jitter = case.pdv.median.unwrap_or(0.0);
    let is_large = median >= MIN_DIFFERENCE_NS || median as f64 >= MIN_SHARE * jitter;
    if delay.blocks < MIN_BLOCKS || queue.blocks < MIN_QUEUE_BLOCKS || low <= 0 || !is_large {
        return None;
    }
    let (ce, all) = marked(case, Ecn::Ect1);
    let because = marks::dual_queue(median, [low, high], (&delay.above_fastest.ect1, (ce, all)));
    let mut cause = cause(RULE.id, 0.95, queue.blocks as f64 / delay.blocks as f64, because);
    cause.magnitude_ns = Some(median);
    Some(cause)
}
