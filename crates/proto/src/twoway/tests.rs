//! Complete tests in virtual time: each protocol's client with its own reflector over a path that delays,
//! loses, duplicates and reorders packets.

use super::*;
use crate::lamp;
use crate::twamp::{self, SecurityMode, Sid, TestKeys};
use crate::twoway::reflect::RequestArrival;
use crate::twoway::sim::parties::{lamp_client, lamp_far, stamp_far, stamp_sender};
use crate::twoway::sim::{EPOCH, Far, tick};
use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::spec::{Direction, Schedule, Transport};
use jitlat_core::{EcnMarking, WallTime};

/// Lead of the far clock over the near one, in ns.
const AHEAD: i64 = 250_000_000;

fn plan(packets: u64, wait: Option<Span>) -> PingPlan {
    let period = Span::millis(10);
    let spec = TestSpec::new(Direction::Up, Transport::Udp, packets, 80, period, Schedule::Periodic);
    PingPlan { spec: spec.unwrap(), wait, timeout: Span::seconds(1), overdue: Overdue::Space }
}

/// Effect of the path on the k-th packet in one direction: the delays of its copies, in ns.
type Path<'a> = &'a dyn Fn(usize) -> Vec<i64>;

/// Runs a test to its end. Returns the test and the virtual time that it took.
fn run<P: Protocol>(
    protocol: P,
    plan: PingPlan,
    far: &mut Far,
    up: Path<'_>,
    down: Path<'_>,
) -> (PingOutcome<P>, i64) {
    let mut pinger = Pinger::new(protocol, plan, StampSource::User);
    let mut flying: Vec<(i64, bool, Vec<u8>)> = Vec::new();
    let (mut now, mut ups, mut downs) = (0i64, 0, 0);
    for _ in 0..100_000 {
        flying.sort_by_key(|f| f.0);
        while flying.first().is_some_and(|f| f.0 <= now) {
            let (at, to_far, bytes) = flying.remove(0);
            if to_far {
                for answer in far.answer(&bytes, at, AHEAD) {
                    flying.extend(down(downs).iter().map(|d| (at + 1000 + d, false, answer.clone())));
                    downs += 1;
                }
            } else {
                let at = WallTime(EPOCH + at);
                let stamp = Stamp { at, source: StampSource::Kernel };
                let meta = PingReception {
                    stamp,
                    read: at,
                    length: bytes.len(),
                    ttl: None,
                    traffic_class: None,
                    other_port: false,
                };
                pinger.handle(&bytes, &meta, tick(now));
            }
            flying.sort_by_key(|f| f.0);
        }
        while let Some(report) = far.spontaneous(now, AHEAD) {
            flying.extend(down(downs).iter().map(|d| (now + d, false, report.clone())));
            downs += 1;
        }
        pinger.handle_timeout(tick(now));
        let mut out = Vec::new();
        while pinger.poll_transmit(tick(now), &mut out).is_some() {
            flying.extend(up(ups).iter().map(|d| (now + d, true, out.clone())));
            ups += 1;
            out.clear();
            pinger.handle_timeout(tick(now));
        }
        let Some(due) = pinger.poll_timeout() else { return (pinger.finish_up(), now) };
        let next = flying.iter().map(|f| f.0).chain([due.0]).chain(far.timeout()).min().unwrap();
        now = now.max(next);
    }
    panic!("the test does not end");
}

const PLAIN: Path<'static> = &|_| vec![3_000_000];

#[test]
fn open_loop_keeps_its_schedule_whatever_is_lost() {
    let lossy: Path<'_> = &|k| if k % 4 == 1 { vec![] } else { vec![35_000_000] };
    let (out, took) = run(stamp_sender(), plan(20, None), &mut stamp_far(0), lossy, PLAIN);
    assert_eq!((out.records.len(), out.requests.answered(), out.requests.sent()), (15, 15, 20));
    assert!(out.records.iter().all(|r| r.sent() == Some(WallTime(EPOCH + r.seq * 10_000_000))));
    let rtt = |r: &PacketRecord| (r.time(Moment::Returned).unwrap() - r.sent().unwrap()).0;
    assert!(out.records.iter().all(|r| rtt(r) == 38_001_000));
    let probe = 38_001_000;
    let waited =
        "the last answer is waited for, then one that tells whether the far host counts, and no longer";
    assert_eq!(took, 190_000_000 + 1_000_000_000 + probe, "{waited}");
}

