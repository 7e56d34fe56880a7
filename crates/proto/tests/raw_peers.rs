//! Tests both state machines with peers written from docs/protocols alone: raw bytes, without the codec of
//! this crate.

use hmac::{Hmac, KeyInit, Mac};
use jitlat_core::session::Ending;
use jitlat_core::{
    Direction, PacketRecord, Schedule, Span, StampSource, SteadyTime, TestSpec, Transport, WallTime,
};
use jitlat_proto::jitlat::flow::{
    FlowCommand, FlowId, FlowReport, FlowRole, Meeting, ReceiveReport, SendReport,
};
use jitlat_proto::jitlat::stream::Finish;
use jitlat_proto::jitlat::{
    ClientConfig, ClientEvent, ClientInput, ClientMachine, Dialect, PresharedKey, Recording, SentStamps,
    ServerConfig, ServerEvent, ServerInput, ServerLimits, ServerMachine, TestTerms,
};
use jitlat_proto::{Machine, Tick};
use sha2::{Digest, Sha256};
use std::net::SocketAddr;

const CLIENT: &str = "192.0.2.1:50000";
const SERVER: &str = "192.0.2.2:2666";
const KEY: &[u8] = b"an old and secret key";

fn tick(ms: i64) -> Tick {
    Tick { wall: WallTime(1_700_000_000_000_000_000 + ms * 1_000_000), steady: SteadyTime(ms * 1_000_000) }
}

fn server(key: Option<&[u8]>) -> ServerMachine {
    let config = ServerConfig {
        local: SERVER.parse().unwrap(),
        peer: CLIENT.parse().unwrap(),
        limits: ServerLimits::default(),
        keys: key.map(|k| PresharedKey::from_file_contents(k).unwrap()).into(),
        entropy: [5; 32],
        host: Default::default(),
        software: "test".into(),
        test_port: 2667,
    };
    ServerMachine::new(config, tick(0))
}

/// Returns all messages and requests of the server.
fn take(server: &mut ServerMachine, now: Tick) -> (Vec<u8>, Vec<ServerEvent>) {
    let mut out = Vec::new();
    while server.poll_transmit(now, &mut out) {}
    (out, std::iter::from_fn(|| server.poll_event()).collect())
}

fn commands(events: &[ServerEvent]) -> Vec<FlowCommand> {
    let commands = events.iter().filter_map(|e| match e {
        ServerEvent::Flow(command) => Some(command.clone()),
        _ => None,
    });
    commands.collect()
}

fn records(n: i64) -> Recording {
    let mut recording = Recording::new(100);
    recording.extend((0..n).map(|i| PacketRecord::one_way(i, WallTime(1000 + i), WallTime(2000 + i))));
    recording
}

fn received(n: i64) -> FlowReport {
    let report = ReceiveReport { recording: records(n), finish: Finish::Sentinel, drops: None, pause: None };
    FlowReport::Received(FlowId(0), report)
}

