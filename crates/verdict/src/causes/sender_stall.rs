//! Rule for stalls of the sending program.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::Case;
use crate::sentences::causes::sender_stall;
use crate::severity::{of_host, of_missing};
use jitlat_core::answer::CauseId;

pub const RULE: CauseRule = CauseRule {
    id: CauseId::SenderStall,
    threshold: "a packet leaves later than the earliest of the seven before it, relative to the schedule that the \
                packets follow, by one and a half periods, 15 ms and eight times the usual difference between \
                neighbouring packets, even if the sender does not catch up; or, if the schedule is unknown, after \
                a gap of three periods with about as many packets at once as were due during the gap; not if \
                delays fall by the same amount (a clock was set), and over TCP only if few packets are late; waits \
                in the host's interface do not count",
    source: "definition: what a host did is not the path's fault",
    find,
};

/// Minimum length of a stall that is reported even if few packets were late, in ns.
const MIN_SINGLE_STALL_NS: i64 = 50_000_000;
/// Harm of a stall per share of packets that left late.
pub(crate) const HARM_PER_SHARE: f64 = 0.5;

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    let n = case.known.sent.max(1);
    let stalls = &case.late.stalls;
    let late: usize = stalls.iter().map(|s| s.to - s.from).sum();
    let many = late as f64 >= 0.01 * n as f64;
    let found = stalls.iter().filter(|s| s.length >= MIN_SINGLE_STALL_NS || many).map(|s| {
        let packets = (s.to - s.from) as u64;
        let share = packets as f64 / n as f64;
        let severity = of_host(of_missing(share, packets, n));
        // The stall began when the first late packet was due.
        let mut found = FoundCause::of(CauseId::SenderStall, severity, HARM_PER_SHARE * share, 0.95)
            .places(case, s.from, s.to)
            .ns(s.length);
        let sent = found.cause.from_s;
        found.cause.from_s = (sent - s.length as f64 / 1e9).max(0.0);
        found.cause.to_s = sent;
        let why = sender_stall(case.begin.of(found.cause.from_s), s.length, packets);
        found.because(why)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Stall;
    use crate::testing::{MS, first, found_in, quiet};
    use jitlat_core::answer::Severity;

    /// Cause found for a stall of `length` ns that delays this number of packets, of 1000, from packet 300.
    fn of(packets: usize, length: i64) -> Option<FoundCause> {
        let stall = Stall { from: 300, to: 300 + packets, length };
        found_in(&quiet(), &RULE, |case| case.late.stalls = vec![stall]).into_iter().next()
    }

    #[test]
    fn stalls_are_named_from_50_ms_or_1_percent_late_on() {
        assert_eq!(first(0..=200 * MS, |ns| of(9, ns).is_some()), 50 * MS);
        assert_eq!(first(1..=50, |n| of(n as usize, 20 * MS).is_some()), 10);
    }

    #[test]
    fn a_stall_began_when_its_first_packet_was_due() {
        let found = of(20, 100 * MS).unwrap();
        let cause = &found.cause;
        assert!((cause.from_s - 2.9).abs() < 1e-9 && cause.to_s == 3.0);
        assert_eq!((cause.packets, cause.magnitude_ns, found.harm), ([300, 319], Some(100 * MS), 0.5 * 0.02));
        assert_eq!(cause.because, "the sender stalled for 100 ms, from 2.9 s on: 20 packets left late");
        assert_eq!(of(500, 5000 * MS).unwrap().cause.severity, Severity::Fair);
        assert_eq!(of(500, 5000 * MS).unwrap().cause.from_s, 0.0);
    }
}
