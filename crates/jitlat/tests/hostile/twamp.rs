//! TWAMP under attack: many sessions of one address, and test packets with forged addresses.

use crate::forged::Scene;
use crate::harness::*;
use jitlat_core::WallTime;
use jitlat_proto::stamp::StampSender;
use jitlat_proto::twoway::Protocol;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn sessions_of_one_client_share_its_limit_and_answer_nobody_else() {
    const TEST: &str = "sessions_of_one_client_share_its_limit_and_answer_nobody_else";
    let Some(scene) = Scene::new(TEST) else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = scene.lab.server.v4;
    let arguments = "--max-reflect-rate 10 --twamp-test-ports 20000-20003";
    let _server = Server::start(Place::In(&scene.lab.server), folder.path(), host, arguments);
    let line = format!("ping {host} --proto twamp --json - -n 100 -p 20ms --timeout 500ms");
    let begun = Instant::now();
    let clients: Vec<_> =
        (0..4).map(|_| Running::start(Place::In(&scene.lab.client).jitlat(folder.path(), &line))).collect();
    // Meanwhile packets from another address arrive at the ports of the sessions.
    let victim = scene.listen();
    let forger = scene.forger(30_000);
    let mut request = Vec::new();
    StampSender::new(Default::default()).request(0, false, WallTime(1 << 60), &mut request);
    let mut ports = (20_000..20_004).cycle().take(400);
    jitlat_waiting::at_pace(Duration::from_millis(5), || {
        let Some(port) = ports.next() else { return false };
        forger.send_to(&request, (host, port)).unwrap();
        true
    });
    let received: u64 =
        clients.into_iter().map(|client| client.finish(LIMIT).any_report().count("/counts/received")).sum();
    let most = 2 + 10 * begun.elapsed().as_millis() as u64 / 1000;
    assert!((5..=most).contains(&received), "{received} of {most} answers");
    assert_eq!(victim.stop().packets, 0, "packets from another address than the session's");
}
