//! [`KnownPackets`]: the packets of a test that are known to be received or lost.

use crate::metrics::seqset::{SeqSet, absent};
use crate::session::{Ending, Session};
use crate::spec::MAX_PACKETS;

/// The packets of a test that are known to be received or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPackets {
    /// Number of packets sent that are known to be received or lost.
    pub sent: u64,
    /// End of the known packets: each packet with a lower number is known, unless the session lists it as unrecorded.
    /// Skipped packets among them were not sent.
    pub end: u64,
    /// Number of packets of which it is unknown whether they were received or lost: unrecorded packets, and packets
    /// from `end` on.
    pub unknown: u64,
    /// Number of packets from `end` on, all of them unknown.
    pub tail: u64,
    /// True if each packet sent is known to be received or lost.
    pub complete: bool,
    /// Number of packets without a row at the end of a log of version 1 or 2 if there are so many that the file may
    /// have been cut; otherwise 0. They count as lost.
    pub doubtful: u64,
}

impl KnownPackets {
    /// Returns the known packets of `session`; `accepted` contains the packets received.
    pub fn of(session: &Session, accepted: &SeqSet) -> KnownPackets {
        let longest = |met| absent(accepted.runs(), met).map(|run| run.len).max().unwrap_or(0);
        KnownPackets::up_to(session, accepted.max(), longest)
    }

    /// Like [`KnownPackets::of`], given the highest sequence number received. `longest` returns the length of the
    /// longest loss burst below a sequence number.
    pub fn up_to(session: &Session, highest: Option<u32>, longest: impl FnOnce(u64) -> u64) -> KnownPackets {
        let KnownPackets { end, tail, complete, doubtful, .. } =
            KnownPackets::ignoring_unrecorded(session, highest, longest);
        let unrecorded: u64 = session.unrecorded_in(0, end).map(|run| run.len).sum();
        KnownPackets {
            sent: end.saturating_sub(session.uncounted_in(0, end).map(|run| run.len).sum()),
            end,
            unknown: tail + unrecorded,
            tail,
            complete: complete && unrecorded == 0,
            doubtful,
        }
    }

    fn ignoring_unrecorded(
        session: &Session,
        highest: Option<u32>,
        longest: impl FnOnce(u64) -> u64,
    ) -> KnownPackets {
        // A log may declare more packets than a specification can hold.
        let asked = session.declared.unwrap_or(session.spec.packets().into());
        let met = highest.map_or(0, |seq| u64::from(seq) + 1);
        let all = |sent: u64| KnownPackets::below(sent.max(met), 0, true);
        let cut = KnownPackets::below(met, asked.saturating_sub(met), false);
        // Rows may be missing after the last row, so only packets up to the last arrival are known.
        if session.truncated || session.ending == Ending::StorageFailed {
            return cut;
        }
        match (session.sent.map(u64::from), session.ending) {
            (Some(sent), Ending::Complete) if session.unreported > 0 => {
                KnownPackets::below(sent.min(asked).max(met), session.unreported, false)
            }
            (Some(sent), Ending::Complete | Ending::Interrupted) => all(sent.min(asked)),
            // The sender sent everything, and the receiver reported arrivals until it lost contact.
            (Some(sent), Ending::PeerLost | Ending::ServerStopped) if sent >= asked => all(asked),
            (Some(sent), Ending::PeerLost | Ending::ServerStopped) => {
                KnownPackets::below(sent.max(met), asked.saturating_sub(sent.max(met)), false)
            }
            (None, Ending::Complete) => all(asked),
            // Above the limit of a test, the header does not state what was sent.
            (None, Ending::Unknown) if asked > MAX_PACKETS.into() => cut,
            (sent, Ending::Unknown) if !session.has_end_lines() => {
                let sent = sent.map_or(asked, |sent| sent.min(asked)).max(met);
                KnownPackets { doubtful: doubtful_tail(sent - met, longest(met)), ..all(sent) }
            }
            _ => cut,
        }
    }

