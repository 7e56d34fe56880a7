//! `jitlat rpm` against `jitlat serve --rpm`, through a bottleneck with a queue.

use crate::harness::*;

/// Bottlenecks of the kernel: 20 Mbit/s down and 10 Mbit/s up, each with a queue of 50 ms.
const DOWN: &str = "root tbf rate 20mbit burst 8kb limit 125000";
const UP: &str = "root tbf rate 10mbit burst 8kb limit 62500";

#[test]
fn responsiveness_is_measured_through_a_queue() {
    let Some(lab) = lab("responsiveness_is_measured_through_a_queue") else { return };
    lab.cable().unwrap();
    lab.server.run(&format!("tc qdisc add dev path {DOWN}")).unwrap();
    lab.client.run(&format!("tc qdisc add dev path {UP}")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let host = lab.server.v4;
    let _server = Server::start(Place::In(&lab.server), folder.path(), host, "--rpm");
    let run = |arguments: &str| {
        let line = format!("rpm {host}:4043 --interval 300ms --time-limit 5s {arguments}");
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(TIMEOUT)
    };
    let report = run("--insecure --json -").report();
    assert_eq!(report.text("/format"), "jitlat rpm 1");
    for (stage, (load, mbit)) in [("down", 20.0), ("up", 10.0)].into_iter().enumerate() {
        let figure = |name: &str| report.number(&format!("/stages/{stage}/{name}"));
        assert_eq!(report.text(&format!("/stages/{stage}/load")), load);
        let goodput = figure("goodput/0/average_bps") / 1e6;
        assert!((0.3 * mbit..1.3 * mbit).contains(&goodput), "{load}: {goodput} Mbit/s");
        // At most as responsive as without a queue, at least as with two full ones and a busy machine.
        let rpm = figure("rpm");
        assert!((20.0..60_000.0).contains(&rpm), "{load}: {rpm} RPM");
        assert!(figure("times/self/trimmed_mean_ns") > 0.0 && figure("times/tls/n") >= 1.0, "{load}");
    }
    assert!(report.at("/streams").as_array().unwrap().len() >= 4);
    let refused = run("");
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr.contains("--ca FILE"), "{}", refused.stderr);
}
