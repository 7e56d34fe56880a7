use crate::testing::{MS, Test, every};
use crate::{PROFILES, judge_with_hosts};
use jitlat_core::answer::{Answer, CauseId, Fault, Severity};
use jitlat_core::evidence::Evidence;
use jitlat_core::metrics::classify::AcceptedPacket;
use jitlat_core::session::Ending;
use jitlat_core::spec::{Direction, Schedule, Transport};
use jitlat_core::summary::ShareInterval;
use jitlat_core::{Options, PacketRecord, Session, Span, Summary, TestSpec, WallTime};

const PERIOD: i64 = 10 * MS;

fn judge(evidence: &Evidence<'_>, with_hosts: bool) -> Answer {
    let judgement = crate::judge::judge(evidence, &PROFILES, with_hosts);
    crate::judge::into_answer(
        judgement,
        jitlat_core::session::Ending::Complete,
        Some(&ShareInterval::default()),
    )
}

/// Packets of a sender that stalls for 400 ms before packet 300 and then sends what is overdue at once; those for which
/// `is_lost` is true are lost.
fn caught_up(is_lost: impl Fn(u32) -> bool) -> Test {
    let mut packets = every(PERIOD, 1000, |k| (!is_lost(k)).then_some(20 * MS));
    let end = 340 * PERIOD;
    for packet in packets.iter_mut().filter(|p| (300..340).contains(&p.seq)) {
        packet.sent = end + i64::from(packet.seq - 300) * 20_000;
    }
    Test::new(1000, PERIOD, &packets)
}

#[test]
fn losses_among_packets_sent_at_once_after_a_stall_are_the_senders() {
    let answer = judge(&caught_up(|k| (310..335).contains(&k) && k % 2 == 0).material(), false);
    assert_eq!(answer.severity, Severity::Good, "{answer:#?}");
    assert!(answer.causes.iter().all(|cause| cause.fault != Fault::Path), "{answer:#?}");
    let stall = answer.causes.iter().find(|cause| cause.id == CauseId::SenderStall).unwrap();
    assert!(
        stall.because.contains("13 more were lost among those that it sent at once"),
        "{}",
        stall.because
    );
    // Losses of packets that were sent in time are the path's.
    let elsewhere = judge(&caught_up(|k| k >= 500 && k % 10 == 0).material(), false);
    assert!(elsewhere.severity > Severity::Good, "{elsewhere:#?}");
}

#[test]
fn packets_that_the_receivers_full_buffer_dropped_are_not_the_paths() {
    // The receiver stalls for 5 s; its buffer holds 200 packets.
    let of = |drops: Option<u64>| {
        let mut test =
            Test::new(1000, PERIOD, &every(PERIOD, 1000, |k| (!(500..800).contains(&k)).then_some(20 * MS)));
        test.notes.read_late = (300..500).map(|k| (k, (800 - i64::from(k)) * PERIOD - 4 * MS)).collect();
        test.session.receiver_drops = drops;
        judge(&test.material(), false)
    };
    let answer = of(Some(300));
    assert!(answer.causes.iter().all(|cause| cause.fault != Fault::Path), "{answer:#?}");
    assert_ne!(answer.severity, Severity::Bad);
    let stall = answer.causes.iter().find(|cause| cause.id == CauseId::ReceiverStall).unwrap();
    let length = stall.magnitude_ns.unwrap();
    assert!((length - 5000 * MS).abs() <= PERIOD, "{length}");
    assert!(stall.because.contains("its full buffer dropped 300 packets meanwhile"), "{}", stall.because);
    // Without the kernel's count the packets were lost somewhere.
    assert!(of(None).causes.iter().any(|cause| cause.id == CauseId::Outage));
}

#[test]
fn a_receiver_that_reads_too_slowly_is_named_without_a_stall() {
    let is_lost = |k: u32| k % 100 >= 90;
    let mut test = Test::new(1000, PERIOD, &every(PERIOD, 1000, |k| (!is_lost(k)).then_some(20 * MS)));
    test.session.receiver_drops = Some(100);
    let answer = judge(&test.material(), false);
    assert_eq!(answer.severity, Severity::Good, "{answer:#?}");
    assert_eq!(answer.causes[0].id, CauseId::ReceiverStall);
    assert!(
        answer.headline.contains("the receiving host dropped 10 % of the packets itself"),
        "{}",
        answer.headline
    );
    assert!(answer.host.unwrap().severity > Severity::Good);
}

