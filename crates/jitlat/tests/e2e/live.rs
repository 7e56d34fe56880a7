//! Live passive measurement: interfaces of this host, digests from another, and a test that captures its own stream.

use crate::harness::*;
use jitlat_impair::Scenario;
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn keys(folder: &Path) {
    fs::write(folder.join("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::write(folder.join("other"), "fedcba9876543210fedcba9876543210\n").unwrap();
    for name in ["key", "other"] {
        fs::set_permissions(folder.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
}

#[test]
fn two_interfaces_of_one_host_give_round_trips_and_no_loss() {
    let Some(lab) = lab("two_interfaces_of_one_host_give_round_trips_and_no_loss") else { return };
    let folder = tempfile::tempdir().unwrap();
    let switch = lab.switch().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let listener = Running::start(
        Place::In(&switch).jitlat(folder.path(), "spp -i client -I server --only udp:2667 --json spp.json"),
    );
    wait_for_captures(&switch, 2);
    let line = format!("{} -b -n 300 -p 10ms --json -", lab.server.v4);
    Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report();
    listener.signal(Signal::SIGINT);
    let spp = listener.finish(LIMIT);
    assert_eq!(spp.code(), 0, "{}", spp.stderr);
    let report = Report(serde_json::from_slice(&fs::read(folder.path().join("spp.json")).unwrap()).unwrap());
    for way in ["out", "in"] {
        assert!(report.count(&format!("/summary/{way}/matched")) > 250, "{:#}", report.0);
        assert_eq!(report.count(&format!("/summary/{way}/lost")), 0);
    }
    assert_eq!(spp.stdout.lines().count() as u64, report.count("/summary/pairs"));
    assert!(report.number("/summary/rtt_ns/min") >= 0.0 && report.ms("/summary/rtt_ns/median") < 100.0);
    assert_eq!(report.count("/captures/reference/capture_drops"), 0);
}

#[test]
fn digests_of_another_host_tell_the_delay_and_every_loss() {
    let Some(lab) = lab("digests_of_another_host_tell_the_delay_and_every_loss") else { return };
    let folder = tempfile::tempdir().unwrap();
    keys(folder.path());
    let path: Scenario = "[both]\ndelay = 20ms\n[up]\nloss = at 300-302 350".parse().unwrap();
    let _tun = lab.tun(path, BY_SEQUENCE).unwrap();
    let mut server =
        Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "--capture path --key-file key");
    let spp = |arguments: &str| {
        let line = format!("spp -i path -R {} {arguments}", lab.server.v4);
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line))
    };
    let test = |arguments: &str| {
        let line = format!("{} --key-file key {arguments}", lab.server.v4);
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line))
    };
    spp("--key-file other --duration 5").finish(LIMIT).refused(&["the same file", "--key-file"]);
    spp("--duration 5").finish(LIMIT).refused(&["--key-file"]);
    // After a wrong key an address must wait.
    let after_a_pause = |arguments: &str| {
        jitlat_waiting::for_value("the end of the pause", LIMIT, || {
            Some(spp(arguments).finish(LIMIT)).filter(|finished| !finished.stderr.contains("try again in"))
        })
    };
    after_a_pause("--key-file key --remote-interface lo --duration 5").refused(&["'lo' is not offered"]);

    let listener = spp("--key-file key --only udp:2667 --per-flow --json spp.json");
    wait_for_captures(&lab.client, 1);
    wait_for_captures(&lab.server, 1);
    test("-b -n 450 -p 8ms").finish(LIMIT);
    listener.signal(Signal::SIGINT);
    let finished = listener.finish(LIMIT);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = Report(serde_json::from_slice(&fs::read(folder.path().join("spp.json")).unwrap()).unwrap());
    assert_eq!(report.count("/summary/out/lost"), 4, "{}", finished.stderr);
    assert_eq!(report.count("/summary/in/lost"), 0);
    assert!(report.count("/summary/out/matched") > 100 && report.count("/summary/in/matched") > 100);
    assert!(report.ms("/summary/rtt_ns/min") >= 39.9, "{}", finished.stderr);
    // The point at this host knows the flows of the packets.
    let flows = report.at("/flows").as_array().unwrap();
    let sum = |way: &str, key: &str| flows.iter().filter_map(|f| f[way][key].as_u64()).sum::<u64>();
    assert!(flows.iter().all(|f| f["flow"].as_str().unwrap().starts_with("udp 10.9.0.1:")), "{flows:#?}");
    assert_eq!((sum("out", "lost"), sum("in", "lost")), (4, 0), "{flows:#?}");
    assert_eq!(sum("in", "matched"), report.count("/summary/in/matched"));
    assert!(report.ms("/summary/rtt_ns/median") < 150.0, "{}", finished.stderr);

    // If the far host is killed, the measurement ends with the results so far.
    let listener = spp("--key-file key");
    wait_for_captures(&lab.client, 1);
    wait_for_captures(&lab.server, 1);
    let mut stream = test("-b -n 3000 -p 10ms");
    // The program prints a line per round trip.
    jitlat_waiting::until("round trips", TIMEOUT, || listener.lines() > 20);
    stream.runs_for(Duration::ZERO);
    server.kill();
    let finished = listener.finish(LIMIT);
    drop(stream);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    assert!(finished.stderr.contains("connection"), "{}", finished.stderr);
    assert!(finished.stdout.lines().count() > 20);
}