/// Encodes a workorder as in the documentation: eleven numbers, of which the period has 64 bits.
fn workorder(command: u32, npkts: u32, src_port: u32, dst_port: u32) -> Vec<u8> {
    let mut b = Vec::new();
    for v in [command, npkts, 80, 17] {
        b.extend(v.to_be_bytes());
    }
    b.extend(20_000_000u64.to_be_bytes());
    b.extend([192, 0, 2, if command == 1 { 2 } else { 1 }]);
    b.extend([192, 0, 2, if command == 1 { 1 } else { 2 }]);
    for v in [src_port, dst_port, 0] {
        b.extend(v.to_be_bytes());
    }
    b
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn a_raw_classic_client_sends() {
    let mut s = server(None);
    // Probes first: T1 is in bytes 8…15, and T2 is returned in bytes 16…23.
    for second in 0..5 {
        let mut probe = workorder(7, 0, 0, 0);
        probe[8..16].copy_from_slice(&(-7i64).to_be_bytes());
        let now = tick(second * 1000);
        s.handle(now, ServerInput::Received(&probe));
        let (answer, _) = take(&mut s, now);
        probe[16..24].copy_from_slice(&now.wall.0.to_be_bytes());
        assert_eq!(answer, probe);
    }
    let now = tick(5000);
    s.handle(now, ServerInput::Received(&workorder(2, 3, 33101, 2667)));
    let (_, events) = take(&mut s, now);
    assert!(matches!(events[..], [ServerEvent::Admit(_)]));
    s.handle(now, ServerInput::Admitted(Ok(())));
    let (_, events) = take(&mut s, now);
    let FlowCommand::Open(opening) = &commands(&events)[0] else { panic!("{events:?}") };
    assert_eq!((opening.role, opening.bind_port, opening.meeting), (FlowRole::Receive, 2667, Meeting::Dial));
    s.handle(now, ServerInput::Flow(FlowReport::Opened(FlowId(0), 2667)));
    let (_, events) = take(&mut s, now);
    let far: SocketAddr = "192.0.2.1:33101".parse().unwrap();
    assert_eq!(commands(&events), [FlowCommand::Connect { flow: FlowId(0), peer: far, greeting: None }]);
    s.handle(now, ServerInput::Flow(FlowReport::Ready(FlowId(0))));
    let (ack, events) = take(&mut s, now);
    assert_eq!(ack, workorder(5, 3, 33101, 2667));
    // Reception has started before the client can read the answer.
    assert_eq!(commands(&events), [FlowCommand::Start(FlowId(0))]);
    let now = tick(6000);
    s.handle(now, ServerInput::Flow(received(2)));
    let (samples, events) = take(&mut s, now);
    assert_eq!(samples[..44], workorder(4, 2, 33101, 2667));
    assert_eq!(samples.len(), 44 + 2 * 24);
    let row = [&1001i64.to_be_bytes()[..], &1i32.to_be_bytes(), &2001i64.to_be_bytes(), &0i32.to_be_bytes()]
        .concat();
    assert_eq!(samples[44 + 24..], row);
    assert!(matches!(events.last(), Some(ServerEvent::Done(None))), "{events:?}");
    // A late acknowledgement is ignored.
    s.handle(now, ServerInput::Received(&workorder(5, 2, 33101, 2667)));
    assert!(take(&mut s, now).0.is_empty());
}

#[test]
fn a_raw_classic_client_receives() {
    let mut s = server(None);
    let now = tick(0);
    s.handle(now, ServerInput::Received(&workorder(1, 3, 0, 9000)));
    take(&mut s, now);
    s.handle(now, ServerInput::Admitted(Ok(())));
    take(&mut s, now);
    s.handle(now, ServerInput::Flow(FlowReport::Opened(FlowId(0), 41000)));
    take(&mut s, now);
    s.handle(now, ServerInput::Flow(FlowReport::Ready(FlowId(0))));
    let (sending, events) = take(&mut s, now);
    assert_eq!((u32_at(&sending, 0), u32_at(&sending, 32), u32_at(&sending, 36)), (2, 41000, 9000));
    assert!(commands(&events).is_empty(), "not before the client has said go");
    s.handle(now, ServerInput::Received(&workorder(5, 3, 41000, 9000)));
    let (_, events) = take(&mut s, now);
    assert_eq!(commands(&events), [FlowCommand::Start(FlowId(0))]);
    s.handle(tick(70), ServerInput::Flow(FlowReport::Ended(FlowId(0), 3)));
    s.handle(tick(300), ServerInput::Received(&workorder(5, 3, 41000, 9000)));
    let (_, events) = take(&mut s, tick(300));
    assert_eq!(commands(&events), [FlowCommand::Stop(FlowId(0))]);
    s.handle(
        tick(300),
        ServerInput::Flow(FlowReport::Sent(FlowId(0), SendReport { sent: 3, ..Default::default() })),
    );
    let (said, events) = take(&mut s, tick(300));
    assert!(said.is_empty(), "{said:?}");
    assert!(matches!(events.last(), Some(ServerEvent::Done(None))), "{events:?}");
}

#[test]
fn an_unknown_command_is_answered_with_nak() {
    for command in [3, 4, 8, 99, 65_535] {
        for probed in [false, true] {
            let mut s = server(None);
            if probed {
                s.handle(tick(0), ServerInput::Received(&workorder(7, 0, 0, 0)));
                take(&mut s, tick(0));
            }
            let order = workorder(command, 3, 33101, 2667);
            s.handle(tick(1), ServerInput::Received(&order[..43]));
            assert!(
                take(&mut s, tick(1)).0.is_empty(),
                "nothing is answered before the workorder is complete"
            );
            s.handle(tick(1), ServerInput::Received(&order[43..]));
            let (answer, events) = take(&mut s, tick(1));
            assert_eq!((answer.len(), u32_at(&answer, 0)), (44, 6), "NAK for command {command}");
            assert!(matches!(events[..], [ServerEvent::Done(Some(_))]), "{command}: {events:?}");
        }
    }
}

#[test]
fn a_stream_to_somebody_else_is_refused() {
    let mut s = server(None);
    let mut order = workorder(1, 3, 0, 9000);
    order[28..32].copy_from_slice(&[198, 51, 100, 7]);
    s.handle(tick(0), ServerInput::Received(&order));
    let (nak, events) = take(&mut s, tick(0));
    assert_eq!((nak.len(), u32_at(&nak, 0)), (44, 6));
    assert!(commands(&events).is_empty());
    assert!(matches!(events.last(), Some(ServerEvent::Done(Some(_)))));
}

#[test]
fn a_raw_classic_server_receives() {
    let spec =
        TestSpec::new(Direction::Up, Transport::Udp, 3, 80, Span::millis(20), Schedule::Periodic).unwrap();
    let [local, remote] = [CLIENT, SERVER].map(|a| a.parse().unwrap());
    let terms = TestTerms { dialect: Dialect::Classic, ..TestTerms::new(vec![spec]) };
    let mut config = ClientConfig::new(terms, local, remote, [1; 32]);
    config.probes = 0;
    let mut c = ClientMachine::new(config, tick(0));
    let take = |c: &mut ClientMachine, now: Tick| {
        let mut out = Vec::new();
        while c.poll_transmit(now, &mut out) {}
        let events: Vec<ClientEvent> = std::iter::from_fn(|| c.poll_event()).collect();
        (out, events)
    };
    let (_, events) = take(&mut c, tick(0));
    assert!(events.iter().any(|e| matches!(e, ClientEvent::Flow(FlowCommand::Open(_)))), "{events:?}");
    c.handle(tick(1), ClientInput::Flow(FlowReport::Opened(FlowId(0), 33101)));
    let (sending, _) = take(&mut c, tick(1));
    assert_eq!(sending, workorder(2, 3, 33101, 2667));
    c.handle(tick(2), ClientInput::Received(&workorder(5, 3, 33101, 2667)));
    take(&mut c, tick(2));
    c.handle(tick(3), ClientInput::Flow(FlowReport::Ready(FlowId(0))));
    let (_, events) = take(&mut c, tick(3));
    assert!(events.iter().any(|e| matches!(e, ClientEvent::Flow(FlowCommand::Start(_)))), "{events:?}");
    let mut stamps = SentStamps::new(StampSource::Kernel);
    stamps.set(0, WallTime(1005));
    c.handle(tick(43), ClientInput::Flow(FlowReport::Ended(FlowId(0), 3)));
    // An unrequested ACK is an error between SAMPLES and the singletons, but not before SAMPLES.
    c.handle(tick(250), ClientInput::Received(&workorder(5, 3, 33101, 2667)));
    let mut samples = workorder(4, 2, 33101, 2667);
    for i in 0..2i64 {
        let (seq, flags) = (i as i32, 0i32);
        samples.extend((1000 + i).to_be_bytes());
        samples.extend(seq.to_be_bytes());
        samples.extend((2000 + i).to_be_bytes());
        samples.extend(flags.to_be_bytes());
    }
    let (first, rest) = samples.split_at(60);
    c.handle(tick(251), ClientInput::Received(first));
    let (_, events) = take(&mut c, tick(251));
    assert!(events.iter().any(|e| matches!(e, ClientEvent::Flow(FlowCommand::Stop(_)))), "{events:?}");
    // The singletons arrive, and the connection closes while the sender is still stopping. Nothing more may
    // be sent on a closed connection.
    c.handle(tick(252), ClientInput::Received(rest));
    c.handle(tick(252), ClientInput::Closed(None));
    let report = SendReport {
        sent: 3,
        failed: 0,
        stamps: Some(stamps),
        stamps_lost: Some(0),
        path_mtu: None,
        tcp: Vec::new(),
    };
    c.handle(tick(253), ClientInput::Flow(FlowReport::Sent(FlowId(0), report)));
    let events: Vec<ClientEvent> = std::iter::from_fn(|| c.poll_event()).collect();
    let got: Vec<PacketRecord> = events
        .iter()
        .filter_map(|e| match e {
            ClientEvent::Records(_, records) => Some(records.clone()),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(got.iter().map(PacketRecord::delay).collect::<Vec<_>>(), [Some(Span(995)), Some(Span(1000))]);
    let done = events.last();
    assert!(matches!(done, Some(ClientEvent::Done { ending: Ending::Complete, .. })), "{events:?}");
}

// ---- version 3 with a key, from its documentation ------------------------------------------------

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|p| mac.update(p));
    mac.finalize().into_bytes().to_vec()
}

fn frame(kind: u8, fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut body = vec![kind];
    for (tag, value) in fields {
        body.push(*tag);
        body.extend((value.len() as u16).to_be_bytes());
        body.extend(*value);
    }
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

fn sealed(kind: u8, fields: &[(u8, &[u8])], key: &[u8], counter: u64) -> Vec<u8> {
    let mut frame = frame(kind, fields);
    let length = u32_at(&frame, 0) + 16;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    let seal = mac(key, &[&counter.to_be_bytes(), &frame]);
    [&frame[..], &seal[..16]].concat()
}

fn hello(nonce: u8) -> Vec<u8> {
    let fields: [(u8, &[u8]); 5] = [(1, &[3]), (2, &[3]), (3, &[0; 8]), (4, &[nonce; 16]), (5, &[1])];
    [b"JLT3".to_vec(), frame(1, &fields)].concat()
}

#[test]
fn a_raw_version_3_client_proves_its_key() {
    let mut s = server(Some(KEY));
    let now = tick(0);
    let mut transcript = hello(9);
    s.handle(now, ServerInput::Received(&transcript));
    let (welcome, _) = take(&mut s, now);
    assert_eq!((&welcome[..4], welcome[8]), (&b"JLT3"[..], 2));
    transcript.extend(&welcome);

    let digest = Sha256::digest(&transcript);
    let proof = frame(3, &[(1, &mac(KEY, &[b"jitlat 3 client proof", &digest]))]);
    s.handle(now, ServerInput::Received(&proof));
    let (answer, _) = take(&mut s, now);
    transcript.extend(&proof);
    let digest = Sha256::digest(&transcript);
    assert_eq!(answer, frame(3, &[(1, &mac(KEY, &[b"jitlat 3 server proof", &digest]))]));
    transcript.extend(&answer);

    let digest = Sha256::digest(&transcript);
    let [ours, theirs] =
        [&b"jitlat 3 client seal"[..], b"jitlat 3 server seal"].map(|l| mac(KEY, &[l, &digest]));
    let (t1, number) = (77i64.to_be_bytes(), 4u32.to_be_bytes());
    let probe = [(1, &number[..]), (2, &t1[..])];
    s.handle(now, ServerInput::Received(&sealed(4, &probe, &ours, 0)));
    let (answer, _) = take(&mut s, tick(1));
    let [t2, t3] = [now, tick(1)].map(|t| t.wall.0.to_be_bytes());
    let fields = [(1, &number[..]), (2, &t1[..]), (3, &t2[..]), (4, &t3[..])];
    assert_eq!(answer, sealed(4, &fields, &theirs, 0));

    // Sending the same frame again is a replay.
    s.handle(now, ServerInput::Received(&sealed(4, &probe, &ours, 0)));
    let (nak, events) = take(&mut s, now);
    assert_eq!((nak[4], &nak[8..10]), (17, &[0, 3][..]), "NAK, authentication");
    assert!(matches!(events.last(), Some(ServerEvent::Done(Some(_)))));
}

#[test]
fn a_proof_sent_back_proves_nothing() {
    let mut s = server(Some(KEY));
    let now = tick(0);
    s.handle(now, ServerInput::Received(&hello(9)));
    take(&mut s, now);
    // A peer without the key can only repeat bytes that it has received, such as the server's proof in
    // another conversation.
    let digest = Sha256::digest(hello(9));
    let stolen = mac(KEY, &[b"jitlat 3 server proof", &digest]);
    s.handle(now, ServerInput::Received(&frame(3, &[(1, &stolen)])));
    let (nak, _) = take(&mut s, now);
    assert_eq!((nak[4], &nak[8..10]), (17, &[0, 3][..]));
}

#[test]
fn without_a_proof_nothing_is_granted() {
    let mut s = server(Some(KEY));
    let now = tick(0);
    // All messages arrive at once: the server might read the request before the proof.
    let request = frame(12, &[(1, &[0; 8]), (2, &[0])]);
    s.handle(now, ServerInput::Received(&[hello(9), request].concat()));
    let (said, events) = take(&mut s, now);
    let refused = said.windows(5).any(|w| w == [17, 1, 0, 2, 0]);
    assert!(refused, "{said:02x?}");
    assert!(events.iter().all(|e| matches!(e, ServerEvent::Done(_))), "{events:?}");
}

#[test]
fn garbage_is_answered_with_silence_and_an_end() {
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0; 44], b"\x16\x03\x01\x02\x00\x01"] {
        let mut s = server(None);
        s.handle(tick(0), ServerInput::Received(garbage));
        let (said, events) = take(&mut s, tick(0));
        assert!(said.is_empty(), "{said:?}");
        assert!(matches!(events[..], [ServerEvent::Done(Some(_))]), "{events:?}");
        assert_eq!(s.poll_timeout(), None);
    }
    // A connection that sends nothing is closed in time.
    let mut s = server(None);
    let at = s.poll_timeout().unwrap();
    assert_eq!(at, tick(30_000).steady);
    s.handle_timeout(tick(30_000));
    assert!(matches!(take(&mut s, tick(30_000)).1[..], [ServerEvent::Done(Some(_))]));
}
