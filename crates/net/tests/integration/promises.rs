//! Clients that request one thing and do another: the server must enforce its limits.

use crate::common::{LOCAL, Serving, free_port, serve_with};
use jitlat_core::{Direction, Schedule, Span, StampSource, TestSpec, Transport};
use jitlat_proto::jitlat::auth::ConnectionSide;
use jitlat_proto::jitlat::codec::Codec;
use jitlat_proto::jitlat::message::{Fetch, FlowRequest, Hello, Message, Nak, Request, VERSION};
use jitlat_proto::jitlat::packet::PacketHeader;
use jitlat_proto::jitlat::{Dialect, FlowId, ServerLimits};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

/// A control connection on which the test chooses every message.
struct Conversation {
    stream: TcpStream,
    codec: Codec,
}

impl Conversation {
    fn with(server: &Serving) -> Conversation {
        let stream = TcpStream::connect_timeout(&server.address, LIMIT).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let local = stream.local_addr().unwrap();
        let codec = Codec::new(Dialect::V3, ConnectionSide::Client, local, server.address);
        let mut conversation = Conversation { stream, codec };
        conversation.send(&Message::Hello(Hello {
            min_version: VERSION,
            max_version: VERSION,
            capabilities: 0,
            nonce: [7; 16],
            authenticate: false,
            software: None,
            share: None,
        }));
        assert!(matches!(conversation.receive(), Message::Welcome(_)));
        conversation
    }

    fn send(&mut self, message: &Message) {
        let mut bytes = Vec::new();
        self.codec.encode(message, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn receive(&mut self) -> Message {
        let mut bytes = [0; 4096];
        loop {
            if let Some(message) = self.codec.decode().unwrap() {
                return message;
            }
            let n = self.stream.read(&mut bytes).unwrap();
            assert!(n > 0, "the server closed the connection");
            self.codec.feed(&bytes[..n]);
        }
    }

    /// Requests `spec`; returns the port and token of its flow, or the refusal.
    fn request(&mut self, spec: &TestSpec) -> Result<(u16, u64), Nak> {
        let flows = vec![FlowRequest { spec: spec.clone(), stamps: StampSource::User }];
        self.send(&Message::Request(Request { flows, host: Default::default() }));
        match self.receive() {
            Message::Accept(accept) => Ok((accept.flows[0].port, accept.flows[0].token.unwrap())),
            Message::Nak(nak) => Err(nak),
            other => panic!("{other:?}"),
        }
    }

    /// Starts the accepted stream; returns the socket from which its packets are sent.
    fn start(&mut self, (port, token): (u16, u64)) -> UdpSocket {
        let socket = UdpSocket::bind((LOCAL, 0)).unwrap();
        socket.connect((LOCAL, port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let hello = PacketHeader::hello(token).to_bytes();
        let began = Instant::now();
        let mut answer = [0; 12];
        while socket.send(&hello).is_err() || socket.recv(&mut answer).is_err() {
            assert!(began.elapsed() < LIMIT, "greetings are not answered");
        }
        self.send(&Message::Start);
        assert_eq!(self.receive(), Message::Started);
        socket
    }
}

fn up(packets: u64, period: Span) -> TestSpec {
    let mut spec =
        TestSpec::new(Direction::Up, Transport::Udp, packets, 12, period, Schedule::Periodic).unwrap();
    spec.dst_port = 0;
    spec
}

#[test]
fn a_stream_faster_than_agreed_is_ended_with_the_name_of_the_limit() {
    let server = serve_with(LOCAL, ServerLimits { rate: 100, ..ServerLimits::default() }, None);
    let mut client = Conversation::with(&server);
    let granted = client.request(&up(100_000, Span::millis(100))).unwrap();
    let socket = client.start(granted);
    for seq in 0..20_000 {
        // Errors are ignored, because the server closes its socket at some time.
        let _ = socket.send(&PacketHeader { sent: jitlat_core::WallTime(1), seq }.to_bytes());
    }
    assert_eq!(client.receive(), Message::Finished(FlowId(0), 0));
    client.send(&Message::Fetch(Fetch { session: None, flow: FlowId(0), chunk: 0 }));
    let Message::Results(results) = client.receive() else { panic!() };
    let why = results.failure.unwrap();
    assert!(why.starts_with("max-rate: far more packets arrived than the agreed 1 within 100 ms"), "{why}");
}

#[test]
fn what_a_client_leaves_behind_is_free_within_seconds() {
    let day = Span::seconds(86_400);
    let limits = ServerLimits { sessions: 1, duration: day.times(100), ..ServerLimits::default() };
    let server = serve_with(LOCAL, limits, None);
    let mut client = Conversation::with(&server);
    let granted = client.request(&up(50, day)).unwrap();
    let socket = client.start(granted);
    socket.send(&PacketHeader { sent: jitlat_core::WallTime(1), seq: 0 }.to_bytes()).unwrap();
    drop(client);
    let granted = || Conversation::with(&server).request(&up(10, Span::millis(1))).is_ok();
    jitlat_waiting::until("the only session", LIMIT, granted);
}

#[test]
fn ports_of_services_are_refused_by_name() {
    let server = serve_with(LOCAL, ServerLimits::default(), None);
    for direction in [Direction::Up, Direction::Down] {
        for transport in [Transport::Udp, Transport::Tcp] {
            for port in [22, 53, 80, 123, 1023] {
                let mut spec = server.spec(direction, transport, 10, Span::millis(1));
                match direction {
                    Direction::Up => spec.dst_port = port,
                    Direction::Down => spec.src_port = port,
                }
                let refused = Conversation::with(&server).request(&spec).unwrap_err().text;
                assert!(refused.starts_with("test-ports is limited to 1024 to 65535"), "{port}: {refused}");
            }
        }
    }
    let mut free = server.spec(Direction::Up, Transport::Udp, 10, Span::millis(1));
    free.dst_port = free_port(LOCAL);
    assert!(Conversation::with(&server).request(&free).is_ok());
}

#[test]
fn a_server_sends_no_burst_beyond_its_limits() {
    let server = serve_with(LOCAL, ServerLimits { rate: 100, ..ServerLimits::default() }, None);
    let burst = Schedule::Burst { size: 1000 };
    let spec = TestSpec::new(Direction::Down, Transport::Udp, 1000, 12, Span::millis(20), burst).unwrap();
    let refused = Conversation::with(&server).request(&spec).unwrap_err().text;
    assert!(refused.starts_with("max-rate is limited to 100 packets/s"), "{refused}");
    // Six sessions of 20 packets per second each: the sixth one exceeds the client's limit.
    let spec = TestSpec::new(Direction::Down, Transport::Udp, 1000, 12, Span::millis(50), Schedule::Periodic);
    let spec = spec.unwrap();
    let mut held: Vec<_> = (0..5).map(|_| Conversation::with(&server)).collect();
    assert!(held.iter_mut().all(|client| client.request(&spec).is_ok()));
    let refused = Conversation::with(&server).request(&spec).unwrap_err().text;
    assert!(refused.starts_with("max-rate is limited to 100 packets/s"), "{refused}");
}
