//! Measurements over loopback; no privileges needed.

use crate::harness::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(40);

/// A server's address and a client's, both used only by this test.
struct Pair {
    folder: TempDir,
    host: Ipv4Addr,
    client: Ipv4Addr,
    server: Server,
}

impl Pair {
    fn new(arguments: &str) -> Pair {
        let (folder, host, client) = (tempfile::tempdir().unwrap(), own_address(), own_address());
        let server = Server::start(Place::Here, folder.path(), host, arguments);
        Pair { folder, host, client, server }
    }

    fn start(&self, arguments: &str) -> Running {
        let line = format!("{} --bind {} {arguments}", self.host, self.client);
        Running::start(Place::Here.jitlat(self.folder.path(), &line))
    }

    fn run(&self, arguments: &str) -> Finished {
        self.start(arguments).finish(LIMIT)
    }

    fn measure(&self, arguments: &str) -> Report {
        self.run(&format!("--json - {arguments}")).report()
    }
}

fn check_clean(report: &Report, packets: u64) {
    let counts = ["sent", "received", "unique_valid"].map(|k| report.count(&format!("/counts/{k}")));
    assert_eq!(counts, [packets; 3], "{:#}", report.0["counts"]);
    let figures = ["min", "max"].map(|k| report.ms(&format!("/latency/{k}")));
    assert!(figures[0] > 0.0 && figures[1] < 5000.0, "{figures:?} ms");
    assert_eq!(report.text("/session/ending"), "complete");
}

#[test]
fn a_servers_own_test_port_needs_no_word_to_the_client() {
    let pair = Pair::new("--test-port 4711");
    for transport in ["", "-t"] {
        let up = pair.measure(&format!("-n 50 -p 2ms {transport}"));
        check_clean(&up, 50);
        assert_eq!(up.count("/header/dst_port"), 4711);
        check_clean(&pair.measure(&format!("-n 50 -p 2ms -R {transport}")), 50);
        let [up, down] = pair.measure(&format!("-n 50 -p 2ms -b {transport}")).directions();
        [&up, &down].iter().for_each(|report| check_clean(report, 50));
        assert_eq!([up.count("/header/dst_port"), down.count("/header/src_port")], [4711; 2]);
    }
    // The log also contains the port, and another requested port is used.
    let named = pair.measure("-n 50 -p 2ms -d 4712 -o named");
    assert_eq!(named.count("/header/dst_port"), 4712);
    pair.run("-n 50 -p 2ms -o open").code();
    let log = std::fs::read_to_string(pair.folder.path().join("open")).unwrap();
    assert!(log.contains("4711"), "{}", &log[..log.len().min(500)]);
}

#[test]
fn server_and_client_at_one_port_of_one_host_do_not_hear_themselves() {
    let (folder, host) = (tempfile::tempdir().unwrap(), own_address());
    let _server = Server::start(Place::Here, folder.path(), host, "--test-port 4713");
    for ports in ["-R -d 4713", "-R", "-R -t -d 4713", "-b"] {
        let line = format!("{host} --bind {host} --no-log --json - -n 50 -p 2ms {ports}");
        let run = Running::start(Place::Here.jitlat(folder.path(), &line)).finish(LIMIT);
        match ports {
            "-b" => run.report().directions().iter().for_each(|report| check_clean(report, 50)),
            _ => check_clean(&run.report(), 50),
        }
    }
    // Both ports are the same: only one socket can have it.
    for ports in ["-R -s 4713 -d 4713", "-R -t -s 4713 -d 4713"] {
        let line = format!("{host} --bind {host} --no-log --json - -n 50 -p 2ms {ports}");
        let run = Running::start(Place::Here.jitlat(folder.path(), &line)).finish(LIMIT);
        assert!(!format!("{run:?}").contains("unexpected message"), "{run:?}");
    }
}

#[test]
fn udp_in_all_directions() {
    let pair = Pair::new("");
    check_clean(&pair.measure("-n 200 -p 2ms"), 200);
    let down = pair.measure("-n 200 -p 2ms -R");
    check_clean(&down, 200);
    assert_eq!(down.text("/session/direction"), "down");
    let [up, down] = pair.measure("-n 200 -p 2ms -b -D EF").directions();
    for report in [up, down] {
        check_clean(&report, 200);
        assert_eq!(report.histogram("/far_end/dscp"), [(46, 200)]);
    }
}

#[test]
fn tcp_in_all_directions() {
    let pair = Pair::new("");
    check_clean(&pair.measure("-t -n 200 -p 2ms -l 333"), 200);
    check_clean(&pair.measure("-t -n 200 -p 2ms -R"), 200);
    for report in pair.measure("-t -n 200 -p 2ms -b").directions() {
        check_clean(&report, 200);
    }
}

#[test]
fn the_classic_dialect_in_both_directions() {
    // Each test makes its five probes first, a second apart.
    std::thread::scope(|s| {
        for options in ["", "-R", "-t", "-t -R"] {
            s.spawn(move || {
                check_clean(&Pair::new("").measure(&format!("--classic -n 100 -p 2ms {options}")), 100);
            });
        }
    });
}

