//! Tests of the sessions that the server accepts, of access to its records, and of messages with arbitrary
//! content.

use super::fetch::{DataReader, DataWriter};
use super::message::{MessageTooLong, StopSessions};
use super::server::{OwampOpenRequest, OwampServerEvent, OwampServerInput, Server};
use super::*;
use crate::amp::crypto::{IncomingBytes, OutgoingBytes};
use crate::amp::message::{AcceptSession, HMAC_LEN, RequestSession, command, write_start};
use crate::amp::setup::{Greeting, ServerStart, SetUp};
use crate::amp::{AcceptCode, AmpEndReason, ServerRandom, Sid};
use crate::machine::{Machine, Tick};
use core::net::IpAddr;
use jitlat_core::ntp::{ErrorEstimate, NtpTime};
use jitlat_core::{Direction, Span, SteadyTime, WallTime};
use proptest::prelude::*;
use std::sync::Arc;

const NOW: Tick = Tick { wall: WallTime(1_795_176_900_000_000_000), steady: SteadyTime(0) };
const PEER: &str = "192.0.2.1";
const LOCAL: &str = "192.0.2.2";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Returns owping's default request in `direction`.
fn session(direction: Direction) -> TestSession {
    let up = direction == Direction::Up;
    let (sender, receiver) = if up { (ip(PEER), ip(LOCAL)) } else { (ip(LOCAL), ip(PEER)) };
    let request = RequestSession {
        command: command::REQUEST_SESSION,
        version: 4,
        conf_sender: (!up).into(),
        conf_receiver: up.into(),
        slots: 1,
        packets: 100,
        sender_port: if up { 8760 } else { 0 },
        receiver_port: if up { 0 } else { 8760 },
        sender,
        receiver,
        sid: if up { Sid::NONE } else { Sid([5; 16]) },
        padding: 0,
        start: NtpTime::from(NOW.wall + Span::seconds(1)),
        timeout: NtpTime::from_span(Span::seconds(2)),
        type_p: 0,
    };
    TestSession { request, slots: vec![ScheduleSlot::Exponential(0x1999_9999)] }
}

/// Returns a server on whose connection open mode was selected.
fn server(rules: OwampRules) -> Server {
    let (peer, local) = ((ip(PEER), 50_000).into(), (ip(LOCAL), PORT).into());
    let mut server = Server::new(rules, peer, local, NOW.wall, ServerRandom::new([7; 52]), NOW);
    let mut set_up = Vec::new();
    SetUp::open().write(&mut set_up);
    server.handle(NOW, OwampServerInput::Bytes(&set_up));
    assert_eq!(output(&mut server).len(), Greeting::LEN + ServerStart::LEN + ServerStart::TIME_LEN);
    server
}

fn output(server: &mut Server) -> Vec<u8> {
    let mut out = Vec::new();
    while server.poll_transmit(NOW, &mut out) {}
    out
}

fn say(server: &mut Server, write: impl Fn(&mut Vec<u8>)) {
    let (mut message, mut bytes) = (Vec::new(), Vec::new());
    write(&mut message);
    OutgoingBytes::default().put_signed(&message, &mut bytes);
    server.handle(NOW, OwampServerInput::Bytes(&bytes));
}

fn ask(server: &mut Server, session: &TestSession) -> Option<Box<OwampOpenRequest>> {
    say(server, |out| session.request.write(out));
    say(server, |out| session.slots.iter().for_each(|slot| slot.write(out)));
    match server.poll_event() {
        Some(OwampServerEvent::Open(asked)) => Some(asked),
        None => None,
        Some(other) => panic!("{other:?}"),
    }
}

/// Returns the answer to the usual request, modified by `change`.
fn answer_to(direction: Direction, change: impl Fn(&mut TestSession)) -> AcceptCode {
    let (mut server, mut session) = (server(OwampRules::default()), session(direction));
    change(&mut session);
    session.request.slots = session.slots.len() as u32;
    if ask(&mut server, &session).is_some() {
        server.handle(NOW, OwampServerInput::Opened(Ok(9000)));
    }
    let answer = AcceptSession::parse(&output(&mut server)).unwrap();
    // A refused request does not change the state of the connection.
    assert!(ask(&mut server, &self::session(Direction::Up)).is_some());
    answer.accept
}

