//! Measurements by browsers under attack: connections that say nothing, and tests that are none.

use crate::forged::Scene;
use crate::harness::*;
use crate::honest::seconds;
use crate::websocket;
use jitlat_proto::browser::PORT;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tungstenite::Message;

/// Time for a connection of an attacker.
const CONNECTING: Duration = Duration::from_secs(1);

#[test]
fn an_honest_browser_measures_beside_connections_that_say_nothing() {
    const TEST: &str = "an_honest_browser_measures_beside_connections_that_say_nothing";
    let Some(scene) = Scene::new(TEST) else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = scene.lab.server.v4;
    let _server = Server::start(Place::In(&scene.lab.server), folder.path(), host, "--web");
    let at = SocketAddr::from((host, PORT));
    let (over, opened) = (AtomicBool::new(false), AtomicU64::new(0));
    let attack = || {
        let mut held: Vec<TcpStream> = Vec::new();
        jitlat_waiting::at_pace(Duration::from_millis(5), || {
            let connect = || TcpStream::connect_timeout(&at, CONNECTING);
            if let Ok(mut stream) = scene.lab.client.within(connect).unwrap() {
                let said = match opened.fetch_add(1, Ordering::Relaxed) % 4 {
                    0 => String::new(),
                    1 => "GET / HTTP/1.1\r\nHost: x\r\n".to_owned(),
                    2 => "\x16\x03\x01\x40\0\x01".to_owned(),
                    // A WebSocket that announces nothing.
                    _ => format!(
                        "GET /test HTTP/1.1\r\nHost: {at}\r\nOrigin: http://{at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
                    ),
                };
                // The server may have closed the connection.
                let _ = stream.write_all(said.as_bytes());
                held.push(stream);
            }
            if held.len() > 300 {
                held.drain(..100);
            }
            !over.load(Ordering::Relaxed)
        });
    };
    let packets = 100 * seconds();
    let (answers, report) = std::thread::scope(|scope| {
        scope.spawn(attack);
        // More than the share of one client, and than all connections.
        jitlat_waiting::until("the attack", TIMEOUT, || opened.load(Ordering::Relaxed) > 200);
        let connected = scene.victim.within(|| TcpStream::connect_timeout(&at, TIMEOUT)).unwrap();
        let socket = connected.map(|stream| websocket::open(stream, at, &format!("http://{at}")));
        let measured = socket.map(|socket| websocket::measure(socket?, packets, TIMEOUT));
        over.store(true, Ordering::Relaxed);
        measured.unwrap().unwrap()
    });
    assert!(answers == packets && report.contains("/report/"), "{answers} of {packets}: {report}");
}

#[test]
fn what_is_not_a_test_ends_it() {
    let Some(scene) = Scene::new("what_is_not_a_test_ends_it") else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = scene.lab.server.v4;
    let _server = Server::start(Place::In(&scene.lab.server), folder.path(), host, "--web");
    let at = SocketAddr::from((host, PORT));
    let open = || {
        let stream = scene.lab.client.within(|| TcpStream::connect_timeout(&at, TIMEOUT)).unwrap().unwrap();
        let mut socket = websocket::open(stream, at, &format!("http://{at}")).unwrap();
        websocket::begin(&mut socket, 100).unwrap();
        socket
    };
    let report = |rows: &str| {
        Message::text(format!(r#"{{"rows":{rows},"resolution_ms":1,"hidden":false,"stopped":false}}"#))
    };
    let first = || Message::binary(websocket::request(0));
    let mut long = websocket::request(0);
    long.push(0);
    for (messages, why) in [
        (vec![first(), first()], "not one of this test"),
        (vec![Message::binary(long)], "not one of this test"),
        (vec![Message::binary(websocket::request(100))], "not one of this test"),
        (vec![report("[[5,0,0.1]]")], "never sent"),
        (vec![report("[[0,1e6,null]]")], "after the end"),
        (vec![Message::text("{")], "cannot be read"),
    ] {
        let mut socket = open();
        for message in messages {
            socket.send(message).unwrap();
        }
        let reason = std::iter::from_fn(|| socket.read().ok()).find_map(|message| match message {
            Message::Close(frame) => Some(frame.map(|frame| frame.reason.to_string()).unwrap_or_default()),
            _ => None,
        });
        let reason = reason.unwrap_or_default();
        assert!(reason.contains(why), "{why}: {reason}");
    }
    // A client has two tests at a time; a third one gets the reason, and a test that ends frees a slot.
    let held = [open(), open()];
    let refused = |socket: &mut tungstenite::WebSocket<TcpStream>| match socket.read() {
        Ok(Message::Close(Some(frame))) => frame.reason.to_string(),
        other => panic!("{other:?}"),
    };
    let stream = scene.lab.client.within(|| TcpStream::connect_timeout(&at, TIMEOUT)).unwrap().unwrap();
    let mut third = websocket::open(stream, at, &format!("http://{at}")).unwrap();
    third.send(Message::text(r#"{"packets":1,"period_ms":5,"bytes":80}"#)).unwrap();
    let reason = refused(&mut third);
    assert!(reason.contains("max-sessions-per-client is limited to 2"), "{reason}");
    drop(held);
    jitlat_waiting::until("a place for a test", TIMEOUT, || {
        let stream = scene.lab.client.within(|| TcpStream::connect_timeout(&at, TIMEOUT)).unwrap().unwrap();
        let mut next = websocket::open(stream, at, &format!("http://{at}")).unwrap();
        websocket::begin(&mut next, 1).is_ok()
    });
}
