//! Recorded sessions of twping with twampd, open and keyed: tests of every message and every packet.

use crate::amp::PacketOrigin;
use crate::amp::SecurityMode;
use crate::amp::crypto::{IncomingBytes, OutgoingBytes, SessionKeys, derive};
use crate::amp::message::*;
use crate::amp::setup::*;
use crate::machine::{Machine, Tick};
use crate::stamp::packet::{StampAnswer, StampLayout, StampRequest};
use crate::twamp::client::{
    self, AmpFailure, AmpStep, Client, TwampClientEvent, TwampOptions, TwampSessionSpec,
};
use crate::twamp::server::{self, Server, ServerRandom, TwampRules};
use crate::twamp::{TestKeys, Users};
use crate::wire::unhex;
use jitlat_core::{Dscp, Span, SteadyTime, WallTime};

const VECTORS: &str = include_str!("../../../../testdata/twamp/vectors.tsv");
const SECRET: &[u8] = b"interop-secret";
const NOW: Tick = Tick { wall: WallTime(1_795_176_900_000_000_000), steady: SteadyTime(0) };
const KEYED: [&str; 3] = ["twamp-auth-ipv4", "twamp-enc-ipv4", "twamp-mixed-ipv4"];
const OPEN: [&str; 5] = [
    "twamp-open-ipv4",
    "twamp-open-ipv4-dscpEF",
    "twamp-open-ipv4-pad100",
    "twamp-open-ipv6",
    "twamp-open-natmode",
];

/// Returns the payloads sent over `carrier` in one capture, each with a flag that is true if the client sent the
/// payload.
fn payloads(capture: &str, carrier: &str) -> Vec<(bool, Vec<u8>)> {
    let rows = VECTORS.lines().filter_map(|line| {
        let f: Vec<&str> = line.split('\t').collect();
        let [name, _, _, c, way, _, _, hex] = f[..] else { return None };
        (name == capture && c == carrier).then(|| (way == "c->s", unhex(hex)))
    });
    rows.collect()
}

fn block<const N: usize>(hex: &str) -> [u8; N] {
    unhex(hex).try_into().unwrap()
}

/// Returns the parameters that the first two messages of a capture negotiate.
fn agreement(tcp: &[(bool, Vec<u8>)]) -> (Greeting, SetUp, Option<SessionKeys>) {
    let greeting = Greeting::parse(&tcp[0].1).unwrap();
    let set_up = SetUp::parse(&tcp[1].1).unwrap();
    let key = derive(SECRET, &greeting.salt, greeting.count);
    let keyed = set_up.mode != 1;
    let keys = keyed.then(|| SessionKeys::from_token(&set_up.token, &key, &greeting.challenge).unwrap());
    (greeting, set_up, keys)
}

#[test]
fn known_answers() {
    let salt = block("1de84ebdae86da6fb8a780210879f8a0");
    let key = derive(SECRET, &salt, 2048);
    assert_eq!(key, block("16dd9857e6e5e8475dabe4584e894eab"));
    let challenge = block("1f51390ca2a02dbe47c8b6af3fa92462");
    let token = block(
        "e67271f5cf67e8a7f6e07b4a65e8ad14fa6b3af444832d8e6515927718ec84b74f5097d8035c5f9ed37c00e8a78640aacc09fbf544e67f0e731645d5e621fa80",
    );
    let keys = SessionKeys::from_token(&token, &key, &challenge).unwrap();
    assert_eq!(keys.aes, block("f2f666ac2721f9b4de559610fb039729"));
    assert_eq!(keys.hmac, block("90dc1c6ca924e188b26ace6af41330c960462c90b15bf2a4b244ebccea29c4d9"));
    assert_eq!(keys.token(&key, &challenge), token);
    assert_eq!(SessionKeys::from_token(&token, &key, &[0; 16]), None);

    let sid = Sid(block("0a4d0002eeaab8acbebe9c8852aa5e87"));
    let test = TestKeys::new(SecurityMode::Authenticated, &keys, &sid).unwrap();
    assert_eq!(test.keys().aes, block("13d0bd74231a2bbf91ea92fd87ac2fcf"));
    assert_eq!(test.keys().hmac, block("54ea487170ad86a39b9dc78dd04c386bdf13624ecaf4fa4fadaf4b6e6ac79f41"));
    let mut packet = [0; 48];
    test.seal(PacketOrigin::Sender, &mut packet);
    assert_eq!(packet[..16], block::<16>("7e611fdde8e5fd5251709036eef2acbb"));
    assert_eq!(packet[32..], block::<16>("16c3b98627c2efeab35530a9e5930c1f"));
    assert!(TestKeys::new(SecurityMode::Mixed, &keys, &sid).is_none());
}

