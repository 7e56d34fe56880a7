//! Latency under load through a token bucket of the kernel, checked against captures before and behind it.

use crate::harness::*;
use crate::undisturbed::undisturbed;
use jitlat_net::capture::Capture;
use jitlat_net::emulator::lab::{Lab, Namespace};
use nix::sys::signal::Signal;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);
/// 8 Mbit/s with a queue of 60 ms.
const BUCKET: &str = "root tbf rate 8mbit burst 3200 limit 60000";
/// Share by which a mean may differ: the captures also contain packets that were set aside.
const SHARE: f64 = 0.02;
/// Delay that a stalled machine may add to a mean, in ms.
const MARGIN: f64 = 3.0;

/// A switch whose ports to the server and to the client are narrow.
fn narrow(lab: &Lab) -> Namespace {
    let switch = lab.switch().unwrap();
    for port in ["server", "client"] {
        switch.run(&format!("tc qdisc add dev {port} {BUCKET}")).unwrap();
    }
    switch
}

fn run(lab: &Lab, folder: &Path, line: &str) -> Finished {
    let line = line.replace("HOST", &lab.server.v4.to_string());
    Running::start(Place::In(&lab.client).jitlat(folder, &line)).finish(LIMIT)
}

/// Mean delays in ms between two captures, of the idle and of the loaded phase. A phase begins when the numbers begin again.
fn captured(left: &Path, arrived: &Path) -> [f64; 2] {
    let packets = |file: &Path| {
        let mut capture = Capture::open(&[file.to_owned()]).unwrap();
        let (mut found, mut phase, mut last) = (std::collections::BTreeMap::new(), 0, -1);
        while let Some(frame) = capture.next_frame() {
            // Ethernet, IPv4, UDP; then time and number.
            let Some(payload) = frame.data.get(50..54) else { continue };
            let seq = i32::from_be_bytes(payload.try_into().unwrap());
            if seq < 0 {
                continue;
            }
            if seq + 100 < last {
                (phase, last) = (phase + 1, -1);
            }
            last = last.max(seq);
            found.entry((phase, seq)).or_insert(frame.at.0);
        }
        found
    };
    let (left, arrived) = (packets(left), packets(arrived));
    [0, 1].map(|phase| {
        let of = left.range((phase, 0)..(phase + 1, 0));
        let delays: Vec<f64> =
            of.filter_map(|(key, at)| Some((arrived.get(key)? - at) as f64 / 1e6)).collect();
        assert!(delays.len() > 200, "phase {phase}: {} packets", delays.len());
        delays.iter().sum::<f64>() / delays.len() as f64
    })
}

/// Times of the STAMP packets in a capture, by phase, sequence number, and true for a reply.
type Stamped = std::collections::BTreeMap<(usize, u32, bool), i64>;

/// Reads the STAMP packets in a capture. A phase begins when the sequence numbers of the requests start again.
fn stamped(file: &Path) -> Stamped {
    let number =
        |frame: &[u8], at: usize| Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().unwrap()));
    let port = |frame: &[u8], at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().unwrap()));
    let mut capture = Capture::open(&[file.to_owned()]).unwrap();
    let (mut found, mut phase, mut last) = (Stamped::new(), 0, 0);
    while let Some(frame) = capture.next_frame() {
        // Ethernet, IPv4, UDP: ports from 34 on, payload from 42 on; a reply has the number of its request at 24.
        let is_reply = port(frame.data, 34) == Some(862);
        let Some(seq) = number(frame.data, if is_reply { 42 + 24 } else { 42 }) else { continue };
        if !is_reply && seq + 100 < last {
            (phase, last) = (phase + 1, 0);
        }
        last = last.max(seq);
        // Replies of the idle phase have arrived before the load begins.
        found.entry((phase, seq, is_reply)).or_insert(frame.at.0);
    }
    found
}

/// Returns the mean round trip on the path of the idle and of the loaded phase, in ms: that at the client, less the
/// time in the server.
fn captured_round_trips(client: &Path, server: &Path) -> [f64; 2] {
    let [client, server] = [client, server].map(stamped);
    [0, 1].map(|phase| {
        let took = |at: &Stamped, seq| Some(at.get(&(phase, seq, true))? - at.get(&(phase, seq, false))?);
        let round_trips: Vec<f64> = (0..1000)
            .filter_map(|seq| Some((took(&client, seq)? - took(&server, seq)?) as f64 / 1e6))
            .collect();
        assert!(round_trips.len() > 200, "phase {phase}: {} packets", round_trips.len());
        round_trips.iter().sum::<f64>() / round_trips.len() as f64
    })
}

