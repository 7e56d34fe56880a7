//! Tests of both state machines with each other, with a silent peer, and with invalid data.

use crate::amp::message::*;
use crate::amp::setup::*;
use crate::amp::{SecurityMode, SecurityModes};
use crate::machine::{Machine, Tick};
use crate::stamp::packet::{StampAnswer, StampLayout};
use crate::twamp::client::{self, AmpFailure, AmpStep, Client, TwampOptions, TwampSessionSpec};
use crate::twamp::server::{self, AmpEndReason, Server, ServerRandom, TwampRules};
use crate::twamp::{SessionReflector, TwampSender, Users, sender};
use crate::twoway::reflect::{RequestArrival, Silence};
use crate::twoway::{DatagramKind, Protocol};
use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::{Dscp, Span, SteadyTime, WallTime};
use proptest::prelude::*;

const WALL: i64 = 1_795_176_900_000_000_000;
const PEER: &str = "192.0.2.1:50000";
const LOCAL: &str = "192.0.2.2:862";

fn tick(ms: i64) -> Tick {
    Tick { wall: WallTime(WALL + ms * 1_000_000), steady: SteadyTime(ms * 1_000_000) }
}

fn spec(mode: SecurityMode) -> TwampSessionSpec {
    let (sender, receiver) = (PEER.parse().unwrap(), LOCAL.parse().unwrap());
    let (sender, receiver): (core::net::SocketAddr, core::net::SocketAddr) = (sender, receiver);
    TwampSessionSpec {
        sender_port: 40_000,
        receiver_port: 40_000,
        addresses: (sender.ip(), receiver.ip()),
        size: sender::least_size(mode),
        dscp: Dscp::new(46).unwrap(),
        timeout: Span::seconds(2),
    }
}

fn config(mode: SecurityMode, sessions: usize) -> TwampOptions {
    TwampOptions {
        mode: Some(mode),
        user: mode.is_keyed().then(|| ("user".to_owned(), b"secret".to_vec())),
        sessions: vec![spec(mode); sessions],
        step_timeout: Span::seconds(5),
        random: core::array::from_fn(|i| i as u8),
    }
}

fn rules(mode: SecurityMode) -> TwampRules {
    let users = if mode.is_keyed() { Users::one("user", b"secret") } else { Users::default() };
    TwampRules { users, rounds: 1024, ..TwampRules::default() }
}

fn server(rules: TwampRules) -> Server {
    let random = ServerRandom::new(core::array::from_fn(|i| 100 + i as u8));
    Server::new(rules, PEER.parse().unwrap(), LOCAL.parse().unwrap(), WallTime(WALL), random, tick(0))
}

/// Both sides, with the events of each of them.
struct Pair {
    client: Client,
    server: Server,
    client_events: Vec<client::TwampClientEvent>,
    server_events: Vec<server::TwampServerEvent>,
    /// Answer of the driver to a request for a socket.
    ports: Result<u16, AcceptCode>,
}

impl Pair {
    fn new(config: TwampOptions, rules: TwampRules) -> Pair {
        Pair {
            client: Client::new(config, tick(0)),
            server: server(rules),
            client_events: Vec::new(),
            server_events: Vec::new(),
            ports: Ok(20_000),
        }
    }

    /// Transfers bytes in pieces in both directions until neither side sends more. All messages after the
    /// first `messages` are lost. Returns the number of messages transferred.
    fn run(&mut self, now: Tick, piece: usize, messages: usize) -> usize {
        let mut transferred = 0;
        loop {
            let mut out = Vec::new();
            let from_server = self.server.poll_transmit(now, &mut out);
            if !from_server && !self.client.poll_transmit(now, &mut out) {
                return transferred;
            }
            if transferred == messages {
                return transferred;
            }
            transferred += 1;
            for bytes in out.chunks(piece) {
                if from_server {
                    self.client.handle(now, client::TwampClientInput::Bytes(bytes));
                } else {
                    self.server.handle(now, server::TwampServerInput::Bytes(bytes));
                }
                self.obey(now);
            }
        }
    }

