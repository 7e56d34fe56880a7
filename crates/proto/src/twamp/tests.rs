//! Both machines against each other, against silence, and against invalid data.

use crate::amp::message::*;
use crate::amp::setup::*;
use crate::amp::{Mode, Modes};
use crate::machine::{Machine, Tick};
use crate::stamp::packet::{Answer, Layout};
use crate::twamp::client::{self, Client, Config, Failure, Step, Wish};
use crate::twamp::server::{self, Random, Reason, Rules, Server};
use crate::twamp::{Sender, SessionReflector, Users, sender};
use crate::twoway::reflect::{Arrival, Silence};
use crate::twoway::{Protocol, Received};
use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::{Dscp, Span, SteadyTime, WallTime};
use proptest::prelude::*;

const WALL: i64 = 1_795_176_900_000_000_000;
const PEER: &str = "192.0.2.1:50000";
const LOCAL: &str = "192.0.2.2:862";

fn tick(ms: i64) -> Tick {
    Tick { wall: WallTime(WALL + ms * 1_000_000), steady: SteadyTime(ms * 1_000_000) }
}

fn wish(mode: Mode) -> Wish {
    let (sender, receiver) = (PEER.parse().unwrap(), LOCAL.parse().unwrap());
    let (sender, receiver): (core::net::SocketAddr, core::net::SocketAddr) = (sender, receiver);
    Wish {
        sender_port: 40_000,
        receiver_port: 40_000,
        addresses: (sender.ip(), receiver.ip()),
        size: sender::least_size(mode),
        dscp: Dscp::new(46).unwrap(),
        timeout: Span::seconds(2),
    }
}

fn config(mode: Mode, sessions: usize) -> Config {
    Config {
        mode: Some(mode),
        user: mode.is_keyed().then(|| ("user".to_owned(), b"secret".to_vec())),
        sessions: vec![wish(mode); sessions],
        patience: Span::seconds(5),
        random: core::array::from_fn(|i| i as u8),
    }
}

fn rules(mode: Mode) -> Rules {
    let users = if mode.is_keyed() { Users::one("user", b"secret") } else { Users::default() };
    Rules { users, rounds: 1024, ..Rules::default() }
}

fn server(rules: Rules) -> Server {
    let random = Random::new(core::array::from_fn(|i| 100 + i as u8));
    Server::new(rules, PEER.parse().unwrap(), LOCAL.parse().unwrap(), WallTime(WALL), random, tick(0))
}

/// Both sides, and the events of each.
struct Pair {
    client: Client,
    server: Server,
    client_events: Vec<client::Event>,
    server_events: Vec<server::Event>,
    /// What the driver answers to a request for a socket.
    ports: Result<u16, Accept>,
}

impl Pair {
    fn new(config: Config, rules: Rules) -> Pair {
        Pair {
            client: Client::new(config, tick(0)),
            server: server(rules),
            client_events: Vec::new(),
            server_events: Vec::new(),
            ports: Ok(20_000),
        }
    }

    /// Transfers bytes both ways in pieces until no side sends anything; at most `messages` of them, after which the
    /// rest is lost. Returns how many were transferred.
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
                    self.client.handle(now, client::Input::Bytes(bytes));
                } else {
                    self.server.handle(now, server::Input::Bytes(bytes));
                }
                self.obey(now);
            }
        }
    }

    fn obey(&mut self, now: Tick) {
        while let Some(event) = self.server.poll_event() {
            if let server::Event::Open(_) = event {
                self.server.handle(now, server::Input::Opened(self.ports));
            }
            self.server_events.push(event);
        }
        while let Some(event) = self.client.poll_event() {
            if let client::Event::Ready = event {
                self.client.handle(now, client::Input::Start);
            }
            self.client_events.push(event);
        }
    }

    fn failure(&self) -> Option<&Failure> {
        self.client_events.iter().find_map(|e| match e {
            client::Event::Failed(failure) => Some(failure),
            _ => None,
        })
    }

    fn reason(&self) -> Option<Reason> {
        self.server_events.iter().find_map(|e| match e {
            server::Event::Over(reason) => Some(*reason),
            _ => None,
        })
    }

    fn started(&self) -> bool {
        let client = self.client_events.iter().any(|e| matches!(e, client::Event::Started));
        client && self.server_events.iter().any(|e| matches!(e, server::Event::Start))
    }
}

