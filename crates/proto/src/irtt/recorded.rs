//! Recorded sessions of irtt 0.9.2 (`testdata/irtt`). In the tests, this crate's client replaces irtt's client, and its
//! server replaces irtt's server, byte for byte.

use super::client::IrttFailure;
use super::packet::{self, EchoLayout, IrttPacket, flag};
use super::server::{AllowStamps, IrttReaction, IrttRules, Server};
use super::*;
use crate::machine::Tick;
use crate::twoway::reflect::{RequestArrival, Silence};
use crate::twoway::{ConversationState, DatagramKind, Directions, Protocol, RequestTable};
use crate::wire::unhex;
use jitlat_core::prefix::Prefix;
use jitlat_core::twoway::LossSide;
use jitlat_core::{Span, SteadyTime, WallTime};
use std::net::Ipv4Addr;

const VECTORS: &str = include_str!("../../../../testdata/irtt/vectors.tsv");

#[derive(Clone, Debug)]
struct Datagram {
    at: WallTime,
    to_server: bool,
    from: u16,
    tos: u8,
    bytes: Vec<u8>,
}

fn capture(name: &str) -> Vec<Datagram> {
    let rows = VECTORS.lines().skip(1).filter_map(|line| {
        let f: Vec<&str> = line.split('\t').collect();
        let [capture, at, _, way, from, _, _, tos, hex] = f[..] else { panic!("{line}") };
        (capture == name).then(|| Datagram {
            at: WallTime(at.parse().unwrap()),
            to_server: way == "c->s",
            from: from.parse().unwrap(),
            tos: tos.parse().unwrap(),
            bytes: unhex(hex),
        })
    });
    let rows: Vec<_> = rows.collect();
    assert!(!rows.is_empty(), "{name}");
    rows
}

/// Captures on both sides, and the numbers of the requests and replies lost after the capture points. A
/// repeated number means that the second copy was not lost.
struct Case {
    name: &'static str,
    key: Option<&'static str>,
    requests_lost: &'static [u32],
    replies_lost: &'static [u32],
}

const fn whole(name: &'static str) -> Case {
    Case { name, key: None, requests_lost: &[], replies_lost: &[] }
}

const fn lossy(name: &'static str, requests_lost: &'static [u32], replies_lost: &'static [u32]) -> Case {
    Case { name, key: None, requests_lost, replies_lost }
}

const fn keyed(name: &'static str, key: &'static str) -> Case {
    Case { name, key: Some(key), requests_lost: &[], replies_lost: &[] }
}

const CASES: [Case; 39] = [
    whole("default"),
    whole("default-no-options"),
    whole("ipv6"),
    whole("raw-mode"),
    whole("dscp-ef"),
    whole("length-172-fill"),
    whole("length-172-sfill-rand"),
    whole("length-172-echo-fill"),
    keyed("hmac", "irtt-capture-key"),
    keyed("hmac-hexkey-len300", "0x00112233445566778899aabbccddeeff"),
    whole("stats-none"),
    whole("stats-count"),
    whole("stats-window"),
    whole("tstamp-none"),
    whole("tstamp-send"),
    whole("tstamp-receive"),
    whole("tstamp-midpoint"),
    whole("clock-wall"),
    whole("clock-monotonic"),
    whole("tstamp-midpoint-clock-wall"),
    whole("tstamp-midpoint-clock-monotonic"),
    whole("stats-none-tstamp-none"),
    whole("refuse-strict-interval"),
    whole("refuse-strict-duration"),
    whole("refuse-strict-length"),
    whole("refuse-strict-tstamp"),
    whole("refuse-strict-dscp"),
    whole("refuse-strict-sfill"),
    whole("refuse-strict-long-interval"),
    whole("loose-restricted"),
    whole("early-close-client-interrupt"),
    lossy("loss-up", &[3, 7, 8], &[]),
    lossy("loss-down", &[], &[2, 11, 19]),
    lossy("loss-both", &[0, 5, 6], &[9, 10]),
    lossy("loss-up-stats-count", &[5], &[]),
    lossy("loss-stats-window", &[4], &[6]),
    lossy("loss-all", &[0, 1, 2, 3, 4], &[]),
    lossy("dup-late-requests", &[6, 12], &[]),
    lossy("dup-late-replies", &[], &[6, 12]),
];

