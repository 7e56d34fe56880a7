//! Rule for outages: no packet arrives for some time.

use super::rule::{CauseRule, Find, FoundCause, merge_if_many};
use crate::case::Case;
use crate::episodes::Hold;
use crate::sentences::causes::{nothing_arrived, outage, outage_at_sender, outage_over_tcp};
use crate::severity::of_outage;
use crate::tcp_limits::TcpHold;
use jitlat_core::answer::{CauseId, Severity};
use jitlat_core::metrics::seqset::SeqRun;
use jitlat_core::spec::Transport;

pub const RULE: CauseRule = CauseRule {
    id: CauseId::Outage,
    threshold: "a gap of 100 ms and four packets if there are no other losses, or up to six such gaps of about the \
                same length; among other losses a gap of 180 ms that is longer than geometric runs are in 99 of \
                100 tests; over TCP, nothing for 1 s and then everything at once",
    source: "ITU-T G.711 Appendix I (concealment ends at 60 ms), Y.1540 (availability)",
    find,
};

/// Shortest outage over TCP, in ns: the retransmission timer may double once within this time (RFC 6298).
const MIN_TCP_OUTAGE_NS: i64 = 900_000_000;

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    let session = case.material.session;
    if session.size_limit.is_some() && case.material.came.is_empty() {
        // No packet arrived because all are too large for the path.
        return Vec::new();
    }
    if session.spec.transport() == Transport::Tcp {
        return over_tcp(case);
    }
    let mut alone: Vec<&Hold> = case.late.holds.iter().filter(|h| h.length >= MIN_HOLD_NS).collect();
    let outages: Vec<(&SeqRun, f64)> = case
        .losses
        .outages()
        .map(|run| {
            // Packets that the host held at the end of an outage are part of it, because they waited for the same path.
            let held = alone.iter().position(|h| case.delays.seq(h.from) == run.start + run.len);
            let end = held
                .map(|k| alone.remove(k))
                .map_or_else(|| case.seconds(run.start + run.len), |hold| case.seconds_at(hold.to));
            (run, end - case.seconds(run.start))
        })
        .collect();
    let holds = alone.iter().map(|h| h.length as f64 / 1e9);
    let total: f64 = outages.iter().map(|(_, length)| length).sum::<f64>() + holds.sum::<f64>();
    let held = alone.iter().map(|h| of_hold(case, h, total));
    let found = outages.iter().map(|&(run, length)| {
        let all = run.len >= case.known.sent;
        let length = if all { case.duration.max(length) } else { length };
        let severity = match all {
            true => Severity::Bad,
            false => of_outage(length, total.max(length), case.duration),
        };
        let harm = run.len as f64 / case.known.sent.max(1) as f64;
        let end = run.start + run.len;
        let confidence = if run.len >= 10 { 0.97 } else { 0.95 };
        let why = if all {
            nothing_arrived(run.len)
        } else {
            outage(case.begin.of(case.seconds(run.start)), 1e9 * length, run.len)
        };
        let mut found = FoundCause::of(CauseId::Outage, severity, harm, confidence)
            .ns((1e9 * length) as i64)
            .because(why);
        found.cause.packets = [run.start, end - 1];
        found.cause.from_s = case.seconds(run.start).max(0.0);
        // Without a later packet, the end of the outage is unknown.
        found.cause.to_s = if end >= case.known.sent { case.duration } else { found.cause.from_s + length };
        found
    });
    merge_if_many(found.chain(held).collect())
}

/// Shortest hold that counts as an outage, in ns: the same as for an outage without other losses.
const MIN_HOLD_NS: i64 = 100_000_000;

/// Returns the outage during `hold`: the sending host could not reach the next hop and held its packets, but lost none.
/// `total` is the total length of all outages, in seconds.
fn of_hold(case: &Case<'_>, hold: &Hold, total: f64) -> FoundCause {
    let length = hold.length as f64 / 1e9;
    let packets = (hold.to - hold.from) as u64;
    let harm = packets as f64 / case.delays.len().max(1) as f64;
    let from = (case.seconds_at(hold.from) - length).max(0.0);
    let why = outage_at_sender(case.begin.of(from), hold.length as f64, packets);
    let mut found = FoundCause::of(CauseId::Outage, of_outage(length, total, case.duration), harm, 0.93)
        .places(case, hold.from, hold.to)
        .ns(hold.length)
        .because(why);
    found.cause.from_s = from;
    found
}

/// Returns the periods in which a TCP connection delivered nothing, each with the limit of the connection that explains
/// it; `None` if no limit does.
pub(super) fn tcp_pauses(case: &Case<'_>) -> Vec<(Hold, Option<TcpHold>)> {
    if case.material.session.spec.transport() != Transport::Tcp {
        return Vec::new();
    }
    let long = case.episodes.holds.iter().filter(|h| h.length >= MIN_TCP_OUTAGE_NS);
    let with_limit = |hold: &Hold| {
        let from = case.seconds_at(hold.from);
        (*hold, case.tcp_hold(from, from + hold.length as f64 / 1e9))
    };
    long.map(with_limit).collect()
}