#[test]
fn schedules_and_extreme_payloads() {
    let pair = Pair::new("");
    check_clean(&pair.measure("-n 100 -p 2ms -l 12"), 100);
    check_clean(&pair.measure("-n 50 -p 5ms -l 65507"), 50);
    check_clean(&pair.measure("-n 200 -p 1ms --schedule poisson --seed 3"), 200);
    let burst = pair.measure("-n 100 -p 1ms --schedule burst --burst 10");
    check_clean(&burst, 100);
    check_clean(&pair.measure("--duration 300ms -r 200"), 60);
}

#[test]
fn ipv6_by_address_and_by_family() {
    // There is only one IPv6 loopback address, so the test uses ports of its own.
    let free = |_| TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let [control, data] = [(); 2].map(free);
    let folder = tempfile::tempdir().unwrap();
    let _server =
        Server::start(Place::Here, folder.path(), Ipv6Addr::LOCALHOST, &format!("--control-port {control}"));
    for options in ["", "-R", "-t"] {
        let line = format!("::1 -6 --control-port {control} -d {data} -n 50 -p 2ms --json - {options}");
        let report = Running::start(Place::Here.jitlat(folder.path(), &line)).finish(LIMIT).report();
        check_clean(&report, 50);
        assert_eq!(report.text("/header/dst_ip").parse::<IpAddr>().unwrap(), Ipv6Addr::LOCALHOST);
    }
}

#[test]
fn the_log_gives_the_same_report_again() {
    let pair = Pair::new("");
    let live = pair.measure("-n 300 -p 1ms -o here.log --name test --tag a=b");
    let log = pair.folder.path().join("here.log");
    let again =
        |line: &str| Running::start(Place::Here.jitlat(pair.folder.path(), line)).finish(LIMIT).report();
    for line in ["-f here.log --json -", "analyze here.log --json -"] {
        let report = again(line);
        for key in
            ["counts", "latency", "pdv", "ipdv", "loss", "periods", "clock", "stamps", "schedule_error"]
        {
            assert_eq!(report.0[key], live.0[key], "{key} of {line}");
        }
        assert_eq!(report.text("/session/name"), "test");
    }
    // A log is never overwritten.
    let refused = pair.run("-n 10 -p 1ms -o here.log");
    refused.refused(&["here.log", "not overwritten"]);
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().filter(|l| !l.starts_with('#')).count(), 300);
}

#[test]
fn kernel_stamps_cover_the_stream() {
    let report = Pair::new("").measure("-n 2000 -p 500us");
    for moment in ["sent", "arrived"] {
        let kernel = report.count(&format!("/stamps/{moment}/kernel"));
        assert!(kernel >= 1998, "{moment}: {kernel} of 2000 by the kernel");
    }
    let user = Pair::new("").measure("-n 50 -p 1ms --stamps user");
    assert_eq!(user.count("/stamps/sent/user"), 50);
}

#[test]
fn many_clients_at_once_do_not_disturb_each_other() {
    let pair = Pair::new("");
    let others: Vec<Ipv4Addr> = (0..4).map(|_| own_address()).collect();
    let clients: Vec<Running> = (0..)
        .zip(&others)
        .map(|(i, from)| {
            let options = ["", "-R", "-b", "-t"][i % 4];
            let line = format!("{} --bind {from} -n {} -p 5ms --json - {options}", pair.host, 100 + i);
            Running::start(Place::Here.jitlat(pair.folder.path(), &line))
        })
        .collect();
    for (i, client) in (0..).zip(clients) {
        let report = client.finish(LIMIT).report();
        if i == 2 {
            report.directions().iter().for_each(|r| check_clean(r, 102));
        } else {
            check_clean(&report, 100 + i);
        }
    }
    // Several tests from one address: the server's ports are shared.
    let same: Vec<Running> = (0..3).map(|i| pair.start(&format!("-n {} -p 5ms --json -", 80 + i))).collect();
    for (i, client) in (80..).zip(same) {
        check_clean(&client.finish(LIMIT).report(), i);
    }
}

#[test]
fn the_console_report_is_the_classic_one() {
    let pair = Pair::new("");
    let finished = pair.run("-n 100 -p 2ms -v");
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    for line in [
        "payload = 80 bytes per packet.",
        "target transmit period = 2.000 ms (500.00 pkts/Sec = 320.00 kbps)",
        "100 packets sent",
        "100 unique/valid packets received",
        "min/avg/max latency = ",
        "Jitter (PDV) percentile:",
        "Estimated control channel minimum RTT = ",
        "Estimated relative clock error = ",
    ] {
        assert!(finished.stdout.contains(line), "'{line}' is not in:\n{}", finished.stdout);
    }
    assert_eq!(logs(pair.folder.path()).len(), 1);
}

