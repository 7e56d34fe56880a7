//! Rules about the marks (ECN) of packets, one file per kind of cause. They use only counts
//! and delays by mark of the whole test.

mod bleached;
mod ce_erased;
mod dual_queue;
mod ect_dropped;
mod marked;
mod remarked;

pub(crate) use dual_queue::{MIN_QUEUE_BLOCKS, is_queue_seen};
pub(crate) use ect_dropped::are_losses_resolved;

use jitlat_core::answer::{Cause, CauseId, Severity};
use jitlat_core::ecn::{ByMark, Ecn};
use jitlat_core::summary::{Distribution, MarkFigures};

/// Minimum number of packets with each mark, and of blocks of four, for conclusions from shares and delays.
pub const MIN_BLOCKS: u64 = 200;

/// Rule that detects one kind of cause by the marks of packets.
pub struct MarkRule {
    /// Kind of cause that the rule detects.
    pub id: CauseId,
    /// Condition of the rule in words, with all thresholds.
    pub threshold: &'static str,
    /// Source of the thresholds.
    pub source: &'static str,
    /// Finds the cause; `None` without evidence.
    pub(crate) find: fn(&MarkCase<'_>) -> Option<Cause>,
}

/// Rules of all kinds of cause that marks show.
pub const MARK_RULES: [MarkRule; 6] =
    [ect_dropped::RULE, bleached::RULE, remarked::RULE, ce_erased::RULE, dual_queue::RULE, marked::RULE];

/// Marks of the packets in one direction.
#[derive(Clone, Copy)]
pub(crate) struct MarkCase<'a> {
    pub figures: &'a MarkFigures,
    /// Jitter (PDV) of the packets.
    pub pdv: &'a Distribution,
}

impl MarkCase<'_> {
    /// Returns the numbers of packets received, by the mark as sent and the mark as received; all 0 if unknown.
    fn received(&self) -> ByMark<ByMark<u64>> {
        self.figures.received.unwrap_or_default()
    }
}

/// Number of affected packets, and number of all packets that could have been affected.
#[derive(Clone, Copy, Debug, Default)]
struct Affected {
    count: u64,
    all: u64,
}

impl Affected {
    fn share(self) -> f64 {
        self.count as f64 / self.all.max(1) as f64
    }

    fn is_all(self) -> bool {
        self.count == self.all
    }

    fn plus(self, other: Affected) -> Affected {
        Affected { count: self.count + other.count, all: self.all + other.all }
    }
}

/// Creates a cause that lasts for the whole test and does not limit applications without ECN.
fn cause(id: CauseId, confidence: f64, share: f64, because: String) -> Cause {
    let mut cause = Cause::new(id, Severity::Good, confidence);
    (cause.magnitude, cause.because) = (Some(share), because);
    cause
}

/// Returns the names of `marks`: `ECT(0) and ECT(1)`.
fn names(marks: &[Ecn]) -> String {
    match marks {
        [] => String::new(),
        [one] => one.to_string(),
        [others @ .., last] => {
            let others: Vec<String> = others.iter().map(ToString::to_string).collect();
            format!("{} and {last}", others.join(", "))
        }
    }
}