    fn obey(&mut self, now: Tick) {
        while let Some(event) = self.server.poll_event() {
            if let server::TwampServerEvent::Open(_) = event {
                self.server.handle(now, server::TwampServerInput::Opened(self.ports));
            }
            self.server_events.push(event);
        }
        while let Some(event) = self.client.poll_event() {
            if let client::TwampClientEvent::Ready = event {
                self.client.handle(now, client::TwampClientInput::Start);
            }
            self.client_events.push(event);
        }
    }

    fn failure(&self) -> Option<&AmpFailure> {
        self.client_events.iter().find_map(|e| match e {
            client::TwampClientEvent::Failed(failure) => Some(failure),
            _ => None,
        })
    }

    fn reason(&self) -> Option<AmpEndReason> {
        self.server_events.iter().find_map(|e| match e {
            server::TwampServerEvent::Over(reason) => Some(*reason),
            _ => None,
        })
    }

    fn started(&self) -> bool {
        let client = self.client_events.iter().any(|e| matches!(e, client::TwampClientEvent::Started));
        client && self.server_events.iter().any(|e| matches!(e, server::TwampServerEvent::Start))
    }
}

#[test]
fn several_sessions_on_one_connection_in_every_mode() {
    for mode in SecurityMode::ALL {
        for piece in [1, 16, 33, 1000] {
            let mut config = config(mode, 3);
            // Without padding, and with the padding that makes the answer as long as the request.
            config.sessions[0].size = sender::size(mode, 0);
            let mut pair = Pair::new(config, rules(mode));
            // Greeting, set-up, start, three times a request and its answer, start and its answer.
            assert_eq!(pair.run(tick(1), piece, usize::MAX), 11, "{mode}");
            assert!(pair.started(), "{mode}: {:?}", pair.client_events);
            let asked = pair.server_events.iter().filter_map(|e| match e {
                server::TwampServerEvent::Open(asked) => Some(asked.clone()),
                _ => None,
            });
            let granted = pair.client_events.iter().filter_map(|e| match e {
                client::TwampClientEvent::Granted(granted) => Some(granted.clone()),
                _ => None,
            });
            let mut sids = Vec::new();
            let least = super::least_padding(mode);
            for ((asked, granted), padding) in asked.zip(granted).zip([0, least, least]) {
                assert_eq!((asked.sid, asked.mode, granted.port), (granted.sid, mode, 20_000));
                assert_eq!((asked.dscp, asked.sender_port), (46, Some(40_000)));
                assert_eq!(asked.request_len, sender::size(mode, padding));
                sids.push(granted.sid);
                exchange(&asked, &granted);
            }
            sids.dedup();
            assert_eq!(sids.len(), 3, "each session has its own name");
            pair.client.handle(tick(2), client::TwampClientInput::Stop);
            pair.run(tick(3), piece, usize::MAX);
            assert!(matches!(pair.client_events.last(), Some(client::TwampClientEvent::Over)), "{mode}");
            assert!(matches!(pair.server_events.last(), Some(server::TwampServerEvent::Stop)), "{mode}");
            assert_eq!(pair.client.poll_timeout(), None);
        }
    }
}

fn arrival(from: &str) -> RequestArrival {
    RequestArrival {
        from: from.parse().unwrap(),
        at: WallTime(WALL + 5),
        ttl: Some(250),
        traffic_class: Some(46 << 2),
    }
}

