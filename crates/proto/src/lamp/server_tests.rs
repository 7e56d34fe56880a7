//! Tests of a LaMP server with one or several clients over time.

use super::*;
use crate::lamp::report::LampReport;
use jitlat_core::{SteadyTime, WallTime};
use proptest::prelude::*;

const EPOCH: i64 = 1_795_176_909_000_000_000;

fn tick(ms: i64) -> Tick {
    Tick { wall: WallTime(EPOCH + ms * 1_000_000), steady: SteadyTime(ms * 1_000_000) }
}

const SECRET: [u8; 32] = [7; 32];

fn server() -> Server {
    Server::new(ServerRules::default(), SECRET)
}

/// A server and a client.
struct Bench {
    server: Server,
    from: SocketAddr,
}

impl Bench {
    fn new() -> Bench {
        Bench { server: server(), from: "192.0.2.1:40000".parse().unwrap() }
    }

    /// The client proves its address, and opens a session.
    fn open(&mut self, at: i64, mode: u16) {
        let arrival = RequestArrival { from: self.from, at: tick(at).wall, ttl: None, traffic_class: None };
        let mut proof = 0;
        for reply in [true, false] {
            let (mut out, init) = (Vec::new(), proof::init(7, 0, mode, proof).to_bytes());
            assert_eq!(self.server.handle(&init, &arrival, (), tick(at), &mut out), Ok(LampReaction::Answer));
            assert_eq!((out.len(), self.server.sessions()), (init.len(), usize::from(!reply)));
            let ack = LampHeader::parse(&out).unwrap();
            assert_eq!((ack.kind, proof::of(&ack).is_some()), (LampKind::Ack, reply));
            proof = ack.micros;
        }
    }

    /// Sends a packet that arrives 5 ms later. Returns the kind of the answer, if any.
    fn ask(&mut self, at: i64, kind: LampKind, seq: u16, word: u16) -> Option<LampKind> {
        let mut out = Vec::new();
        let packet = LampHeader::new(kind, 7, seq, word).at(tick(at).wall).to_bytes();
        let arrival =
            RequestArrival { from: self.from, at: tick(at + 5).wall, ttl: None, traffic_class: None };
        let _ = self.server.handle(&packet, &arrival, (), tick(at + 5), &mut out);
        LampHeader::parse(&out).map(|h| h.kind)
    }

    /// Polls the server at its timeouts between `from` and `to`. Returns the reports that it sends, with their times.
    fn reports(&mut self, from: i64, to: i64) -> Vec<(i64, LampReport)> {
        let mut sent = Vec::new();
        let mut now = from;
        while now < to {
            let mut out = Vec::new();
            while self.server.poll_transmit(tick(now), &mut out).is_some() {
                let text = std::str::from_utf8(&out[HEADER_LEN..]).unwrap().trim_end_matches('\0');
                sent.push((now, text.parse().unwrap()));
                out.clear();
            }
            let due = self.server.poll_timeout().map_or(to, |t| t.0.div_euclid(1_000_000));
            now = due.max(now + 1);
        }
        sent
    }
}

#[test]
fn the_first_packet_begins_a_test() {
    for (mode, kind) in [(1, LampKind::Request), (2, LampKind::Continue)] {
        let mut bench = Bench::new();
        bench.open(0, mode);
        assert_eq!(bench.server.take_begun(), None, "nobody has tested anything yet");
        bench.ask(10, kind, 0, 0);
        let begun = LampTestStart { id: 7, unidirectional: mode == 2, proven: true };
        assert_eq!(bench.server.take_begun(), Some(begun));
        bench.ask(20, kind, 1, 0);
        assert_eq!(bench.server.take_begun(), None);
    }
}

#[test]
fn a_delivered_report_is_the_last_word() {
    let mut bench = Bench::new();
    bench.open(0, 2);
    (0..9).for_each(|k| assert_eq!(bench.ask(100 + 10 * k, LampKind::Continue, k as u16, 0), None));
    bench.ask(190, LampKind::Stop, 9, 0);
    let sent = bench.reports(195, 400);
    assert_eq!(sent.iter().map(|s| s.0).collect::<Vec<_>>(), [195, 395]);
    assert_eq!((sent[0].1.received, sent[0].1.timed_out), (10, false));
    bench.ask(400, LampKind::Ack, 0, 0);
    // A late duplicate changes nothing.
    bench.ask(450, LampKind::Continue, 3, 0);
    assert_eq!(bench.reports(450, 300_000), []);
    assert_eq!(bench.server.sessions(), 0, "forgotten in the end");
}

