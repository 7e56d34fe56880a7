//! [`of_counts`]: verdict on a test for which only counts are known, reported by the far host.

use crate::sentences::headline;
use jitlat_core::answer::{Answer, Severity};
use std::collections::BTreeMap;

/// Returns the verdict on a test for which only the far host's counts are known: `received` of `sent` packets.
pub(crate) fn of_counts(sent: u64, received: u64) -> Answer {
    let headline = headline::of_counts(sent, received);
    let severity = if received == 0 { Severity::Bad } else { Severity::Unknown };
    let (buffer_ns, causes, profiles) = (None, Vec::new(), BTreeMap::new());
    Answer {
        complete: true,
        severity,
        host: None,
        headline,
        buffer_ns,
        without_clock_step: None,
        causes,
        profiles,
        qoo: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_alone_say_whether_anything_arrives() {
        let none = of_counts(100, 0);
        assert_eq!(none.severity, Severity::Bad);
        assert!(none.headline.starts_with("Bad: nothing arrived"));
        let some = of_counts(100, 60);
        assert_eq!(some.severity, Severity::Unknown);
        assert!(some.headline.starts_with("No verdict: 40 of 100 packets lost (40 %); the far host"));
        let all = of_counts(100, 100);
        assert!(all.headline.starts_with("No verdict: all 100 packets arrived;"));
    }
}