#[test]
fn what_is_granted() {
    use AcceptCode::{Ok, Permanent, Unsupported};
    use Direction::{Down, Up};
    type Change = fn(&mut TestSession);
    let cases: [(Direction, Change, AcceptCode); 29] = [
        (Up, |_| (), Ok),
        (Down, |_| (), Ok),
        (Up, |s| s.request.conf_receiver = 7, Ok),
        (Up, |s| s.request.conf_sender = 1, Unsupported),
        (Up, |s| s.request.conf_receiver = 0, Unsupported),
        (Up, |s| s.request.version = 6, Unsupported),
        (Up, |s| s.slots.clear(), Unsupported),
        (Up, |s| s.request.packets = 0, Permanent),
        (Up, |s| s.request.packets = 10_000_001, Permanent),
        (Up, |s| s.slots = vec![ScheduleSlot::Fixed(0)], Permanent),
        (Up, |s| s.slots = vec![ScheduleSlot::Fixed(1 << 12)], Permanent),
        (Up, |s| (s.request.packets, s.slots) = (1, vec![ScheduleSlot::Fixed(0)]), Ok),
        (Up, |s| (s.request.packets, s.slots) = (2, vec![ScheduleSlot::Fixed(50_000 << 32)]), Permanent),
        (Up, |s| s.slots = vec![ScheduleSlot::Fixed(1 << 32); 100], Ok),
        // Packets are only allowed between the two ends of the control connection. An unspecified address
        // means one of these ends.
        (Up, |s| s.request.sender = ip("198.51.100.1"), Unsupported),
        (Up, |s| s.request.receiver = ip("198.51.100.1"), Unsupported),
        (Down, |s| s.request.receiver = ip("198.51.100.1"), Unsupported),
        (Down, |s| s.request.sender = ip("198.51.100.1"), Unsupported),
        (Up, |s| s.request.sender = ip("0.0.0.0"), Ok),
        (Down, |s| (s.request.sender, s.request.receiver) = (ip("0.0.0.0"), ip("0.0.0.0")), Ok),
        // Packets to a service port of the client are not allowed.
        (Down, |s| s.request.receiver_port = 53, Unsupported),
        (Down, |s| s.request.receiver_port = 0, Unsupported),
        (Down, |s| s.request.receiver_port = 861, Ok),
        (Up, |s| s.request.padding = 66_000, Permanent),
        (Up, |s| s.request.padding = u32::MAX, Permanent),
        (Down, |s| s.request.type_p = 0x4000_0000, Unsupported),
        (Up, |s| s.request.type_p = 0x4000_0000, Ok),
        (Up, |s| s.request.timeout = NtpTime(u64::MAX), Permanent),
        (Up, |s| s.request.start = NtpTime::from(NOW.wall + Span::seconds(7200)), Permanent),
    ];
    for (k, (direction, change, wanted)) in cases.into_iter().enumerate() {
        assert_eq!(answer_to(direction, change), wanted, "case {k}");
    }
}

#[test]
fn a_connection_has_so_many_sessions() {
    let mut server = server(OwampRules { sessions: 2, ..OwampRules::default() });
    for accept in [AcceptCode::Ok, AcceptCode::Ok, AcceptCode::Permanent] {
        if ask(&mut server, &session(Direction::Up)).is_some() {
            server.handle(NOW, OwampServerInput::Opened(Ok(9000)));
        }
        assert_eq!(AcceptSession::parse(&output(&mut server)).unwrap().accept, accept);
    }
    let mut server = self::server(OwampRules::default());
    for accept in [AcceptCode::Ok, AcceptCode::Failure] {
        if ask(&mut server, &session(Direction::Down)).is_some() {
            server.handle(NOW, OwampServerInput::Opened(Ok(9000)));
        }
        assert_eq!(AcceptSession::parse(&output(&mut server)).unwrap().accept, accept, "a name is used once");
    }
}