#[test]
fn packets_behind_the_stop_are_in_later_reports() {
    let mut bench = Bench::new();
    bench.open(0, 2);
    bench.ask(100, LampKind::Stop, 2, 0);
    assert_eq!(bench.reports(105, 106)[0].1.received, 1);
    bench.ask(120, LampKind::Continue, 1, 0);
    assert_eq!(bench.reports(125, 310)[0].1.received, 2);
}

#[test]
fn a_lost_stop_is_reported_before_late_gives_up() {
    let mut bench = Bench::new();
    bench.open(0, 2);
    (0..9).for_each(|k| assert_eq!(bench.ask(100 + 100 * k, LampKind::Continue, k as u16, 0), None));
    // The STOP at 1000 is lost. From then on, LaTe waits for 5 s.
    let sent = bench.reports(1000, 30_000);
    assert!((3900..=4500).contains(&sent[0].0) && sent.len() >= 5, "{sent:?}");
    assert_eq!((sent[0].1.received, sent[0].1.timed_out, sent[0].1.highest_seq), (9, true, Some(8)));
}

#[test]
fn rare_packets_are_no_silence_and_a_pause_is_not_the_end() {
    let mut bench = Bench::new();
    bench.open(0, 2);
    for k in 0..5 {
        let at = 20_000 * (i64::from(k) + 1);
        bench.ask(at, LampKind::Continue, k, 0);
        assert_eq!(bench.reports(at + 5, at + 20_000), [], "20 s between packets");
    }
    // Silence causes a report. Packets that follow are also counted.
    let sent = bench.reports(120_000, 122_000);
    assert!(sent.iter().all(|s| s.1.received == 5 && s.1.timed_out) && !sent.is_empty());
    bench.ask(122_000, LampKind::Ack, 0, 0);
    assert_eq!(bench.reports(122_010, 130_000), []);
    bench.ask(130_000, LampKind::Continue, 5, 0);
    bench.ask(130_100, LampKind::Stop, 6, 0);
    let sent = bench.reports(130_105, 130_106);
    assert_eq!((sent[0].1.received, sent[0].1.timed_out), (7, false));
}

#[test]
fn ping_like_sessions_wait_for_rare_requests() {
    let mut bench = Bench::new();
    bench.open(0, 1);
    for k in 0..4 {
        bench.reports(60_000 * i64::from(k), 60_000 * i64::from(k + 1));
        assert_eq!(bench.ask(60_000 * i64::from(k + 1), LampKind::Request, k, 0), Some(LampKind::Reply));
    }
    assert_eq!(bench.reports(240_000, 500_000), []);
    assert_eq!(bench.server.sessions(), 0);
}

#[test]
fn the_longest_idle_makes_room() {
    let rules = ServerRules { sessions: 3, sessions_per_client: 2, ..ServerRules::default() };
    let mut server = Server::<()>::new(rules, SECRET);
    let mut send = |host: u8, id: u16, kind: LampKind, at: i64| {
        let from = SocketAddr::from(([192, 0, 2, host], 40_000));
        let arrival = RequestArrival { from, at: tick(at).wall, ttl: None, traffic_class: None };
        let packet = LampHeader::new(kind, id, 0, 1).to_bytes();
        server.handle(&packet, &arrival, (), tick(at), &mut Vec::new())
    };
    let answered = Ok(LampReaction::Answer);
    // A client's third session replaces its own first one, and does not affect another client.
    for (id, at) in [(1, 0), (2, 10), (3, 20)] {
        assert_eq!(send(1, id, LampKind::Init, at), answered);
    }
    assert_eq!(send(1, 1, LampKind::RequestTimeless, 30), Err(Silence::NoSession));
    assert_eq!(send(2, 1, LampKind::Init, 40), answered);
    assert_eq!(send(3, 1, LampKind::Init, 50), answered);
    assert_eq!(send(1, 2, LampKind::RequestTimeless, 60), Err(Silence::NoSession));
    assert_eq!(send(1, 3, LampKind::RequestTimeless, 70), answered);
    assert_eq!(server.sessions(), 3);
}