#[track_caller]
fn agrees(report: &Report, captured: f64) {
    let added = report.ms("/added_delay/mean_ns");
    let off = (added - captured).abs();
    assert!(off <= captured * SHARE + MARGIN, "{added} ms, the captures say {captured} ms");
}

#[test]
fn added_delay_is_that_of_the_captures() {
    let Some(lab) = lab("added_delay_is_that_of_the_captures") else { return };
    if !has_tcpdump("added_delay_is_that_of_the_captures") {
        return;
    }
    let _switch = narrow(&lab);
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    undisturbed(|| {
        let folder = tempfile::tempdir().unwrap();
        let files = ["left.pcap", "arrived.pcap"].map(|name| folder.path().join(name));
        let captures = [
            capture(&lab.client, "path", &files[0], "udp and dst port 2667"),
            capture(&lab.server, "path", &files[1], "udp and dst port 2667"),
        ];
        let finished =
            run(&lab, folder.path(), "HOST -n 300 -p 10ms --load tcp --json - -o test --plots plots");
        let report = finished.report();
        end_captures(captures, [&files[0], &files[1]]);
        let [idle, loaded] = captured(&files[0], &files[1]);
        assert!(loaded - idle > 15.0, "the queue is there: {idle} and {loaded} ms");
        agrees(&report, loaded - idle);
        // The delays under load have the clock offset of the idle phase: estimates under load would be known to 30 ms.
        let bound = report.ms("/loaded/clock/bound_ns");
        assert!(bound < 10.0, "{bound}");
        // Four connections fill the path; the payload of full packets is 96 % of them.
        let received: f64 =
            [0, 1, 2, 3].iter().map(|k| report.number(&format!("/load/{k}/received_bps"))).sum();
        assert!((6e6..8e6).contains(&received), "{received}");
        assert_eq!(report.text("/load_state"), "filled");
        assert_eq!(report.at("/load").as_array().unwrap().len(), 4);
        let grades = [0, 1].map(|end| report.text(&format!("/grade/between/{end}")));
        assert!(grades.contains(&report.text("/grade/grade")), "{grades:?}");
        assert!(report.text("/grade/source").contains("DSLReports"));
        // Throughput over time, in the JSON, in the log and in a figure.
        let bps = report.at("/throughput/0/bps").as_array().unwrap();
        let full = bps.iter().filter(|bps| (5e6..12e6).contains(&bps.as_f64().unwrap())).count();
        assert!(bps.len() > 20 && full > bps.len() / 2, "{bps:?}");
        let drawn = |name: &str| std::fs::read_to_string(folder.path().join("plots").join(name)).unwrap();
        let figure = drawn("under-load-up.svg");
        assert!(figure.contains(">idle<") && figure.contains(">load up<"), "both phases are bands");
        assert!(drawn("card.svg").contains(">bufferbloat"), "the card has the grade");
        let again = Running::start(Place::Here.jitlat(folder.path(), "analyze test.loaded --json -"));
        let again = again.finish(TIMEOUT).report();
        assert_eq!(again.at("/session/load/streams"), report.at("/load"));
        assert_eq!(again.at("/session/load/throughput"), report.at("/throughput"));
        assert_eq!((again.text("/session/load/phase"), again.text("/session/tags/load")), ("loaded", "tcp"));
    });
}

/// Checks the added round trips, which contain the queues of both directions, against captures at both ends.
#[test]
fn added_round_trips_are_those_of_the_captures() {
    let Some(lab) = lab("added_round_trips_are_those_of_the_captures") else { return };
    if !has_tcpdump("added_round_trips_are_those_of_the_captures") {
        return;
    }
    let _switch = narrow(&lab);
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    undisturbed(|| {
        let folder = tempfile::tempdir().unwrap();
        let files = ["client.pcap", "server.pcap"].map(|name| folder.path().join(name));
        let captures = [
            capture(&lab.client, "path", &files[0], "udp and port 862"),
            capture(&lab.server, "path", &files[1], "udp and port 862"),
        ];
        let line = "ping HOST --proto stamp -n 300 -p 10ms --load tcp,both --json - --no-log";
        let report = run(&lab, folder.path(), line).report();
        end_captures(captures, [&files[0], &files[1]]);
        let [idle, loaded] = captured_round_trips(&files[0], &files[1]);
        assert!(loaded - idle > 25.0, "the queues are there: {idle} and {loaded} ms");
        agrees(&report, loaded - idle);
        assert_eq!(report.number("/added_delay/clock_error_ns"), 0.0);
    });
}

