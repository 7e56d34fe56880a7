//! One attacker and one honest client at the same server.

use crate::forged::Scene;
use crate::harness::*;
use std::io::Write;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Requests of the honest client per second.
const RATE: u64 = 200;

/// Duration of each attack in seconds: `JITLAT_HOSTILE_SECONDS`, or 4.
pub fn seconds() -> u64 {
    std::env::var("JITLAT_HOSTILE_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(4)
}

/// Attacks with datagrams: `attack` is called about 2000 times per second, with the server's address and a socket
/// that is replaced now and then. Checks that `jitlat ping` with the arguments `ping` loses less than 0.1 %
/// meanwhile.
pub fn served(test: &str, arguments: &str, ping: &str, mut attack: impl FnMut(&UdpSocket, IpAddr) + Send) {
    let rounds = |scene: &Scene, over: &AtomicBool| {
        let host = scene.lab.server.v4;
        let bind = || UdpSocket::bind("10.9.0.1:0").unwrap();
        while !over.load(Ordering::Relaxed) {
            let socket = scene.lab.client.within(bind).unwrap();
            let mut left = 50;
            jitlat_waiting::at_pace(Duration::from_micros(500), || {
                attack(&socket, host);
                left -= 1;
                left > 0
            });
        }
    };
    served_beside(test, arguments, ping, rounds);
}

/// Like [`served`], with an attack that lasts until the flag is set.
pub fn served_beside(
    test: &str,
    arguments: &str,
    ping: &str,
    attack: impl FnOnce(&Scene, &AtomicBool) + Send,
) {
    let Some(scene) = Scene::new(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = scene.lab.server.v4;
    let _server = Server::start(Place::In(&scene.lab.server), folder.path(), host, arguments);
    let (over, before) = (AtomicBool::new(false), scene.attacked());
    let (report, took) = std::thread::scope(|scope| {
        scope.spawn(|| attack(&scene, &over));
        // The attack is in progress when the client begins.
        jitlat_waiting::until("the attack", TIMEOUT, || scene.attacked() > before + 100);
        // Limits that the attack exhausts are reached then: the test is about its steady state.
        jitlat_waiting::while_true("the attack goes on", Duration::from_millis(500), || true);
        let line = format!("ping {host} --json - -n {} -p 5ms --timeout 2s {ping}", seconds() * RATE);
        let begun = Instant::now();
        let ended = Running::start(Place::In(&scene.victim).jitlat(folder.path(), &line))
            .finish(Duration::from_secs(60 + seconds()));
        over.store(true, Ordering::Relaxed);
        (ended.report(), begun.elapsed())
    });
    let (sent, lost) = (report.count("/counts/sent"), report.count("/counts/lost"));
    let _ = writeln!(std::io::stderr(), "{test}: honest {sent} sent, {lost} lost in {took:.1?}");
    assert!(sent > 0 && lost * 1000 < sent, "{lost} of {sent} lost");
}