/// Returns rules like those of irtt's server: no client has to prove that it receives packets.
fn trusting() -> IrttRules {
    IrttRules { trusted: vec![Prefix::new(Ipv4Addr::UNSPECIFIED.into(), 0).unwrap()], ..IrttRules::default() }
}

impl Case {
    fn key(&self) -> Option<IrttKey> {
        self.key.and_then(IrttKey::new)
    }

    /// Returns the datagrams that arrived, that is, all captured ones except those lost after the capture
    /// point.
    fn arrived(&self) -> Vec<Datagram> {
        let mut lost = [self.requests_lost.to_vec(), self.replies_lost.to_vec()];
        let key = self.key();
        let mut datagrams = capture(self.name);
        datagrams.retain(|d| {
            let packet = IrttPacket::parse(&d.bytes, key.as_ref()).unwrap();
            if packet.flags & !flag::REPLY != 0 {
                return true;
            }
            let seq = u32::from_le_bytes(*packet.token().unwrap().1.first_chunk().unwrap());
            let lost = &mut lost[usize::from(!d.to_server)];
            let index = lost.iter().position(|s| *s == seq);
            index.map(|index| lost.remove(index)).is_none()
        });
        assert!(lost.iter().all(Vec::is_empty), "{}: {lost:?}", self.name);
        datagrams
    }

    /// Returns the parameters that the client requested.
    fn asked(&self) -> IrttParams {
        let open = &capture(self.name)[0].bytes;
        IrttParams::parse(IrttPacket::parse(open, self.key().as_ref()).unwrap().body).unwrap()
    }

    fn options(&self) -> IrttOptions {
        let fill = match self.name {
            "length-172-fill" | "length-172-echo-fill" => Fill::Pattern(vec![0xca, 0xfe]),
            "length-172-sfill-rand" | "hmac-hexkey-len300" => Fill::Random,
            _ => Fill::None,
        };
        IrttOptions {
            key: self.key(),
            params: self.asked(),
            loose: self.name.starts_with("loose"),
            fill,
            padded: false,
            ..IrttOptions::new(Span::ZERO, Span::ZERO)
        }
    }

    /// Returns the settings of the recorded server.
    fn rules(&self) -> IrttRules {
        let rules = IrttRules { keys: self.key().into(), interval: Span::millis(5), ..trusting() };
        let ms = Span::millis;
        match self.name {
            "length-172-echo-fill" => IrttRules { fill: Fill::None, ..rules },
            "default-no-options" => IrttRules { interval: ms(10), ..rules },
            "refuse-strict-interval" => IrttRules { interval: ms(100), ..rules },
            "refuse-strict-duration" => IrttRules { duration: ms(200), ..rules },
            "refuse-strict-length" => IrttRules { length: 100, ..rules },
            "refuse-strict-tstamp" => IrttRules { stamps: AllowStamps::None, ..rules },
            "refuse-strict-dscp" => IrttRules { tos: false, ..rules },
            "refuse-strict-long-interval" => IrttRules { timeout: ms(2000), ..rules },
            "loose-restricted" => IrttRules {
                interval: ms(50),
                duration: ms(500),
                length: 100,
                stamps: AllowStamps::Single,
                tos: false,
                ..rules
            },
            _ => rules,
        }
    }
}

/// Requests and results of a client that receives the packets of the recorded client.
struct Replayed {
    client: Client,
    requests: RequestTable,
    replies: Vec<crate::twoway::Reply>,
}

