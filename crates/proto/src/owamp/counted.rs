//! [`CountedPackets`]: the packets that the results of a session cover.

use super::message::SkipRange;
use super::session::SessionData;
use jitlat_core::metrics::seqset::{SeqRun, without};

/// Packets of a session that its results cover. Packets sent within the timeout before the end are excluded, including
/// their losses (RFC 4656 §3.8).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CountedPackets {
    /// Packets below this number are covered.
    pub end: u32,
    /// Number of covered packets that were not sent.
    pub unsent: u64,
    /// Numbers of covered packets that the sender skipped because their send times had passed.
    pub skipped: Vec<SeqRun>,
    /// Number of sent packets that are not covered.
    pub unreported: u64,
}

impl CountedPackets {
    /// Returns the packets that `data` covers. `refused` contains the numbers of packets that the system refused to
    /// send, ascending. `planned` is the number of packets of a session that was not interrupted: the packets that
    /// its sender did not reach count as skipped.
    pub fn of(data: &SessionData, refused: &[u32], planned: Option<u32>) -> CountedPackets {
        let mut skips = data.skips.clone();
        if let Some((next, planned)) = data
            .next_seq
            .zip(planned)
            .filter(|(next, planned)| next < planned && skips.last().is_none_or(|skip| skip.last < *next))
        {
            skips.push(SkipRange { first: next, last: planned - 1 });
        }
        let mut end = data.records.iter().map(|r| r.seq.saturating_add(1)).max().unwrap_or(0);
        for skip in &skips {
            if (skip.first..=skip.last).contains(&end) {
                end = skip.last + 1;
            }
        }
        let run = |first: u32, last: u32| SeqRun { start: first.into(), len: u64::from(last - first) + 1 };
        let below = skips.iter().filter(|skip| skip.first < end).map(|skip| run(skip.first, skip.last));
        let not_sent: Vec<SeqRun> = below.collect();
        let unsent: u64 = not_sent.iter().map(|run| run.len).sum();
        let skipped = without(not_sent.into_iter(), refused.iter().map(|seq| run(*seq, *seq)));
        let later = skips.iter().filter(|skip| skip.first >= end).map(|skip| skip.last - skip.first + 1);
        let later: u32 = later.sum();
        let sent = planned.or(data.next_seq).unwrap_or(end).saturating_sub(end);
        CountedPackets {
            end,
            unsent,
            skipped: skipped.collect(),
            unreported: sent.saturating_sub(later).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amp::Sid;
    use crate::amp::message::RequestSession;
    use crate::owamp::{DataRecord, ScheduleSlot, SessionFinish, TestSession};
    use jitlat_core::ntp::{ErrorEstimate, NtpTime};

    /// Results of 200 packets: records of those below `recorded`, and the skipped ranges `skips`.
    fn results(recorded: u32, skips: &[(u32, u32)]) -> SessionData {
        let unspecified = core::net::IpAddr::from([0, 0, 0, 0]);
        let request = RequestSession {
            command: 1,
            version: 4,
            conf_sender: 0,
            conf_receiver: 1,
            slots: 1,
            packets: 200,
            sender_port: 0,
            receiver_port: 0,
            sender: unspecified,
            receiver: unspecified,
            sid: Sid::NONE,
            padding: 0,
            start: NtpTime(0),
            timeout: NtpTime(0),
            type_p: 0,
        };
        SessionData {
            session: TestSession { request, slots: vec![ScheduleSlot::Fixed(1)] },
            finished: SessionFinish::Normally,
            next_seq: Some(200),
            skips: skips.iter().map(|&(first, last)| SkipRange { first, last }).collect(),
            records: (0..recorded)
                .map(|seq| DataRecord::lost(seq, NtpTime(0), ErrorEstimate::UNKNOWN))
                .collect(),
        }
    }

    fn runs(of: &[(u64, u64)]) -> Vec<SeqRun> {
        of.iter().map(|&(start, len)| SeqRun { start, len }).collect()
    }

    #[test]
    fn every_planned_packet_is_accounted_for() {
        let whole = CountedPackets { end: 200, ..CountedPackets::default() };
        assert_eq!(CountedPackets::of(&results(200, &[]), &[], Some(200)), whole);
        // The last packets left within the timeout before the end.
        let late = CountedPackets { end: 188, unreported: 12, ..CountedPackets::default() };
        assert_eq!(CountedPackets::of(&results(188, &[]), &[], Some(200)), late);
        // The sender skipped some within the test and the last ones, and its system refused two.
        let skips =
            CountedPackets { end: 200, unsent: 24, skipped: runs(&[(100, 9), (188, 12)]), unreported: 0 };
        let data = results(188, &[(50, 51), (100, 109), (188, 199)]);
        assert_eq!(CountedPackets::of(&data, &[50, 51, 109], Some(200)), skips);
        // Some left too late, and the last ones were skipped.
        let both = CountedPackets { end: 150, unreported: 40, ..CountedPackets::default() };
        assert_eq!(CountedPackets::of(&results(150, &[(190, 199)]), &[], Some(200)), both);
        // The receiver stopped the session while the sender stalled.
        let stopped = SessionData { next_seq: Some(170), ..results(170, &[]) };
        let skips = CountedPackets { end: 200, unsent: 30, skipped: runs(&[(170, 30)]), unreported: 0 };
        assert_eq!(CountedPackets::of(&stopped, &[], Some(200)), skips);
        let interrupted = CountedPackets { end: 170, ..CountedPackets::default() };
        assert_eq!(CountedPackets::of(&stopped, &[], None), interrupted);
    }
}