/// Returns the outages of a TCP stream. TCP delivers nothing until a lost segment has been retransmitted.
fn over_tcp(case: &Case<'_>) -> Vec<FoundCause> {
    // The connection itself held back the others.
    let long: Vec<Hold> =
        tcp_pauses(case).into_iter().filter(|(_, limit)| limit.is_none()).map(|(hold, _)| hold).collect();
    let long = || long.iter();
    let total: f64 = long().map(|h| h.length as f64 / 1e9).sum();
    let found = long().map(|h| {
        let length = h.length as f64 / 1e9;
        let harm = (h.to - h.from) as f64 / case.delays.len().max(1) as f64;
        let packets = (h.to - h.from) as u64;
        let why = outage_over_tcp(case.stream_seconds_at(h.from), h.length as f64, packets);
        let mut found = FoundCause::of(CauseId::Outage, of_outage(length, total, case.duration), harm, 0.93)
            .places(case, h.from, h.to)
            .ns(h.length)
            .because(why);
        // Some of the held packets may have been sent after the end of the outage.
        found.cause.to_s = found.cause.to_s.min(found.cause.from_s + length);
        found
    });
    merge_if_many(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episodes::Hold;
    use crate::testing::{MS, SECOND, Test, every, first, found_in};
    use jitlat_core::answer::Severity;
    use jitlat_core::spec::{Direction, Schedule};

    /// Finds the cause in 1000 packets, one every 10 ms, without those in `gone`.
    fn of(gone: &[(u32, u32)]) -> Vec<FoundCause> {
        let is_gone = |k: u32| gone.iter().any(|(from, len)| (*from..from + len).contains(&k));
        let test = Test::new(1000, 10 * MS, &every(10 * MS, 1000, |k| (!is_gone(k)).then_some(0)));
        found_in(&test, &RULE, |_| ())
    }

    #[test]
    fn an_outage_is_described() {
        let found = of(&[(300, 100)]).remove(0);
        let cause = &found.cause;
        assert_eq!((cause.from_s, cause.to_s, cause.packets), (3.0, 4.0, [300, 399]));
        assert_eq!((cause.magnitude_ns, cause.confidence, found.harm), (Some(SECOND), 0.97, 0.1));
        assert_eq!(cause.because, "no packet arrived for 1.0 s, from 3.0 s on: 100 packets lost in a row");
        assert_eq!(cause.severity, Severity::Poor);
        // An outage at the end of the test lasts to the end of the test.
        let last = of(&[(900, 100)]).remove(0).cause;
        assert_eq!((last.from_s, last.to_s, last.packets), (9.0, 9.99, [900, 999]));
        let first = of(&[(0, 100)]).remove(0).cause;
        assert_eq!((first.from_s, first.packets), (0.0, [0, 99]));
    }

    #[test]
    fn nothing_that_arrives_is_one_outage() {
        let none = of(&[(0, 1000)]).remove(0).cause;
        assert_eq!((none.because.as_str(), none.to_s), ("none of 1000 packets arrived", 9.99));
        assert_eq!((none.magnitude_ns, none.severity), (Some(10 * SECOND), Severity::Bad));
    }

    #[test]
    fn ten_packets_make_it_surer() {
        let confidence = |len: u32| {
            let packets = every(20 * MS, 1000, |k| (!(300..300 + len).contains(&k)).then_some(0));
            found_in(&Test::new(1000, 20 * MS, &packets), &RULE, |_| ()).remove(0).cause.confidence
        };
        assert_eq!([9, 10].map(confidence), [0.95, 0.97]);
    }

    #[test]
    fn several_outages_count_together() {
        // Two outages of 0.25 s within 10 s are a twentieth of the time.
        let two = of(&[(300, 25), (600, 25)]);
        assert_eq!(two.iter().map(|f| f.cause.severity).collect::<Vec<_>>(), [of_outage(0.25, 0.5, 9.99); 2]);
    }

    #[test]
    fn over_tcp_an_outage_is_a_hold_of_0_9_s() {
        let packets = every(10 * MS, 1000, |_| Some(0));
        let test = Test::with(1000, 10 * MS, &packets, Schedule::Periodic, (Direction::Up, Transport::Tcp));
        let lasting = |seconds: f64, holds: &[(usize, usize, i64)]| {
            let holds = holds.iter().map(|(from, to, length)| Hold { from: *from, to: *to, length: *length });
            found_in(&test, &RULE, |case| (case.episodes.holds, case.duration) = (holds.collect(), seconds))
        };
        let of = |holds: &[(usize, usize, i64)]| lasting(10.0, holds);
        assert_eq!(first(0..=2 * SECOND, |ns| !of(&[(300, 400, ns)]).is_empty()), 900 * MS);
        let found = of(&[(300, 400, SECOND), (500, 510, 100 * MS), (600, 700, 2 * SECOND)]);
        assert_eq!(found.len(), 2);
        let cause = &found[0].cause;
        assert_eq!((cause.packets, cause.magnitude_ns, found[0].harm), ([300, 399], Some(SECOND), 0.1));
        assert_eq!(
            cause.because,
            "nothing arrived for 1.0 s, from 3.0 s on, then 100 packets at once: TCP delivers nothing before a lost segment is repaired"
        );
        assert_eq!(cause.severity, of_outage(1.0, 3.0, 10.0));
        // Packets that are sent after the end of the outage may also be held.
        let long = &of(&[(300, 500, SECOND)])[0].cause;
        assert_eq!((long.from_s, long.to_s, long.packets), (3.0, 4.0, [300, 499]));
        let long = lasting(1e5, &[(300, 400, SECOND), (600, 700, 2 * SECOND)]);
        assert_eq!(long[0].cause.severity, Severity::Good, "3 s of a day");
    }
}