/// Returns the send times (ms) of 20 requests, one every 10 ms, from a host that stalls from 35 ms to 138 ms.
fn around_a_stall(overdue: Overdue) -> (Vec<i64>, PingOutcome<crate::stamp::StampSender>) {
    let mut pinger = Pinger::new(stamp_sender(), PingPlan { overdue, ..plan(20, None) }, StampSource::User);
    let (mut now, mut sent) = (0, Vec::new());
    while !pinger.is_over() {
        pinger.handle_timeout(tick(now));
        let mut out = Vec::new();
        while let Some(what) = pinger.poll_transmit(tick(now), &mut out) {
            if matches!(what, Transmit::Request(_)) {
                sent.push(now / 1_000_000);
            }
        }
        let Some(due) = pinger.poll_timeout() else { break };
        now = now.max(due.0);
        if (35_000_000..138_000_000).contains(&now) {
            now = 138_000_000;
        }
    }
    (sent, pinger.finish_up())
}

#[test]
fn overdue_requests_are_not_sent_in_one_burst() {
    let shift = |seq, ms| ScheduleShift { seq, by: Span::millis(ms) };
    let (sent, out) = around_a_stall(Overdue::Space);
    let moved: Vec<i64> = (0..4).map(|k| 10 * k).chain((0..16).map(|k| 138 + 10 * k)).collect();
    assert_eq!((sent, out.shifts, out.skipped), (moved, vec![shift(4, 98)], 0));

    let (sent, out) = around_a_stall(Overdue::Skip);
    let kept: Vec<i64> = (0..20).map(|k| 10 * k).filter(|at| !(40..140).contains(at)).collect();
    assert_eq!((sent, out.requests.sent(), out.shifts), (kept, 10, vec![shift(4, 100)]));
    assert_eq!(out.skipped, 10);

    let (sent, out) = around_a_stall(Overdue::Send);
    assert_eq!(sent.iter().filter(|at| **at == 138).count(), 10);
    assert_eq!((sent.len(), out.shifts, out.skipped), (20, vec![], 0));
}

#[test]
fn the_last_request_is_sent_after_any_stall() {
    let plan = PingPlan { overdue: Overdue::Skip, ..plan(20, None) };
    let mut pinger = Pinger::new(stamp_sender(), plan, StampSource::User);
    let mut out = Vec::new();
    let mut at = |now| {
        pinger.handle_timeout(tick(now));
        out.clear();
        pinger.poll_transmit(tick(now), &mut out)
    };
    assert_eq!(at(0), Some(Transmit::Request(0)));
    assert_eq!(at(9_000_000_000), Some(Transmit::Request(1)), "the twentieth of the schedule");
    assert_eq!(at(9_000_000_000), None);
    assert_eq!((pinger.requests().sent(), pinger.finish_up().skipped), (2, 18));
}

#[test]
fn stop_and_wait_sends_when_the_answer_is_there() {
    let (out, took) = run(stamp_sender(), plan(5, Some(Span::millis(2))), &mut stamp_far(0), PLAIN, PLAIN);
    assert_eq!(out.records.len(), 5);
    assert_eq!(took, 5 * 6_001_000 + 4 * 2_000_000);
    let deaf = run(stamp_sender(), plan(3, Some(Span::ZERO)), &mut Far::Deaf, PLAIN, PLAIN);
    assert_eq!((deaf.0.records.len(), deaf.0.requests.sent()), (0, 3));
    assert!(deaf.1 <= 4_000_000_000, "{}", deaf.1);
}

