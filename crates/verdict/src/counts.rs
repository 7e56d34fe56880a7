//! [`of_counts`]: the answer to a test of which only the far host's counts are known.

use crate::numbers::percent;
use jitlat_core::answer::{Answer, Severity};
use std::collections::BTreeMap;

/// The answer to a test of which only the far host's counts are known: `received` of `sent` packets.
pub(crate) fn of_counts(sent: u64, received: u64) -> Answer {
    let headline = if received == 0 {
        "Bad: nothing arrived: there is no path for this traffic, or a firewall in it.".to_owned()
    } else {
        let what = match sent.saturating_sub(received) {
            0 => format!("all {sent} packets arrived"),
            lost => {
                format!("{lost} of {sent} packets are lost ({})", percent(lost as f64 / sent.max(1) as f64))
            }
        };
        format!("By the far host's count {what}; of each packet it reports no more: no verdict.")
    };
    let severity = if received == 0 { Severity::Bad } else { Severity::Unknown };
    let (buffer_ns, causes, profiles) = (None, Vec::new(), BTreeMap::new());
    Answer { complete: true, severity, headline, buffer_ns, causes, profiles }
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
        assert!(
            some.headline.starts_with("By the far host's count 40 of 100 packets are lost (40 %); of each")
        );
        let all = of_counts(100, 100);
        assert!(all.headline.starts_with("By the far host's count all 100 packets arrived;"));
    }
}
