//! [`SlotLog`]: slots of this host without a result, for the judges of alerts: since when, and why.

use crate::agenda::{SlotEnding, SlotFailure, SlotOutcome};
use crate::alert::SlotReport;
use crate::text;
use std::collections::BTreeMap;

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 200;

/// Slots without a result, by test and far host.
#[derive(Clone, Debug, Default)]
pub struct SlotLog(BTreeMap<(String, String), (SlotEnding, i64)>);

impl SlotLog {
    /// Takes up an outcome of a test that the host `client` starts. Returns the report about it; `None` for a slot that was measured.
    pub fn report(&mut self, client: &str, outcome: &SlotOutcome) -> Option<SlotReport> {
        let key = (outcome.test.clone(), outcome.far.clone());
        let ending = outcome.ending;
        if matches!(ending, SlotEnding::Measured { .. }) {
            self.0.remove(&key);
            return None;
        }
        let start = outcome.start.0;
        let before = self.0.get(&key).filter(|(known, since)| *known == ending && *since <= start);
        let since_ns = before.map_or(start, |(_, since)| *since);
        self.0.insert(key, (ending, since_ns));
        Some(SlotReport {
            test: outcome.test.clone(),
            client: client.to_owned(),
            server: outcome.far.clone(),
            at_ns: start,
            since_ns,
            is_own_fault: ending.is_own_fault(),
            is_not_stored: ending == SlotEnding::Failed(SlotFailure::NotStored),
            reason: reason(outcome),
        })
    }
}

/// Describes the outcome on one line: `unreachable: connection refused`.
fn reason(outcome: &SlotOutcome) -> String {
    let what = text::ending(outcome.ending);
    let why: String = outcome.why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") };
    // Bytes are limited, too: a character has four at most.
    let mut cut: String = text.chars().take(MAX_REASON_CHARS).collect();
    while cut.len() > MAX_REASON_CHARS {
        cut.pop();
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agenda::Missed;
    use jitlat_core::WallTime;

    #[test]
    fn a_reason_is_told_with_its_first_slot() {
        let mut log = SlotLog::default();
        let mut at = |second: i64, ending, why: &str| {
            let outcome = SlotOutcome {
                test: "t".into(),
                far: "b".into(),
                slot_number: second,
                start: WallTime(second),
                ending,
                why: why.into(),
            };
            log.report("a", &outcome).map(|report| (report.since_ns, report.reason, report.is_own_fault))
        };
        let gone = SlotEnding::Failed(SlotFailure::Unreachable);
        let said = |since, reason: &str, own| Some((since, reason.to_owned(), own));
        assert_eq!(at(1, gone, "connection\nrefused"), said(1, "unreachable: connection refused", false));
        assert_eq!(at(2, gone, "no route"), said(1, "unreachable: no route", false));
        let busy = SlotEnding::Missed(Missed::Busy);
        assert_eq!(at(3, busy, ""), said(3, "an earlier test was still running", true));
        assert_eq!(at(4, SlotEnding::Measured { cut: false }, ""), None);
        assert_eq!(at(5, gone, &"é".repeat(500)).unwrap().0, 5);
        let full = at(6, SlotEnding::Failed(SlotFailure::NotStored), &"é".repeat(500)).unwrap();
        assert!(full.2 && full.1.len() <= MAX_REASON_CHARS && full.1.starts_with("not stored: é"));
    }
}