#[test]
fn several_sessions_on_one_connection_in_every_mode() {
    for mode in Mode::ALL {
        for piece in [1, 16, 33, 1000] {
            let mut config = config(mode, 3);
            // Without padding, and with as much as makes the answer as long as the request.
            config.sessions[0].size = sender::size(mode, 0);
            let mut pair = Pair::new(config, rules(mode));
            // Greeting, set-up, start, three times two, start and its answer.
            assert_eq!(pair.run(tick(1), piece, usize::MAX), 11, "{mode}");
            assert!(pair.started(), "{mode}: {:?}", pair.client_events);
            let asked = pair.server_events.iter().filter_map(|e| match e {
                server::Event::Open(asked) => Some(asked.clone()),
                _ => None,
            });
            let granted = pair.client_events.iter().filter_map(|e| match e {
                client::Event::Granted(granted) => Some(granted.clone()),
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
            pair.client.handle(tick(2), client::Input::Stop);
            pair.run(tick(3), piece, usize::MAX);
            assert!(matches!(pair.client_events.last(), Some(client::Event::Over)), "{mode}");
            assert!(matches!(pair.server_events.last(), Some(server::Event::Stop)), "{mode}");
            assert_eq!(pair.client.poll_timeout(), None);
        }
    }
}

fn arrival(from: &str) -> Arrival {
    Arrival {
        from: from.parse().unwrap(),
        at: WallTime(WALL + 5),
        ttl: Some(250),
        traffic_class: Some(46 << 2),
    }
}

/// One test packet there and back, with what is refused on the way.
fn exchange(asked: &server::Asked, granted: &client::Granted) {
    let error = ErrorEstimate(0x8001);
    let host = arrival("192.0.2.1:40000").from.ip();
    let mut reflector = SessionReflector::new(asked.mode, asked.keys.clone(), host, asked.sender_port);
    let mut sender = Sender::new(asked.mode, granted.keys.clone(), asked.request_len, error);
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
    let Received::Reply(reply) = sender.receive(&answer, WallTime(WALL)) else { panic!("{}", asked.mode) };
    assert_eq!((reply.seq, reply.far_seq), (7, Some(0)));
    assert_eq!((reply.arrived, reply.answered), (Some(WallTime(WALL + 5)), Some(WallTime(WALL + 9))));
    let mut forged = answer.clone();
    forged[3] ^= 1;
    let result = sender.receive(&forged, WallTime(WALL));
    if asked.mode.protects_test() {
        assert_eq!(result, Received::Forged);
        forged = request.clone();
        forged[40] ^= 0x10;
        assert_eq!(reflect(&forged, "192.0.2.1:40000"), Err(Silence::Forged));
        assert_eq!(
            Answer::parse(Layout::Keyed, &answer).unwrap().sender_seq == 7,
            asked.mode == Mode::Authenticated
        );
    } else {
        assert_eq!(reflect(&answer, "192.0.2.1:40000"), Err(Silence::Loop));
        let ours = if request.len() < whole { Received::Malformed } else { Received::Foreign };
        assert_eq!(sender.receive(&request, WallTime(WALL)), ours, "a request that came back");
    }
}

#[test]
fn a_peer_that_stops_at_any_step_is_given_up() {
    for mode in [Mode::Open, Mode::Encrypted] {
        for transferred in 0..7 {
            let mut pair = Pair::new(config(mode, 1), rules(mode));
            assert_eq!(pair.run(tick(1), 1000, transferred), transferred);
            // Nothing more arrives; both are polled as their timeouts ask.
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
                matches!(pair.failure(), Some(Failure::Silent(_))),
                "{transferred}: {:?}",
                pair.failure()
            );
            assert!(pair.failure().unwrap().to_string().contains("no answer in time"));
            assert_eq!(pair.reason(), Some(Reason::Silent), "{transferred}");
            assert!(
                ends[0] <= Span::seconds(6).0 && ends[1] <= Span::seconds(901).0,
                "{transferred}: {ends:?}"
            );
        }
    }
}

#[test]
fn every_refusal_has_its_words() {
    let refused = |change: &dyn Fn(&mut Config, &mut Rules), ports| {
        let (mut config, mut rules) = (config(Mode::Open, 1), rules(Mode::Open));
        change(&mut config, &mut rules);
        let mut pair = Pair::new(config, rules);
        pair.ports = ports;
        pair.run(tick(1), 1000, usize::MAX);
        let failure = pair.failure().expect("refused").clone();
        assert!(pair.client.poll_timeout().is_none());
        failure
    };
    let request = |accept| Failure::Refused { step: Step::Request, accept };
    let ok = Ok(20_000);
    assert_eq!(refused(&|c, _| c.sessions[0].size = 1 << 20, ok), request(Accept::Permanent));
    assert_eq!(refused(&|_, r| r.sessions = 0, ok), request(Accept::Permanent));
    assert_eq!(refused(&|_, _| (), Err(Accept::Temporary)), request(Accept::Temporary));
    assert_eq!(refused(&|_, _| (), Ok(0)), Failure::NoPort);
    let third = |c: &mut Config, _: &mut Rules| c.sessions[0].addresses.0 = "198.51.100.1".parse().unwrap();
    assert_eq!(refused(&third, ok), request(Accept::Unsupported), "no packets for third hosts");
    let keyed = |c: &mut Config, r: &mut Rules| {
        *r = Rules { users: Users::one("user", b"x"), ..c.mode.map(rules).unwrap() }
    };
    let failure = refused(&keyed, ok);
    assert!(
        failure.to_string().contains("authenticated, encrypted, mixed; open is not possible: give a user"),
        "{failure}"
    );
    let denied = |name: &'static str, secret: &'static [u8]| {
        move |c: &mut Config, r: &mut Rules| {
            *r = rules(Mode::Encrypted);
            c.mode = None;
            c.user = Some((name.to_owned(), secret.to_vec()));
        }
    };
    for change in [denied("user", b"wrong"), denied("nobody", b"secret")] {
        let failure = refused(&change, ok);
        assert_eq!(failure, Failure::Refused { step: Step::SetUp, accept: Accept::Failure });
    }
}

#[test]
fn numbers_of_answers_count_those_that_were_sent() {
    let at = arrival("192.0.2.1:40000");
    let error = ErrorEstimate(0x8001);
    let mut reflector = SessionReflector::new(Mode::Open, None, at.from.ip(), None);
    let mut request = Vec::new();
    Sender::new(Mode::Open, None, 60, error).request(0, false, WallTime(WALL), &mut request);
    let mut answer = vec![0; request.len()];
    let mut next = |reflector: &mut SessionReflector| {
        reflector.reflect(&request, &at, WallTime(WALL), error, &mut answer).unwrap().seq
    };
    assert_eq!([next(&mut reflector), next(&mut reflector)], [0, 1]);
    // The last first, as they are reported.
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
        let mut client = Client::new(config(Mode::Mixed, 1), tick(0));
        let greeting = Greeting { modes: Modes(0xff), challenge: [1; 16], salt: [2; 16], count };
        let mut bytes = Vec::new();
        greeting.write(&mut bytes);
        client.handle(tick(1), client::Input::Bytes(&bytes));
        let failed =
            matches!(client.poll_event(), Some(client::Event::Failed(Failure::Rounds(c))) if c == count);
        assert_eq!(failed, !fine, "{count}");
    }
    let mut client = Client::new(config(Mode::Open, 1), tick(0));
    client.handle(tick(1), client::Input::Bytes(&Greeting::go_away()));
    assert!(matches!(client.poll_event(), Some(client::Event::Failed(Failure::Unwelcome))));
}