#[test]
fn directions_are_distinguished_by_a_counting_reflector() {
    let up: Path<'_> = &|k| match k {
        2 | 3 => vec![],
        5 => vec![1_000_000, 2_000_000],
        8 => vec![15_000_000],
        _ => vec![1_000_000],
    };
    // The answer to 10 (k = 9) is lost; the answer to 5 (k = 3) is duplicated.
    let down: Path<'_> = &|k| match k {
        9 => vec![],
        3 => vec![1_000_000, 4_000_000],
        _ => vec![1_000_000],
    };
    let (mut out, _) = run(stamp_sender(), plan(20, None), &mut stamp_far(100), up, down);
    let (d, _) = out.requests.directions();
    assert!(d.stateful);
    assert_eq!((d.up_lost, d.down_lost, d.unknown_lost), (2, 1, 0));
    assert_eq!((d.up_duplicates, d.down_duplicates), (1, 1));
    assert_eq!((d.up_reordered, d.down_reordered), (1, 0));
    let r = out.records.iter().next().unwrap();
    assert_eq!(r.delay(), Some(Span(AHEAD + 1_000_000)), "by the far clock");
}

#[test]
fn twamp_sessions_in_every_mode_over_a_bad_path() {
    // Requests 2 and 3 are lost, 5 is duplicated, and 8 is late.
    let up: Path<'_> = &|k| match k {
        2 | 3 => vec![],
        5 => vec![1_000_000, 2_000_000],
        8 => vec![15_000_000],
        _ => vec![1_000_000],
    };
    let down: Path<'_> = &|k| if k == 9 { vec![] } else { vec![1_000_000] };
    for mode in SecurityMode::ALL {
        let keys = twamp::crypto::SessionKeys { aes: [1; 16], hmac: [2; 32] };
        let keys = TestKeys::new(mode, &keys, &Sid([3; 16]));
        let host = "192.0.2.1".parse().unwrap();
        let far = twamp::SessionReflector::new(mode, keys.clone(), host, Some(40_000));
        let size = twamp::sender::least_size(mode);
        let sender = twamp::TwampSender::new(mode, keys, size, ErrorEstimate::UNKNOWN);
        let (mut out, _) = run(sender, plan(20, None), &mut Far::Twamp(Box::new(far)), up, down);
        let (d, _) = out.requests.directions();
        assert_eq!((d.stateful, d.up_lost, d.down_lost, d.unknown_lost), (true, 2, 1, 0), "{mode}");
        assert_eq!((d.up_duplicates, d.up_reordered, d.down_reordered), (1, 1, 0), "{mode}");
        assert_eq!((out.records.len(), out.not_answers), (18, NotAnswers::default()), "{mode}");
        assert!(out.records.iter().all(|r| r.size() == Some(size as u16)), "{mode}: as long as asked");
    }
}

#[test]
fn lamp_ping_like_with_and_without_follow_up() {
    for follow_up in [None, Some(lamp::LampFollowUp::Application), Some(lamp::LampFollowUp::Hardware)] {
        let client = lamp_client(lamp::LampMode::PingLike, follow_up);
        let (out, _) = run(client, plan(6, None), &mut lamp_far(), PLAIN, PLAIN);
        assert_eq!((out.records.len(), out.not_answers), (6, NotAnswers::default()));
        let accepted = follow_up == Some(lamp::LampFollowUp::Application);
        for r in out.records.iter() {
            let processing = r.time(Moment::Answered).zip(r.arrived()).map(|(b, a)| b - a);
            assert_eq!(processing, accepted.then_some(Span(7000)));
        }
        use lamp::client::FollowUpState as F;
        let want = [F::NotRequested, F::Accepted, F::Denied];
        let k = follow_up.map_or(0, |f| if f == lamp::LampFollowUp::Application { 1 } else { 2 });
        assert_eq!(out.protocol.follow_up(), want[k]);
    }
}

#[test]
fn lamp_unidirectional_delivers_its_report_over_a_bad_path() {
    // The first REPORT and its first ACK are lost. Data packet 3 is duplicated, 5 is lost.
    let up: Path<'_> = &|k| match k {
        4 => vec![1_000_000, 1_500_000],
        6 => vec![],
        _ => vec![1_000_000],
    };
    let down: Path<'_> = &|k| if k == 1 { vec![] } else { vec![1_000_000] };
    let client = lamp_client(lamp::LampMode::Unidirectional, None);
    let (out, took) = run(client, plan(10, None), &mut lamp_far(), up, down);
    let report = out.protocol.report().expect("a report");
    assert_eq!((report.received, report.duplicates, report.out_of_order), (9, Some(1), 0));
    assert_eq!((report.min_us, report.max_us, report.highest_seq), (Some(251_000), 251_000, Some(9)));
    assert!(out.records.is_empty() && took < 2_000_000_000, "{took}");
}

