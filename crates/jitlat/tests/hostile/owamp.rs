//! OWAMP under attack: many sessions of one address, and test packets with forged addresses.

use crate::forged::Scene;
use crate::harness::*;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn owamp_sessions_of_one_client_share_its_limit_and_record_nobody_else() {
    const TEST: &str = "owamp_sessions_of_one_client_share_its_limit_and_record_nobody_else";
    let Some(scene) = Scene::new(TEST) else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = scene.lab.server.v4;
    let arguments = "--max-reflect-rate 40 --owamp-test-ports 20000-20003";
    let _server = Server::start(Place::In(&scene.lab.server), folder.path(), host, arguments);
    let begun = Instant::now();
    let clients: Vec<_> = ["", "", "-R", "-R"]
        .iter()
        .map(|way| {
            let line =
                format!("{host} --proto owamp {way} --no-log --json - -n 100 -p 30ms --owamp-timeout 500ms");
            Running::start(Place::In(&scene.lab.client).jitlat(folder.path(), &line))
        })
        .collect();
    // Meanwhile valid packets from another address arrive at the ports of the sessions.
    let victim = scene.listen();
    let forger = scene.forger(30_000);
    let mut forged = (0u32..400).zip((20_000..20_004).cycle());
    jitlat_waiting::at_pace(Duration::from_millis(5), || {
        let Some((seq, port)) = forged.next() else { return false };
        let mut packet = [0; 80];
        packet[..4].copy_from_slice(&(seq / 4).to_be_bytes());
        packet[13] = 1;
        forger.send_to(&packet, (host, port)).unwrap();
        true
    });
    let reports: Vec<_> = clients.into_iter().map(|client| client.finish(LIMIT).any_report()).collect();
    let received: u64 = reports.iter().map(|report| report.count("/counts/received")).sum();
    let most = 8 + 40 * begun.elapsed().as_millis() as u64 / 1000;
    assert!((20..=most).contains(&received), "{received} of {most} packets");
    assert!(
        reports.iter().all(|report| report.count("/counts/duplicate") == 0),
        "what others sent is not recorded"
    );
    assert_eq!(victim.stop().packets, 0, "packets to another address than the client's");
}
