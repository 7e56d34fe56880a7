//! Rule for stalls of the receiving program.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::explained_losses::MAX_RECORDED_LAG_NS as MAX_LAG_NS;
use crate::case::{Case, runs_between};
use crate::sentences::causes::{receiver_drops, receiver_stall};
use crate::severity::{of_host, of_missing};
use jitlat_core::answer::CauseId;
use jitlat_core::spec::Transport;

pub const RULE: CauseRule = CauseRule {
    id: CauseId::ReceiverStall,
    threshold: "three or more consecutive packets arrive together, the first of them at least 60 ms late (40 ms if \
                there are three such groups, or if the program's own clock readings prove it) and four times as \
                late as all other packets but two; each later one waits less by the time it was sent later; \
                according to the program's stamps, or to its clock readings after the kernel's stamps; without such \
                packets, if the kernel dropped 0.1 % of the packets because the program did not read them",
    source: "definition: what a host did is not the path's fault",
    find,
};

/// Confidence in a stall that the path may have caused.
const UNPROVEN: f64 = 0.85;
/// Confidence in a stall that is proven by the program's own clock readings.
pub(crate) const PROVEN: f64 = 0.95;
/// Variation of a program's own clock readings, in ns.
const READING_NOISE_NS: i64 = 2_000_000;

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    // TCP itself holds data back after a loss, so a hold does not show that the program stalled.
    if case.material.session.spec.transport() == Transport::Tcp {
        return Vec::new();
    }
    let n = case.known.sent.max(1);
    let stall = |from: usize, to: usize, length: i64, confidence: f64| {
        let packets = (to - from) as u64;
        let share = packets as f64 / n as f64;
        // The buffer is full before it is read: packets that it dropped follow those that waited in it.
        let last = case.delays.seq((to - 1).min(case.delays.len() - 1));
        let [first, end] = [case.delays.seq(from), last + 1];
        let during = runs_between(&case.dropped_by_receiver, first, end).iter();
        let why =
            receiver_stall(case.stream_seconds_at(from), length, packets, during.map(|run| run.len).sum());
        let mut found =
            FoundCause::of(CauseId::ReceiverStall, of_host(of_missing(share, packets, n)), share, confidence)
                .places(case, from, to)
                .ns(length)
                .because(why);
        found.cause.to_s =
            (found.cause.from_s + length as f64 / 1e9).min(case.duration.max(found.cause.from_s));
        found
    };
    let mut found: Vec<FoundCause> =
        case.receiver_holds().iter().map(|h| stall(h.from, h.to, h.length, UNPROVEN)).collect();
    // If the program's clock readings are later than the kernel's stamps, they prove a stall.
    let series = case.delays.series();
    let mut waits: Vec<(usize, i64)> = case
        .material
        .notes
        .read_late
        .iter()
        .map(|(seq, lag)| (series.position_of((*seq).into()), *lag))
        .filter(|(k, _)| *k < series.len())
        .collect();
    waits.sort_unstable();
    let period = case.material.period().unwrap_or(0);
    let mut k = 0;
    while k < waits.len() {
        let from = k;
        let mut longest = waits[k].1;
        while k + 1 < waits.len()
            && waits[k + 1].0 <= waits[k].0 + 2
            && waits[k + 1].1 <= waits[k].1.saturating_add(period / 2).saturating_add(READING_NOISE_NS)
        {
            k += 1;
            longest = longest.max(waits[k].1);
        }
        k += 1;
        if longest >= case.longest_usual_hold() && k - from >= 3 {
            let is_longer = longest >= MAX_LAG_NS;
            let length = if is_longer { until_read(case, &waits[from..k]) } else { longest };
            found.push(stall(waits[from].0, waits[k - 1].0 + 1, length, PROVEN));
        }
    }
    if found.is_empty() {
        found.extend(read_too_slowly(case));
    }
    found
}