/// Exchanges one test packet and its answer, and checks that invalid packets are refused.
fn exchange(asked: &server::TwampOpenRequest, granted: &client::TwampGrant) {
    let error = ErrorEstimate(0x8001);
    let host = arrival("192.0.2.1:40000").from.ip();
    let mut reflector = SessionReflector::new(asked.mode, asked.keys.clone(), host, asked.sender_port);
    let mut sender = TwampSender::new(asked.mode, granted.keys.clone(), asked.request_len, error);
    let mut request = Vec::new();
    sender.request(7, false, WallTime(WALL), &mut request);
    let mut answer = vec![0xaa; reflector.answer_len(request.len())];
    let mut reflect = |request: &[u8], from: &str| {
        reflector
            .reflect(request, &arrival(from), WallTime(WALL + 9), error, &mut answer)
            .map(|r| answer[..r.len].to_vec())
    };
    assert_eq!(reflect(&request, "192.0.2.9:40000"), Err(Silence::NoSession));
    assert_eq!(reflect(&request, "192.0.2.1:40001"), Err(Silence::NoSession));
    let shortest = super::sender::size(asked.mode, 0);
    assert_eq!(reflect(&request[..shortest - 1], "192.0.2.1:40000"), Err(Silence::Short));
    let answer = reflect(&request, "192.0.2.1:40000").unwrap();
    let whole = if asked.mode.protects_test() { 112 } else { 41 };
    assert_eq!(
        answer.len(),
        request.len().max(whole),
        "both directions are equally long, if the request is not short"
    );
    let DatagramKind::Reply(reply) = sender.receive(&answer, WallTime(WALL)) else {
        panic!("{}", asked.mode)
    };
    assert_eq!((reply.seq, reply.far_seq), (7, Some(0)));
    assert_eq!((reply.arrived, reply.answered), (Some(WallTime(WALL + 5)), Some(WallTime(WALL + 9))));
    let mut forged = answer.clone();
    forged[3] ^= 1;
    let result = sender.receive(&forged, WallTime(WALL));
    if asked.mode.protects_test() {
        assert_eq!(result, DatagramKind::Forged);
        forged = request.clone();
        forged[40] ^= 0x10;
        assert_eq!(reflect(&forged, "192.0.2.1:40000"), Err(Silence::Forged));
        assert_eq!(
            StampAnswer::parse(StampLayout::Keyed, &answer).unwrap().sender_seq == 7,
            asked.mode == SecurityMode::Authenticated
        );
    } else {
        assert_eq!(reflect(&answer, "192.0.2.1:40000"), Err(Silence::Loop));
        let ours = if request.len() < whole { DatagramKind::Malformed } else { DatagramKind::Foreign };
        assert_eq!(sender.receive(&request, WallTime(WALL)), ours, "a request that came back");
    }
}

#[test]
fn a_peer_that_stops_at_any_step_is_given_up() {
    for mode in [SecurityMode::Open, SecurityMode::Encrypted] {
        for transferred in 0..7 {
            let mut pair = Pair::new(config(mode, 1), rules(mode));
            assert_eq!(pair.run(tick(1), 1000, transferred), transferred);
            // No more bytes arrive. Both sides are polled at their timeouts.
            let mut ends = [0; 2];
            for _ in 0..10 {
                if let Some(at) = pair.client.poll_timeout() {
                    ends[0] = at.0;
                    pair.client.handle_timeout(Tick { steady: at, ..tick(0) });
                }
                if let Some(at) = pair.server.poll_timeout() {
                    ends[1] = at.0;
                    pair.server.handle_timeout(Tick { steady: at, ..tick(0) });
                }
                pair.obey(tick(1));
            }
            assert!(pair.client.poll_timeout().is_none() && pair.server.poll_timeout().is_none());
            assert!(
                matches!(pair.failure(), Some(AmpFailure::Silent(_))),
                "{transferred}: {:?}",
                pair.failure()
            );
            assert!(pair.failure().unwrap().to_string().contains("no answer from the server in time"));
            assert_eq!(pair.reason(), Some(AmpEndReason::Silent), "{transferred}");
            assert!(
                ends[0] <= Span::seconds(6).0 && ends[1] <= Span::seconds(901).0,
                "{transferred}: {ends:?}"
            );
        }
    }
}