#[test]
fn a_command_fails_on_the_grade_and_on_the_added_delay_of_a_direction() {
    let Some(lab) = lab("a_command_fails_on_the_grade_and_on_the_added_delay_of_a_direction") else { return };
    let _switch = narrow(&lab);
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    // The queue of the upload is full, and that of the download empty.
    let line = "HOST -b -n 200 -p 10ms --load tcp,up -q -o test";
    let status = |conditions: &str| {
        let line =
            format!("analyze test.idle.up test.loaded.up test.idle.down test.loaded.down -q {conditions}");
        let finished = Running::start(Place::Here.jitlat(folder.path(), &line)).finish(TIMEOUT);
        (finished.code(), finished.stderr)
    };
    let test =
        run(&lab, folder.path(), &format!("{line} --fail-if load.grade>A+ --fail-if load.added-mean>5ms"));
    assert_eq!(test.code(), 1);
    for violation in ["load.grade>A+ (up-load.grade is ", "load.added-mean>5ms (up-load.added-mean is "] {
        assert!(test.stderr.contains(violation), "{}", test.stderr);
    }
    assert_eq!(status("--fail-if load.grade>D --fail-if up-load.added-p99>5s").0, 0);
    let (code, why) = status("--fail-if down-load.grade>D");
    assert!(
        code == 2 && why.contains("cannot be decided: the load was in the other direction"),
        "{code}: {why}"
    );
    let (code, why) = status("--fail-if up-load.added-p99>5ms --fail-if down-load.grade>D");
    assert!(code == 1 && why.contains("up-load.added-p99 is "), "{code}: {why}");
    // Without a load nothing is measured.
    let no_load = run(&lab, folder.path(), "HOST -n 5 --no-log --fail-if load.grade>B");
    no_load.refused(&["--fail-if load.grade>B", "this test has no load"]);
}

#[test]
fn both_directions_are_measured_under_a_load_in_both() {
    let Some(lab) = lab("both_directions_are_measured_under_a_load_in_both") else { return };
    let _switch = narrow(&lab);
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let report = run(&lab, folder.path(), "HOST -b -n 200 -p 10ms --load tcp --json - -o test").report();
    for (report, direction) in report.directions().iter().zip(["up", "down"]) {
        assert_eq!(report.text("/loaded/session/direction"), direction);
        assert_eq!(report.text("/load_state"), "filled", "{direction}");
        // The queue holds 60 ms.
        let added = report.ms("/added_delay/mean_ns");
        assert!((10.0..70.0).contains(&added), "{direction}: {added}");
        assert!(["A", "B", "C"].contains(&report.text("/grade/grade")), "{direction}");
    }
    for log in ["test.idle.up", "test.idle.down", "test.loaded.up", "test.loaded.down"] {
        assert!(folder.path().join(log).exists(), "{log}");
    }
    // A load in one direction says nothing about the other one.
    let report =
        run(&lab, folder.path(), "HOST -b -n 100 -p 10ms --load tcp,down --json - --no-log").report();
    let [up, down] = report.directions();
    assert_eq!((up.text("/load_state"), down.text("/load_state")), ("other_direction", "filled"));
    assert!(up.at("/grade").is_null() && !down.at("/grade").is_null());
    // A round trip passes both queues.
    let line = "ping HOST --proto stamp -n 200 -p 10ms --load tcp,both --json - --no-log";
    let report = run(&lab, folder.path(), line).report();
    let added = report.ms("/added_delay/mean_ns");
    assert!((20.0..140.0).contains(&added) && report.number("/added_delay/clock_error_ns") == 0.0, "{added}");
    assert_eq!(report.at("/load").as_array().unwrap().len(), 8);
}

