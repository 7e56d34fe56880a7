//! Rule for packets that arrive more than once.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::Case;
use crate::sentences::causes::duplication;
use jitlat_core::answer::{CauseId, Severity};
use jitlat_core::metrics::dependence::share_exceeds;

pub const RULE: CauseRule = CauseRule {
    id: CauseId::Duplication,
    threshold: "more than 0.3 % arrive twice with 95 % confidence, at least five packets",
    source: "RFC 5560",
    find,
};

const MIN_SHARE: f64 = 0.003;
const MIN_PACKETS: u64 = 5;

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    let n = case.delays.len() as u64;
    let mut again: Vec<u32> = case.material.copies.iter().map(|(seq, _)| seq).collect();
    let copies = again.len() as u64;
    again.sort_unstable();
    again.dedup();
    let count = again.len() as u64;
    let (Some(first), Some(last)) = (again.first(), again.last()) else { return Vec::new() };
    let share = count as f64 / n as f64;
    if count < MIN_PACKETS || !share_exceeds(share.min(1.0), n as f64, MIN_SHARE) {
        return Vec::new();
    }
    let why = duplication(share, copies > count + count / 2);
    let found =
        FoundCause::of(CauseId::Duplication, Severity::Good, 0.1 * share, 0.97).share(share).because(why);
    let (first, last) = (u64::from(*first), u64::from(*last));
    let everywhere = last - first > case.known.sent * 7 / 10;
    vec![if everywhere { found.whole(case) } else { found.packets(case, first, last) }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, Test, every, first, found_in};

    /// Finds the cause in `n` packets of which those in `again` arrive twice.
    fn of(n: u32, again: impl IntoIterator<Item = u32>) -> Option<FoundCause> {
        let mut test = Test::new(n, 10 * MS, &every(10 * MS, n, |_| Some(0)));
        again.into_iter().for_each(|seq| test.copies.push(seq, None));
        found_in(&test, &RULE, |_| ()).into_iter().next()
    }

    #[test]
    fn copies_are_named_from_five_and_0_3_percent_on() {
        assert_eq!(first(0..=50, |k| of(100, 0..k as u32).is_some()), MIN_PACKETS as i64);
        let share = first(0..=1000, |k| share_exceeds(k as f64 / 1e4, 1e4, MIN_SHARE));
        assert_eq!(first(0..=1000, |k| of(10_000, 0..k as u32).is_some()), share);
        assert!(of(100, [7; 20]).is_none(), "one packet, however often");
    }

    #[test]
    fn copies_are_described() {
        let said = |found: Option<FoundCause>| found.unwrap().cause.because;
        assert_eq!(said(of(1000, 0..950)), "95 % of the packets arrive twice");
        assert_eq!(said(of(1000, 0..951)), "every packet arrives twice: a loop, a mirror port or two links");
        let copies = |more: usize| (0..10).chain([3].repeat(more));
        assert_eq!(said(of(1000, copies(5))), "1.0 % of the packets arrive twice");
        assert_eq!(said(of(1000, copies(6))), "1.0 % of the packets arrive more than twice");
        let found = of(1000, 0..10).unwrap();
        assert_eq!((found.cause.magnitude, found.harm), (Some(0.01), 0.1 * 0.01));
    }

    #[test]
    fn copies_in_more_than_seven_tenths_of_a_test_are_of_the_whole() {
        let packets = |last| of(1000, (100..110).chain([last])).unwrap().cause.packets;
        assert_eq!(packets(800), [100, 800]);
        assert_eq!(packets(801), [0, 999]);
    }
}
