use super::*;
use jitlat_proto::amp::message::RequestSession;
use jitlat_proto::owamp::{SessionFinish, SkipRange, TestSession};

/// Results of 200 packets: records of those below `recorded`, and the skipped ranges `skips`.
fn results(recorded: u32, skips: &[(u32, u32)]) -> SessionData {
    let unspecified = std::net::IpAddr::from([0, 0, 0, 0]);
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
        records: (0..recorded).map(|seq| DataRecord::lost(seq, NtpTime(0), ErrorEstimate::UNKNOWN)).collect(),
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
    let skips = CountedPackets { end: 200, unsent: 24, skipped: runs(&[(100, 9), (188, 12)]), unreported: 0 };
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
