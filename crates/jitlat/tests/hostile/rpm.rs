//! Responsiveness tests under attack: connections that say nothing, or nothing that makes sense.

use crate::forged::Scene;
use crate::harness::*;
use crate::honest::seconds;
use jitlat_proto::rpm::PORT;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn an_honest_client_is_measured_beside_connections_that_say_nothing() {
    const TEST: &str = "an_honest_client_is_measured_beside_connections_that_say_nothing";
    let Some(scene) = Scene::new(TEST) else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = scene.lab.server.v4;
    let _server = Server::start(Place::In(&scene.lab.server), folder.path(), host, "--rpm");
    let (over, opened) = (AtomicBool::new(false), AtomicU64::new(0));
    let attack = || {
        let mut held: Vec<TcpStream> = Vec::new();
        jitlat_waiting::at_pace(Duration::from_millis(5), || {
            let connect = || TcpStream::connect_timeout(&(host, PORT).into(), Duration::from_secs(1));
            if let Ok(mut stream) = scene.lab.client.within(connect).unwrap() {
                let said: &[u8] = match opened.fetch_add(1, Ordering::Relaxed) % 3 {
                    0 => b"",
                    1 => b"GET / HTTP/1.1\r\n\r\n",
                    _ => b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc",
                };
                // The server may have closed the connection.
                let _ = stream.write_all(said);
                held.push(stream);
            }
            if held.len() > 1200 {
                held.drain(..400);
            }
            !over.load(Ordering::Relaxed)
        });
    };
    let ended = std::thread::scope(|scope| {
        scope.spawn(attack);
        // More than the share of one client.
        jitlat_waiting::until("the attack", TIMEOUT, || opened.load(Ordering::Relaxed) > 600);
        let line =
            format!("rpm {host}:{PORT} --insecure --time-limit {}s --interval 500ms --json -", seconds());
        let ended = Running::start(Place::In(&scene.victim).jitlat(folder.path(), &line))
            .finish(Duration::from_secs(90 + 2 * seconds()));
        over.store(true, Ordering::Relaxed);
        ended
    });
    let report = ended.report();
    for stage in 0..2 {
        assert!(report.number(&format!("/stages/{stage}/rpm")) > 0.0);
        assert_eq!(report.count(&format!("/stages/{stage}/foreign_probes/failed")), 0);
    }
}
