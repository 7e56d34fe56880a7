//! Rule for stalls of the sending program.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::{Case, runs_between};
use crate::schedule::Stall;
use crate::sentences::causes::sender_stall;
use crate::severity::{of_host, of_missing};
use crate::skips::{Skip, skips};
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
/// Harm of a stall, divided by the share of packets that were sent late.
pub(crate) const HARM_PER_SHARE: f64 = 0.5;

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    let skips = skips(case);
    let n = case.known.sent.max(1) + skips.iter().map(|skip| skip.run.len).sum::<u64>();
    let stalls = &case.late.stalls;
    let late: usize = stalls.iter().map(|s| s.to - s.from).sum();
    let many = late as f64 >= 0.01 * n as f64;
    let stalls = with_skips(stalls, skips);
    let period = case.material.period().filter(|period| *period > 0);
    let found = stalls.iter().filter(|s| s.length >= MIN_SINGLE_STALL_NS || many).map(|s| {
        let packets = (s.to - s.from) as u64;
        // Packets that were due during the stall did not leave on time, even if the sender then moved its schedule.
        let due = period.map_or(0, |period| (s.length / period).unsigned_abs());
        let touched = (packets + s.skipped).max(due).min(n);
        let share = touched as f64 / n as f64;
        let severity = of_host(of_missing(share, touched, n));
        // The stall began when the first late packet was due.
        let mut found = FoundCause::of(CauseId::SenderStall, severity, HARM_PER_SHARE * share, 0.95)
            .places(case, s.from, s.to)
            .ns(s.length);
        let sent = found.cause.from_s;
        found.cause.from_s = (sent - s.length as f64 / 1e9).max(0.0);
        found.cause.to_s = sent;
        let [first, last] = [s.from, s.to.min(case.delays.len() - 1)].map(|k| case.delays.seq(k));
        let lost = runs_between(&case.lost_in_bursts, first, last).iter().map(|run| run.len).sum();
        let why = sender_stall(case.begin.of(found.cause.from_s), s.length, packets, s.skipped, lost);
        found.because(why)
    });
    found.collect()
}

/// Returns `stalls` with the packets that the sender skipped because of them, and the stalls that only such packets show.
/// Both lists are ascending.
fn with_skips(stalls: &[Stall], skips: Vec<Skip>) -> Vec<SenderStall> {
    let mut all: Vec<SenderStall> =
        stalls.iter().map(|s| SenderStall { from: s.from, to: s.to, length: s.length, skipped: 0 }).collect();
    let mut alone: Vec<SenderStall> = Vec::new();
    for skip in skips {
        let Some(length) = skip.stall else { continue };
        let known = all.partition_point(|stall| stall.to < skip.before);
        let known = all.get_mut(known).filter(|stall| stall.from <= skip.before);
        match known.or_else(|| alone.last_mut().filter(|stall| stall.from == skip.before)) {
            Some(stall) => {
                stall.length = stall.length.max(length);
                stall.skipped += skip.run.len;
            }
            None => {
                let (from, to) = (skip.before, skip.before);
                alone.push(SenderStall { from, to, length, skipped: skip.run.len });
            }
        }
    }
    all.append(&mut alone);
    all.sort_by_key(|s| s.from);
    all
}

/// Stall of the sending program.
struct SenderStall {
    /// Index in send order of the first late packet.
    from: usize,
    /// Index in send order of the packet after the last late one; `from` if only skipped packets are known.
    to: usize,
    /// Length, in ns.
    length: i64,
    /// Number of packets that the sender skipped because it would have sent them too late.
    skipped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::testing::{MS, Test, first, found_in, packets, quiet, run};
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

    /// Test of 1000 packets, one every 20 ms: the sender stalls for `stall` ms when packet 300 is due, skips what is
    /// more than 2 s late, and sends the others at once.
    fn with_skips(stall: i64) -> Test {
        let skipped = ((stall - 2000) / 20).max(0);
        let resumed = 300 * 20 + stall;
        let times = (0..1000_i64).map(|k| (k, k * 20)).filter(|(k, _)| !(300..300 + skipped).contains(k));
        let sent: Vec<_> = times
            .map(|(k, due)| {
                let at = if k < 300 { due } else { due.max(resumed) };
                (k, at * MS + k % 7)
            })
            .collect();
        let mut packets = packets(sent.iter().map(|(_, at)| (*at, 10 * MS)));
        packets.iter_mut().zip(&sent).for_each(|(p, (k, _))| p.seq = *k as u32);
        let mut test = Test::new(1000, 20 * MS, &packets);
        test.session.skipped = vec![run(300, skipped as u64)];
        test.session.unsent = skipped as u64;
        test
    }

    #[test]
    fn skipped_packets_belong_to_the_stall_before_them() {
        let test = with_skips(2500);
        let [found] = found_in(&test, &RULE, |_| ()).try_into().ok().unwrap();
        assert_eq!(
            found.cause.because,
            "the sender stalled for 2.5 s, from 6.0 s on: 99 packets left late, 25 were not sent"
        );
        let judgement = judge(&test.material(), &[], false);
        assert_eq!((judgement.known.sent, judgement.lost), (975, 0));
        let ids: Vec<CauseId> = judgement.answer.causes.iter().map(|c| c.id).collect();
        assert_eq!(ids, [CauseId::SenderStall], "its system refused nothing");
    }

    #[test]
    fn a_sender_that_skips_a_fifth_of_the_packets_did_not_measure_what_was_asked() {
        let judgement = judge(&with_skips(2000 + 150 * 20).material(), &[], false);
        assert_eq!(judgement.answer.severity, Severity::Unknown);
        assert_eq!(
            judgement.felt.as_deref(),
            Some(
                "the hosts themselves sent late, read late, dropped, refused or skipped 25 % of the packets"
            )
        );
    }

    #[test]
    fn a_stall_began_when_its_first_packet_was_due() {
        let found = of(20, 100 * MS).unwrap();
        let cause = &found.cause;
        assert!((cause.from_s - 2.9).abs() < 1e-9 && cause.to_s == 3.0);
        assert_eq!((cause.packets, cause.magnitude_ns, found.harm), ([300, 319], Some(100 * MS), 0.5 * 0.02));
        assert_eq!(cause.because, "the sender stalled for 100 ms, from 2.9 s on: 20 packets left late");
        assert_eq!(of(500, 5000 * MS).unwrap().cause.severity, Severity::Fair);
        assert_eq!(of(1, 5000 * MS).unwrap().cause.severity, Severity::Fair, "the schedule was moved");
        assert_eq!(of(500, 5000 * MS).unwrap().cause.from_s, 0.0);
    }
}
