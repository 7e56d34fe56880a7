//! [`of_flood`]: verdict on a flood, that is, on requests to all hosts of a segment, none of which has to answer.

use crate::sentences::headline::{self, Flood};
use jitlat_core::Session;
use jitlat_core::answer::{Answer, Fault, Severity};
use jitlat_core::evidence::Judgement;
use std::collections::BTreeMap;

/// Returns the verdict on the flood of `session`, given its `judgement` as an ordinary test: what this host sent, and
/// its own faults. Any host may answer, and silence means nothing, so the path has no grade.
pub(crate) fn of_flood(judgement: Judgement, session: &Session) -> Answer {
    let Judgement { mut answer, known, received, .. } = judgement;
    answer.causes.retain(|cause| cause.fault == Fault::Sender);
    let refused = session.refused();
    let flood = Flood {
        sent: known.sent.saturating_sub(refused),
        unsent: session.unsent,
        answered: received,
        period: session.period(),
    };
    Answer {
        severity: Severity::Unknown,
        headline: headline::of_flood(flood),
        buffer_ns: None,
        without_clock_step: None,
        profiles: BTreeMap::new(),
        qoo: None,
        ..answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze;
    use jitlat_core::record::Moment;
    use jitlat_core::session::Ending;
    use jitlat_core::spec::{Direction, Schedule, TestSpec, Transport};
    use jitlat_core::time::{Stamp, StampSource};
    use jitlat_core::twoway::TwoWay;
    use jitlat_core::{PacketRecord, Span, Summary, WallTime};

    /// A flood of `n` requests every 20 ms, of which the first `answered` were answered after 1 ms.
    fn flood(n: u64, answered: i64, unsent: u64) -> Summary {
        const MS: i64 = 1_000_000;
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, n, 80, Span(20 * MS), Schedule::Periodic).unwrap();
        let mut session = Session::new(spec);
        (session.sent, session.ending, session.unsent) = (Some(n as u32), Ending::Complete, unsent);
        let remarks = vec![TwoWay::BROADCAST_REMARK.to_owned()];
        session.two_way = Some(Box::new(TwoWay { remarks, ..TwoWay::default() }));
        let record = |seq: i64| {
            let sent = WallTime(1_700_000_000_000_000_000 + seq * 20 * MS);
            let mut record = PacketRecord::one_way(seq, sent, sent);
            record.clear(Moment::Arrived);
            record.set(Moment::Returned, Stamp { at: WallTime(sent.0 + MS), source: StampSource::User });
            record
        };
        analyze(&session, (0..answered).map(record))
    }

    #[test]
    fn a_flood_has_a_verdict_of_its_own_and_silence_is_not_a_loss() {
        let silent = flood(200, 0, 0);
        let answer = silent.answer.as_ref().unwrap();
        assert_eq!((answer.severity, &answer.causes), (Severity::Unknown, &vec![]));
        assert_eq!(
            answer.headline,
            "Flood: 200 requests to all hosts of the segment, 50 per second; no host answered, and none has to."
        );
        assert!(answer.qoo.is_none() && answer.profiles.is_empty());
        assert!(!silent.loss_observable() && silent.counts.lost == 200);
    }

    #[test]
    fn answers_and_what_was_not_sent_are_counted() {
        let some = flood(200, 50, 0).answer.unwrap();
        let says = "; 50 (25 %) were answered, and none has to be, so loss is unknown.";
        assert!(
            some.headline.starts_with("Flood: 200 requests") && some.headline.ends_with(says),
            "{}",
            some.headline
        );
        assert_eq!((some.severity, some.buffer_ns), (Severity::Unknown, None));
        let refused = flood(200, 0, 12).answer.unwrap();
        assert!(
            refused.headline.contains("; this host did not send 12 more; no host"),
            "{}",
            refused.headline
        );
        assert_eq!(flood(3, 0, 3).answer.unwrap().headline, "No flood: this host sent none of 3 requests.");
    }
}
