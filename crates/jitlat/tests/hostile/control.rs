//! One-way tests under attack: control connections, sessions and the TCP test port are taken and abandoned.

use crate::forged::Scene;
use crate::harness::*;
use crate::honest::seconds;
use jitlat_core::spec::{CONTROL_PORT, TEST_PORT};
use jitlat_core::{Direction, Schedule, Span, StampSource, TestSpec, Transport};
use jitlat_proto::jitlat::Dialect;
use jitlat_proto::jitlat::auth::ConnectionSide;
use jitlat_proto::jitlat::codec::Codec;
use jitlat_proto::jitlat::message::{FlowRequest, Hello, Message, Request, VERSION};
use jitlat_proto::jitlat::packet::PacketHeader;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Connections and requests of the attacker per second.
const ATTEMPTS: u32 = 200;

/// Checks that one-way tests of an honest client lose less than 0.1 % and are never refused, while `attempt` is
/// called again and again. Its results are held until there are 300 newer ones. `client`: options of the test, in
/// addition to number and period of packets or including them.
fn tested<T>(test: &str, arguments: &str, client: &str, attempt: impl Fn(IpAddr) -> Option<T> + Sync) {
    tested_after(Duration::from_millis(1500), test, arguments, client, attempt);
}

/// Like [`tested`], with a client that begins this long after the attack.
fn tested_after<T>(
    onset: Duration,
    test: &str,
    arguments: &str,
    client: &str,
    attempt: impl Fn(IpAddr) -> Option<T> + Sync,
) {
    let Some(scene) = Scene::new(test) else { return };
    scene.crowd(CROWD);
    let folder = tempfile::tempdir().unwrap();
    let host = scene.lab.server.v4;
    let _server = Server::start(Place::In(&scene.lab.server), folder.path(), host, arguments);
    let (over, attempts) = (AtomicBool::new(false), AtomicU32::new(0));
    let attack = || {
        let mut held = VecDeque::new();
        jitlat_waiting::at_pace(Duration::from_secs(1) / ATTEMPTS, || {
            held.extend(attempt(host));
            attempts.fetch_add(1, Ordering::Relaxed);
            if held.len() > 300 {
                held.pop_front();
            }
            !over.load(Ordering::Relaxed)
        });
    };
    let (sent, lost) = std::thread::scope(|scope| {
        scope.spawn(|| scene.lab.client.within(attack).unwrap());
        // Attempts without an answer take longer.
        let enough = ATTEMPTS * onset.as_millis() as u32 / 1000;
        jitlat_waiting::within(onset, || attempts.load(Ordering::Relaxed) >= enough);
        let usual = format!("-n {} -p 5ms {client}", seconds() * 200);
        let stream = if client.contains("-n ") { client } else { &usual };
        let line = format!("{host} --json - --no-log {stream}");
        let ended = Running::start(Place::In(&scene.victim).jitlat(folder.path(), &line))
            .finish(Duration::from_secs(60 + seconds()));
        over.store(true, Ordering::Relaxed);
        let report = ended.report();
        (report.count("/counts/sent"), report.count("/counts/lost"))
    });
    let _ = writeln!(std::io::stderr(), "{test}: honest {sent} sent, {lost} lost");
    assert!(sent > 0 && lost * 1000 < sent, "{lost} of {sent} lost");
}

/// The attacker's side of a control connection.
struct Control {
    stream: TcpStream,
    codec: Codec,
    from: IpAddr,
    host: IpAddr,
}

impl Control {
    /// Connects from the address `from`.
    fn connect(host: IpAddr, from: IpAddr) -> Option<Control> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).ok()?;
        socket.bind(&SocketAddr::new(from, 0).into()).ok()?;
        socket.connect_timeout(&SocketAddr::new(host, CONTROL_PORT).into(), Duration::from_secs(1)).ok()?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
        let codec = Codec::new(
            Dialect::V3,
            ConnectionSide::Client,
            stream.local_addr().ok()?,
            (host, CONTROL_PORT).into(),
        );
        Some(Control { stream, codec, from, host })
    }

    fn send(&mut self, message: &Message) -> Option<()> {
        let mut bytes = Vec::new();
        self.codec.encode(message, &mut bytes);
        self.stream.write_all(&bytes).ok()
    }

    /// Receives the next message; `None` if none arrives soon.
    fn receive(&mut self) -> Option<Message> {
        let mut buffer = [0; 1024];
        loop {
            if let Some(message) = self.codec.decode().ok()? {
                return Some(message);
            }
            match self.stream.read(&mut buffer).ok()? {
                0 => return None,
                n => self.codec.feed(&buffer[..n]),
            }
        }
    }

    /// Requests a session with one packet per day.
    fn request(&mut self) -> Option<()> {
        let hello = Hello {
            min_version: VERSION,
            max_version: VERSION,
            capabilities: 0,
            nonce: [7; 16],
            authenticate: false,
            software: None,
            share: None,
        };
        self.send(&Message::Hello(hello))?;
        self.receive()?;
        let day = Span::seconds(86_400);
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 1, 12, day, Schedule::Periodic).ok()?;
        let flows = vec![FlowRequest { spec, stamps: StampSource::User }];
        self.send(&Message::Request(Request { flows, host: Default::default() }))
    }

    /// Starts the test, whose packets are never sent.
    fn start(&mut self) -> Option<()> {
        let Message::Accept(accept) = self.receive()? else { return None };
        let flow = accept.flows.first()?;
        let greeting = UdpSocket::bind((self.from, 0)).ok()?;
        greeting.send_to(&PacketHeader::hello(flow.token?).to_bytes(), (self.host, flow.port)).ok()?;
        self.send(&Message::Start)
    }
}