/// Returns the cause for packets that the receiving host dropped although its program never stalled; `None` if it
/// dropped too few.
fn read_too_slowly(case: &Case<'_>) -> Option<FoundCause> {
    let (runs, sent) = (&case.dropped_by_receiver, case.known.sent.max(1));
    let dropped: u64 = runs.iter().map(|run| run.len).sum();
    let share = dropped as f64 / sent as f64;
    let (first, last) = (runs.first()?, runs.last().filter(|_| share >= MIN_DROPPED)?);
    let why = receiver_drops(dropped, share);
    let found = FoundCause::of(CauseId::ReceiverStall, of_missing(share, dropped, sent), share, PROVEN);
    Some(found.packets(case, first.start, last.start + last.len - 1).share(share).because(why))
}

/// Minimum share of packets dropped by the receiving host that is reported: 0.1 %, as in ITU-T Y.1541.
const MIN_DROPPED: f64 = 1e-3;

/// Returns the time from the arrival of the first packet in `waits` until all of its packets were read, in ns. `waits`
/// contains indices in send order and waits in ns; at least one of the times was too long to be recorded. A later
/// packet with a shorter wait shows when the program resumed reading.
fn until_read(case: &Case<'_>, waits: &[(usize, i64)]) -> i64 {
    let Some((first, _)) = waits.first() else { return MAX_LAG_NS };
    let read = |(k, lag): &(usize, i64)| case.delays.arrival(*k).saturating_add(*lag);
    let recorded = waits.iter().filter(|(_, lag)| *lag < MAX_LAG_NS).map(read).min();
    // If all waits were too long to be recorded, the program read before the next packet that it read in time arrived, and
    // at this time at the earliest.
    let at_least = waits.iter().map(read).max();
    let next = waits.last().map(|(k, _)| k + 1).filter(|next| *next < case.delays.len());
    let overflowed = next.filter(|next| case.delays.seq(*next) > case.delays.seq(next - 1) + 1);
    let at_most = overflowed.map(|next| case.delays.arrival(next));
    let length =
        recorded.or(at_most.max(at_least)).map_or(0, |at| at.saturating_sub(case.delays.arrival(*first)));
    length.max(MAX_LAG_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episodes::Hold;
    use crate::testing::{MS, Test, every, first, found_in, quiet};
    use jitlat_core::spec::{Direction, Schedule};

    #[test]
    fn a_hold_is_the_receivers_where_its_program_stamped() {
        let of = |length: i64, packets: i64, tail: i64| {
            let hold = Hold { from: 200, to: 200 + packets as usize, length };
            found_in(&quiet(), &RULE, |case| (case.episodes.holds, case.episodes.tail) = (vec![hold], tail))
        };
        assert_eq!(first(0..=500 * MS, |ns| !of(ns, 20, 0).is_empty()), 60 * MS);
        assert_eq!(
            first(0..=500 * MS, |ns| !of(ns, 20, 20 * MS).is_empty()),
            80 * MS,
            "four times what others wait"
        );
        assert_eq!(first(0..=20, |n| !of(100 * MS, n, 0).is_empty()), 3);
        let found = of(100 * MS, 20, 0).remove(0);
        let cause = &found.cause;
        assert_eq!((cause.from_s, cause.to_s, cause.packets), (2.0, 2.1, [200, 219]));
        assert_eq!((cause.magnitude_ns, cause.confidence, found.harm), (Some(100 * MS), 0.85, 0.02));
        assert_eq!(
            cause.because,
            "the receiver stalled for 100 ms, from 2.0 s on, and then read 20 packets at once"
        );
        // A stall lasts to the end of the test at most.
        let long = of(20_000 * MS, 20, 0).remove(0).cause;
        assert_eq!((long.from_s, long.to_s), (2.0, 9.99));
    }

    /// Causes found in packets every 10 ms, of which those in `notes` were read late: number and wait in ns.
    fn read_late(notes: &[(u32, i64)]) -> Vec<FoundCause> {
        let mut test = quiet();
        test.notes.read_late = notes.to_vec();
        found_in(&test, &RULE, |_| ())
    }

    /// Waits in a stall of `length` ns from packet 300: each packet arrives 10 ms later than the one before and waits
    /// 10 ms less.
    fn stall(length: i64, packets: u32) -> Vec<(u32, i64)> {
        (0..packets).map(|k| (300 + k, length - i64::from(k) * 10 * MS)).collect()
    }

    #[test]
    fn what_the_program_read_late_shows_a_stall_for_sure() {
        let found = read_late(&stall(100 * MS, 10)).remove(0);
        assert_eq!((found.cause.packets, found.cause.magnitude_ns), ([300, 309], Some(100 * MS)));
        assert_eq!((found.cause.confidence, found.harm), (0.95, 0.01));
        assert_eq!(first(0..=500 * MS, |ns| !read_late(&stall(ns, 10)).is_empty()), 40 * MS);
        assert_eq!(first(1..=20, |n| !read_late(&stall(100 * MS, n as u32)).is_empty()), 3);
        assert!(
            read_late(&[(5000, 100 * MS), (5001, 100 * MS), (5002, 100 * MS)]).is_empty(),
            "never received"
        );
    }

    #[test]
    fn a_stall_ends_where_a_packet_waits_longer_again_or_two_are_read_in_time() {
        // A packet that waits up to half a period and 2 ms longer than the one before belongs to the same stall.
        let stalls = |more: i64| {
            let mut notes = stall(100 * MS, 5);
            notes.extend((0..5).map(|k| (305 + k, 60 * MS + more - i64::from(k) * 10 * MS)));
            read_late(&notes).len()
        };
        assert_eq!(first(0..=40 * MS, |more| stalls(more) == 2), 7 * MS + 1);
        // One packet without a wait does not end a stall; two do.
        let stalls = |skipped: u32| {
            let mut notes = stall(100 * MS, 4);
            notes.extend((0..4).map(|k| (304 + skipped + k, 60 * MS)));
            read_late(&notes).len()
        };
        assert_eq!([stalls(0), stalls(1), stalls(2)], [1, 1, 2]);
        // Two packets are not a stall, even after another one.
        let few = [stall(100 * MS, 5), vec![(600, 100 * MS), (601, 90 * MS)]].concat();
        assert_eq!(read_late(&few).len(), 1);
        // The longest wait need not be that of the first packet.
        let rising = read_late(&[(300, 58 * MS), (301, 62 * MS), (302, 50 * MS)]);
        assert_eq!(rising[0].cause.magnitude_ns, Some(62 * MS));
    }

    #[test]
    fn a_stall_longer_than_a_record_holds_has_its_length_from_the_packets() {
        // Records hold waits of at most 2.1 s.
        let recorded = |length: i64, packets: u32| {
            let notes = stall(length, packets).into_iter().map(|(seq, lag)| (seq, lag.min(MAX_LAG_NS)));
            let found = read_late(&notes.collect::<Vec<_>>());
            assert_eq!(found.len(), 1);
            found[0].cause.magnitude_ns.unwrap() / MS
        };
        assert_eq!(
            [2000, 2147, 2148, 3000, 5000].map(|ms| recorded(ms * MS, 500.min(ms as u32 / 10))),
            [2000, 2147, 2148, 3000, 5000]
        );
        // The socket was full after 1 s of a stall of 5 s: the program read at least 2.1 s after the last packet in it.
        assert_eq!(recorded(5000 * MS, 100), 990 + MAX_LAG_NS / MS);
    }

    #[test]
    fn tcp_holds_packets_by_itself() {
        let packets = every(10 * MS, 1000, |_| Some(0));
        let mut test =
            Test::with(1000, 10 * MS, &packets, Schedule::Periodic, (Direction::Up, Transport::Tcp));
        test.notes.read_late = stall(100 * MS, 10);
        assert!(found_in(&test, &RULE, |_| ()).is_empty());
    }
}