/// Decodes each message, encodes it again, and compares the bytes.
fn again(capture: &str) -> Vec<String> {
    let tcp = payloads(capture, "tcp");
    let (greeting, set_up, keys) = agreement(&tcp);
    let mut bytes = Vec::new();
    greeting.write(&mut bytes);
    assert_eq!(bytes, tcp[0].1, "{capture}");
    bytes.clear();
    set_up.write(&mut bytes);
    assert_eq!(bytes, tcp[1].1, "{capture}");
    bytes.clear();
    let start = ServerStart::parse(&tcp[2].1).unwrap();
    assert_eq!((start.accept, tcp[2].1.len()), (AcceptCode::Ok, 48), "{capture}");
    start.write(&mut bytes);

    let mut sides = [
        (IncomingBytes::default(), OutgoingBytes::default()),
        (IncomingBytes::default(), OutgoingBytes::default()),
    ];
    if let Some(keys) = &keys {
        for ((incoming, outgoing), iv) in sides.iter_mut().zip([set_up.client_iv, start.server_iv]) {
            incoming.protect(keys, &iv);
            outgoing.protect(keys, &iv);
        }
    }
    let [client, server] = &mut sides;
    server.0.feed(&tcp[2].1[32..]);
    let time = server.0.take(16).unwrap();
    assert!(time[8..].iter().all(|b| *b == 0), "{capture}: decrypted");
    server.1.put(&time, &mut bytes);
    assert_eq!(bytes, tcp[2].1, "{capture}");

    let mut seen = Vec::new();
    for (from_client, recorded) in &tcp[3..] {
        let (incoming, outgoing) = if *from_client { &mut *client } else { &mut *server };
        incoming.feed(recorded);
        let number = incoming.first().unwrap();
        let plain = incoming.take_signed(recorded.len()).unwrap().expect(capture);
        let mut encoded = Vec::new();
        seen.push(match (from_client, number) {
            (true, command::REQUEST_TW_SESSION) => {
                let request = RequestSession::parse(&plain).unwrap();
                request.write(&mut encoded);
                format!("request {} dscp {}", request.padding, request.dscp().unwrap())
            }
            (true, command::START) => {
                write_start(&mut encoded);
                "start".to_owned()
            }
            (true, command::STOP) => {
                write_stop(AcceptCode::Ok, parse_stop(&plain).unwrap(), &mut encoded);
                "stop".to_owned()
            }
            (false, _) if recorded.len() == AcceptSession::LEN => {
                let answer = AcceptSession::parse(&plain).unwrap();
                answer.write(&mut encoded);
                assert!(answer.port >= 18_760, "{capture}");
                answer.accept.to_string()
            }
            (false, _) => {
                write_start_ack(number.into(), &mut encoded);
                "ack".to_owned()
            }
            _ => panic!("{capture}: command {number}"),
        });
        bytes.clear();
        outgoing.put_signed(&encoded, &mut bytes);
        assert_eq!(&bytes, recorded, "{capture}");
    }
    seen
}

#[test]
fn every_control_message_decodes_and_re_encodes() {
    for capture in OPEN.iter().chain(&KEYED) {
        let seen = again(capture);
        let (padding, dscp) = match *capture {
            "twamp-open-ipv4-dscpEF" => (27, 46),
            "twamp-open-ipv4-pad100" => (100, 0),
            "twamp-auth-ipv4" | "twamp-enc-ipv4" => (64, 0),
            _ => (27, 0),
        };
        let request = format!("request {padding} dscp {dscp}");
        assert_eq!(seen, [&request, "accepted (code 0)", "start", "ack", "stop"], "{capture}");
    }
    let refused = payloads("twamp-auth-wrongkey", "tcp");
    let start = ServerStart::parse(&refused[2].1).unwrap();
    assert_eq!(start, ServerStart { accept: AcceptCode::Failure, server_iv: [0; 16] });
}