#[test]
fn every_refusal_has_its_words() {
    let refused = |change: &dyn Fn(&mut TwampOptions, &mut TwampRules), ports| {
        let (mut config, mut rules) = (config(SecurityMode::Open, 1), rules(SecurityMode::Open));
        change(&mut config, &mut rules);
        let mut pair = Pair::new(config, rules);
        pair.ports = ports;
        pair.run(tick(1), 1000, usize::MAX);
        let failure = pair.failure().expect("refused").clone();
        assert!(pair.client.poll_timeout().is_none());
        failure
    };
    let request = |accept| AmpFailure::Refused { step: AmpStep::Request, accept };
    let ok = Ok(20_000);
    assert_eq!(refused(&|c, _| c.sessions[0].size = 1 << 20, ok), request(AcceptCode::Permanent));
    assert_eq!(refused(&|_, r| r.sessions = 0, ok), request(AcceptCode::Permanent));
    assert_eq!(refused(&|_, _| (), Err(AcceptCode::Temporary)), request(AcceptCode::Temporary));
    assert_eq!(refused(&|_, _| (), Ok(0)), AmpFailure::NoPort);
    let third = |c: &mut TwampOptions, _: &mut TwampRules| {
        c.sessions[0].addresses.0 = "198.51.100.1".parse().unwrap();
    };
    assert_eq!(refused(&third, ok), request(AcceptCode::Unsupported), "no packets for third hosts");
    let keyed = |c: &mut TwampOptions, r: &mut TwampRules| {
        *r = TwampRules { users: Users::one("user", b"x"), ..c.mode.map(rules).unwrap() }
    };
    let failure = refused(&keyed, ok);
    assert!(
        failure.to_string().contains("authenticated, encrypted, mixed; open is not among them: give a user"),
        "{failure}"
    );
    let denied = |name: &'static str, secret: &'static [u8]| {
        move |c: &mut TwampOptions, r: &mut TwampRules| {
            *r = rules(SecurityMode::Encrypted);
            c.mode = None;
            c.user = Some((name.to_owned(), secret.to_vec()));
        }
    };
    for change in [denied("user", b"wrong"), denied("nobody", b"secret")] {
        let failure = refused(&change, ok);
        assert_eq!(failure, AmpFailure::Refused { step: AmpStep::SetUp, accept: AcceptCode::Failure });
    }
}

#[test]
fn numbers_of_answers_count_those_that_were_sent() {
    let at = arrival("192.0.2.1:40000");
    let error = ErrorEstimate(0x8001);
    let mut reflector = SessionReflector::new(SecurityMode::Open, None, at.from.ip(), None);
    let mut request = Vec::new();
    TwampSender::new(SecurityMode::Open, None, 60, error).request(0, false, WallTime(WALL), &mut request);
    let mut answer = vec![0; request.len()];
    let mut next = |reflector: &mut SessionReflector| {
        reflector.reflect(&request, &at, WallTime(WALL), error, &mut answer).unwrap().seq
    };
    assert_eq!([next(&mut reflector), next(&mut reflector)], [0, 1]);
    // The last answer is reported first.
    reflector.not_sent(1);
    reflector.not_sent(0);
    assert_eq!([next(&mut reflector), next(&mut reflector)], [0, 1]);
    reflector.not_sent(0);
    assert_eq!(next(&mut reflector), 2, "a later one has left");
}

#[test]
fn too_many_rounds_are_not_computed() {
    for (count, fine) in
        [(0, false), (1023, false), (1 << 15, true), ((1 << 15) + 1, false), (1 << 31, false)]
    {
        let mut client = Client::new(config(SecurityMode::Mixed, 1), tick(0));
        let greeting = Greeting { modes: SecurityModes(0xff), challenge: [1; 16], salt: [2; 16], count };
        let mut bytes = Vec::new();
        greeting.write(&mut bytes);
        client.handle(tick(1), client::TwampClientInput::Bytes(&bytes));
        let failed = matches!(client.poll_event(), Some(client::TwampClientEvent::Failed(AmpFailure::Rounds(c))) if c == count);
        assert_eq!(failed, !fine, "{count}");
    }
    let mut client = Client::new(config(SecurityMode::Open, 1), tick(0));
    client.handle(tick(1), client::TwampClientInput::Bytes(&Greeting::go_away()));
    assert!(matches!(client.poll_event(), Some(client::TwampClientEvent::Failed(AmpFailure::Unwelcome))));
}

#[test]
fn a_flipped_bit_in_a_keyed_conversation_is_noticed() {
    // The request, its answer, the start, its answer: the first messages with an HMAC.
    for message in 3..7 {
        for bit in [0, 300] {
            let mut pair =
                Pair::new(config(SecurityMode::Authenticated, 1), rules(SecurityMode::Authenticated));
            let mut transferred = 0;
            loop {
                let mut out = Vec::new();
                let from_server = pair.server.poll_transmit(tick(1), &mut out);
                if !from_server && !pair.client.poll_transmit(tick(1), &mut out) {
                    break;
                }
                if transferred == message {
                    let at = (bit / 8) % out.len();
                    out[at] ^= 1;
                }
                transferred += 1;
                if from_server {
                    pair.client.handle(tick(1), client::TwampClientInput::Bytes(&out));
                } else {
                    pair.server.handle(tick(1), server::TwampServerInput::Bytes(&out));
                }
                pair.obey(tick(1));
            }
            let noticed = pair.failure().is_some() || pair.reason().is_some();
            assert!(noticed && !pair.started(), "message {message}, bit {bit}");
        }
    }
}