#[test]
fn captures_are_not_offered_to_everybody_by_accident() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("serve --bind {} --capture lo", own_address());
    let refused = Running::start(Place::Here.jitlat(folder.path(), &line)).finish(TIMEOUT);
    refused.refused(&["--key-file", "--capture-without-key"]);
}

#[test]
fn a_test_over_tcp_tells_its_retransmissions() {
    let Some(lab) = lab("a_test_over_tcp_tells_its_retransmissions") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path: Scenario = "seed = 3\n[both]\ndelay = 10ms\n[up]\nloss = 3%".parse().unwrap();
    let tun = lab.tun(path, jitlat_net::emulator::Numbering::Arrival).unwrap();
    let report = {
        let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
        let line = format!("{} -t -n 500 -p 4ms --json - --capture own.pcap", lab.server.v4);
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report()
    };
    let truth = tun.stop();
    let again = report.count("/capture/connections/0/up/retransmissions");
    assert!(truth.up.lost > 2, "{truth:?}");
    assert!(again > 0, "{:#}", report.at("/capture"));
    // Some of the lost packets belong to the control connection.
    let lost = report.count("/capture/connections/0/up/lost_after");
    assert!((1..=truth.up.lost).contains(&lost), "{lost} of {}", truth.up.lost);
    assert_eq!(report.count("/capture/capture_drops"), 0);
    assert_eq!(report.text("/capture/interface"), "path");
    // Lost packets were retransmitted, which delayed them and the packets after them; the 10 ms of the path delay no
    // packet.
    let explained = "/capture/delays/0/explained";
    assert_eq!(report.count(&format!("{explained}/packets")), 500);
    let causes = report.at(&format!("{explained}/causes")).as_array().unwrap();
    let of = |cause: &str, key: &str| {
        let found = causes.iter().find(|c| c["cause"] == cause).unwrap();
        found[key].as_f64().unwrap()
    };
    let whole: f64 = causes.iter().filter_map(|c| c["share"].as_f64()).sum();
    assert!((whole - 1.0).abs() < 1e-9, "{causes:?}");
    let (own, behind) = (of("fast", "share") + of("timeout", "share"), of("behind", "share"));
    assert!(own > 0.0 && behind > 0.0, "{causes:#?}");
    // A loss is detected a round trip later at the earliest; the path delayed no other packet for as long.
    assert!(of("fast", "longest_ns").max(of("timeout", "longest_ns")) > 20e6, "{causes:#?}");
    let saved =
        Running::start(Place::Here.jitlat(folder.path(), "tcp own.pcap --json -")).finish(TIMEOUT).report();
    assert_eq!(saved.count("/segments"), report.count("/capture/tcp_segments"));
}