/// Runs a client with the settings of the recorded one on the recorded answers. Returns its events and
/// messages.
fn replayed_client(capture: &str) -> (Vec<TwampClientEvent>, Vec<Vec<u8>>) {
    let tcp = payloads(capture, "tcp");
    let (_, set_up, keys) = agreement(&tcp);
    let keyed = keys.as_ref().map(|k| {
        let mut random = [0; 64];
        random[..16].copy_from_slice(&k.aes);
        random[16..48].copy_from_slice(&k.hmac);
        random[48..].copy_from_slice(&set_up.client_iv);
        random
    });
    let unspecified = "0.0.0.0".parse().unwrap();
    let spec = TwampSessionSpec {
        sender_port: 9000,
        receiver_port: 9000,
        addresses: (unspecified, unspecified),
        size: 41,
        dscp: Dscp::default(),
        timeout: Span::seconds(1),
    };
    let config = TwampOptions {
        mode: SecurityMode::from_bits(set_up.mode),
        user: keyed.map(|_| ("tester".to_owned(), SECRET.to_vec())),
        sessions: vec![spec],
        step_timeout: Span::seconds(5),
        random: keyed.unwrap_or([0; 64]),
    };
    let mut client = Client::new(config, NOW);
    let (mut events, mut messages) = (Vec::new(), Vec::new());
    let mut collect = |client: &mut Client, events: &mut Vec<TwampClientEvent>| {
        let mut out = Vec::new();
        while client.poll_transmit(NOW, &mut out) {
            messages.push(core::mem::take(&mut out));
        }
        while let Some(event) = client.poll_event() {
            let ready = matches!(event, TwampClientEvent::Ready);
            events.push(event);
            if ready {
                client.handle(NOW, client::TwampClientInput::Start);
            }
        }
    };
    for (_, bytes) in tcp.iter().filter(|(from_client, _)| !from_client) {
        // In small pieces, because the stream has no message boundaries.
        for piece in bytes.chunks(7) {
            client.handle(NOW, client::TwampClientInput::Bytes(piece));
            collect(&mut client, &mut events);
            collect(&mut client, &mut events);
        }
    }
    client.handle(NOW, client::TwampClientInput::Stop);
    collect(&mut client, &mut events);
    collect(&mut client, &mut events);
    (events, messages)
}

