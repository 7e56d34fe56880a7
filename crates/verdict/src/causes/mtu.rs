//! Rule for packets that are larger than a link on the path can carry.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::Case;
use crate::sentences::causes::{lost_to_mtu_discovery, too_large};
use crate::severity::of_missing;
use jitlat_core::answer::{CauseId, Severity};

pub const RULE: CauseRule = CauseRule {
    id: CauseId::Mtu,
    threshold: "nothing arrived, and shorter packets that were sent afterwards did; or all packets of the first 3 s at \
                most are lost, up to the first that arrives, and the sending kernel then knew a path MTU below their length",
    source: "RFC 1191, RFC 8201 (path MTU discovery), RFC 4821 and RFC 8899 (black holes for long packets)",
    find,
};

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    let session = case.material.session;
    if let Some(limit) = session.size_limit.filter(|_| case.material.came.is_empty()) {
        let mut found = FoundCause::of(CauseId::Mtu, Severity::Bad, 1.0, 0.95).share(1.0).whole(case);
        found.cause.bytes = Some(limit.passes);
        return vec![found.because(too_large(limit))];
    }
    let (Some(mtu), Some(lost)) = (session.path_mtu, case.lost_to_discovery) else { return Vec::new() };
    let share = lost.len as f64 / case.known.sent.max(1) as f64;
    let severity = of_missing(share, lost.len, case.known.sent);
    let mut found = FoundCause::of(CauseId::Mtu, severity, share, 0.9).share(share);
    found = found.packets(case, lost.start, lost.start + lost.len - 1);
    found.cause.bytes = Some(mtu);
    vec![found.because(lost_to_mtu_discovery(lost.len, session.ip_length(), mtu))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, Test, every, verdict_on};
    use jitlat_core::session::SizeLimit;
    use jitlat_core::spec::{Direction, Schedule, TestSpec, Transport};
    use jitlat_core::time::Span;

    #[test]
    fn larger_packets_that_do_not_pass_are_named_with_the_size_that_does() {
        let mut test = Test::new(1000, 10 * MS, &[]);
        let said = verdict_on;
        let without = said(&test);
        assert!(without.headline.contains("a firewall blocks it"), "{}", without.headline);
        test.session.size_limit = Some(SizeLimit { packet: 1428, passes: 1280, fails: 1281, payload: 1252 });
        let answer = said(&test);
        assert_eq!(
            answer.headline,
            "Bad: nothing arrived: packets of 1428 bytes do not pass, packets of up to 1280 bytes do (-l 1252)."
        );
        let [cause] = &answer.causes[..] else { panic!("{:?}", answer.causes) };
        assert_eq!((cause.id, cause.bytes, cause.severity), (CauseId::Mtu, Some(1280), Severity::Bad));
        assert_eq!(
            cause.because,
            "packets of 1428 bytes do not pass, packets of up to 1280 bytes do (-l 1252): a link has a smaller MTU, and no \
             message reports it"
        );
        // No size between 1280 and 1400 bytes was tried.
        test.session.size_limit = Some(SizeLimit { packet: 1428, passes: 1280, fails: 1400, payload: 1252 });
        let because = &said(&test).causes[0].because;
        assert!(
            because.contains("packets of at least up to 1280 bytes do (-l 1252; 1400 do not)"),
            "{because}"
        );
        // The cause is found in a test of few packets, too.
        let mut few = Test::new(10, 10 * MS, &[]);
        few.session.size_limit = test.session.size_limit;
        assert_eq!(said(&few).causes.len(), 1);
    }

    #[test]
    fn first_packets_lost_to_path_mtu_discovery_are_not_lost_by_chance() {
        let lost_first = |n: u32| {
            let mut test = Test::new(1000, 10 * MS, &every(10 * MS, 1000, |k| (k >= n).then_some(20 * MS)));
            let spec = TestSpec::new(
                Direction::Up,
                Transport::Udp,
                1000,
                1400,
                Span::millis(10),
                Schedule::Periodic,
            );
            test.session.spec = spec.unwrap();
            test.session.path_mtu = Some(1280);
            test
        };
        let answer = verdict_on(&lost_first(20));
        let [cause] = &answer.causes[..] else { panic!("{:?}", answer.causes) };
        assert_eq!((cause.id, cause.bytes, cause.packets), (CauseId::Mtu, Some(1280), [0, 19]));
        assert!(
            cause
                .because
                .starts_with("the first 20 packets were lost until the path MTU of 1280 bytes was known"),
            "{}",
            cause.because
        );
        assert_eq!(
            answer.headline,
            "Good: the first 20 packets were lost until the path MTU of 1280 bytes was known; set a buffer of under 1 ms."
        );
        assert!(verdict_on(&lost_first(0)).causes.is_empty());
        let long = verdict_on(&lost_first(400));
        assert_eq!(long.causes[0].id, CauseId::Outage, "discovery takes a round trip");
    }
}
