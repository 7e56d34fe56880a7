#![no_main]
// Aims at: crates/proto/src/twamp crates/proto/src/amp

use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::{Dscp, Span, SteadyTime, WallTime};
use jitlat_fuzz::pieces;
use jitlat_proto::twamp::crypto::SessionKeys;
use jitlat_proto::twamp::server::ServerRandom;
use jitlat_proto::twamp::{
    AcceptCode, Client, SecurityMode, Server, SessionReflector, Sid, TestKeys, TwampRules, TwampSender,
    TwampSessionSpec, Users, client, server,
};
use jitlat_proto::twoway::{Protocol, RequestArrival};
use jitlat_proto::{Machine, Tick};

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    mode: u8,
    to_client: bool,
    /// Number of valid messages before the arbitrary bytes.
    after: u8,
    sizes: Vec<u8>,
    bytes: Vec<u8>,
    packet: Vec<u8>,
}

const NOW: Tick = Tick { wall: WallTime(1_795_176_900_000_000_000), steady: SteadyTime(0) };
const LATE: Tick = Tick { steady: SteadyTime(i64::MAX), ..NOW };

fn obey(client: &mut Client, server: &mut Server) {
    while let Some(event) = server.poll_event() {
        if let server::TwampServerEvent::Open(asked) = event {
            let opened = if asked.port == 0 { Err(AcceptCode::Temporary) } else { Ok(asked.port) };
            server.handle(NOW, server::TwampServerInput::Opened(opened));
        }
    }
    while let Some(event) = client.poll_event() {
        if let client::TwampClientEvent::Ready = event {
            client.handle(NOW, client::TwampClientInput::Start);
        }
    }
}

libfuzzer_sys::fuzz_target!(|input: Input| {
    let mode = SecurityMode::ALL[usize::from(input.mode) % 4];
    let users = if mode.is_keyed() { Users::one("u", b"p") } else { Users::default() };
    let (peer, local) = ("192.0.2.1:9000".parse().unwrap(), "192.0.2.2:862".parse().unwrap());
    let rules = TwampRules { users, rounds: 1024, ..TwampRules::default() };
    let mut server = Server::new(rules, peer, local, NOW.wall, ServerRandom::new([7; 52]), NOW);
    let any = "0.0.0.0".parse().unwrap();
    let session = TwampSessionSpec {
        sender_port: 9000,
        receiver_port: 9000,
        addresses: (any, any),
        size: 112,
        dscp: Dscp::default(),
        timeout: Span::seconds(1),
    };
    let config = client::TwampOptions {
        mode: Some(mode),
        user: mode.is_keyed().then(|| ("u".to_owned(), b"p".to_vec())),
        sessions: vec![session; 2],
        step_timeout: Span::seconds(1),
        random: [3; 64],
    };
    let mut client = Client::new(config, NOW);
    for _ in 0..input.after % 12 {
        let mut out = Vec::new();
        if server.poll_transmit(NOW, &mut out) {
            client.handle(NOW, client::TwampClientInput::Bytes(&out));
        } else if client.poll_transmit(NOW, &mut out) {
            server.handle(NOW, server::TwampServerInput::Bytes(&out));
        }
        obey(&mut client, &mut server);
    }
    let mut said = Vec::new();
    for piece in pieces(&input.bytes, &input.sizes) {
        if input.to_client {
            client.handle(NOW, client::TwampClientInput::Bytes(piece));
        } else {
            server.handle(NOW, server::TwampServerInput::Bytes(piece));
        }
        obey(&mut client, &mut server);
    }
    while client.poll_transmit(NOW, &mut said) || server.poll_transmit(NOW, &mut said) {}
    // Every command is answered once, with fewer bytes than it had; nothing else is sent.
    assert!(said.len() <= 4096 + input.bytes.len());
    client.handle_timeout(LATE);
    server.handle_timeout(LATE);
    assert!(client.poll_timeout().is_none() && server.poll_timeout().is_none());

    let keys = SessionKeys { aes: [1; 16], hmac: [2; 32] };
    let keys = TestKeys::new(mode, &keys, &Sid([3; 16]));
    let arrival = RequestArrival { from: peer, at: NOW.wall, ttl: None, traffic_class: None };
    let mut reflector = SessionReflector::new(mode, keys.clone(), peer.ip(), None);
    let longest = reflector.answer_len(input.packet.len());
    let mut answer = vec![0; longest];
    if let Ok(r) = reflector.reflect(&input.packet, &arrival, NOW.wall, ErrorEstimate::UNKNOWN, &mut answer) {
        assert_eq!(r.len, longest, "an answer is as long as its request, or as its own fields");
    }
    let _ = TwampSender::new(mode, keys, 112, ErrorEstimate::UNKNOWN).receive(&input.packet, NOW.wall);
});