#[test]
fn the_client_replays_every_recorded_session() {
    for capture in OPEN.iter().chain(&KEYED) {
        let (events, messages) = replayed_client(capture);
        assert!(matches!(events[0], TwampClientEvent::Mode(_)), "{capture}: {events:?}");
        let TwampClientEvent::Granted(granted) = &events[1] else { panic!("{capture}: {events:?}") };
        assert!(granted.port >= 18_760, "{capture}");
        assert!(
            matches!(
                events[2..],
                [TwampClientEvent::Ready, TwampClientEvent::Started, TwampClientEvent::Over]
            ),
            "{capture}: {:?}",
            &events[2..]
        );
        let lengths: Vec<usize> = messages.iter().map(Vec::len).collect();
        assert_eq!(lengths, [164, 112, 32, 32], "{capture}");
        // The set-up depends only on keys and challenge, so the bytes are the same.
        assert_eq!(messages[0], payloads(capture, "tcp")[1].1, "{capture}");
    }
    let events = replayed_wrong_key();
    let [TwampClientEvent::Failed(failure)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(*failure, AmpFailure::Refused { step: AmpStep::SetUp, accept: AcceptCode::Failure });
    assert!(failure.to_string().contains("passphrase"), "{failure}");
}

fn replayed_wrong_key() -> Vec<TwampClientEvent> {
    let config = TwampOptions {
        mode: Some(SecurityMode::Authenticated),
        user: Some(("tester".to_owned(), b"wrong".to_vec())),
        sessions: vec![],
        step_timeout: Span::seconds(5),
        random: [7; 64],
    };
    let mut client = Client::new(config, NOW);
    for (_, bytes) in payloads("twamp-auth-wrongkey", "tcp").iter().filter(|(c, _)| !c) {
        client.handle(NOW, client::TwampClientInput::Bytes(bytes));
        let mut out = Vec::new();
        while client.poll_transmit(NOW, &mut out) {}
    }
    core::iter::from_fn(|| client.poll_event()).collect()
}

#[test]
fn the_server_replays_every_recorded_session() {
    for capture in OPEN.iter().chain(&KEYED) {
        let tcp = payloads(capture, "tcp");
        let (greeting, set_up, _) = agreement(&tcp);
        let keyed = set_up.mode != 1;
        let users = if keyed { Users::one("tester", SECRET) } else { Users::default() };
        let rules = TwampRules { users, rounds: greeting.count, ..TwampRules::default() };
        let random =
            ServerRandom { challenge: greeting.challenge, salt: greeting.salt, iv: [9; 16], sid: [1; 4] };
        let (peer, local) = match *capture {
            "twamp-open-ipv6" => ("[fd77::1]:50000", "[fd77::2]:862"),
            _ => ("10.77.0.1:50000", "10.77.0.2:862"),
        };
        let mut server =
            Server::new(rules, peer.parse().unwrap(), local.parse().unwrap(), NOW.wall, random, NOW);
        let mut events = Vec::new();
        let mut messages = Vec::new();
        for (_, bytes) in tcp.iter().filter(|(from_client, _)| *from_client) {
            for piece in bytes.chunks(13) {
                server.handle(NOW, server::TwampServerInput::Bytes(piece));
                while let Some(event) = server.poll_event() {
                    if matches!(event, server::TwampServerEvent::Open(_)) {
                        server.handle(NOW, server::TwampServerInput::Opened(Ok(20_000)));
                    }
                    events.push(event);
                }
            }
            let mut out = Vec::new();
            while server.poll_transmit(NOW, &mut out) {
                messages.push(core::mem::take(&mut out));
            }
        }
        let [
            server::TwampServerEvent::Open(asked),
            server::TwampServerEvent::Start,
            server::TwampServerEvent::Stop,
        ] = &events[..]
        else {
            panic!("{capture}: {events:?}")
        };
        let size = match *capture {
            "twamp-open-ipv4-pad100" => 114,
            "twamp-auth-ipv4" | "twamp-enc-ipv4" => 112,
            _ => 41,
        };
        assert_eq!(asked.request_len, size, "{capture}");
        assert_eq!(asked.dscp, if capture.ends_with("EF") { 46 } else { 0 }, "{capture}");
        assert_eq!(asked.sender_port.is_none(), capture.ends_with("natmode"), "{capture}");
        assert_eq!(messages.iter().map(Vec::len).collect::<Vec<_>>(), [64, 48, 48, 32], "{capture}");
    }
}

#[test]
fn every_keyed_test_packet_opens_and_seals_to_itself() {
    for (capture, mode) in KEYED.iter().zip([SecurityMode::Authenticated, SecurityMode::Encrypted]) {
        let tcp = payloads(capture, "tcp");
        let (_, _, keys) = agreement(&tcp);
        let keys = keys.unwrap();
        let mut server = IncomingBytes::default();
        server.protect(&keys, &ServerStart::parse(&tcp[2].1).unwrap().server_iv);
        server.feed(&tcp[2].1[32..]);
        server.take(16).unwrap();
        server.feed(&tcp[4].1);
        let accepted = server.take_signed(48).unwrap().unwrap();
        let sid = AcceptSession::parse(&accepted).unwrap().sid;
        let test = TestKeys::new(mode, &keys, &sid).unwrap();
        let other = TestKeys::new(mode, &keys, &Sid([1; 16])).unwrap();

        let packets = payloads(capture, "udp");
        assert_eq!(packets.len(), 30, "{capture}");
        let (mut asked, mut answered) = (0, 0);
        for (up, recorded) in packets {
            let origin = if up { PacketOrigin::Sender } else { PacketOrigin::Reflector };
            let mut packet = recorded.clone();
            assert!(!other.open(origin, &mut packet.clone()), "{capture}");
            assert!(test.open(origin, &mut packet), "{capture}");
            if up {
                let request = StampRequest::parse(StampLayout::Keyed, &packet).unwrap();
                assert_eq!((request.seq, request.error.is_valid()), (asked, true), "{capture}");
                asked += 1;
            } else {
                let answer = StampAnswer::parse(StampLayout::Keyed, &packet).unwrap();
                assert_eq!((answer.seq, answer.sender_seq), (answered, answered), "{capture}");
                assert_eq!(answer.sender_ttl, Some(255), "{capture}");
                answered += 1;
            }
            test.seal(origin, &mut packet);
            assert_eq!(packet, recorded, "{capture}");
        }
        assert_eq!((asked, answered), (15, 15));
    }
}
