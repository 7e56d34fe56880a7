use super::*;
use crate::stamp::sender::{StampOptions, StampSender};
use crate::twoway::{DatagramKind, Protocol, ReplyMarks};
use jitlat_core::ntp::TimeFormat;
use jitlat_core::{EcnMarking, SteadyTime, WallTime};
use proptest::prelude::*;

const NOW: WallTime = WallTime(1_795_176_909_770_314_159);
const ERROR: ErrorEstimate = ErrorEstimate(0x8001);

fn arrival() -> RequestArrival {
    let from = "192.0.2.7:50000".parse().unwrap();
    RequestArrival { from, at: NOW, ttl: Some(254), traffic_class: Some(46 << 2 | 1) }
}

fn reflect(
    r: &mut StampSessionReflector,
    request: &[u8],
    a: &RequestArrival,
) -> Result<(Vec<u8>, u8), Silence> {
    let mut answer = vec![0xee; request.len().max(112)];
    let now = Tick { wall: a.at + Span::micros(5), steady: SteadyTime(1) };
    let out = r.reflect(request, a, now, ERROR, &mut answer)?;
    assert!(
        r.rules.trusts(a.from.ip()) || out.len <= request.len(),
        "never a larger answer than the question"
    );
    answer.truncate(out.len);
    Ok((answer, out.dscp))
}

fn stateless() -> StampSessionReflector {
    StampSessionReflector::new(ReflectorRules { sessions: 0, ..ReflectorRules::default() })
}

fn exchange(options: StampOptions, r: &mut StampSessionReflector) -> (StampSender, crate::twoway::Reply, u8) {
    let mut sender = StampSender::new(options);
    let mut request = Vec::new();
    sender.request(41, false, NOW - Span::millis(3), &mut request);
    let (answer, dscp) = reflect(r, &request, &arrival()).unwrap();
    assert_eq!(answer.len(), request.len());
    let DatagramKind::Reply(reply) = sender.receive(&answer, NOW) else { panic!("{answer:x?}") };
    (sender, reply, dscp)
}

#[test]
fn an_answer_carries_all_four_times() {
    let (_, reply, dscp) = exchange(StampOptions::default(), &mut stateless());
    assert_eq!((reply.seq, reply.far_seq, dscp), (41, Some(41), 46));
    assert_eq!((reply.arrived, reply.answered), (Some(NOW), Some(NOW + Span::micros(5))));
    let (_, reply, _) =
        exchange(StampOptions::default(), &mut StampSessionReflector::new(ReflectorRules::default()));
    assert_eq!(reply.far_seq, Some(0), "a stateful reflector counts from 0");
}

#[test]
fn marks_are_reported_and_applied_unless_policy_refuses() {
    let options = StampOptions { marking: EcnMarking::Ect1, ..StampOptions::default() };
    let (sender, reply, _) = exchange(options.clone(), &mut stateless());
    // The request arrives with ECT(1), and the answer is sent with it.
    assert_eq!(reply.marks, ReplyMarks { request: Some(Ecn::Ect1), answer: Some(Ecn::Ect1) });
    assert_eq!((sender.marks().unmarked, sender.marks().without_ecn), (0, 0));
    let rules = ReflectorRules { sessions: 0, choose_dscp: false, ..ReflectorRules::default() };
    let (sender, reply, dscp) = exchange(options, &mut StampSessionReflector::new(rules));
    assert_eq!(reply.marks, ReplyMarks { request: Some(Ecn::Ect1), answer: Some(Ecn::NotEct) });
    assert_eq!((sender.marks().unmarked, dscp), (1, 46));
    let (_, reply, _) = exchange(StampOptions::default(), &mut stateless());
    assert_eq!(reply.marks, ReplyMarks::default(), "nothing is reported without the extension");
}

#[test]
fn extensions_are_understood_at_both_ends() {
    for key in [None, Some(StampKey::new(b"secret"))] {
        let options = StampOptions {
            size: 300,
            class_of_service: Some(10),
            direct_measurement: true,
            key: key.clone(),
            ..StampOptions::default()
        };
        let rules = ReflectorRules { key, ..ReflectorRules::default() };
        let (sender, _, dscp) = exchange(options, &mut StampSessionReflector::new(rules));
        assert_eq!((sender.size(), sender.far_dscp(), dscp), (300, Some(46), 10));
        let counts = sender.counters().unwrap();
        assert_eq!((counts.sender_sent, counts.reflector_received, counts.reflector_sent), (42, 1, 1));
    }
}

