//! Both ends of recorded sessions: owampd's records of packets, and the send times of either program.

use super::conversation::Message;
use super::{captures, *};
use crate::amp::{Sid, TestKeys};
use crate::machine::Tick;
use crate::owamp::packet::{self, MAX_LEN, TestPacket};
use crate::owamp::{DataRecord, SessionData, SessionReceiver, SessionSender, TestSession};
use crate::twoway::RequestArrival;
use core::net::{IpAddr, SocketAddr};
use jitlat_core::ntp::{ErrorEstimate, NtpTime};
use jitlat_core::{Span, SteadyTime, WallTime};
use std::sync::Arc;

/// A session of a recorded test with all available data.
struct KnownSession {
    name: &'static str,
    /// Accepted parameters.
    session: TestSession,
    keys: Option<TestKeys>,
    len: usize,
    up: bool,
    /// Packets captured on the client's interface.
    packets: Vec<Payload>,
    /// Time at which the client's Stop-Sessions was captured.
    stopped: WallTime,
    /// Summaries of both sides at the end.
    summaries: Vec<crate::owamp::SentSummary>,
    /// Data fetched from the server; `None` if it was not fetched.
    data: Option<Arc<SessionData>>,
}

fn known_sessions() -> Vec<KnownSession> {
    let mut sessions = Vec::new();
    for capture in captures() {
        for recorded in capture.connections.iter().filter(|c| c.set_up().is_some()) {
            if recorded.server_start().is_none_or(|s| s.accept != crate::amp::AcceptCode::Ok) {
                continue;
            }
            let messages = recorded.messages();
            let mut offset = SetUp::LEN;
            let mut stop = None;
            for message in &messages {
                if let Message::Stop { client, server } = message {
                    stop = Some((
                        recorded.sent_at_offset(offset),
                        [client.sessions.clone(), server.sessions.clone()].concat(),
                    ));
                }
                let mut bytes = Vec::new();
                message.send_command(&mut OutgoingBytes::default(), &mut bytes);
                offset += bytes.len();
            }
            let Some((stopped, summaries)) = stop else { continue };
            for message in &messages {
                let Message::Request(mut session, answer) = message.clone() else { continue };
                if answer.accept != crate::amp::AcceptCode::Ok {
                    continue;
                }
                let up = session.request.conf_receiver != 0;
                let request = &mut session.request;
                let port = if up { &mut request.receiver_port } else { &mut request.sender_port };
                (*port, request.sid) = (answer.port, if up { answer.sid } else { request.sid });
                let to = request.receiver_port;
                let data = messages.iter().find_map(|m| match m {
                    Message::Fetch(_, Ok(data)) if data.session.sid() == request.sid => Some(data.clone()),
                    _ => None,
                });
                let packets =
                    capture.packets.iter().filter(|p| p.to_server == up && p.destination_port == to);
                sessions.push(KnownSession {
                    name: capture.name,
                    keys: recorded.keys().and_then(|k| TestKeys::new(recorded.mode()?, &k, &request.sid)),
                    len: packet::len(recorded.mode().unwrap()),
                    up,
                    packets: packets.cloned().collect(),
                    session,
                    stopped,
                    summaries: summaries.clone(),
                    data,
                });
            }
        }
    }
    sessions
}

impl Recorded {
    /// Returns the capture time of the client's byte at `offset`.
    fn sent_at_offset(&self, mut offset: usize) -> WallTime {
        for payload in self.payloads.iter().filter(|p| p.to_server) {
            match offset.checked_sub(payload.bytes.len()) {
                Some(left) => offset = left,
                None => return WallTime(payload.at),
            }
        }
        panic!("{}: the client sent less", self.capture);
    }
}

impl KnownSession {
    fn sent_by(&self, sid: Sid) -> crate::owamp::SentSummary {
        self.summaries.iter().find(|s| s.sid == sid).unwrap().clone()
    }