fn replay_client(case: &Case) -> Replayed {
    let name = case.name;
    let mut client = Client::new(case.options());
    let mut requests = RequestTable::new(100);
    if client.counts_answers() {
        requests.declare_stateful();
    }
    let mut replies = Vec::new();
    let mut next = 0;
    let recorded = capture(name);
    let mut arrived = case.arrived();
    arrived.retain(|d| !d.to_server);
    let mut arrived = arrived.into_iter().peekable();
    // Requests that were repeated by hand are not sent by the client.
    let mut unique = Vec::new();
    for datagram in recorded.iter().filter(|d| d.to_server) {
        if unique.contains(&datagram.bytes) {
            continue;
        }
        unique.push(datagram.bytes.clone());
        while let Some(received) = arrived.next_if(|d| d.at <= datagram.at) {
            receive(&mut client, &mut requests, &mut replies, &received);
        }
        let now = Tick { wall: datagram.at, steady: SteadyTime(datagram.at.0 - recorded[0].at.0) };
        let mut out = Vec::new();
        let flags = IrttPacket::parse(&datagram.bytes, case.key().as_ref()).unwrap().flags;
        match flags {
            flag::OPEN => assert!(client.poll_conversation(now, &mut out), "{name}"),
            flag::CLOSE => {
                let _ = client.conversation_state(now.steady);
                assert!(client.poll_farewell(&mut out), "{name}");
            }
            _ => {
                assert_eq!(client.conversation_state(now.steady), ConversationState::Ready, "{name}");
                client.request(next, false, now.wall, &mut out);
                requests.note_sent(next, now.wall);
                next += 1;
            }
        }
        if client.options_fill() == &Fill::Random {
            // All bytes except the payload, because a different payload changes the HMAC.
            let fields = client.layout().packet_len(None).min(out.len());
            let hmac = if case.key.is_some() { 20..20 + fields - 4 } else { 0..fields };
            let hmac = if flags == 0 { hmac } else { 0..out.len() };
            assert_eq!(out[hmac.clone()], datagram.bytes[hmac], "{name}");
            assert_eq!(out.len(), datagram.bytes.len(), "{name}");
            assert!(flags != 0 || IrttPacket::parse(&out, case.key().as_ref()).is_ok());
        } else {
            assert_eq!(out, datagram.bytes, "{name}");
        }
    }
    arrived.for_each(|received| receive(&mut client, &mut requests, &mut replies, &received));
    assert!(!client.poll_farewell(&mut Vec::new()), "{name}: unique once");
    Replayed { client, requests, replies }
}