/// A request above a rate limit is not answered, but the next answer reports that it arrived.
#[test]
fn requests_above_a_limit_are_counted_as_received() {
    let options = StampOptions { size: 300, direct_measurement: true, ..StampOptions::default() };
    let mut r = StampSessionReflector::new(ReflectorRules::default());
    let mut sender = StampSender::new(options);
    for seq in 0..6 {
        let mut request = Vec::new();
        sender.request(seq, false, NOW, &mut request);
        if seq % 2 == 1 {
            r.limited(&request, arrival().from);
            continue;
        }
        let (answer, _) = reflect(&mut r, &request, &arrival()).unwrap();
        sender.receive(&answer, NOW);
    }
    let counts = sender.counters().unwrap();
    assert_eq!((counts.sender_sent, counts.reflector_received, counts.reflector_sent), (5, 5, 3));
    // Such a request does not begin a session.
    r.limited(&[0; 44], "192.0.2.99:1000".parse().unwrap());
    assert_eq!(r.sessions(), 1);
}

#[test]
fn the_next_answer_reports_when_the_last_one_left() {
    let mut r = StampSessionReflector::new(ReflectorRules::default());
    let mut sender =
        StampSender::new(StampOptions { follow_up: true, timestamp_info: true, ..StampOptions::default() });
    for (seq, lag) in [(0, 30), (1, 50), (2, 70)] {
        let mut request = Vec::new();
        sender.request(seq, false, NOW, &mut request);
        let (answer, _) = reflect(&mut r, &request, &arrival()).unwrap();
        assert!(matches!(sender.receive(&answer, NOW), DatagramKind::Reply(_)));
        // A late timestamp of an earlier answer is not reported for the last answer.
        r.left(arrival().from, 0, seq + 1, NOW + Span::seconds(9));
        r.left(arrival().from, 0, seq, NOW + Span::micros(5 + lag));
    }
    let lag = sender.lag();
    assert_eq!((lag.known, lag.sum, lag.largest), (2, Span::micros(80), Span::micros(50)));
    assert_eq!(sender.far_stamps(), Some([1, 2, 1, 2]));
    let mut copier = stateless();
    let mut request = Vec::new();
    sender.request(3, false, NOW, &mut request);
    let (answer, _) = reflect(&mut copier, &request, &arrival()).unwrap();
    sender.receive(&answer, NOW);
    assert_eq!(sender.lag().known, 2, "a stateless reflector cannot know");
}

#[test]
fn each_network_has_its_key() {
    let key = |text: &str| StampKey::new(text.as_bytes());
    let network = |text: &str| text.parse::<Prefix>().unwrap();
    let rules = ReflectorRules {
        keys: vec![
            (network("192.0.2.0/24"), key("wide")),
            (network("192.0.2.7"), key("own")),
            (network("2001:db8::/32"), key("six")),
        ],
        ..ReflectorRules::default()
    };
    let with_common = ReflectorRules { key: Some(key("common")), ..rules.clone() };
    let answered = |rules: &ReflectorRules, from: &str, text: &str| {
        let mut request = Vec::new();
        let signed = StampOptions { key: Some(key(text)), ..StampOptions::default() };
        StampSender::new(signed).request(0, false, NOW, &mut request);
        let from = SocketAddr::new(from.parse().unwrap(), 40_000);
        reflect(
            &mut StampSessionReflector::new(rules.clone()),
            &request,
            &RequestArrival { from, ..arrival() },
        )
        .is_ok()
    };
    for (from, right) in [("192.0.2.1", "wide"), ("192.0.2.7", "own"), ("2001:db8::1", "six")] {
        for text in ["wide", "own", "six", "common"] {
            assert_eq!(answered(&with_common, from, text), text == right, "{from} {text}");
        }
    }
    assert!(answered(&with_common, "198.51.100.1", "common") && !answered(&rules, "198.51.100.1", "common"));
}