/// A firewall drops the data of the load, but not its small packets.
#[test]
fn a_load_that_did_not_load_is_named_and_gives_no_grade() {
    let Some(lab) = lab("a_load_that_did_not_load_is_named_and_gives_no_grade") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    lab.server.run("nft add table inet own").unwrap();
    lab.server.run("nft add chain inet own in { type filter hook input priority 0; }").unwrap();
    lab.server.run("nft add rule inet own in tcp dport 2667 meta length > 200 drop").unwrap();
    let report = run(&lab, folder.path(), "HOST -n 100 -p 10ms --load tcp --json out.json --no-log");
    let screen = &report.stdout;
    assert!(screen.starts_with("Under load: unknown, because nothing of the load arrived."), "{screen}");
    assert!(
        screen.contains("nothing arrived") && !screen.contains("grade") && !screen.contains("0.00 bps"),
        "{screen}"
    );
    let json = std::fs::read_to_string(folder.path().join("out.json")).unwrap();
    let report = Report(serde_json::from_str(&json).unwrap());
    assert_eq!(report.text("/load_state"), "nothing");
    assert!(report.at("/grade").is_null() && report.text("/no_grade").contains("nothing of the load"));
    assert!(report.at("/added_delay").is_null());
    // A load that arrives entirely has not filled the path.
    let report = run(&lab, folder.path(), "HOST -n 100 -p 10ms --load udp:100/s --json - --no-log").report();
    assert_eq!(report.text("/load_state"), "not_filled");
    assert!(report.at("/grade").is_null() && report.at("/added_delay").is_object());
}

/// iperf3's own server; skipped where it is not installed, unless `JITLAT_REQUIRE_PEERS` is set.
#[test]
fn iperf3s_server_takes_the_load() {
    if Command::new("iperf3").arg("--version").output().is_err() {
        assert!(std::env::var_os("JITLAT_REQUIRE_PEERS").is_none(), "iperf3 is not installed");
        println!("skipped: iperf3 is not installed");
        return;
    }
    let Some(lab) = lab("iperf3s_server_takes_the_load") else { return };
    let _switch = narrow(&lab);
    let folder = tempfile::tempdir().unwrap();
    let mut iperf3 = lab.server.command("iperf3");
    iperf3.args(["--server", "--forceflush"]);
    let iperf3 = Running::start(iperf3);
    iperf3.wait_for("listening");
    for (load, streams, added) in [
        ("tcp", 4, 10.0..80.0),
        ("tcp,down,streams=2", 2, 10.0..80.0),
        ("tcp,both,streams=2", 4, 20.0..150.0),
    ] {
        let line = format!(
            "ping HOST --proto icmp -n 200 -p 10ms --load {load} --load-proto iperf3 --json - --no-log"
        );
        let report = run(&lab, folder.path(), &line).report();
        assert_eq!(report.text("/load_state"), "filled", "{load}");
        assert_eq!(report.at("/load").as_array().unwrap().len(), streams, "{load}");
        assert!(
            added.contains(&report.ms("/added_delay/mean_ns")),
            "{load}: {:#}",
            report.at("/added_delay")
        );
        for throughput in report.at("/throughput").as_array().unwrap() {
            let bps = throughput["bps"].as_array().unwrap();
            let mean = bps.iter().filter_map(serde_json::Value::as_f64).sum::<f64>() / bps.len() as f64;
            assert!((4e6..8.5e6).contains(&mean), "{load}: {mean}");
        }
    }
    // At a rate, and refused where iperf3 has nothing alike.
    let line = "ping HOST --proto icmp -n 100 -p 10ms --load tcp:1Mbit --load-proto iperf3 --json - --no-log";
    let report = run(&lab, folder.path(), line).report();
    let received: f64 = (0..4).map(|k| report.number(&format!("/load/{k}/received_bps"))).sum();
    assert!((0.8e6..1.2e6).contains(&received), "{received}");
    run(&lab, folder.path(), "ping HOST --load udp:1Mbit --load-proto iperf3 -n 5 --no-log")
        .refused(&["tcp"]);
    iperf3.signal(Signal::SIGTERM);
    let output = iperf3.finish(TIMEOUT);
    assert!(!output.stderr.contains("error"), "{output:?}");
}