#[test]
fn lamp_without_a_server_fails_in_bounded_time() {
    let client = lamp_client(lamp::LampMode::PingLike, None);
    let mut pinger = Pinger::new(client, plan(3, None), StampSource::User);
    let (mut now, mut sent, mut out) = (0, 0, Vec::new());
    while let Some(due) = pinger.poll_timeout() {
        now = now.max(due.0);
        pinger.handle_timeout(tick(now));
        while pinger.poll_transmit(tick(now), &mut out).is_some() {
            sent += 1;
        }
    }
    assert!(sent == 30 && now < 6_000_000_000, "{sent} {now}");
    assert!(pinger.failure().unwrap().contains("30 INIT"));
}

#[test]
fn lamp_survives_loss_of_anything_once() {
    for lost in 0..8 {
        let drop_one: Path<'_> = &move |k| if k == lost { vec![] } else { vec![1_000_000] };
        for (up, down) in [(drop_one, PLAIN), (PLAIN, drop_one)] {
            let client = lamp_client(lamp::LampMode::PingLike, Some(lamp::LampFollowUp::Application));
            let (out, took) = run(client, plan(3, None), &mut lamp_far(), up, down);
            assert!(out.records.len() >= 2 && took < 9_000_000_000, "{lost} {took}");
        }
    }
}

#[test]
fn lamp_sequence_numbers_wrap() {
    let client = lamp_client(lamp::LampMode::PingLike, None);
    let mut plan = plan(65_600, None);
    let spec = TestSpec::new(Direction::Up, Transport::Udp, 65_600, 80, Span(2_000_000), Schedule::Periodic);
    plan.spec = spec.unwrap();
    let mut pinger = Pinger::new(client, plan, StampSource::User);
    let mut server = lamp_far();
    let (mut now, mut out) = (0, Vec::new());
    while let Some(due) = pinger.poll_timeout() {
        now = now.max(due.0);
        pinger.handle_timeout(tick(now));
        out.clear();
        if pinger.poll_transmit(tick(now), &mut out).is_some() {
            for answer in server.answer(&out, now, AHEAD) {
                let at = WallTime(EPOCH + now + 10);
                let stamp = Stamp { at, source: StampSource::User };
                let meta = PingReception {
                    stamp,
                    read: at,
                    length: answer.len(),
                    ttl: None,
                    traffic_class: None,
                    other_port: false,
                };
                pinger.handle(&answer, &meta, tick(now));
            }
        }
    }
    let out = pinger.finish_up();
    assert!(out.records.iter().enumerate().all(|(i, r)| r.seq == i as i64));
    assert_eq!(out.records.len(), 65_600);
}

/// Runs a test in which every third answer comes from another port.
fn with_other_ports(any: bool) -> PingOutcome<crate::stamp::StampSender> {
    let mut pinger = Pinger::new(stamp_sender(), plan(30, None), StampSource::User);
    pinger.take_any_port(any);
    let mut far = stamp_far(9);
    let (mut now, mut out) = (0, Vec::new());
    while let Some(due) = pinger.poll_timeout() {
        now = now.max(due.0);
        pinger.handle_timeout(tick(now));
        out.clear();
        let Some(Transmit::Request(seq)) = pinger.poll_transmit(tick(now), &mut out) else { continue };
        for answer in far.answer(&out, now, AHEAD) {
            let at = WallTime(EPOCH + now + 3000);
            let stamp = Stamp { at, source: StampSource::User };
            let other_port = seq % 3 == 0;
            let meta =
                PingReception { stamp, read: at, length: 44, ttl: None, traffic_class: None, other_port };
            pinger.handle(&answer, &meta, tick(now + 3000));
            // In either case, the datagram is not an answer.
            pinger.handle(b"no answer", &PingReception { length: 9, ..meta }, tick(now + 3000));
        }
    }
    pinger.finish_up()
}