#[test]
fn the_first_packet_of_a_session_is_recognised() {
    let mut r = StampSessionReflector::new(ReflectorRules::default());
    let mut request = Vec::new();
    StampSender::new(StampOptions::default()).request(0, false, NOW, &mut request);
    let now = Tick { wall: NOW, steady: SteadyTime(1) };
    let first = |r: &mut StampSessionReflector| {
        r.reflect(&request, &arrival(), now, ERROR, &mut [0; 44]).unwrap().first
    };
    assert_eq!([first(&mut r), first(&mut r)], [true, false]);
    assert!(!first(&mut stateless()));
}

#[test]
fn numbers_of_answers_count_those_that_were_sent() {
    let mut r = StampSessionReflector::new(ReflectorRules::default());
    let number = |r: &mut StampSessionReflector| exchange(StampOptions::default(), r).1.far_seq.unwrap();
    assert_eq!([number(&mut r), number(&mut r)], [0, 1]);
    // The failure of the last answer is reported first. Other sessions do not change.
    r.not_sent(arrival().from, 9, 1);
    assert_eq!(number(&mut r), 2);
    r.not_sent(arrival().from, 0, 2);
    r.not_sent(arrival().from, 0, 1);
    assert_eq!([number(&mut r), number(&mut r)], [1, 2]);
    r.not_sent(arrival().from, 0, 1);
    assert_eq!(number(&mut r), 3, "a later one has left");
}

#[test]
fn answers_are_in_the_format_of_the_request() {
    for format in [jitlat_core::ntp::TimeFormat::Ntp, jitlat_core::ntp::TimeFormat::Ptp] {
        let options = StampOptions { error: ERROR.with_format(format), ..StampOptions::default() };
        let (_, reply, _) = exchange(options, &mut stateless());
        assert_eq!((reply.arrived, reply.answered), (Some(NOW), Some(NOW + Span::micros(5))));
    }
}

#[test]
fn wrong_keys_get_no_answer() {
    let mut r = StampSessionReflector::new(ReflectorRules {
        key: Some(StampKey::new(b"right")),
        ..ReflectorRules::default()
    });
    let mut sender =
        StampSender::new(StampOptions { key: Some(StampKey::new(b"wrong")), ..StampOptions::default() });
    let mut request = Vec::new();
    sender.request(0, false, NOW, &mut request);
    assert_eq!(reflect(&mut r, &request, &arrival()), Err(Silence::Forged));
    assert_eq!(reflect(&mut r, &[0; 44], &arrival()), Err(Silence::Short));
    let mut forged = vec![0; 112];
    StampAnswer::parse(StampLayout::Keyed, &request).unwrap().write(StampLayout::Keyed, &mut forged);
    assert_eq!(sender.receive(&forged, NOW), DatagramKind::Forged);
}

#[test]
fn two_reflectors_do_not_answer_each_other() {
    let mut request = Vec::new();
    StampSender::new(StampOptions::default()).request(0, false, NOW, &mut request);
    let (answer, _) = reflect(&mut stateless(), &request, &arrival()).unwrap();
    assert_eq!(reflect(&mut stateless(), &answer, &arrival()), Err(Silence::Loop));
    let service = RequestArrival { from: "192.0.2.7:7".parse().unwrap(), ..arrival() };
    assert_eq!(reflect(&mut stateless(), &request, &service), Err(Silence::Source));
}