/// The address of the attacker at `10.9.0.1`.
const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));

/// Requests a session, and abandons it.
fn abandon(host: IpAddr) -> Option<Control> {
    let mut control = Control::connect(host, ATTACKER)?;
    control.request()?;
    Some(control)
}

/// Requests sessions from one address after the other.
fn ask_as_crowd(host: IpAddr) -> Option<Control> {
    let mut control = Control::connect(host, next_of_crowd())?;
    control.request()?;
    Some(control)
}

/// Addresses of an attacker who has many: more than the limit of sessions.
const CROWD: Range<u8> = 10..250;

/// Returns the next address of the crowd.
fn next_of_crowd() -> IpAddr {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let host = CROWD.start + (NEXT.fetch_add(1, Ordering::Relaxed) % CROWD.len()) as u8;
    Ipv4Addr::new(10, 9, 0, host).into()
}

#[test]
fn sessions_that_are_abandoned_leave_room_for_an_honest_client() {
    tested("sessions_that_are_abandoned_leave_room_for_an_honest_client", "", "", abandon);
}

#[test]
fn connections_that_say_nothing_leave_room_for_an_honest_client() {
    let connect =
        |host: IpAddr| TcpStream::connect_timeout(&(host, CONTROL_PORT).into(), Duration::from_secs(1)).ok();
    tested("connections_that_say_nothing_leave_room_for_an_honest_client", "", "-R", connect);
}

#[test]
fn a_crowd_at_the_test_port_does_not_hold_up_an_honest_client() {
    // The port is open while a test of another client waits or runs.
    let connect =
        |host: IpAddr| TcpStream::connect_timeout(&(host, TEST_PORT).into(), Duration::from_secs(1)).ok();
    tested("a_crowd_at_the_test_port_does_not_hold_up_an_honest_client", "", "-t", connect);
}

#[test]
fn many_addresses_that_ask_and_say_nothing_leave_room_for_an_honest_client() {
    tested("many_addresses_that_ask_and_say_nothing_leave_room_for_an_honest_client", "", "", ask_as_crowd);
}

#[test]
fn many_addresses_that_start_tests_without_packets_leave_room_for_an_honest_client() {
    let start = |host: IpAddr| {
        let mut control = Control::connect(host, next_of_crowd())?;
        control.request()?;
        control.start()?;
        Some(control)
    };
    tested(
        "many_addresses_that_start_tests_without_packets_leave_room_for_an_honest_client",
        "",
        "-R",
        start,
    );
}

#[test]
fn many_addresses_that_connect_and_say_nothing_leave_room_for_an_honest_client() {
    let connect = |host: IpAddr| Control::connect(host, next_of_crowd());
    tested("many_addresses_that_connect_and_say_nothing_leave_room_for_an_honest_client", "", "", connect);
}

/// Starts tests without packets, and sends keep-alives for all of them.
fn stay_connected(staying: &Mutex<VecDeque<Control>>, host: IpAddr) -> Option<()> {
    let mut control = Control::connect(host, next_of_crowd())?;
    let started = control.request().and_then(|()| control.start());
    let mut staying = staying.lock().unwrap();
    staying.extend(started.map(|()| control));
    // Each of 128 gets its turn five times per second.
    for _ in 0..8 {
        if let Some(mut control) = staying.pop_front()
            && control.send(&Message::KeepAlive).is_some()
        {
            staying.push_back(control);
        }
    }
    Some(())
}

#[test]
fn many_addresses_that_stay_connected_and_send_nothing_leave_room_for_an_honest_client() {
    let staying = Mutex::default();
    tested_after(
        Duration::from_secs(6),
        "many_addresses_that_stay_connected_and_send_nothing_leave_room_for_an_honest_client",
        "",
        "",
        |host| stay_connected(&staying, host),
    );
}

#[test]
fn a_slow_stream_keeps_its_place_among_many_addresses_that_say_nothing() {
    // Longer without a packet than a session is reserved for a silent client.
    tested(
        "a_slow_stream_keeps_its_place_among_many_addresses_that_say_nothing",
        "",
        "-n 3 -p 4s",
        ask_as_crowd,
    );
}
