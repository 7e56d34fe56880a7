//! One-way tests: control connections, sessions and the TCP test port, taken by who leaves them.

use crate::forged::Scene;
use crate::harness::*;
use crate::honest::seconds;
use jitlat_core::spec::{CONTROL_PORT, TEST_PORT};
use jitlat_core::{Direction, Schedule, Source, Span, TestSpec, Transport};
use jitlat_proto::jitlat::Dialect;
use jitlat_proto::jitlat::auth::Side;
use jitlat_proto::jitlat::codec::Codec;
use jitlat_proto::jitlat::message::{FlowRequest, Hello, Message, Request, VERSION};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Connections and requests of the attacker in a second.
const ATTEMPTS: u32 = 200;

/// Checks that one-way tests of an honest client lose less than 0.1 % and are never refused, while `attempt` is called
/// again and again. What it returns is held as long as 300 newer ones are not.
fn tested<T>(test: &str, arguments: &str, client: &str, attempt: impl Fn(IpAddr) -> Option<T> + Sync) {
    let Some(scene) = Scene::new(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = scene.lab.server.v4;
    let _server = Server::start(Place::In(&scene.lab.server), folder.path(), host, arguments);
    let over = AtomicBool::new(false);
    let attack = || {
        let mut held = VecDeque::new();
        while !over.load(Ordering::Relaxed) {
            held.extend(attempt(host));
            if held.len() > 300 {
                held.pop_front();
            }
            std::thread::sleep(Duration::from_secs(1) / ATTEMPTS);
        }
    };
    let (sent, lost) = std::thread::scope(|scope| {
        scope.spawn(|| scene.lab.client.within(attack).unwrap());
        std::thread::sleep(Duration::from_millis(1500));
        let line = format!("{host} --json - -n {} -p 5ms --no-log {client}", seconds() * 200);
        let ended = Running::start(Place::In(&scene.victim).jitlat(folder.path(), &line))
            .finish(Duration::from_secs(60 + seconds()));
        over.store(true, Ordering::Relaxed);
        let report = ended.report();
        (report.count("/counts/sent"), report.count("/counts/lost"))
    });
    let _ = writeln!(std::io::stderr(), "{test}: honest {sent} sent, {lost} lost");
    assert!(sent > 0 && lost * 1000 < sent, "{lost} of {sent} lost");
}

/// Asks for a session of one packet a day, and is not heard of again.
fn abandon(host: IpAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&(host, CONTROL_PORT).into(), Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
    let mut codec =
        Codec::new(Dialect::V3, Side::Client, stream.local_addr().ok()?, (host, CONTROL_PORT).into());
    let mut send = |stream: &mut TcpStream, message: &Message| {
        let mut bytes = Vec::new();
        codec.encode(message, &mut bytes);
        stream.write_all(&bytes).ok()
    };
    let hello = Hello {
        min_version: VERSION,
        max_version: VERSION,
        capabilities: 0,
        nonce: [7; 16],
        authenticate: false,
        software: None,
    };
    send(&mut stream, &Message::Hello(hello))?;
    let _ = stream.read(&mut [0; 1024]);
    let day = Span::seconds(86_400);
    let spec = TestSpec::new(Direction::Up, Transport::Udp, 1, 12, day, Schedule::Periodic).ok()?;
    let flows = vec![FlowRequest { spec, stamps: Source::User }];
    send(&mut stream, &Message::Request(Request { flows, host: Default::default() }))?;
    Some(stream)
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
    // The port is open while somebody's test waits or runs there.
    let connect =
        |host: IpAddr| TcpStream::connect_timeout(&(host, TEST_PORT).into(), Duration::from_secs(1)).ok();
    tested("a_crowd_at_the_test_port_does_not_hold_up_an_honest_client", "", "-t", connect);
}