    /// Returns a value for which all packets below `end` are known, and the `tail` packets after them are unknown.
    fn below(end: u64, tail: u64, complete: bool) -> KnownPackets {
        KnownPackets { sent: end, end, unknown: tail, tail, complete, doubtful: 0 }
    }
}

/// Returns `missing`, the number of packets missing at the end of a log of version 1 or 2, if it is far larger than
/// `longest`, the length of the longest loss burst before; otherwise 0. Such a log gets its final name only when it is
/// complete, but does not mark its end, so a file that was cut afterwards looks like loss.
fn doubtful_tail(missing: u64, longest: u64) -> u64 {
    if missing > 10 && missing > longest.saturating_mul(3) { missing } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::seqset::SeqRun;
    use crate::spec::{Direction, Schedule, TestSpec, Transport};
    use crate::testing::{MS, first};
    use crate::time::Span;

    /// The first `sent` packets are known; the `unknown` packets after them are not.
    const fn known(sent: u64, unknown: u64, complete: bool) -> KnownPackets {
        KnownPackets { sent, end: sent, unknown, tail: unknown, complete, doubtful: 0 }
    }

    /// A run of loss.
    fn run(start: u64, len: u64) -> SeqRun {
        SeqRun { start, len }
    }

    const WHOLE: fn(u64) -> KnownPackets = |sent| known(sent, 0, true);
    const CUT: fn(u64, u64) -> KnownPackets = |sent, unknown| known(sent, unknown, false);

    /// Session of a log of this version, of a test of 100 packets.
    fn session(version: u8, sent: Option<u32>, ending: Ending) -> Session {
        Session { version, sent, ending, declared: Some(100), ..Session::new(TestSpec::default()) }
    }

    #[test]
    fn the_end_of_the_record_says_how_much_is_known() {
        let of = |version, sent, ending, highest| {
            KnownPackets::up_to(&session(version, sent, ending), Some(highest), |_| 0)
        };
        use Ending::{Complete, Interrupted, PeerLost, ServerStopped, StorageFailed, Unknown};
        // Columns: ending, packets sent, highest number received. All are logs of version 3.
        let table = [
            (Complete, Some(100), 89, WHOLE(100)),
            (Complete, None, 89, WHOLE(100)),
            (Interrupted, Some(60), 49, WHOLE(60)),
            // A number above those sent counts as sent, but not above the number of packets in the test.
            (Interrupted, Some(40), 49, WHOLE(50)),
            (Interrupted, Some(160), 49, WHOLE(100)),
            (Interrupted, None, 49, CUT(50, 50)),
            (PeerLost, Some(100), 49, WHOLE(100)),
            (PeerLost, Some(99), 49, CUT(99, 1)),
            (PeerLost, Some(40), 49, CUT(50, 50)),
            (PeerLost, None, 49, CUT(50, 50)),
            // A server that sent has stated how many packets it sent before it was stopped.
            (ServerStopped, Some(60), 49, CUT(60, 40)),
            (ServerStopped, None, 49, CUT(50, 50)),
            (StorageFailed, Some(100), 49, CUT(50, 50)),
            (Unknown, Some(100), 49, CUT(50, 50)),
            (Unknown, None, 99, CUT(100, 0)),
        ];
        for (ending, sent, highest, known) in table {
            assert_eq!(of(3, sent, ending, highest), known, "{ending:?} of {sent:?}");
        }
        // Older logs have no end lines that could say more.
        assert_eq!(of(2, Some(60), Unknown, 49), WHOLE(60));
        assert_eq!(of(2, None, Unknown, 95), WHOLE(100));
        let truncated = Session { truncated: true, ..session(3, Some(100), Complete) };
        assert_eq!(KnownPackets::up_to(&truncated, Some(49), |_| 0), CUT(50, 50));
        assert_eq!(KnownPackets::up_to(&truncated, None, |_| 0), CUT(0, 100));
    }

    #[test]
    fn what_is_missing_at_the_end_of_an_old_log_is_lost_and_noted_if_it_is_much() {
        let of = |packets: u64, longest: u64, missing: u64| {
            let direction = (Direction::Up, Transport::Udp);
            let spec = TestSpec::new(direction.0, direction.1, packets, 80, Span(MS), Schedule::Periodic);
            let session = Session { version: 2, declared: None, ..Session::new(spec.unwrap()) };
            KnownPackets::up_to(&session, (packets - missing).checked_sub(1).map(|seq| seq as u32), |_| {
                longest
            })
        };
        let fewest = |packets, longest| {
            first(0..=packets as i64 - 1, |missing| of(packets, longest, missing as u64).doubtful > 0)
        };
        assert_eq!((fewest(500, 0), fewest(500, 3), fewest(500, 20)), (11, 11, 61));
        assert_eq!(of(500, 0, 106), KnownPackets { doubtful: 106, ..WHOLE(500) });
        assert_eq!(of(500, 0, 10), WHOLE(500));
        assert_eq!(of(5, 0, 5), WHOLE(5), "a header alone: all are lost");
        let impossible = Session { declared: Some(4_000_000_000), ..session(1, None, Ending::Unknown) };
        assert_eq!(KnownPackets::up_to(&impossible, Some(9), |_| 0), CUT(10, 3_999_999_990));
        assert_eq!(of(20, 0, 20), KnownPackets { doubtful: 20, ..WHOLE(20) });
    }

    #[test]
    fn rows_that_are_missing_within_the_log_are_unknown() {
        let mut session = session(3, Some(100), Ending::Complete);
        session.unrecorded = vec![run(10, 5), run(90, 20)];
        let whole = KnownPackets::up_to(&session, Some(99), |_| 0);
        let of = |sent, end, unknown, tail| KnownPackets { sent, end, tail, ..known(end, unknown, false) };
        assert_eq!(whole, of(85, 100, 15, 0));
        session.ending = Ending::StorageFailed;
        let cut = KnownPackets::up_to(&session, Some(49), |_| 0);
        assert_eq!(cut, of(45, 50, 55, 50));
    }

    #[test]
    fn skipped_packets_were_not_sent_and_late_ones_are_unknown() {
        let mut session = session(3, Some(88), Ending::Complete);
        session.skipped = vec![run(10, 5), run(80, 3)];
        session.unrecorded = vec![run(12, 8)];
        session.unsent = 9;
        assert_eq!(session.refused(), 1);
        let uncounted: Vec<SeqRun> = session.uncounted_in(11, 82).collect();
        assert_eq!(uncounted, [run(11, 1), run(12, 8), run(80, 2)]);
        session.unrecorded.clear();
        let whole = KnownPackets::up_to(&session, Some(87), |_| 0);
        assert_eq!(whole, KnownPackets { sent: 80, ..known(88, 0, true) });
        session.unreported = 12;
        let late = KnownPackets::up_to(&session, Some(87), |_| 0);
        assert_eq!(late, KnownPackets { sent: 80, ..known(88, 12, false) });
    }

    #[test]
    fn losses_are_runs_between_packets_that_came() {
        let mut accepted = SeqSet::default();
        // 20 packets are lost in the middle, 61 at the end.
        (0..300).chain(320..439).for_each(|seq| assert!(accepted.insert(seq)));
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 500, 80, Span(100 * MS), Schedule::Periodic);
        let session = Session { version: 2, ..Session::new(spec.unwrap()) };
        let cut = KnownPackets { doubtful: 61, ..WHOLE(500) };
        assert_eq!(KnownPackets::of(&session, &accepted), cut);
        accepted.insert(439);
        assert_eq!(KnownPackets::of(&session, &accepted), WHOLE(500));
    }
}