fn receive(
    client: &mut Client,
    requests: &mut RequestTable,
    replies: &mut Vec<crate::twoway::Reply>,
    datagram: &Datagram,
) {
    match client.receive(&datagram.bytes, datagram.at) {
        DatagramKind::Reply(reply) => {
            requests.match_answer(reply.seq, reply.far_seq);
            if let Some(window) = client.far_window() {
                requests.note_far_window(reply.seq, window);
            }
            assert!(!reply.damaged);
            replies.push(reply);
        }
        DatagramKind::Conversation => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_client_says_what_every_recorded_client_said() {
    for case in &CASES {
        let replayed = replay_client(case);
        let answered = case.arrived().iter().filter(|d| !d.to_server).count() - 1;
        assert_eq!(replayed.replies.len(), answered, "{}", case.name);
        let refused = case.name.starts_with("refuse");
        assert_eq!(
            matches!(replayed.client.failure(), Some(IrttFailure::Restricted(_))),
            refused,
            "{}",
            case.name
        );
        let stamps = replayed.client.granted().stamp_at != StampAt::None;
        for reply in &replayed.replies {
            let (arrived, answered) = (reply.arrived, reply.answered);
            assert_eq!(arrived.is_some() || answered.is_some(), stamps, "{}", case.name);
            if let (Some(arrived), Some(answered)) = (arrived, answered) {
                assert!(
                    (answered - arrived).0 >= 0 && (answered - arrived) < Span::millis(20),
                    "{}",
                    case.name
                );
            }
        }
    }
}

/// irtt's own client reported the same direction for each loss, except losses after the last reply, about
/// which it has no information.
#[test]
fn losses_have_the_recorded_direction() {
    let of = |name: &str| {
        let case = CASES.iter().find(|c| c.name == name).unwrap();
        let (directions, runs) = replay_client(case).requests.directions();
        let runs: Vec<_> = runs.iter().map(|r| (r.first, r.length, r.side)).collect();
        (directions, runs)
    };
    let lost = |d: &Directions| (d.up_lost, d.down_lost, d.unknown_lost);
    use LossSide::{Down, Either, Up};
    let (d, runs) = of("loss-up");
    assert_eq!((lost(&d), runs), ((3, 0, 0), vec![(3, 1, Up), (7, 2, Up)]));
    let (d, runs) = of("loss-down");
    assert_eq!((lost(&d), runs), ((0, 2, 1), vec![(2, 1, Down), (11, 1, Down), (19, 1, Either)]));
    let (d, runs) = of("loss-both");
    assert_eq!((lost(&d), runs), ((3, 2, 0), vec![(0, 1, Up), (5, 2, Up), (9, 2, Down)]));
    let (d, runs) = of("loss-up-stats-count");
    assert_eq!((lost(&d), runs), ((1, 0, 0), vec![(5, 1, Up)]));
    let (d, runs) = of("loss-stats-window");
    assert_eq!((lost(&d), runs), ((1, 1, 0), vec![(4, 1, Up), (6, 1, Down)]));
    let (d, runs) = of("dup-late-requests");
    assert_eq!((lost(&d), d.up_duplicates, d.down_duplicates, runs), ((0, 0, 0), 2, 0, vec![]));
    let (d, runs) = of("dup-late-replies");
    assert_eq!((lost(&d), d.up_duplicates, d.down_duplicates, runs), ((0, 0, 0), 0, 2, vec![]));
    let (d, runs) = of("loss-all");
    assert_eq!((lost(&d), d.stateful, runs), ((0, 0, 0), false, vec![]));
}

/// irtt's server sends both clocks of a midpoint although only one was negotiated, and irtt's client reads
/// the wrong one.
#[test]
fn midpoints_of_the_other_clock_are_noticed() {
    for name in ["tstamp-midpoint-clock-wall", "tstamp-midpoint-clock-monotonic", "tstamp-midpoint"] {
        let case = CASES.iter().find(|c| c.name == name).unwrap();
        let replies = replay_client(case).replies;
        let near = capture(name)[0].at;
        assert_eq!(replies.len(), 10);
        for reply in replies {
            let at = reply.arrived.unwrap();
            assert!(reply.answered == Some(at) && (at - near).0.abs() < 1_000_000_000, "{name}: {at:?}");
        }
    }
}

fn arrival(datagram: &Datagram, at: WallTime) -> RequestArrival {
    let from = ([10, 88, 0, 1], datagram.from).into();
    RequestArrival { from, at, ttl: Some(64), traffic_class: Some(datagram.tos) }
}

/// Given the same times, the server gives the same answers as the recorded one, apart from the token.
#[test]
fn the_server_answers_as_every_recorded_server_did() {
    let mut answers = 0;
    for case in &CASES {
        let (name, key) = (case.name, case.key());
        let mut server = Server::new(case.rules(), [7; 32], SteadyTime(0));
        let datagrams = case.arrived();
        // Copies were made by hand, so each reply is used once.
        let mut replies: Vec<Datagram> = Vec::new();
        for reply in capture(name).into_iter().filter(|d| !d.to_server) {
            if replies.iter().all(|r| r.bytes != reply.bytes) {
                replies.push(reply);
            }
        }
        let mut replies = replies.iter();
        let mut tokens: Option<(u64, u64)> = None;
        let mut layout = EchoLayout::default();
        for request in datagrams.iter().filter(|d| d.to_server) {
            let flags = IrttPacket::parse(&request.bytes, key.as_ref()).unwrap().flags;
            let bytes = with_token(&request.bytes, tokens.map(|(_, ours)| ours), key.as_ref());
            let mut out = Vec::new();
            let since = SteadyTime(request.at.0 - datagrams[0].at.0);
            if flags == flag::CLOSE {
                let now = Tick { wall: request.at, steady: since };
                let reaction = server.handle(&bytes, &arrival(request, request.at), now, &mut out);
                assert_eq!(
                    (reaction, out.len(), server.sessions()),
                    (Ok(IrttReaction::Taken), 0, 0),
                    "{name}"
                );
                continue;
            }
            // Times of the reply in the recording.
            let Some(reply) = replies.next() else { panic!("{name}: unanswered in the recording") };
            let recorded = IrttPacket::parse(&reply.bytes, key.as_ref()).unwrap();
            let echo = tokens.and_then(|_| layout.read(recorded.token().unwrap().1)).unwrap_or_default();
            let sent = echo.sent.wall.or(echo.midpoint.wall).map_or(request.at, WallTime);
            let received = echo.received.wall.or(echo.midpoint.wall).map_or(sent, WallTime);
            let took = match (echo.received.monotonic, echo.sent.monotonic) {
                (Some(received), Some(sent)) => sent - received,
                _ => 0,
            };
            let received = if echo.received.wall.is_some() { received } else { sent - Span(took) };
            let steady =
                echo.sent.monotonic.or(echo.midpoint.monotonic).or(echo.received.monotonic.map(|t| t + took));
            // Some servers write the wall clock in the field of the monotonic clock.
            let steady = steady.filter(|steady| *steady < 1 << 50);
            let now = Tick { wall: sent, steady: steady.map_or(since, SteadyTime) };
            let reaction = server.handle(&bytes, &arrival(request, received), now, &mut out);
            assert_eq!(reaction, Ok(IrttReaction::Answer { tos: reply.tos }), "{name}");
            if flags == flag::OPEN {
                let ours = IrttPacket::parse(&out, key.as_ref()).unwrap().token().unwrap().0;
                tokens = Some((recorded.token().unwrap().0, ours));
                layout = EchoLayout::new(&IrttParams::parse(&recorded.body[packet::TOKEN_LEN..]).unwrap());
            }
            let theirs = tokens.map(|(theirs, _)| theirs);
            compare(case, &with_token(&out, theirs, key.as_ref()), reply, &layout, bytes.len());
            answers += 1;
        }
        assert!(replies.next().is_none() || name == "early-close-client-interrupt", "{name}");
    }
    assert!(answers > 400, "{answers}");
}

/// Returns the same packet with this token.
fn with_token(bytes: &[u8], token: Option<u64>, key: Option<&IrttKey>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some(token) = token else { return bytes };
    let at = if key.is_some() { 20 } else { 4 };
    bytes[at..at + packet::TOKEN_LEN].copy_from_slice(&token.to_le_bytes());
    packet::sign(key, &mut bytes);
    bytes
}

fn compare(case: &Case, ours: &[u8], reply: &Datagram, layout: &EchoLayout, asked: usize) {
    let (name, key) = (case.name, case.key());
    if name.starts_with("tstamp-midpoint-clock") && ours.len() < reply.bytes.len() {
        // This server's answer has only the negotiated clock, so it is as long as the request.
        assert_eq!((ours.len(), reply.bytes.len()), (asked, asked + 8), "{name}");
        return;
    }
    let (mine, theirs) = (
        IrttPacket::parse(ours, key.as_ref()).unwrap(),
        IrttPacket::parse(&reply.bytes, key.as_ref()).unwrap(),
    );
    if name == "refuse-strict-sfill" {
        // The name of a fill that is not granted is omitted, because the name of another fill could be
        // longer.
        let params = |packet: &IrttPacket<'_>| IrttParams::parse(&packet.body[packet::TOKEN_LEN..]).unwrap();
        return assert_eq!(params(&mine), IrttParams { fill: String::new(), ..params(&theirs) });
    }
    assert_eq!((mine.flags, mine.body.len()), (theirs.flags, theirs.body.len()), "{name}");
    if mine.flags & flag::OPEN != 0 {
        return assert_eq!(ours, reply.bytes, "{name}");
    }
    let (token, body) = mine.token().unwrap();
    let (their_token, their_body) = theirs.token().unwrap();
    let (mut echo, mut their) = (layout.read(body).unwrap(), layout.read(their_body).unwrap());
    // The two clocks were not read at the same instant.
    let near = |a: Option<i64>, b: Option<i64>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() < 60_000,
        (a, b) => a == b,
    };
    assert!(near(echo.received.monotonic, their.received.monotonic), "{name}: {echo:?} {their:?}");
    assert!(near(echo.midpoint.monotonic, their.midpoint.monotonic), "{name}: {echo:?} {their:?}");
    (echo.received.monotonic, echo.midpoint.monotonic) = (None, None);
    (their.received.monotonic, their.midpoint.monotonic) = (None, None);
    if name == "dup-late-requests" && their.window == 1 && their.seq > 0 {
        // After a reordered request, irtt's server has forgotten all others.
        their.window = echo.window;
    }
    if name == "dup-late-requests" && (6..=20).contains(&their.seq) {
        assert_eq!(
            echo.window & their.window,
            their.window,
            "our window contains every request in the recorded window"
        );
        their.window = echo.window;
    }
    assert_eq!((token, echo), (their_token, their), "{name}");
    let random = name == "length-172-sfill-rand";
    let (payload, their_payload) = (&body[layout.len()..], &their_body[layout.len()..]);
    assert!(payload == their_payload || random && payload.len() == their_payload.len(), "{name}");
}

/// Packets that were sent by hand to the recorded server. This crate's server answers differently: its answers are
/// never longer than the request, and never disproportionately many.
#[test]
fn hand_made_packets() {
    let granted = |name: &str, key: Option<IrttKey>| {
        let mut server = Server::new(IrttRules { keys: key.into(), ..trusting() }, [7; 32], SteadyTime(0));
        let mut answers = Vec::new();
        let datagrams = capture(name);
        let mut recorded = datagrams.iter().filter(|d| !d.to_server);
        for (k, request) in datagrams.iter().filter(|d| d.to_server).enumerate() {
            let now = Tick { wall: request.at, steady: SteadyTime(k as i64 * 1_000_000_000) };
            let mut out = Vec::new();
            let reaction = server.handle(&request.bytes, &arrival(request, request.at), now, &mut out);
            assert!(out.len() <= request.bytes.len() + super::server::OPEN_SURPLUS);
            answers.push((reaction, out));
        }
        assert!(recorded.next().is_some() || name.starts_with("hmac"), "{name}");
        answers
    };
    let opens = granted("probe-open", None);
    let params = |k: usize| IrttParams::parse(&opens[k].1[12..]).unwrap();
    let silent: Vec<usize> = (0..opens.len()).filter(|k| opens[*k].0.is_err()).collect();
    // Neither server answers these. Two exceptions are answered by irtt's server: no parameters at all, and
    // no interval, for which this server would have to add one.
    assert_eq!(silent, [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 20, 21, 22, 23]);
    assert_eq!((opens[4].0, opens[11].0), (Err(Silence::Short), Err(Silence::Short)));
    assert_eq!((params(0).version, params(1).version), (1, 1));
    assert_eq!((params(0).interval, params(12).duration), (Span::millis(20), Span::ZERO));
    assert_eq!((params(16).fill.as_str(), params(17).fill.as_str()), ("rand", ""));
    assert_eq!((params(18).length, params(19).length), (0, 65_507), "not −5, not a million");
    for (name, why) in [
        ("hmac-wrong-key", Silence::Forged),
        ("hmac-missing", Silence::Forged),
        ("hmac-unexpected", Silence::Forged),
    ] {
        let key = if name == "hmac-unexpected" { None } else { IrttKey::new("irtt-capture-key") };
        assert!(granted(name, key).iter().all(|(reaction, _)| *reaction == Err(why)), "{name}");
    }
}
