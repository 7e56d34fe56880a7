//! Emulated paths between two network namespaces: the report contains what was done to the packets.

use crate::harness::*;
use crate::undisturbed::undisturbed;
use jitlat_impair::Scenario;
use jitlat_net::emulator::{self, Lab};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Creates a path with `scenario`, measures over it, and returns the report and the emulator's own report.
fn measure(lab: &Lab, path: Scenario, arguments: &str) -> (Report, emulator::EmulatorReport) {
    let folder = tempfile::tempdir().unwrap();
    let tun = lab.tun(path, BY_SEQUENCE).unwrap();
    let report = {
        let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
        run_client(lab, folder.path(), &lab.server.v4.to_string(), arguments)
    };
    (report, tun.stop())
}

fn run_client(lab: &Lab, folder: &std::path::Path, host: &str, arguments: &str) -> Report {
    let line = format!("{host} --json - {arguments}");
    Running::start(Place::In(&lab.client).jitlat(folder, &line)).finish(LIMIT).report()
}

#[test]
fn known_loss_runs_come_out_as_their_histogram_in_both_directions() {
    undisturbed(|| {
        let Some(lab) = lab("known_loss_runs_come_out_as_their_histogram_in_both_directions") else { return };
        let (report, _) = measure(&lab, scenario("loss_runs"), "-b -n 200 -p 10ms");
        let [up, down] = report.directions();
        assert_eq!(up.histogram("/loss/run_length_hist"), [(1, 10), (2, 5), (7, 2)]);
        assert_eq!(up.count("/counts/lost"), 34);
        assert_eq!(down.histogram("/loss/run_length_hist"), [(1, 3), (20, 1)]);
        assert_eq!(down.count("/counts/lost"), 23);
        for direction in [up, down] {
            assert_eq!((direction.count("/counts/duplicate"), direction.count("/counts/invalid")), (0, 0));
        }
    });
}

#[test]
fn random_bursts_are_reported_as_the_emulator_tells_them() {
    undisturbed(|| {
        let Some(lab) = lab("random_bursts_are_reported_as_the_emulator_tells_them") else { return };
        let path: Scenario =
            "seed = 4\n[both]\ndelay = 20ms\n[up]\nloss = gilbert p=2% r=30%".parse().unwrap();
        let (report, truth) = measure(&lab, path, "-n 1500 -p 2ms");
        let runs: Vec<(i64, u64)> = truth.up.loss_runs().into_iter().map(|(l, n)| (l as i64, n)).collect();
        assert!(runs.len() > 3, "{runs:?}");
        assert_eq!(report.histogram("/loss/run_length_hist"), runs);
        assert_eq!(report.count("/counts/lost"), truth.up.lost);
        assert_eq!(report.text("/loss/pattern"), "bursty");
        assert_eq!(report.count("/counts/unique_valid") + truth.up.lost, 1500);
        assert!(report.ms("/latency/min") >= 20.0);
    });
}

#[test]
fn known_duplicates_and_late_packets_come_out_exactly() {
    undisturbed(|| {
        let Some(lab) = lab("known_duplicates_and_late_packets_come_out_exactly") else { return };
        let (report, _) = measure(&lab, scenario("duplicates_reorder"), "-b -n 120 -p 100ms");
        let [up, down] = report.directions();
        assert_eq!(up.histogram("/duplicates/run_length_hist"), [(1, 2), (3, 1)]);
        assert_eq!(up.histogram("/duplicates/arrival_count_hist"), [(1, 115), (2, 5)]);
        assert_eq!((up.count("/counts/duplicate"), up.count("/counts/lost")), (5, 0));
        // Packets 30, 60 and 90 arrive after two later packets each.
        assert_eq!(up.count("/counts/out_of_sequence"), 3);
        assert_eq!(up.histogram("/reordering/extent_hist"), [(2, 3)]);
        assert_eq!(up.histogram("/reordering/rd_fd"), [(-1, 6), (0, 111), (2, 3)]);
        // Packet 15 arrives three times, packet 50 after three later packets.
        assert_eq!(down.histogram("/duplicates/arrival_count_hist"), [(1, 119), (3, 1)]);
        assert_eq!(down.histogram("/reordering/extent_hist"), [(3, 1)]);
    });
}

#[test]
fn a_bleached_code_point_is_seen_at_the_far_end() {
    undisturbed(|| {
        let Some(lab) = lab("a_bleached_code_point_is_seen_at_the_far_end") else { return };
        let path: Scenario = "[both]\ndelay = 2ms\n[up]\nremark = CS1".parse().unwrap();
        let (report, _) = measure(&lab, path, "-b -n 50 -p 5ms -D EF");
        let [up, down] = report.directions();
        assert_eq!((up.histogram("/far_end/dscp"), up.count("/header/dscp")), (vec![(8, 50)], 46));
        assert_eq!(down.histogram("/far_end/dscp"), [(46, 50)]);
    });
}

