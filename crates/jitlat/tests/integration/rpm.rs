//! `jitlat rpm` over loopback: what it prints and writes.

use crate::network;
use crate::server::Server;
use serde_json::Value;
use std::process::Command;

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(port: &str, host: &str, arguments: &str) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .args(["rpm", &format!("{host}:{port}"), "--interval", "300ms", "--time-limit", "3s"])
        .args(arguments.split_whitespace())
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    Ran { code: output.status.code(), stdout, stderr }
}

#[test]
fn responsiveness_is_printed_and_written() {
    let host = network::own_address().to_string();
    let server = Server::start(&host, "stamp", &["--rpm", "--rpm-port", "0"]);
    let port = server.port(1);
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("probes.csv");
    let screen = run(port, &host, &format!("--insecure --csv {}", csv.display()));
    assert_eq!(screen.code, Some(0), "{}", screen.stderr);
    let lines: Vec<&str> = screen.stdout.lines().collect();
    assert!(lines.len() <= 24 && lines.iter().all(|line| line.chars().count() <= 80), "{}", screen.stdout);
    assert!(lines[0].starts_with("Responsiveness: down "), "{}", lines[0]);
    for row in ["idle", "TCP handshake", "TLS, per round trip", "HTTP, with the load", "goodput"] {
        assert!(screen.stdout.contains(row), "{row}: {}", screen.stdout);
    }
    let csv = std::fs::read_to_string(csv).unwrap();
    assert!(csv.starts_with("load,probe,began_ns,tcp_ns,tls_ns,http_ns,counted\n"), "{csv}");
    for begin in ["idle,self,", "idle,foreign,", "down,self,", "up,foreign,"] {
        assert!(csv.lines().any(|line| line.starts_with(begin)), "{begin}");
    }

    let quiet = run(port, &host, "--insecure -q --load both");
    assert_eq!((quiet.code, quiet.stdout.lines().count()), (Some(0), 1), "{}", quiet.stdout);
    assert!(quiet.stdout.contains("down and up at once"), "{}", quiet.stdout);

    let report = run(port, &host, "--insecure --json - --load up");
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap();
    // RPM is the mean of both kinds, and each is 60 s over its mean time.
    let times = |part: &str| number(&format!("/stages/0/times/{part}/trimmed_mean_ns"));
    let foreign = 60e9 / ((times("tcp") + times("tls") + times("http")) / 3.0);
    let own = 60e9 / times("self");
    assert!((number("/stages/0/foreign_rpm") / foreign - 1.0).abs() < 1e-9);
    assert!((number("/stages/0/rpm") / ((foreign + own) / 2.0) - 1.0).abs() < 1e-9);
    assert_eq!(report["streams"][0]["label"], "idle self");
    assert!(report["streams"][0]["summary"]["latency"]["median"].as_f64().unwrap() > 0.0);

    let failed = run(port, &host, "--insecure -q --load down --fail-if down-rpm<1000000000");
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    let undecided = run(port, &host, "--insecure -q --load down --fail-if up-rpm<1");
    assert_eq!(undecided.code, Some(2), "{}", undecided.stderr);
    let refused = run(port, &host, "");
    assert!(refused.code == Some(2) && refused.stderr.contains("--ca FILE"), "{}", refused.stderr);
}