#[test]
fn a_flipped_bit_in_a_keyed_conversation_is_noticed() {
    // The request, its answer, the start, its answer: the first messages with an HMAC.
    for message in 3..7 {
        for bit in [0, 300] {
            let mut pair = Pair::new(config(Mode::Authenticated, 1), rules(Mode::Authenticated));
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
                    pair.client.handle(tick(1), client::Input::Bytes(&out));
                } else {
                    pair.server.handle(tick(1), server::Input::Bytes(&out));
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
    let mut pair = Pair::new(config(Mode::Open, 1), rules(Mode::Open));
    pair.run(tick(1), 1000, usize::MAX);
    pair.server.handle(tick(800_000), server::Input::Reflected);
    assert_eq!(pair.server.poll_timeout(), Some(tick(1_700_000).steady), "REFWAIT begins anew with a packet");
    pair.server.handle_timeout(tick(1_700_000));
    pair.obey(tick(1_700_000));
    let end = &pair.server_events[pair.server_events.len() - 2..];
    assert!(matches!(end, [server::Event::Stop, server::Event::Over(Reason::Silent)]));
}

proptest! {
    #[test]
    fn nonsense_ends_a_conversation_and_nothing_else(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        after in 0usize..8,
        keyed in any::<bool>(),
        piece in 1usize..200,
    ) {
        let mode = if keyed { Mode::Mixed } else { Mode::Open };
        for to_client in [false, true] {
            let mut pair = Pair::new(config(mode, 2), rules(mode));
            pair.run(tick(1), 1000, after);
            for bytes in bytes.chunks(piece) {
                if to_client {
                    pair.client.handle(tick(2), client::Input::Bytes(bytes));
                } else {
                    pair.server.handle(tick(2), server::Input::Bytes(bytes));
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
        let mode = Mode::ALL[mode];
        let keys = crate::amp::crypto::SessionKeys { aes: [1; 16], hmac: [2; 32] };
        let keys = crate::twamp::TestKeys::new(mode, &keys, &Sid([3; 16]));
        let at = arrival("192.0.2.1:40000");
        let mut reflector = SessionReflector::new(mode, keys.clone(), at.from.ip(), None);
        let mut answer = vec![0; bytes.len()];
        if let Ok(r) = reflector.reflect(&bytes, &at, WallTime(WALL), ErrorEstimate::UNKNOWN, &mut answer) {
            prop_assert_eq!(r.len, bytes.len());
        }
        let _ = Sender::new(mode, keys, 41, ErrorEstimate::UNKNOWN).receive(&bytes, WallTime(WALL));
    }

    #[test]
    fn requests_survive_the_wire(
        version in prop_oneof![Just(4u8), Just(6)], ports in any::<(u16, u16)>(), a in any::<[u8; 16]>(),
        padding in any::<u32>(), times in any::<(u64, u64)>(), type_p in any::<u32>(),
    ) {
        let address = |b: [u8; 16]| if version == 6 { b.into() } else { [b[0], b[1], b[2], b[3]].into() };
        let request = Request {
            command: command::REQUEST_TW_SESSION, version, conf_sender: 0, conf_receiver: 0, slots: 0, packets: 0, sender_port: ports.0, receiver_port: ports.1,
            sender: address(a), receiver: address([0; 16]), sid: Sid(a), padding,
            start: jitlat_core::ntp::NtpTime(times.0), timeout: jitlat_core::ntp::NtpTime(times.1), type_p,
        };
        let mut bytes = Vec::new();
        request.write(&mut bytes);
        prop_assert_eq!(bytes.len() + HMAC_LEN, Request::LEN);
        prop_assert_eq!(Request::parse(&bytes), Ok(request));
    }
}
