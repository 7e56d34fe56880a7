//! Rule for captures whose clock was set. `jitlat-passive` finds this cause, because it sees all packets of a capture
//! and their senders; the records of a test do not show it.

use super::rule::{CauseRule, FoundCause};
use crate::case::Case;
use jitlat_core::answer::CauseId;

pub const RULE: CauseRule = CauseRule {
    id: CauseId::CaptureClock,
    threshold: "only in captures: the times of at least two senders go back by more than 5 ms and do not return at once, or jump \
                forward by at least 50 ms more than the timestamps of two hosts; or, between two points, the delays out \
                and in change by opposite amounts at the same time while the round trip does not",
    source: "RFC 7323 §3, RFC 7679 §3.7.1",
    find,
};

fn find(_: &Case<'_>) -> Vec<FoundCause> {
    Vec::new()
}
