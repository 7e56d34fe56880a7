//! Rules that detect causes, one file per kind. `docs/metrics/verdict.md` contains a table of all rules.

mod capture_clock;
mod clock_skew;
mod clock_step;
mod duplication;
mod incomplete_log;
mod local_queue;
mod loss;
pub mod marks;
mod mtu;
mod outage;
pub(crate) mod queue;
pub(crate) mod receiver_stall;
mod reordering;
mod route_change;
mod rule;
mod send_failure;
pub(crate) mod sender_stall;

pub use marks::{MARK_RULES, MarkRule};
pub use rule::{CauseRule, FoundCause};
pub(crate) use rule::{merge_of_kind, merge_repeated};

/// Rules of all kinds of cause.
pub const RULES: [CauseRule; 19] = [
    incomplete_log::RULE,
    outage::RULE,
    queue::RULE,
    loss::RANDOM,
    loss::BURSTY,
    loss::POLICING,
    loss::PERIODIC,
    loss::SIZE_DEPENDENT,
    reordering::RULE,
    route_change::RULE,
    clock_step::RULE,
    clock_skew::RULE,
    sender_stall::RULE,
    receiver_stall::RULE,
    local_queue::RULE,
    duplication::RULE,
    mtu::RULE,
    send_failure::RULE,
    capture_clock::RULE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::answer::CauseId;

    #[test]
    fn the_page_lists_the_rules() {
        let page = include_str!("../../../../docs/metrics/verdict.md");
        let rules = RULES.iter().map(|rule| (rule.id, rule.threshold, rule.source));
        for (id, threshold, source) in
            rules.chain(MARK_RULES.iter().map(|rule| (rule.id, rule.threshold, rule.source)))
        {
            let row = format!("| `{}` | {threshold} | {source} |", id.name());
            assert!(page.contains(&row), "docs/metrics/verdict.md lacks\n{row}");
        }
    }

    #[test]
    fn every_kind_has_one_rule() {
        for id in CauseId::ALL {
            let rules = RULES.iter().map(|rule| rule.id).chain(MARK_RULES.iter().map(|rule| rule.id));
            assert_eq!(rules.filter(|rule| *rule == id).count(), 1, "{}", id.name());
        }
    }
}