#[test]
fn answers_from_another_port_count_where_they_are_taken() {
    let refused = with_other_ports(false);
    assert_eq!((refused.requests.answered(), refused.records.len()), (20, 20));
    assert_eq!((refused.not_answers.other_port, refused.not_answers.malformed), (20, 20));
    let taken = with_other_ports(true);
    assert_eq!((taken.requests.answered(), taken.records.len()), (30, 30));
    assert_eq!((taken.not_answers.other_port, taken.not_answers.malformed), (0, 30));
}

#[test]
fn answers_of_lamp_to_what_was_never_asked_are_counted() {
    let mut pinger =
        Pinger::new(lamp_client(lamp::LampMode::PingLike, None), plan(5, None), StampSource::User);
    let mut server = lamp_far();
    let (mut now, mut out) = (0, Vec::new());
    while let Some(due) = pinger.poll_timeout() {
        now = now.max(due.0);
        pinger.handle_timeout(tick(now));
        out.clear();
        let Some(what) = pinger.poll_transmit(tick(now), &mut out) else { continue };
        for answer in server.answer(&out, now, AHEAD) {
            let at = WallTime(EPOCH + now + 3000);
            let stamp = Stamp { at, source: StampSource::User };
            let meta = PingReception {
                stamp,
                read: at,
                length: answer.len(),
                ttl: None,
                traffic_class: None,
                other_port: false,
            };
            if matches!(what, Transmit::Request(_)) {
                let mut strange = answer.clone();
                let seq = lamp::LampHeader::parse(&answer).unwrap().seq;
                strange[4..6].copy_from_slice(&(seq + 9).to_be_bytes());
                assert_eq!(lamp::LampHeader::parse(&strange).unwrap().seq, seq + 9);
                pinger.handle(&strange, &meta, tick(now + 3000));
            }
            pinger.handle(&answer, &meta, tick(now + 3000));
        }
    }
    let out = pinger.finish_up();
    assert_eq!((out.requests.answered(), out.records.len(), out.not_answers.unmatched), (5, 5, 5));
}

#[test]
fn an_interrupted_test_keeps_what_it_has() {
    let mut pinger = Pinger::new(stamp_sender(), plan(100, None), StampSource::User);
    let mut out = Vec::new();
    pinger.handle_timeout(tick(0));
    assert!(pinger.poll_transmit(tick(0), &mut out).is_some());
    pinger.interrupt(tick(1));
    assert!(pinger.poll_transmit(tick(50_000_000), &mut out).is_none());
    pinger.handle_timeout(tick(1_000_000_001));
    assert!(pinger.is_over() && pinger.requests().sent() == 1);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    #[test]
    fn foreign_bytes_at_any_time_are_counted_and_nothing_else(
        noise in proptest::collection::vec(proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80), 1..40)
    ) {
        let mut lamp = Pinger::new(lamp_client(lamp::LampMode::PingLike, None), plan(5, None), StampSource::User);
        let mut server = lamp::Server::new(lamp::ServerRules::default(), [7; 32]);
        let at = WallTime(EPOCH);
        let stamp = Stamp { at, source: StampSource::User };
        let from = "192.0.2.1:40000".parse().unwrap();
        for (k, bytes) in noise.iter().enumerate() {
            let now = tick(k as i64 * 20_000_000);
            let mut bytes = bytes.clone();
            if k % 2 == 0 && bytes.len() > 4 {
                let kind = 0xa0 | bytes[1] & 0xf;
                bytes[..4].copy_from_slice(&[0xaa, kind, 0, 77]);
            }
            let meta = PingReception { stamp, read: at, length: bytes.len(), ttl: None, traffic_class: None, other_port: false };
            lamp.handle(&bytes, &meta, now);
            lamp.handle_timeout(now);
            lamp.poll_transmit(now, &mut Vec::new());
            let mut out = Vec::new();
            let arrival = RequestArrival { from, at, ttl: None, traffic_class: None };
            let _ = server.handle(&bytes, &arrival, (), now, &mut out);
            proptest::prop_assert!(out.len() <= bytes.len());
            while server.poll_transmit(now, &mut out).is_some() {}
        }
        proptest::prop_assert!(server.sessions() <= noise.len());
    }
}