#[test]
fn what_has_no_place_ends_the_conversation() {
    let over = |bytes: &[u8]| {
        let mut server = server(OwampRules::default());
        server.handle(NOW, OwampServerInput::Bytes(bytes));
        match core::iter::from_fn(|| server.poll_event()).last() {
            Some(OwampServerEvent::Over(reason)) => Some(reason),
            _ => None,
        }
    };
    // Stop-Sessions without a test, a request of TWAMP, an unknown command.
    for number in [0, 3, 5, 200] {
        assert_eq!(over(&[number; 32]), Some(AmpEndReason::Confused));
    }
    // More slots than the server reads.
    let mut request = Vec::new();
    RequestSession { slots: 1 << 20, ..session(Direction::Up).request }.write(&mut request);
    assert_eq!(over(&request), Some(AmpEndReason::Confused));
    // The server waits for the rest of an incomplete message.
    assert_eq!(over(&[1; 10]), None);
}

#[test]
fn a_test_without_sessions_is_over_at_once() {
    let mut server = server(OwampRules::default());
    say(&mut server, write_start);
    assert!(matches!(server.poll_event(), Some(OwampServerEvent::Start)));
    let bytes = output(&mut server);
    assert_eq!((bytes.len(), bytes[32], bytes[36..40].iter().sum::<u8>()), (64, command::STOP, 0));
    say(&mut server, |out| StopSessions { accept: AcceptCode::Ok, sessions: Vec::new() }.write(out));
    assert!(ask(&mut server, &session(Direction::Up)).is_some(), "and the next can be asked for");
}

fn data(records: u32, finished: SessionFinish) -> SessionData {
    let mut session = session(Direction::Up);
    session.request.sid = Sid([9; 16]);
    let record =
        |seq| DataRecord { ttl: 200, ..DataRecord::lost(seq, NtpTime(u64::from(seq) + 7), ErrorEstimate(3)) };
    SessionData {
        session,
        finished,
        next_seq: (finished == SessionFinish::Normally).then_some(records),
        skips: (0..5).map(|k| SkipRange { first: 10 * k, last: 10 * k + 3 }).collect(),
        records: (0..records).map(record).collect(),
    }
}

#[test]
fn ranges_are_fetched_and_unfinished_sessions_not_whole() {
    let fetched = |data: &SessionData, begin, end| {
        let fetch = FetchSession { sid: data.session.sid(), begin, end };
        let (mut incoming, mut outgoing) = (IncomingBytes::default(), OutgoingBytes::default());
        let mut writer = DataWriter::new(fetch, Arc::new(data.clone()))?;
        let (mut reader, mut pieces) = (DataReader::new(fetch.sid, 5000), 0);
        loop {
            let mut out = Vec::new();
            let more = writer.poll(&mut outgoing, &mut out);
            assert!(out.len() <= 16_384, "in pieces");
            pieces += 1;
            for piece in out.chunks(777) {
                incoming.feed(piece);
                if let Some(data) = reader.poll(&mut incoming).unwrap() {
                    assert!(incoming.is_empty(), "to the last byte");
                    return Ok((data, pieces));
                }
            }
            assert!(more, "all of it was sent");
        }
    };
    let whole = data(3000, SessionFinish::Normally);
    assert_eq!(fetched(&whole, 0, u32::MAX), Ok((whole.clone(), 8)));
    for (begin, end, count) in [(0, 0, 1), (5, 20, 16), (640, 1279, 640), (2999, u32::MAX, 1), (7, 6, 0)] {
        let (part, _) = fetched(&whole, begin, end).unwrap();
        assert_eq!((part.records.len(), &part.skips, part.next_seq), (count, &whole.skips, Some(3000)));
        assert!(part.records.iter().all(|r| (begin..=end).contains(&r.seq)));
    }
    let running = data(10, SessionFinish::Incomplete);
    assert_eq!(fetched(&running, 0, u32::MAX), Err(AcceptCode::Failure));
    let (part, _) = fetched(&running, 0, 9).unwrap();
    assert_eq!((part.records.len(), part.next_seq, part.finished), (10, None, SessionFinish::Incomplete));
    assert_eq!(fetched(&data(10, SessionFinish::No), 0, 9), Err(AcceptCode::Failure));
}