#[test]
fn both_directions_stay_in_sight() {
    let pair = Pair::new("");
    let finished = pair.run("-b -n 150 -p 2ms");
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    // The three lines before the test may scroll away.
    let screen: Vec<&str> = finished.stdout.lines().skip(3).collect();
    assert!(screen.len() <= 23 && screen.iter().all(|l| l.chars().count() <= 80), "{}", finished.stdout);
    for begin in ["Up: ", "Down: ", "up  ", "down  ", "Trust", "Log ", "Next "] {
        assert!(screen.iter().any(|line| line.starts_with(begin)), "{begin}\n{}", finished.stdout);
    }
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
}

#[test]
fn one_row_a_packet_as_csv() {
    let pair = Pair::new("");
    let finished = pair.run("-n 40 -p 2ms --csv out.csv --json out.json");
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let csv = std::fs::read_to_string(pair.folder.path().join("out.csv")).unwrap();
    assert_eq!(csv.lines().filter(|l| !l.starts_with('#')).count(), 41, "{csv}");
    let json = std::fs::read_to_string(pair.folder.path().join("out.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["counts"]["received"], 40);
}

/// Finds the logs with generated names in a folder.
fn logs(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    entries.filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with("jitlat.")).collect()
}

#[test]
fn a_server_outlives_its_clients() {
    let mut pair = Pair::new("");
    for _ in 0..3 {
        check_clean(&pair.measure("-n 20 -p 1ms"), 20);
    }
    assert!(pair.server.is_alive());
}

#[test]
fn demo_ends_in_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Running::start(Place::Here.jitlat(folder.path(), "demo -n 400 -p 5ms -v")).finish(LIMIT);
    assert_eq!(demo.code(), 0, "{}", demo.stderr);
    for word in
        ["400 packets sent", "lost", "duplicate", "out of sequence", "min/avg/max latency", "run lengths"]
    {
        assert!(demo.stdout.contains(word), "'{word}' is not in:\n{}", demo.stdout);
    }
}

#[test]
fn a_test_records_what_its_host_adds() {
    let pair = Pair::new("");
    let report = pair.measure("-n 100 -p 2ms --doctor -o d.log");
    check_clean(&report, 100);
    let floor = report.count("/noise/floor/pdv_p99");
    assert!(report.count("/noise/floor/packets") >= 20 && report.count("/noise/floor/clock_read") > 0);
    // The noise floor is stored in the log, and an analysis marks figures by it.
    let log = std::fs::read_to_string(pair.folder.path().join("d.log")).unwrap();
    assert!(log.lines().any(|l| l.starts_with("# client.noise clock_read=")), "{log}");
    let again =
        Running::start(Place::Here.jitlat(pair.folder.path(), "-f d.log --json -")).finish(LIMIT).report();
    assert_eq!(again.count("/noise/floor/pdv_p99"), floor);
    assert_eq!(again.at("/noise"), report.at("/noise"));
}

#[test]
fn several_hosts_have_one_report_and_one_failure_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = [own_address(), own_address()];
    let _servers = hosts.map(|host| Server::start(Place::Here, folder.path(), host, "--stamp-port 4862"));
    let run = |rest: &str| {
        let line =
            format!("ping {}:4862 no.invalid {}:4862 --proto stamp -n 50 -p 2ms {rest}", hosts[0], hosts[1]);
        Running::start(Place::Here.jitlat(folder.path(), &line)).finish(LIMIT)
    };
    let finished = run("--json - --no-log");
    assert_eq!(finished.code(), 2, "one host was not measured");
    let reports: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    let of = |k: usize| &reports[k];
    assert_eq!(of(0)["host"], format!("{}:4862", hosts[0]));
    assert_eq!([0, 2].map(|k| of(k)["counts"]["received"].as_u64()), [Some(50), Some(50)]);
    assert_eq!(of(1)["host"], "no.invalid");
    assert!(of(1)["error"].as_str().unwrap().contains("cannot find an address"), "{}", of(1));
    // Each host has a row, a test in the archive and a line; conditions apply to each.
    let finished = run("--csv rows.csv --fail-if latency-max>1ns -q --archive kept");
    assert_eq!(finished.stdout.lines().count(), 3, "{}", finished.stdout);
    for host in hosts {
        assert!(
            finished.stderr.contains(&format!("failed: {host}:4862: latency-max>1ns")),
            "{}",
            finished.stderr
        );
    }
    let rows = std::fs::read_to_string(folder.path().join("rows.csv")).unwrap();
    assert_eq!(rows.lines().count(), 4, "{rows}");
    assert!(rows.starts_with("host,error,sent,received,"), "{rows}");
    assert!(rows.lines().nth(1).unwrap().starts_with(&format!("{}:4862,,50,50,", hosts[0])), "{rows}");
    let ls = Running::start(Place::Here.jitlat(folder.path(), "archive ls kept --json")).finish(LIMIT);
    let kept: serde_json::Value = serde_json::from_str(&ls.stdout).unwrap();
    assert_eq!(kept["tests"].as_array().unwrap().len(), 2, "{kept:#}");
}