#[test]
fn reports_go_the_way_the_last_packet_came() {
    let mut server = Server::<u8>::new(ServerRules::default(), SECRET);
    let from = "192.0.2.1:40000".parse().unwrap();
    let mut ask = |at: i64, header: LampHeader, route: u8| {
        let arrival = RequestArrival { from, at: tick(at + 5).wall, ttl: None, traffic_class: None };
        server.handle(&header.to_bytes(), &arrival, route, tick(at), &mut Vec::new()).unwrap();
        server.poll_transmit(tick(at), &mut Vec::new())
    };
    let proof = Prover::new(SECRET).proof(from, 7, tick(0).steady);
    assert_eq!(ask(0, proof::init(7, 0, 2, proof), 1), None);
    assert_eq!(ask(10, LampHeader::new(LampKind::Stop, 7, 0, 0), 2), Some((from, 2)));
}

#[test]
fn sessions_end_soon_after_their_clients() {
    // Times of the packets in a test in ms, their kind, and the latest time at which the session is removed.
    let cases: [(&[i64], LampKind, i64); 5] = [
        (&[], LampKind::Request, 120_000),
        (&[100, 200, 300], LampKind::Request, 10_300),
        (&[10_000, 20_000], LampKind::Request, 50_000),
        (&[100], LampKind::EndRequest, 3100),
        (&[100], LampKind::Stop, 6200),
    ];
    for (packets, kind, until) in cases {
        let mut bench = Bench::new();
        bench.open(0, if kind == LampKind::Stop { 2 } else { 1 });
        for at in packets {
            bench.reports(*at - 1, *at);
            bench.ask(*at - 5, kind, 0, 0);
        }
        let begun = packets.last().copied().unwrap_or(0);
        let mut out = Vec::new();
        let mut now = begun;
        while bench.server.sessions() > 0 {
            out.clear();
            bench.server.poll_transmit(tick(now), &mut out);
            assert!(now <= until, "{kind:?} at {packets:?}");
            now += 100;
        }
    }
}

/// The attack: any number of identifiers, ports and modes from an address that proves nothing.
#[test]
fn forged_sessions_get_no_more_than_they_cost() {
    for unanswered_data in [0, 1, 3] {
        let mut bench = Bench::new();
        let (mut received, mut sent) = ((0, 0), (0, 0));
        for k in 0..1000u16 {
            let at = i64::from(k) * 10;
            bench.from.set_port(2000 + k);
            let data = vec![LampKind::Continue; unanswered_data];
            for kind in [vec![LampKind::Init], data, vec![LampKind::Stop]].concat() {
                received = (received.0 + 1, received.1 + HEADER_LEN);
                let word = if kind == LampKind::Init { 2 } else { 0 };
                if bench.ask(at, kind, 0, word).is_some() {
                    sent = (sent.0 + 1, sent.1 + HEADER_LEN);
                }
            }
        }
        for now in (0..200_000).step_by(100) {
            let mut out = Vec::new();
            while bench.server.poll_transmit(tick(now), &mut out).is_some() {
                sent.0 += 1;
            }
            sent.1 += out.len();
        }
        assert!(sent.0 <= received.0 && sent.1 <= received.1, "{received:?} {sent:?}");
    }
}

#[test]
fn late_needs_no_proof_for_round_trips_but_gets_no_follow_up() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(0, LampKind::Init, 0, 1), Some(LampKind::Ack));
    let mut out = Vec::new();
    let control = LampHeader::new(LampKind::FollowUpControl, 7, 0, 0).to_bytes();
    let arrival = RequestArrival { from: bench.from, at: tick(9).wall, ttl: None, traffic_class: None };
    bench.server.handle(&control, &arrival, (), tick(9), &mut out).unwrap();
    assert_eq!(LampFollowUp::from(LampHeader::parse(&out).unwrap().length_or_type), LampFollowUp::Deny);
    for k in 0..100 {
        assert_eq!(bench.ask(10 + i64::from(k), LampKind::Request, k, 0), Some(LampKind::Reply));
    }
}