#[test]
fn ipv6_crosses_like_ipv4() {
    undisturbed(|| {
        let Some(lab) = lab("ipv6_crosses_like_ipv4") else { return };
        let folder = tempfile::tempdir().unwrap();
        let _tun = lab.tun(scenario("loss_runs"), BY_SEQUENCE).unwrap();
        let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v6, "");
        let report =
            run_client(&lab, folder.path(), &lab.server.v6.to_string(), "-b -6 -n 200 -p 5ms -l 100 -D AF41");
        let [up, down] = report.directions();
        assert_eq!(up.histogram("/loss/run_length_hist"), [(1, 10), (2, 5), (7, 2)]);
        assert_eq!(down.histogram("/loss/run_length_hist"), [(1, 3), (20, 1)]);
        assert_eq!(up.histogram("/far_end/dscp"), [(34, 166)]);
        assert_eq!(up.text("/header/dst_ip"), lab.server.v6.to_string());
        assert!(up.ms("/latency/min") >= 5.0);
    });
}

#[test]
fn an_outage_is_one_long_run() {
    undisturbed(|| {
        let Some(lab) = lab("an_outage_is_one_long_run") else { return };
        let (report, truth) = measure(&lab, scenario("outage"), "-n 200 -p 10ms");
        let lost = report.count("/counts/lost");
        assert_eq!(lost, truth.up.outage_drops);
        assert!((30..=50).contains(&lost), "{lost} of about 40 lost");
        assert_eq!(report.histogram("/loss/run_length_hist"), [(lost as i64, 1)]);
    });
}

/// Queues take time to fill, so these cases run in parallel.
#[test]
fn queues() {
    std::thread::scope(|s| {
        s.spawn(|| undisturbed(a_path_narrower_than_the_stream_is_called_overload));
        s.spawn(|| undisturbed(a_short_queue_drops_the_tail));
    });
}

/// 122 bytes every 10 ms on Ethernet are 97.6 kbit/s; the kernel's token bucket allows 64.
const BUCKET: &str = "root tbf rate 64kbit burst 1600 limit 100000";

fn a_path_narrower_than_the_stream_is_called_overload() {
    let Some(lab) = lab("a_path_narrower_than_the_stream_is_called_overload") else { return };
    let folder = tempfile::tempdir().unwrap();
    let switch = lab.switch().unwrap();
    switch.run(&format!("tc qdisc add dev server {BUCKET}")).unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let report = run_client(&lab, folder.path(), &lab.server.v4.to_string(), "-n 500 -p 10ms");
    assert_eq!(report.count("/counts/lost"), 0);
    assert_eq!(report.text("/trend/verdict"), "overload");
    // In 5 s the stream gets 5 s · (97.6/64 − 1) ≈ 2.6 s ahead of the link, minus the bucket's first fill.
    let max = report.ms("/latency/max");
    assert!((1500.0..3500.0).contains(&max), "{max} ms");
    assert!(report.number("/regression_send/m") > 0.3);
}

fn a_short_queue_drops_the_tail() {
    let Some(lab) = lab("a_short_queue_drops_the_tail") else { return };
    let (report, truth) = measure(&lab, scenario("bottleneck"), "-n 400 -p 10ms");
    assert!(truth.up.queue_drops > 50);
    assert_eq!(report.count("/counts/lost"), truth.up.queue_drops);
    // 8 kB at 32 kbit/s: the queue is at most two seconds long.
    let max = report.ms("/latency/max");
    assert!((1900.0..2200.0).contains(&max), "{max} ms");
}

/// TCP over the round trip of 3.2 s of the source document's example: at first the connection sends 10 segments per round
/// trip, and packets wait in the sender.
#[test]
fn slow_start_over_a_long_path_is_neither_a_queue_nor_a_stall() {
    let Some(lab) = lab("slow_start_over_a_long_path_is_neither_a_queue_nor_a_stall") else { return };
    let path: Scenario = "[both]\ndelay = 800ms".parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _tun = lab.tun(path, BY_SEQUENCE).unwrap();
    let host = lab.server.v4;
    let _server = Server::start(Place::In(&lab.server), folder.path(), host, "");
    let line = format!("{host} --json - -t -n 700 -p 20ms -o tcp.log");
    let client = Running::start(Place::In(&lab.client).jitlat(folder.path(), &line));
    let report = client.finish(Duration::from_secs(120)).report();
    let log = std::fs::read_to_string(folder.path().join("tcp.log")).unwrap();
    let states: Vec<&str> = log.lines().filter(|line| line.starts_with("# tcp_state")).take(8).collect();
    let said = format!("{:#}\n{:#}\n{states:#?}", report.at("/answer"), report.at("/pdv/percentiles"));
    let causes = report.at("/answer/causes").as_array().unwrap();
    assert!(causes.iter().any(|cause| cause["limited_by"] == "slow-start"), "{said}");
    assert!(causes.iter().all(|cause| !cause["limited_by"].is_null()), "{said}");
    assert!(report.text("/answer/headline").contains("TCP held packets back"), "{said}");
    let warnings = report.at("/warnings").as_array().unwrap();
    assert!(warnings.iter().any(|w| w["code"] == "tcp_limited"), "{warnings:?}\n{said}");
}