    /// Gives the packets to this crate's receiver instead of owampd. Packets that owampd recorded arrive at the
    /// recorded times; packets that it omitted at the end arrive at their capture times.
    fn received_again(&self, data: &SessionData) -> SessionData {
        let request = &self.session.request;
        let timeout = request.timeout.to_span();
        let last = NtpTime::from(self.stopped - timeout);
        let mut arrivals = Vec::new();
        for record in data.records.iter().filter(|r| r.received.is_some()) {
            let packet = self.packets.iter().find(|p| self.packet(p).seq == record.seq).unwrap();
            let at = record.received.unwrap().to_nanos(self.stopped);
            arrivals.push((at, record.receive_error, packet));
        }
        for packet in self.packets.iter().filter(|p| self.packet(p).sent.0 > last.0) {
            arrivals.push((WallTime(packet.at), ErrorEstimate::UNKNOWN, packet));
        }
        arrivals.sort_by_key(|a| a.0);
        let (sender, port) = (request.sender, request.sender_port);
        let mut receiver =
            SessionReceiver::new(&self.session, self.keys.clone(), self.len, sender, Some(port));
        for (at, error, packet) in arrivals {
            let from = SocketAddr::new(sender, packet.source_port);
            let arrival = RequestArrival { from, at, ttl: Some(packet.ttl), traffic_class: Some(packet.tos) };
            let record = receiver.receive(&packet.bytes, &arrival, error).expect(self.name);
            assert_eq!((record.ttl, record.receive_error), (255, error));
        }
        receiver.finish(&self.sent_by(request.sid), self.stopped, ErrorEstimate::UNKNOWN).expect(self.name)
    }

    fn packet(&self, payload: &Payload) -> TestPacket {
        TestPacket::parse(self.keys.as_ref(), &payload.bytes).unwrap()
    }
}

/// Rounds the times of a record to nanoseconds.
fn rounded(record: &DataRecord, near: WallTime) -> DataRecord {
    DataRecord { received: record.received.map(|t| NtpTime::from(t.to_nanos(near))), ..*record }
}

#[test]
fn what_owampd_recorded_our_receiver_records() {
    let mut sessions = Vec::new();
    for known in known_sessions() {
        let Some(data) = &known.data else { continue };
        let ours = known.received_again(data);
        let theirs: Vec<_> = data.records.iter().map(|r| rounded(r, known.stopped)).collect();
        assert_eq!(ours.records, theirs, "{}", known.name);
        assert_eq!((ours.next_seq, &ours.skips, ours.finished), (data.next_seq, &data.skips, data.finished));
        assert_eq!(ours.session, data.session, "{}: ports and name as granted", known.name);
        let lost = ours.records.iter().filter(|r| r.received.is_none()).count();
        sessions.push((known.name, ours.records.len(), lost, ours.skips.len()));
    }
    let of = |name| sessions.iter().find(|s| s.0 == name).copied().unwrap();
    assert_eq!(of("open-to-loss"), ("open-to-loss", 20, 4, 0));
    assert_eq!(of("open-to-dup-reorder"), ("open-to-dup-reorder", 22, 0, 0));
    assert_eq!(of("open-to-skip"), ("open-to-skip", 40, 10, 1));
    assert_eq!(of("auth-to-skip").3, 1);
    assert_eq!(of("open-both-interrupted"), ("open-both-interrupted", 14, 0, 0));
    assert_eq!(sessions.len(), 18, "{sessions:?}");
}

#[test]
fn packets_that_would_arrive_after_their_timeout_are_skipped() {
    let known = &known_sessions()[0];
    let timeout = known.session.request.timeout.to_span();
    let wall = known.session.request.start.to_nanos(known.stopped) - Span::seconds(1);
    let now = Tick { wall, steady: SteadyTime(0) };
    let error = known.packet(&known.packets[0]).error;
    let skips_first = |delay: Span| {
        let sender = SessionSender::new(&known.session, known.keys.clone(), now);
        let mut sender = sender.arriving_after(delay);
        // The first packet is overdue by four fifths of the timeout.
        let late = sender.poll_timeout().unwrap() + Span(timeout.0 / 5 * 4);
        let tick = Tick { wall: wall + (late - now.steady), steady: late };
        sender.poll_transmit(tick, error, &mut [0; MAX_LEN]);
        sender.stop().skips.first().is_some_and(|skip| skip.first == 0)
    };
    assert_eq!(
        [0, 6, 4, 1].map(|part| skips_first(Span(timeout.0.checked_div(part).unwrap_or(0)))),
        [false, false, true, true]
    );
}