#[test]
fn the_count_begins_anew_with_the_next_test_from_the_same_port() {
    let mut r = StampSessionReflector::new(ReflectorRules::default());
    let mut ask = |seq: u32, ms: i64| {
        let mut request = vec![0; 44];
        StampRequest { seq, sent: ERROR.encode(NOW), error: ERROR, ssid: 0 }
            .write(StampLayout::Clear, &mut request);
        let now = Tick { wall: NOW, steady: SteadyTime(ms * 1_000_000) };
        let mut answer = vec![0; 44];
        r.reflect(&request, &arrival(), now, ERROR, &mut answer).unwrap();
        StampAnswer::parse(StampLayout::Clear, &answer).unwrap().seq
    };
    // Reordering and duplicates within a test do not restart the count.
    assert_eq!([(0, 0), (2, 10), (1, 20), (1, 25), (3, 900)].map(|(seq, ms)| ask(seq, ms)), [0, 1, 2, 3, 4]);
    // Pauses do not restart it either.
    assert_eq!([(4, 2000), (5, 4000), (5, 5500)].map(|(seq, ms)| ask(seq, ms)), [5, 6, 7]);
    assert_eq!([(0, 7000), (1, 7010)].map(|(seq, ms)| ask(seq, ms)), [0, 1], "the next test");
    assert_eq!(ask(3, 7020), 2);
    assert_eq!(ask(1, 9000), 0, "another one, whose first packet was lost");
}

#[test]
fn the_count_begins_anew_at_once_where_a_lower_number_was_sent_later() {
    for format in [TimeFormat::Ntp, TimeFormat::Ptp] {
        let mut r = StampSessionReflector::new(ReflectorRules::default());
        let error = ERROR.with_format(format);
        let mut ask = |seq: u32, sent: i64, ms: i64| {
            let mut request = vec![0; 44];
            let sent = error.encode(NOW + Span::millis(sent));
            StampRequest { seq, sent, error, ssid: 0 }.write(StampLayout::Clear, &mut request);
            let now = Tick { wall: NOW, steady: SteadyTime(ms * 1_000_000) };
            let mut answer = vec![0; 44];
            r.reflect(&request, &arrival(), now, ERROR, &mut answer).unwrap();
            StampAnswer::parse(StampLayout::Clear, &answer).unwrap().seq
        };
        // A reordered or duplicated request was sent before the one with the higher number.
        assert_eq!(
            [(0, 0), (2, 20), (1, 10), (1, 10), (2, 20)].map(|(n, at)| ask(n, at, 30)),
            [0, 1, 2, 3, 4]
        );
        // The next run of twampy, which always uses the same port.
        assert_eq!([(0, 200), (1, 210), (2, 220)].map(|(n, at)| ask(n, at, 230)), [0, 1, 2]);
        // Without a time in the requests, after a pause.
        assert_eq!([(0, 0), (1, 0)].map(|(n, at)| ask(n, at, 240)), [3, 4]);
        assert_eq!(ask(0, 0, 1300), 0);
    }
}

#[test]
fn twamp_light_is_answered_in_its_own_size() {
    let mut padded = vec![0; 41];
    let request = StampRequest { seq: 3, sent: ERROR.encode(NOW), error: ERROR, ssid: 0xabcd };
    request.write(StampLayout::Clear, &mut padded);
    padded[16..].iter_mut().enumerate().for_each(|(i, b)| *b = i as u8 ^ 0x5a);
    let mut r = StampSessionReflector::new(ReflectorRules::default());
    for far in 0..3 {
        request.write(StampLayout::Clear, &mut padded);
        padded[15] = far;
        let (answer, _) = reflect(&mut r, &padded, &arrival()).unwrap();
        let answer = StampAnswer::parse(StampLayout::Clear, &answer).unwrap();
        assert_eq!((answer.seq, answer.sender_seq), (far.into(), 3), "padding opens no new sessions");
    }
    assert_eq!(r.sessions(), 1);
}