/// Returns the send times (ms) of 16 requests with the marks of `marking`, one every 10 ms. Requests with the numbers `ce`
/// arrive with CE, all others with the mark as sent; answers take 2 ms and keep their marks.
fn with_marks(
    marking: EcnMarking,
    ce: impl Fn(u64) -> bool,
) -> (Vec<i64>, PingOutcome<crate::stamp::StampSender>) {
    let options = crate::stamp::sender::StampOptions { marking, ..Default::default() };
    let mut plan = plan(16, None);
    plan.spec.marking = marking;
    let mut pinger = Pinger::new(crate::stamp::StampSender::new(options), plan, StampSource::User);
    let Far::Stamp(mut far) = stamp_far(16) else { unreachable!("it is STAMP") };
    let (mut now, mut sent) = (0, Vec::new());
    while !pinger.is_over() {
        pinger.handle_timeout(tick(now));
        let mut request = Vec::new();
        if let Some(Transmit::Request(seq)) = pinger.poll_transmit(tick(now), &mut request) {
            sent.push(now / 1_000_000);
            let mark = if ce(seq.into()) { Ecn::Ce } else { marking.of(seq.into()) };
            let arrival = RequestArrival {
                from: "192.0.2.1:40000".parse().unwrap(),
                at: WallTime(EPOCH + now + 1_000_000),
                ttl: None,
                traffic_class: Some(mark.bits()),
            };
            let mut answer = vec![0; request.len()];
            let error = ErrorEstimate::UNKNOWN;
            let reflected =
                far.reflect(&request, &arrival, tick(now + 1_000_000), error, &mut answer).unwrap();
            assert_eq!(reflected.mark, marking.of(seq.into()), "the answer has the mark of the request");
            let returned = WallTime(EPOCH + now + 2_000_000);
            let meta = PingReception {
                stamp: Stamp { at: returned, source: StampSource::Kernel },
                read: returned,
                length: answer.len(),
                ttl: None,
                traffic_class: Some(reflected.mark.bits()),
                other_port: false,
            };
            pinger.handle(&answer, &meta, tick(now + 2_000_000));
        }
        pinger.handle_timeout(tick(now));
        let Some(due) = pinger.poll_timeout() else { break };
        now = now.max(due.0);
    }
    (sent, pinger.finish_up())
}

#[test]
fn a_sender_of_marks_slows_down_for_ce_and_not_for_its_own() {
    let (sent, out) = with_marks(EcnMarking::Ect1, |seq| seq == 3 || seq == 6);
    assert_eq!(sent[..12], [0, 10, 20, 30, 40, 60, 80, 100, 140, 180, 220, 260]);
    let slowdown = out.slowdown.unwrap();
    assert_eq!((slowdown.rounds, slowdown.period), (2, Span::millis(40)));
    let postponed: i64 = out.shifts.iter().map(|shift| shift.by.0).sum();
    assert_eq!(postponed, (sent[15] - 150) * 1_000_000, "the schedule contains the postponements");
    assert_eq!(out.shifts.len() as u64, slowdown.requests);
    for record in out.records.iter() {
        let expected = if matches!(record.seq, 3 | 6) { Ecn::Ce } else { Ecn::Ect1 };
        assert_eq!((record.request_mark(), record.answer_mark()), (Some(expected), Some(Ecn::Ect1)));
    }
    // A test never becomes slower than ten packets per second, regardless of the number of marks.
    let (sent, out) = with_marks(EcnMarking::Ect0, |_| true);
    assert_eq!(out.slowdown.unwrap().period, Span::millis(100));
    assert!(sent.windows(2).all(|pair| pair[1] - pair[0] <= 100), "{sent:?}");
    let steady: Vec<i64> = (0..16).map(|k| 10 * k).collect();
    let both = EcnMarking::Both { seed: 4 };
    let (sent, out) = with_marks(both, |_| false);
    assert_eq!((sent, out.slowdown), (steady.clone(), None), "packets that were sent with CE show nothing");
    let first_ect = (0..16).find(|seq| both.of(*seq).is_ect()).unwrap();
    assert_eq!(with_marks(both, |seq| seq == first_ect).1.slowdown.unwrap().rounds, 1);
    assert_eq!(with_marks(EcnMarking::Off, |_| true).0, steady, "nor does a test without marks");
}