/// The recorded sender sent its packets slightly later than this crate's sender would. Given the same delay,
/// this crate's sender sends the same bytes.
#[test]
fn packets_are_sent_by_the_recorded_schedule() {
    let mut packets = 0;
    for known in known_sessions() {
        let request = &known.session.request;
        let start = request.start.to_nanos(known.stopped);
        let now = Tick { wall: start - Span::seconds(1), steady: SteadyTime(0) };
        let mut sender = SessionSender::new(&known.session, known.keys.clone(), now);
        let mut out = [0; MAX_LEN];
        let mut skipped = 0;
        // Some packets were duplicated by hand, and some of the copies were late.
        let mut recorded: Vec<_> = known.packets.iter().map(|p| (known.packet(p), p)).collect();
        recorded.sort_by_key(|(packet, _)| packet.seq);
        recorded.dedup_by_key(|(packet, _)| packet.seq);
        for (packet, payload) in recorded {
            let wall = packet.sent.to_nanos(known.stopped);
            let tick = Tick { wall, steady: now.steady + (wall - now.wall) };
            let departure = sender.poll_transmit(tick, packet.error, &mut out).expect(known.name);
            let late = tick.steady - known.due(packet.seq, now);
            let paused = known.name.ends_with("-skip");
            assert!(late >= Span::ZERO && (late < Span::millis(30) || paused), "{}: {late:?}", known.name);
            assert_eq!((departure.seq, departure.len), (packet.seq, known.len), "{}", known.name);
            if known.keys.is_none() {
                // Only the resolution of the time differs.
                assert_eq!(out[..4], payload.bytes[..4]);
                assert_eq!(out[12..14], payload.bytes[12..14]);
            }
            packets += 1;
            skipped = packet.seq + 1 - sender.sent();
        }
        let summary = known.sent_by(request.sid);
        let ours = sender.stop();
        assert_eq!((ours.next_seq, &ours.skips), (summary.next_seq, &summary.skips), "{}", known.name);
        assert_eq!(
            skipped,
            summary.skips.iter().map(|r| r.last - r.first + 1).sum::<u32>(),
            "{}",
            known.name
        );
    }
    assert!(packets > 550, "{packets}");
}

impl KnownSession {
    fn due(&self, seq: u32, now: Tick) -> SteadyTime {
        let at = self.session.schedule().nth(seq as usize).unwrap().to_nanos(now.wall);
        now.steady + (at - now.wall)
    }
}

/// Only packets from the session's sender are recorded.
#[test]
fn other_senders_are_not_recorded() {
    let sessions = known_sessions();
    let known = sessions.iter().find(|t| t.name == "open-to-fixed").unwrap();
    let request = &known.session.request;
    let packet = &known.packets[0];
    let at = known.packet(packet).sent.to_nanos(known.stopped) + Span::micros(100);
    let mut receiver =
        SessionReceiver::new(&known.session, None, 14, request.sender, Some(request.sender_port));
    let mut receive = |ip: IpAddr, port, bytes: &[u8], at| {
        let arrival = RequestArrival { from: SocketAddr::new(ip, port), at, ttl: None, traffic_class: None };
        receiver.receive(bytes, &arrival, ErrorEstimate::UNKNOWN).map(|r| r.ttl)
    };
    use crate::owamp::Ignored;
    let (host, port) = (request.sender, request.sender_port);
    assert!(known.up);
    assert_eq!(receive(request.receiver, port, &packet.bytes, at), Err(Ignored::Source));
    assert_eq!(receive(host, port + 1, &packet.bytes, at), Err(Ignored::Source));
    assert_eq!(receive(host, port, &packet.bytes[..13], at), Err(Ignored::Short));
    let mut other = packet.bytes.clone();
    other[2] = 1;
    assert_eq!(receive(host, port, &other, at), Err(Ignored::Number));
    other[2..14].copy_from_slice(&[0, 19, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(receive(host, port, &other, at), Err(Ignored::Clock));
    let mut late = packet.bytes.clone();
    late[3] = 19;
    let (start, before) = (request.start.to_nanos(at), request.timeout.to_span());
    assert_eq!(receive(host, port, &late, at), Ok(255), "early, but within the timeout of its time");
    late[4..12].copy_from_slice(&NtpTime::from(start - before).0.to_be_bytes());
    assert_eq!(receive(host, port, &late, start - before), Err(Ignored::Schedule));
    late[13] = 0;
    assert_eq!(receive(host, port, &late, at), Err(Ignored::Corrupt));
    // A packet that is longer than negotiated is valid if its beginning is.
    let long = [&packet.bytes[..], &[7; 30]].concat();
    assert_eq!(receive(host, port, &long, at), Ok(255));
    assert_eq!(receive(host, port, &packet.bytes, at), Ok(255), "a copy");
    assert_eq!(receive(host, port, &packet.bytes, start + Span::seconds(9)), Err(Ignored::Late));
    assert_eq!(receiver.ignored(Ignored::Source), 2);
    // The 18 other packets were given up in the meantime.
    assert_eq!(receiver.records().len(), 21);
    assert!(!receiver.is_complete(start) && receiver.is_complete(start + Span::seconds(9)));
}