#[test]
fn short_requests_get_short_answers_and_whole_ones_where_no_address_is_forged() {
    let trusted =
        ReflectorRules { trusted: vec!["192.0.2.0/24".parse().unwrap()], ..ReflectorRules::default() };
    let [mut open, mut near] = [ReflectorRules::default(), trusted].map(StampSessionReflector::new);
    for size in 14..=45 {
        let options = StampOptions { size, light: true, error: ERROR, ..StampOptions::default() };
        let mut sender = StampSender::new(options);
        assert_eq!(sender.size(), size.min(44));
        let mut request = Vec::new();
        sender.request(1000, false, NOW - Span::millis(3), &mut request);
        let (answer, _) = reflect(&mut open, &request, &arrival()).unwrap();
        assert_eq!(answer.len(), request.len());
        let DatagramKind::Reply(reply) = sender.receive(&answer, NOW) else { panic!("{size}: {answer:x?}") };
        assert_eq!((reply.seq, reply.damaged), (1000, false), "{size}");
        assert_eq!((reply.far_seq.is_some(), reply.arrived.is_some()), (size >= 38, size >= 38), "{size}");
        // No reflector regards the packet as a request.
        for r in [&mut open, &mut near] {
            assert_eq!(reflect(r, &answer, &arrival()), Err(Silence::Loop), "{size}");
        }
        let (whole, _) = reflect(&mut near, &request, &arrival()).unwrap();
        assert_eq!(whole.len(), request.len().max(41));
        let DatagramKind::Reply(reply) = sender.receive(&whole, NOW) else { panic!("{size}: {whole:x?}") };
        assert_eq!((reply.seq, reply.arrived), (1000, Some(NOW)), "{size}");
        assert_eq!(reflect(&mut open, &whole, &arrival()), Err(Silence::Loop), "{size}");
        assert!(
            !matches!(sender.receive(&request, NOW), DatagramKind::Reply(_)),
            "our own request, sent back"
        );
    }
    let mut request = vec![0; 14];
    StampRequest { seq: 0, sent: 0, error: ERROR, ssid: 0 }.write(StampLayout::Clear, &mut request);
    assert_eq!(reflect(&mut near, &request[..13], &arrival()), Err(Silence::Short));
    let keyed = ReflectorRules {
        key: Some(StampKey::new(b"secret")),
        trusted: near.rules.trusted.clone(),
        ..ReflectorRules::default()
    };
    assert_eq!(
        reflect(&mut StampSessionReflector::new(keyed), &request, &arrival()),
        Err(Silence::Short),
        "unsigned"
    );
}

#[test]
fn state_is_bounded() {
    let rules = ReflectorRules {
        sessions: 10,
        sessions_per_client: 8,
        idle: Span::seconds(5),
        ..ReflectorRules::default()
    };
    let mut r = StampSessionReflector::new(rules);
    let mut request = Vec::new();
    StampSender::new(StampOptions::default()).request(9, false, NOW, &mut request);
    let mut answer = vec![0; 44];
    let mut ask = |host: u8, port: u16, steady: i64| {
        let a = RequestArrival { from: ([192, 0, 2, host], port).into(), ..arrival() };
        r.reflect(&request, &a, Tick { wall: NOW, steady: SteadyTime(steady) }, ERROR, &mut answer).unwrap();
        (StampAnswer::parse(StampLayout::Clear, &answer).unwrap().seq, r.sessions())
    };
    for port in 2000..2008 {
        assert_eq!(ask(7, port, 1).0, 0);
    }
    assert_eq!(ask(8, 2000, 2), (0, 9));
    assert_eq!(ask(7, 2000, 3), (1, 9));
    // One session too many for this client, so its longest idle session is replaced.
    assert_eq!(ask(7, 3000, 4), (0, 9));
    assert_eq!(ask(7, 2001, 5), (0, 9));
    assert_eq!((ask(7, 2000, 6), ask(8, 2000, 7)), ((2, 9), (1, 9)));
    // One session too many in total.
    assert_eq!((ask(9, 2000, 8), ask(10, 2000, 9)), ((0, 10), (0, 10)));
    assert_eq!((ask(7, 2000, 10), ask(8, 2000, 11)), ((3, 10), (2, 10)));
    assert_eq!(ask(8, 2000, 6_000_000_000), (0, 10), "after a silence it counts anew");
}

#[test]
fn a_broken_extension_is_marked_and_the_rest_copied() {
    let mut request = Vec::new();
    StampSender::new(StampOptions::default()).request(9, false, NOW, &mut request);
    request.extend([0x80, 200, 0, 1, 77, 0x80, 4, 0, 9, 1, 2]);
    let (answer, _) = reflect(&mut stateless(), &request, &arrival()).unwrap();
    assert_eq!(answer[44..], [0x80, 200, 0, 1, 77, 0xc0, 4, 0, 9, 1, 2]);
}