#[test]
fn a_reader_takes_no_more_than_the_session_can_have() {
    let mut out = Vec::new();
    let fetch = FetchSession::whole(Sid([9; 16]));
    DataWriter::new(fetch, Arc::new(data(3000, SessionFinish::Normally)))
        .unwrap()
        .poll(&mut OutgoingBytes::default(), &mut out);
    let read = |sid, most, bytes: &[u8]| {
        let mut incoming = IncomingBytes::default();
        incoming.feed(bytes);
        DataReader::new(sid, most).poll(&mut incoming)
    };
    assert_eq!(read(fetch.sid, 2999, &out), Err(Unusable::TooMany));
    let mut refusal = Vec::new();
    super::message::FetchAck::refusal(AcceptCode::Temporary).write(&mut refusal);
    refusal.extend([0; HMAC_LEN]);
    assert_eq!(read(fetch.sid, 10, &refusal), Err(Unusable::Refused(AcceptCode::Temporary)));
    let mut writer = DataWriter::new(fetch, Arc::new(data(3, SessionFinish::Normally))).unwrap();
    out.clear();
    while writer.poll(&mut OutgoingBytes::default(), &mut out) {}
    assert_eq!(read(Sid([8; 16]), 10, &out), Err(Unusable::Other));
}

#[test]
fn a_store_has_bounds_and_owners() {
    let at = |s| SteadyTime(0) + Span::seconds(s);
    let limits = StoreLimits { memory: 10_000, memory_per_owner: 6_000, keep: Span::seconds(60) };
    let mut store = Store::new(limits);
    let (ann, bob) = (Owner::User("ann".into()), Owner::Host(ip(PEER)));
    let sid = |n| Sid([n; 16]);
    let ended = |n: u8| {
        let mut data = data(0, SessionFinish::Normally);
        data.session.request.sid = sid(n);
        data.records = vec![DataRecord::lost(0, NtpTime(1), ErrorEstimate(1)); 80];
        data
    };
    assert_eq!(store.claim(sid(1), &ann, 80, at(0)), Ok(()));
    assert_eq!(store.claim(sid(1), &bob, 1, at(0)), Err(AcceptCode::Failure), "the name is taken");
    assert_eq!(store.claim(sid(2), &bob, 1000, at(0)), Err(AcceptCode::Permanent), "never");
    assert_eq!(store.find(sid(1), &ann, at(1)), None, "it still runs");
    assert_eq!(
        store.claim(sid(2), &ann, 80, at(1)),
        Err(AcceptCode::Temporary),
        "her other session needs the room"
    );
    store.keep(ended(1), at(1));
    assert_eq!(store.find(sid(1), &ann, at(2)).map(|d| d.records.len()), Some(80));
    assert_eq!(store.find(sid(1), &bob, at(2)), None, "not his");
    assert_eq!(store.claim(sid(3), &bob, 80, at(2)), Ok(()));
    assert_eq!(
        store.claim(sid(4), &Owner::User("eve".into()), 80, at(2)),
        Err(AcceptCode::Temporary),
        "full"
    );
    assert_eq!(store.claim(sid(2), &ann, 80, at(3)), Ok(()), "what she kept makes room");
    assert_eq!((store.find(sid(1), &ann, at(3)), store.len()), (None, 2));
    store.keep(ended(2), at(3));
    assert!(store.find(sid(2), &ann, at(62)).is_some());
    assert!(store.find(sid(2), &ann, at(63)).is_none(), "for so long");
    store.release(sid(3));
    assert!(store.is_empty());
}