#[test]
fn a_test_without_packets_ends() {
    let mut pair = Pair::new(config(SecurityMode::Open, 1), rules(SecurityMode::Open));
    pair.run(tick(1), 1000, usize::MAX);
    pair.server.handle(tick(800_000), server::TwampServerInput::Reflected);
    assert_eq!(pair.server.poll_timeout(), Some(tick(1_700_000).steady), "REFWAIT begins anew with a packet");
    pair.server.handle_timeout(tick(1_700_000));
    pair.obey(tick(1_700_000));
    let end = &pair.server_events[pair.server_events.len() - 2..];
    assert!(matches!(
        end,
        [server::TwampServerEvent::Stop, server::TwampServerEvent::Over(AmpEndReason::Silent)]
    ));
}

proptest! {
    #[test]
    fn nonsense_ends_a_conversation_and_nothing_else(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        after in 0usize..8,
        keyed in any::<bool>(),
        piece in 1usize..200,
    ) {
        let mode = if keyed { SecurityMode::Mixed } else { SecurityMode::Open };
        for to_client in [false, true] {
            let mut pair = Pair::new(config(mode, 2), rules(mode));
            pair.run(tick(1), 1000, after);
            for bytes in bytes.chunks(piece) {
                if to_client {
                    pair.client.handle(tick(2), client::TwampClientInput::Bytes(bytes));
                } else {
                    pair.server.handle(tick(2), server::TwampServerInput::Bytes(bytes));
                }
                pair.obey(tick(2));
            }
            let mut out = Vec::new();
            while pair.client.poll_transmit(tick(2), &mut out) || pair.server.poll_transmit(tick(2), &mut out) {}
            prop_assert!(out.len() < 4096);
            pair.client.handle_timeout(tick(i64::MAX / 2_000_000));
            pair.server.handle_timeout(tick(i64::MAX / 2_000_000));
            prop_assert!(pair.client.poll_timeout().is_none() && pair.server.poll_timeout().is_none());
        }
    }

    #[test]
    fn any_packet_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), mode in 0usize..4) {
        let mode = SecurityMode::ALL[mode];
        let keys = crate::amp::crypto::SessionKeys { aes: [1; 16], hmac: [2; 32] };
        let keys = crate::twamp::TestKeys::new(mode, &keys, &Sid([3; 16]));
        let at = arrival("192.0.2.1:40000");
        let mut reflector = SessionReflector::new(mode, keys.clone(), at.from.ip(), None);
        let mut answer = vec![0; bytes.len()];
        if let Ok(r) = reflector.reflect(&bytes, &at, WallTime(WALL), ErrorEstimate::UNKNOWN, &mut answer) {
            prop_assert_eq!(r.len, bytes.len());
        }
        let _ = TwampSender::new(mode, keys, 41, ErrorEstimate::UNKNOWN).receive(&bytes, WallTime(WALL));
    }

    #[test]
    fn requests_survive_the_wire(
        version in prop_oneof![Just(4u8), Just(6)], ports in any::<(u16, u16)>(), a in any::<[u8; 16]>(),
        padding in any::<u32>(), times in any::<(u64, u64)>(), type_p in any::<u32>(),
    ) {
        let address = |b: [u8; 16]| if version == 6 { b.into() } else { [b[0], b[1], b[2], b[3]].into() };
        let request = RequestSession {
            command: command::REQUEST_TW_SESSION, version, conf_sender: 0, conf_receiver: 0, slots: 0, packets: 0, sender_port: ports.0, receiver_port: ports.1,
            sender: address(a), receiver: address([0; 16]), sid: Sid(a), padding,
            start: jitlat_core::ntp::NtpTime(times.0), timeout: jitlat_core::ntp::NtpTime(times.1), type_p,
        };
        let mut bytes = Vec::new();
        request.write(&mut bytes);
        prop_assert_eq!(bytes.len() + HMAC_LEN, RequestSession::LEN);
        prop_assert_eq!(RequestSession::parse(&bytes), Ok(request));
    }
}
