//! A public server and strangers: what it refuses, and that neighbours share limits.

use crate::forged::Scene;
use crate::harness::*;
use jitlat_net::emulator::lab::DEVICE;
use nix::sys::signal::Signal;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const PUBLIC: &str = "serve --public --contact noc@example.net";

#[test]
fn strangers_get_small_tests_and_are_told_whom_to_ask_for_more() {
    let Some(scene) = Scene::new("strangers_get_small_tests_and_are_told_whom_to_ask_for_more") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // Public addresses, as far as this test is concerned.
    scene.lab.server.run(&format!("ip address add 192.0.2.2/24 dev {DEVICE}")).unwrap();
    scene.lab.client.run(&format!("ip address add 192.0.2.66/24 dev {DEVICE}")).unwrap();
    scene.victim.run("ip address add 192.0.2.3/24 dev bridge").unwrap();
    let run = |place, line: &str| Running::start(Place::In(place).jitlat(folder.path(), line));
    let server = run(&scene.lab.server, PUBLIC);
    server.wait_for("answering IRTT");
    let (attacker, honest) = (&scene.lab.client, &scene.victim);
    let ask = |place, line: &str| run(place, line).finish(LIMIT);
    // The offered services work.
    for line in [
        "192.0.2.2 -n 50 -p 10ms --json -",
        "ping 192.0.2.2 --proto stamp -n 50 -p 10ms --json -",
        "ping 192.0.2.2 --proto irtt -n 50 -p 10ms --json -",
    ] {
        let ended = ask(honest, line);
        assert_eq!(ended.code(), 0, "{line}: {}", ended.stderr);
    }
    // More is refused, with the contact; so are private addresses.
    let fast = ask(honest, "192.0.2.2 -n 5000 -p 1ms");
    fast.refused(&["max-rate is limited to 250 packets/s", "contact: noc@example.net"]);
    let long = ask(honest, "192.0.2.2 --duration 2m -p 20ms");
    long.refused(&["max-duration", "contact: noc@example.net"]);
    let private = ask(honest, "10.9.0.2 -n 10 -p 10ms");
    private.refused(&["does not serve this address", "contact: noc@example.net"]);
    // IRTT's server grants an interval that it can answer; STAMP's counts the requests that it does not answer, so that they are not
    // taken for loss on the path.
    let irtt = ask(honest, "ping 192.0.2.2 --proto irtt -n 50 -p 1ms");
    irtt.refused(&["the server restricts the test", "interval 0.004 s instead of 0.001 s"]);
    let stamp = ask(honest, "ping 192.0.2.2 --proto stamp --direct-measurement -n 1500 -p 1ms -v --no-log");
    assert!(
        stamp.stdout.contains("requests arrived at the far host and were not answered"),
        "{}{}",
        stamp.stdout,
        stamp.stderr
    );
    // Two neighbours with two tests are the two tests of one client.
    let slow = "192.0.2.2 -n 600 -p 50ms --no-log";
    let running = [run(attacker, slow), run(attacker, slow)];
    server.wait_for("192.0.2.66");
    let told = jitlat_waiting::for_value("a refusal", LIMIT, || {
        let ended = ask(honest, "192.0.2.2 -n 10 -p 10ms --no-log");
        (ended.code() != 0).then_some(ended)
    });
    told.refused(&["max-sessions-per-client is limited to 2"]);
    for running in running {
        running.signal(Signal::SIGTERM);
        running.finish(LIMIT);
    }
    server.signal(Signal::SIGTERM);
    let ended = server.finish(LIMIT);
    assert_eq!(ended.code(), 0);
    assert!(ended.stdout.contains("contact: noc@example.net"), "{}", ended.stdout);
}

#[test]
fn a_public_server_refuses_what_strangers_could_misuse() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |options: &str, why: &[&str]| {
        let line = format!("{PUBLIC} --bind {} {options}", own_address());
        Running::start(Place::Here.jitlat(folder.path(), &line)).finish(LIMIT).refused(why);
    };
    for option in [
        "--no-sandbox",
        "--rpm",
        "--web",
        "--capture lo",
        "--late-packets x",
        "--max-rate 1M",
        "--keep 1h",
        "--open tcp",
        "--lamp-port 5",
        "--capture-port 5",
        "--max-digest-rate 5",
        "--user root",
    ] {
        refused(option, &["--public", option.split(' ').next().unwrap()]);
    }
    for service in ["tcp", "twamp", "owamp", "lamp"] {
        refused(&format!("--only {service}"), &["--public", service]);
    }
    // A mark that reverses the text after it.
    let line = format!("serve --public --bind {} --contact a\u{202e}b@example.net", own_address());
    Running::start(Place::Here.jitlat(folder.path(), &line)).finish(LIMIT).refused(&["--contact"]);
    refused("--stamp-trust 0.0.0.0/0", &["--public", "--stamp-trust"]);
    let line = format!("serve --public --bind {}", own_address());
    Running::start(Place::Here.jitlat(folder.path(), &line)).finish(LIMIT).refused(&["--contact"]);
}