#[test]
fn profiles_include_the_hosts_where_they_are_asked_to() {
    let packets: Vec<AcceptedPacket> = every(PERIOD, 1000, |k| (k % 10 != 0).then_some(20 * MS));
    let mut refused = Test::new(1000, PERIOD, &packets);
    refused.session.unsent = 100;
    let voice = |with_hosts| judge(&refused.material(), with_hosts).profiles["voice"].clone();
    let (path, both) = (voice(false), voice(true));
    assert!(both.severity > path.severity && both.severity >= Severity::Poor, "{path:?} {both:?}");
    assert!(both.because.ends_with(", hosts included"), "{}", both.because);
    assert_eq!([false, true].map(|with| judge(&refused.material(), with).severity), [Severity::Good; 2]);
}

/// Summary of a test for which a sender needs `needed` ns per packet instead of the period of 1 ms.
fn slow(needed: i64, options: &Options) -> Summary {
    let (up, udp) = (Direction::Up, Transport::Udp);
    let spec = TestSpec::new(up, udp, 1000, 80, Span(MS), Schedule::Periodic).unwrap();
    // One host at both ends, so that its clock bounds the delay.
    let here = Some(std::net::Ipv4Addr::LOCALHOST.into());
    let (sent, ending) = (Some(1000), Ending::Complete);
    let session = Session { sent, ending, src: here, dst: here, ..Session::new(spec) };
    let at = |seq: i64| WallTime(seq * needed);
    let records = (0..1000).map(|seq| PacketRecord::one_way(seq, at(seq), WallTime(at(seq).0 + 5 * MS)));
    jitlat_core::analyze(&session, records, options)
}

#[test]
fn a_rate_that_was_not_reached_is_in_the_headline_and_limits_the_profiles() {
    let options = Options { judge: Some(judge_with_hosts(&PROFILES[..])), ..crate::options() };
    let answer = slow(10 * MS, &options).answer.unwrap();
    assert!(
        answer.headline.starts_with("Good at 100 packets per second, not measured at the requested 1000"),
        "{}",
        answer.headline
    );
    let host = answer.host.as_ref().unwrap();
    assert_eq!((host.severity, &host.causes[..]), (Severity::Fair, &[CauseId::SenderStall][..]));
    let cause = answer.causes.iter().find(|cause| cause.id == CauseId::SenderStall).unwrap();
    assert_eq!((cause.severity, cause.fault), (Severity::Fair, Fault::Sender));
    assert_eq!(cause.because, "the sending host reached only 100 of 1000 packets per second");
    // Video needs 200 packets per second, and telemetry one.
    assert_eq!(answer.profiles["video"].severity, Severity::Unknown);
    assert!(answer.profiles["video"].because.contains("only 100 of its 200 packets per second"));
    let in_time = slow(MS, &options).answer.unwrap();
    assert!(!in_time.headline.contains("per second"), "{}", in_time.headline);
}

#[test]
fn a_browser_whose_answers_came_too_late_is_not_behind_a_firewall() {
    use jitlat_core::twoway::{BROWSER_REQUESTS, TwoWay};
    let of = |protocol: &str| {
        let spec =
            TestSpec::new(Direction::Up, Transport::Tcp, 50, 80, Span(PERIOD), Schedule::Periodic).unwrap();
        let mut session = Session::new(spec);
        (session.sent, session.ending) = (Some(50), Ending::Complete);
        let facts =
            TwoWay { protocol: protocol.to_owned(), timeout: Some(Span::seconds(2)), ..TwoWay::default() };
        session.two_way = Some(Box::new(facts));
        let record = |seq: i64| {
            let sent = WallTime(1_700_000_000_000_000_000 + seq * PERIOD);
            let mut record = PacketRecord::one_way(seq, sent, sent);
            record.clear(jitlat_core::record::Moment::Arrived);
            record
        };
        crate::analyze(&session, (0..50).map(record))
    };
    let summary = of(BROWSER_REQUESTS);
    let headline = &summary.answer.as_ref().unwrap().headline;
    assert!(headline.starts_with("Bad: no answer arrived within 2.0 s, although"), "{headline}");
    assert!(!summary.counts_losses());
    let loss = jitlat_core::scalars::Scalar::named("loss").unwrap();
    assert!(loss.of(&summary).is_none() && loss.of(&of("tcp")).is_some());
}