#[test]
fn odd_answers_are_not_measurements() {
    let mut sender = StampSender::new(StampOptions::default());
    let mut request = Vec::new();
    sender.request(0, false, NOW, &mut request);
    assert_eq!(sender.receive(&request, NOW), DatagramKind::Foreign, "our own request, sent back");
    assert_eq!(sender.receive(&[0; 37], NOW), DatagramKind::Malformed);
    let (mut answer, _) = reflect(&mut stateless(), &request, &arrival()).unwrap();
    assert!(matches!(sender.receive(&answer[..38], NOW), DatagramKind::Reply(_)), "twampy sends 38 bytes");
    answer[13] = 0;
    assert!(matches!(sender.receive(&answer, NOW), DatagramKind::Reply(r) if r.damaged));
}

proptest! {
    /// Property: any request from any address gets at most one answer, which is not longer than the request,
    /// and the table stays within its limits.
    #[test]
    fn no_amplifier(
        requests in proptest::collection::vec(
            (0u8..3, 1000u16..1040, 14usize..200, any::<bool>(), proptest::collection::vec((0usize..200, any::<u8>()), 0..4)),
            0..100,
        ),
        keyed in any::<bool>(),
    ) {
        let key = keyed.then(|| StampKey::new(b"k"));
        let rules = ReflectorRules { key: key.clone(), sessions: 10, sessions_per_client: 5, ..ReflectorRules::default() };
        let mut r = StampSessionReflector::new(rules);
        for (host, port, size, extended, changes) in requests {
            let class_of_service = extended.then_some(46);
            let light = size < 44;
            let options = StampOptions { size, light, key: key.clone(), class_of_service, direct_measurement: extended, ..StampOptions::default() };
            let mut request = Vec::new();
            StampSender::new(options).request(1, false, NOW, &mut request);
            for (at, byte) in changes {
                if let Some(b) = request.get_mut(at) {
                    *b = byte;
                }
            }
            let a = RequestArrival { from: ([192, 0, 2, host], port).into(), ..arrival() };
            // The helper checks the length.
            let _ = reflect(&mut r, &request, &a);
            prop_assert!(r.sessions() <= 10);
        }
    }

    #[test]
    fn anything_is_survived(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        keyed in any::<bool>(),
        zero in any::<bool>(),
    ) {
        let key = keyed.then(|| StampKey::new(b"k"));
        let mut r = StampSessionReflector::new(ReflectorRules { key: key.clone(), ..ReflectorRules::default() });
        let mut bytes = bytes;
        if zero && bytes.len() > 44 {
            bytes[16..44].fill(0);
            bytes[13] = 1;
        }
        let _ = reflect(&mut r, &bytes, &arrival());
        let _ = StampSender::new(StampOptions { key, ..StampOptions::default() }).receive(&bytes, NOW);
    }
}

/// Returns the answer to a request with the extensions `parts`, each with its flags and its value, or the reason why
/// there is none.
fn extended(rules: ReflectorRules, parts: &[(u8, &[u8])]) -> Result<Vec<(u8, Vec<u8>)>, Silence> {
    use crate::stamp::tlv::{Tlvs, push};
    let mut request = Vec::new();
    StampSender::new(StampOptions::default()).request(0, false, NOW, &mut request);
    parts.iter().for_each(|(kind, value)| push(&mut request, *kind, value));
    let (answer, _) = reflect(&mut StampSessionReflector::new(rules), &request, &arrival())?;
    let step = |step| match step {
        TlvStep::Whole(_, tlv) => (tlv.flags, tlv.value.to_vec()),
        TlvStep::Malformed(_) => panic!("the answer is malformed"),
    };
    Ok(Tlvs::new(&answer[StampLayout::Clear.base()..]).map(step).collect())
}

#[test]
fn access_reports_are_acknowledged() {
    let flags =
        |value: &[u8]| extended(ReflectorRules::default(), &[(kind::ACCESS_REPORT, value)]).unwrap()[0].0;
    assert_eq!(flags(&[0x10, 1, 0, 0]), 0);
    assert_eq!(flags(&[0x20, 2, 0, 0]), 0);
    assert_eq!(flags(&[0x30, 1, 0, 0]), flag::UNRECOGNISED, "another access network");
    assert_eq!(flags(&[0x10, 1, 0]), flag::MALFORMED);
}