#[test]
fn clients_in_a_trusted_network_need_no_proof() {
    let mut bench = Bench::new();
    let trusted = vec!["192.0.2.0/28".parse().unwrap()];
    bench.server = Server::new(ServerRules { trusted, ..ServerRules::default() }, SECRET);
    for (host, granted) in
        [("192.0.2.15:4000", true), ("192.0.2.16:4000", false), ("[::ffff:192.0.2.1]:4000", true)]
    {
        bench.from = host.parse().unwrap();
        // A unidirectional test starts at once only for trusted clients.
        assert_eq!(bench.ask(0, LampKind::Init, 0, 2).is_some(), granted, "{host}");
        bench.ask(0, LampKind::Init, 0, 1);
        let mut out = Vec::new();
        let control = LampHeader::new(LampKind::FollowUpControl, 7, 0, 0).to_bytes();
        let arrival = RequestArrival { from: bench.from, at: tick(9).wall, ttl: None, traffic_class: None };
        bench.server.handle(&control, &arrival, (), tick(9), &mut out).unwrap();
        let word = LampFollowUp::from(LampHeader::parse(&out).unwrap().length_or_type);
        assert_eq!(word == LampFollowUp::Accept, granted, "{host}");
    }
}

/// LaTe repeats its INIT every 100 ms until the ACK arrives. These bytes are sufficient for the report of any
/// test.
#[test]
fn late_gets_its_report_for_what_it_sent() {
    for packets in [1, 2, 5, 100] {
        let mut bench = Bench::new();
        let acknowledged =
            (0..30).find(|k| bench.ask(100 * k, LampKind::Init, *k as u16, 2).is_some()).unwrap();
        assert_eq!(acknowledged, 4);
        for k in 0..packets {
            let kind = if k == packets - 1 { LampKind::Stop } else { LampKind::Continue };
            bench.ask(600 + k, kind, k as u16, 0);
        }
        let sent = bench.reports(1000, 10_000);
        assert!(!sent.is_empty() && sent[0].1.received == packets as u64, "{packets}: {sent:?}");
        assert!(packets < 100 || sent.len() == 15, "repeated as long as the credit lasts");
    }
}

#[test]
fn forged_inits_disturb_no_proven_session() {
    let mut bench = Bench::new();
    bench.open(0, 2);
    bench.ask(10, LampKind::Continue, 0, 0);
    // In answer to a wrong or expired proof, the server sends the correct one to the claimed address.
    for (at, wrong) in [(20, 1), (30_000, Prover::new(SECRET).proof(bench.from, 7, tick(0).steady))] {
        let arrival = RequestArrival { from: bench.from, at: tick(at).wall, ttl: None, traffic_class: None };
        let mut out = Vec::new();
        bench
            .server
            .handle(&proof::init(7, 0, 1, wrong).to_bytes(), &arrival, (), tick(at), &mut out)
            .unwrap();
        let right = Prover::new(SECRET).proof(bench.from, 7, tick(at).steady);
        assert_eq!(proof::of(&LampHeader::parse(&out).unwrap()), Some(right));
    }
    assert_eq!(bench.ask(30, LampKind::Init, 0, 1), None);
    bench.ask(40, LampKind::Stop, 1, 0);
    assert_eq!(bench.reports(45, 46)[0].1.received, 2);
}

/// Kinds of packets, mostly of unidirectional tests, each with a length or type.
fn kinds() -> impl Strategy<Value = (LampKind, u16)> {
    let any = proptest::sample::select(&LampKind::ALL[..]);
    prop_oneof![
        3 => Just((LampKind::Init, 2)),
        1 => Just((LampKind::Init, 1)),
        3 => Just((LampKind::Continue, 0)),
        3 => Just((LampKind::Stop, 0)),
        3 => (any, 0u16..4),
    ]
}

