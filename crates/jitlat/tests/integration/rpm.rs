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
        .args(if arguments.contains("-o ") || arguments.contains("--no-log") {
            &[][..]
        } else {
            &["--no-log"]
        })
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

    let failed =
        run(port, &host, "--insecure -q --load down --fail-if down-rpm<1000000000 --fail-if goodput<1000G");
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    let units = failed.stderr.contains(" RPM)") && failed.stderr.contains("bps)");
    assert!(units, "values have units: {}", failed.stderr);
    let influx = run(port, &host, "--insecure --load up --as influx");
    let points: Vec<&str> = influx.stdout.lines().collect();
    assert_eq!(points.len(), 2, "{}", influx.stdout);
    assert!(
        points[0].contains(",load=idle,test=rpm,") && points[0].contains(" round_trip_seconds=0."),
        "{points:?}"
    );
    assert!(
        points[1].contains(",load=up,test=rpm,")
            && points[1].contains(" rpm=")
            && points[1].contains(",up_goodput_bits_per_second="),
        "{points:?}"
    );
    let undecided = run(port, &host, "--insecure -q --load down --fail-if up-rpm<1");
    assert_eq!(undecided.code, Some(2), "{}", undecided.stderr);
    let refused = run(port, &host, "");
    assert!(refused.code == Some(2) && refused.stderr.contains("--ca FILE"), "{}", refused.stderr);
}

#[test]
fn probes_are_logs_that_an_archive_lists_and_the_page_has_one_section() {
    let host = network::own_address().to_string();
    let server = Server::start(&host, "stamp", &["--rpm", "--rpm-port", "0"]);
    let port = server.port(1);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [log, archive, html, plots] = ["test", "archive", "page.html", "plots"].map(path);
    let arguments = format!(
        "--insecure --load down -o {log} --archive {archive} --html {html} --plots {plots} --tag site=here --name office"
    );
    let ran = run(port, &host, &arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("Logs   ") && ran.stdout.contains("test.idle.self and 3 more"),
        "{}",
        ran.stdout
    );
    let jitlat = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_jitlat")).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // A log is a round-trip test with the result of its load.
    let (code, text) = jitlat(&["analyze", &format!("{log}.down.self"), "--json", "-"]);
    assert_eq!(code, Some(0));
    let test: Value = serde_json::from_str(&text).unwrap();
    let tags = &test["session"]["tags"];
    assert_eq!(
        (&tags["load"], &tags["probe"], &tags["site"]),
        (&"down".into(), &"self".into(), &"here".into())
    );
    let rpm: f64 = tags["rpm"].as_str().unwrap().parse().unwrap();
    assert!(rpm > 0.0 && tags["goodput-down"].as_str().is_some_and(|bps| bps.parse::<f64>().unwrap() > 0.0));
    assert_eq!(test["session"]["name"], "office down self");
    // A request that fails is lost; lost segments only delay it. So there is a score, or too few requests for one.
    let scores = test["answer"]["qoo"]["profiles"].as_object().unwrap();
    for (name, of) in scores {
        let refused = of["refused"]["reason"].as_str();
        assert!(of["score"].is_number() || refused == Some("percentile-not-resolved"), "{name}: {of}");
    }
    let (code, listed) = jitlat(&["archive", "ls", &archive]);
    assert_eq!((code, listed.matches("office ").count()), (Some(0), 4), "{listed}");
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("Responsiveness under load") && !page.contains("TCP records"));
    let mut figures: Vec<String> = std::fs::read_dir(plots)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".svg"))
        .collect();
    figures.sort();
    assert_eq!(figures, ["card.svg", "rpm-down.svg", "rpm-requests.svg"]);
    // A name in use is refused before anything is measured.
    let again = run(port, &host, &format!("--insecure --load down -o {log}"));
    assert!(again.code == Some(2) && again.stderr.contains("test.idle.self"), "{}", again.stderr);
}