#[test]
fn micro_sessions_get_the_number_of_this_link() {
    let rules = |link_id| ReflectorRules { link_id, ..ReflectorRules::default() };
    let answer = |link_id, value: &[u8]| {
        extended(rules(link_id), &[(kind::MICRO_SESSION, value)]).map(|mut parts| parts.remove(0))
    };
    assert_eq!(answer(Some(7), &[0, 5, 0, 0]), Ok((0, vec![0, 5, 0, 7])));
    assert_eq!(answer(Some(7), &[0, 5, 0, 7]), Ok((0, vec![0, 5, 0, 7])));
    assert_eq!(answer(Some(7), &[0, 5, 0, 8]), Err(Silence::NoSession), "the request is for another link");
    assert_eq!(answer(Some(7), &[0, 5, 0]), Ok((flag::MALFORMED, vec![0, 5, 0])));
    assert_eq!(answer(None, &[0, 5, 0, 8]), Ok((flag::UNRECOGNISED, vec![0, 5, 0, 8])));
}

#[test]
fn an_answer_goes_nowhere_but_to_its_client() {
    let path = |parts: &[(u8, &[u8])]| {
        let mut value = Vec::new();
        parts.iter().for_each(|(kind, part)| crate::stamp::tlv::push(&mut value, *kind, part));
        value
    };
    let flags =
        |value: &[u8]| extended(ReflectorRules::default(), &[(kind::RETURN_PATH, value)]).unwrap()[0].0;
    assert_eq!(flags(&path(&[(1, &[0, 0, 0, 1])])), 0, "the same link");
    assert_eq!(flags(&path(&[(2, &[192, 0, 2, 7])])), 0, "the client's own address");
    assert_eq!(flags(&path(&[(2, &[198, 51, 100, 1])])), flag::UNRECOGNISED);
    assert_eq!(flags(&path(&[(4, &[0; 16])])), flag::UNRECOGNISED, "a segment list");
    assert_eq!(flags(&[0x80, 1, 0, 9]), flag::MALFORMED);

    // A request for no answer is counted as received, and its answer's number is not used.
    let request = |seq, tlv: &[u8]| {
        let mut request = Vec::new();
        StampSender::new(StampOptions::default()).request(seq, false, NOW, &mut request);
        if !tlv.is_empty() {
            crate::stamp::tlv::push(&mut request, kind::RETURN_PATH, tlv);
        }
        request
    };
    let mut r = StampSessionReflector::new(ReflectorRules::default());
    let now = Tick { wall: NOW, steady: SteadyTime(1) };
    let mut answer = [0; 112];
    let mut reflect = |request: &[u8]| r.reflect(request, &arrival(), now, ERROR, &mut answer);
    assert_eq!(reflect(&request(0, &[])).map(|r| (r.seq, r.same_link)), Ok((0, false)));
    assert_eq!(reflect(&request(1, &path(&[(1, &[0; 4])]))), Err(Silence::Unwanted));
    assert_eq!(
        reflect(&request(2, &path(&[(1, &[0, 0, 0, 1])]))).map(|r| (r.seq, r.same_link)),
        Ok((1, true))
    );
}

#[test]
fn a_cut_answer_is_reported_as_such() {
    let cut = |trusted: &str, size: usize| {
        let trusted = vec![trusted.parse().unwrap()];
        let mut r = StampSessionReflector::new(ReflectorRules { trusted, ..ReflectorRules::default() });
        let mut request = Vec::new();
        let light = StampOptions { light: true, size, ..StampOptions::default() };
        StampSender::new(light).request(0, false, NOW, &mut request);
        let now = Tick { wall: NOW, steady: SteadyTime(1) };
        let done = r.reflect(&request, &arrival(), now, ERROR, &mut [0; 112]).unwrap();
        (done.cut, done.len)
    };
    assert_eq!(cut("198.51.100.0/24", 27), (true, 27));
    assert_eq!(cut("192.0.2.0/24", 27), (false, 41));
    assert_eq!(cut("198.51.100.0/24", 41), (false, 41));
}