/// Values of the proof field: no proof, a time instead of a proof, or a wrong proof.
fn proofs() -> impl Strategy<Value = u64> {
    prop_oneof![8 => Just(0), 1 => Just(1), 1 => any::<u64>()]
}

proptest! {
    /// Property: for any packets in any order, an address without proof gets no more packets or bytes than it
    /// sent, over all its identifiers and ports.
    #[test]
    fn no_amplifier(
        steps in proptest::collection::vec(
            (0i64..2000, 0u8..2, 0u16..3, kinds(), 0u16..2, 0usize..40, proofs()),
            1..150,
        ),
    ) {
        let rules = ServerRules { sessions: 4, sessions_per_client: 3, ..ServerRules::default() };
        let mut server = Server::<()>::new(rules, SECRET);
        let mut balance = [(0i64, 0i64); 2];
        let mut now = 0;
        for (wait, host, id, (kind, word), port, payload, proof) in steps {
            now += wait;
            let header = LampHeader::new(kind, id, 0, word);
            let header = match proof {
                0 => header,
                1 => header.at(tick(now).wall),
                wrong => LampHeader { micros: wrong, ..proof::init(id, 0, word, wrong) },
            };
            let mut packet = header.to_bytes().to_vec();
            packet.resize(HEADER_LEN + payload, 0);
            let from = SocketAddr::from(([192, 0, 2, host], 40_000 + port));
            let arrival = RequestArrival { from, at: tick(now).wall, ttl: None, traffic_class: None };
            let account = &mut balance[usize::from(host)];
            *account = (account.0 + 1, account.1 + packet.len() as i64);
            let mut out = Vec::new();
            let reaction = server.handle(&packet, &arrival, (), tick(now), &mut out);
            prop_assert!(out.len() <= packet.len());
            prop_assert!(!matches!(reaction, Ok(LampReaction::AnswerAndFollow(_))));
            if !out.is_empty() {
                *account = (account.0 - 1, account.1 - out.len() as i64);
            }
            out.clear();
            while let Some((to, ())) = server.poll_transmit(tick(now), &mut out) {
                let std::net::IpAddr::V4(ip) = to.ip() else { unreachable!() };
                let account = &mut balance[usize::from(ip.octets()[3])];
                *account = (account.0 - 1, account.1 - out.len() as i64);
                out.clear();
            }
            for (packets, bytes) in balance {
                prop_assert!(packets >= 0 && bytes >= 0, "{:?}", balance);
            }
            prop_assert!(server.sessions() <= 4);
        }
    }
}

/// Each session has exactly one entry in the agenda.
#[test]
fn the_agenda_is_as_long_as_the_list_of_sessions() {
    const SESSIONS: usize = 100_000;
    let rules = ServerRules { sessions: SESSIONS, ..ServerRules::default() };
    let mut server = Server::<()>::new(rules, SECRET);
    let mut reports = 0;
    let host = |k: usize| {
        SocketAddr::from((
            std::net::Ipv4Addr::from_bits(0x0a00_0000 + k as u32 / 200),
            2000 + (k % 200) as u16,
        ))
    };
    for at in 0..4 {
        for from in (0..SESSIONS).map(host) {
            let arrival = RequestArrival { from, at: tick(at + 5).wall, ttl: None, traffic_class: None };
            let kind = [LampKind::Init, LampKind::Continue, LampKind::Stop, LampKind::Ack][at as usize];
            let proof = || server.prover.proof(from, 7, tick(at).steady);
            let header = if at == 0 {
                proof::init(7, 0, 2, proof())
            } else {
                LampHeader::new(kind, 7, at as u16, 0).at(tick(at).wall)
            };
            server.handle(&header.to_bytes(), &arrival, (), tick(at), &mut Vec::new()).unwrap();
        }
        while server.poll_transmit(tick(at), &mut Vec::new()).is_some() {
            reports += 1;
        }
        assert_eq!((server.sessions.len(), server.agenda.len()), (SESSIONS, SESSIONS));
    }
    assert_eq!(reports, SESSIONS);
    while server.poll_transmit(tick(125_000), &mut Vec::new()).is_some() {}
    assert_eq!((server.sessions.len(), server.agenda.len()), (0, 0));
}