#[test]
fn fetching_is_for_the_owner() {
    let mut server = server(OwampRules::default());
    let fetch = FetchSession::whole(Sid([9; 16]));
    for (found, len) in [(None, 32), (Some(Arc::new(data(3, SessionFinish::Normally))), 336)] {
        say(&mut server, |out| fetch.write(out));
        let Some(OwampServerEvent::Fetch(asked, owner)) = server.poll_event() else { panic!() };
        assert_eq!((asked, owner), (fetch, Owner::Host(ip(PEER))));
        // Messages received in the meantime are read afterwards.
        say(&mut server, |out| fetch.write(out));
        assert!(server.poll_event().is_none());
        server.handle(NOW, OwampServerInput::Found(found));
        assert_eq!(output(&mut server).len(), len);
        assert!(matches!(server.poll_event(), Some(OwampServerEvent::Fetch(..))));
        server.handle(NOW, OwampServerInput::Found(None));
        assert_eq!(output(&mut server)[0], AcceptCode::Failure as u8);
    }
}

fn ranges() -> impl Strategy<Value = Vec<SkipRange>> {
    prop::collection::vec((0u32..50, 0u32..50), 0..7).prop_map(|steps| {
        let mut next = 0;
        let mut range = |(gap, length)| {
            let first = next + gap;
            next = first + length + 1;
            SkipRange { first, last: first + length }
        };
        steps.into_iter().map(&mut range).collect()
    })
}

proptest! {
    #[test]
    fn stop_sessions_survives_the_wire(
        sessions in prop::collection::vec((any::<[u8; 16]>(), any::<u32>(), ranges()), 0..4), cut in 0usize..400,
    ) {
        let sessions = sessions.into_iter().map(|(sid, next_seq, skips)| SentSummary { sid: Sid(sid), next_seq, skips });
        let stop = StopSessions { accept: AcceptCode::Ok, sessions: sessions.collect() };
        let mut bytes = Vec::new();
        stop.write(&mut bytes);
        prop_assert_eq!(bytes.len() % 16, 0);
        prop_assert_eq!(StopSessions::len_of(&bytes, 3), Ok(Some(bytes.len() + HMAC_LEN)));
        prop_assert_eq!(StopSessions::parse(&bytes), Ok(stop.clone()));
        // After any truncation, the length is unknown or unchanged.
        let known = StopSessions::len_of(&bytes[..cut.min(bytes.len())], 3).unwrap();
        prop_assert!(known.is_none_or(|len| len == bytes.len() + HMAC_LEN));
        if stop.sessions.len() == 3 {
            prop_assert_eq!(StopSessions::len_of(&bytes, 2), Err(MessageTooLong));
        }
        prop_assert!(stop.sessions.iter().all(|s| SkipRange::are_in_order(&s.skips, u32::MAX)));
    }

    #[test]
    fn records_and_packets_survive_the_wire(bytes in any::<[u8; 25]>(), seq in any::<u32>(), time in any::<u64>(), error in any::<u16>()) {
        let record = DataRecord::parse(&bytes).unwrap();
        let mut again = Vec::new();
        record.write(&mut again);
        prop_assert_eq!(again, bytes);
        let packet = TestPacket { seq, sent: NtpTime(time), error: ErrorEstimate(error) };
        let mut out = [0xff; packet::MAX_LEN];
        let len = packet.write(None, &mut out);
        prop_assert_eq!((len, TestPacket::parse(None, &out[..len])), (14, Ok(packet)));
    }

    #[test]
    fn ranges_out_of_order_are_found(mut skips in ranges(), end in 0u32..400) {
        let fits = skips.last().is_none_or(|r| r.last < end);
        prop_assert_eq!(SkipRange::are_in_order(&skips, end), fits);
        if skips.len() > 1 {
            skips.reverse();
            prop_assert!(!SkipRange::are_in_order(&skips, u32::MAX));
        }
    }
}
