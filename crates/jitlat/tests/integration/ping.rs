//! `jitlat ping` against `jitlat serve`, through the kernel on loopback.

use crate::server::Server;
use std::process::Command;

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");

/// Starts reflectors on ports chosen by the system; returns the ports of STAMP, LaMP and TCP.
fn serve() -> (Server, [String; 3]) {
    let server = Server::start("127.0.0.1", "stamp,lamp,tcp", &[]);
    let ports = [0, 1, 2].map(|k| server.port(k).to_owned());
    (server, ports)
}

fn ping(arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(JITLAT)
        .args(["ping", "127.0.0.1", "-n", "20", "-p", "2ms", "--json", "-"])
        .args(if arguments.contains(&"-o") { &[][..] } else { &["--no-log"] })
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_protocol_measures_round_trips() {
    let (_server, [stamp, lamp, tcp]) = serve();
    let tests: [&[&str]; 5] = [
        &["--proto", "stamp", "--stamp-port", &stamp, "-D", "EF"],
        &["--proto", "twamp", "--light", "--stamp-port", &stamp],
        &["--proto", "lamp", "--lamp-port", &lamp, "--follow-up"],
        &["--proto", "tcp", "--tcp-port", &tcp],
        &["--proto", "stamp", "--stamp-port", &stamp, "--wait", "0"],
    ];
    for arguments in tests {
        let json = ping(arguments);
        assert_eq!(json["counts"]["sent"], 20, "{arguments:?}");
        assert_eq!(json["counts"]["received"], 20, "{arguments:?}");
        // A follow-up has whole microseconds, and loopback takes about one.
        let lamp = arguments[1] == "lamp";
        let least = if lamp { -2_000 } else { 1 };
        assert!(json["latency"]["min"].as_i64().unwrap() >= least, "{arguments:?}");
        let one_way = json["two_way"]["up"].is_object();
        assert_eq!(one_way, !lamp, "{arguments:?}: a follow-up reports no one-way delay");
        assert!(json["two_way"]["processing_min_ns"].is_i64(), "{arguments:?}");
    }
    let report =
        &ping(&["--proto", "lamp", "--lamp-port", &lamp, "--mode", "unidir"])["two_way"]["far_report"];
    assert_eq!(report["received"], 20);
}

/// A raw socket of a host that pings itself also receives its own requests.
#[test]
fn fewer_than_ten_answers_have_no_90th_percentile() {
    for (packets, is_known) in [("5", false), ("10", true)] {
        let output = Command::new(JITLAT)
            .args(["ping", "127.0.0.1", "127.0.0.2", "-n", packets, "-p", "2ms", "--no-log"])
            .output()
            .unwrap();
        let table = String::from_utf8_lossy(&output.stdout);
        let row = table.lines().find(|line| line.starts_with("127.0.0.1 ")).unwrap_or_default();
        // The column before that of the maximum.
        assert_eq!(!row.contains(" - "), is_known, "{packets}: {table}");
    }
    let alone = Command::new(JITLAT).args(["ping", "127.0.0.1", "-n", "1", "--no-log"]).output().unwrap();
    let screen = String::from_utf8_lossy(&alone.stdout);
    assert!(!screen.contains("sent within"), "a single request cannot be late: {screen}");
}

#[test]
fn own_echo_requests_are_not_foreign() {
    let json = ping(&["--proto", "icmp"]);
    assert_eq!(json["counts"]["received"], 20);
    assert_eq!(json["two_way"]["not_answers"]["foreign"].as_u64().unwrap_or(0), 0, "{:#}", json["two_way"]);
}

#[test]
fn a_test_records_what_its_host_adds() {
    let (_server, [stamp, ..]) = serve();
    let json = ping(&["--proto", "stamp", "--stamp-port", &stamp, "--doctor"]);
    assert_eq!(json["counts"]["received"], 20);
    assert!(json["noise"]["floor"]["packets"].as_u64().unwrap() >= 20, "{:#}", json["noise"]);
}

#[test]
fn a_log_gives_the_same_report_again() {
    let (_server, [stamp, lamp, tcp]) = serve();
    let folder = tempfile::tempdir().unwrap();
    let tests: [&[&str]; 5] = [
        &["--proto", "stamp", "--stamp-port", &stamp],
        &["--proto", "stamp", "--stamp-port", &stamp, "--schedule", "uniform:1ms,3ms,2"],
        &["--proto", "lamp", "--lamp-port", &lamp, "--mode", "unidir"],
        &["--proto", "tcp", "--tcp-port", &tcp, "--tag", "a=b"],
        &["--proto", "stamp", "--stamp-port", &stamp, "--wait", "1ms"],
    ];
    for (k, arguments) in tests.into_iter().enumerate() {
        let log = folder.path().join(format!("{k}.log"));
        let [csv, saved] = ["live", "saved"].map(|name| folder.path().join(format!("{k}-{name}.csv")));
        let [log, csv, saved] = [&log, &csv, &saved].map(|path| path.to_str().unwrap());
        let live = ping(&[arguments, &["-o", log, "--csv", csv]].concat());
        let output = Command::new(JITLAT).args(["-f", log, "--json", "-", "--csv", saved]).output().unwrap();
        let [csv, saved] = [csv, saved].map(|path| std::fs::read_to_string(path).ok());
        assert_eq!(csv, saved, "{arguments:?}");
        // In a unidirectional test only the server has the packets.
        assert_eq!(csv.is_none(), arguments.contains(&"unidir"), "{arguments:?}");
        let csv = csv.unwrap_or_default();
        assert_eq!(csv.contains(",retransmissions,srtt_us,cwnd"), arguments.contains(&"tcp"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let again: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for key in live.as_object().unwrap().keys() {
            assert_eq!(live[key], again[key], "{arguments:?}: {key}");
        }
    }
}

#[test]
fn stamp_extensions_tell_what_the_far_host_saw() {
    let (_server, [stamp, ..]) = serve();
    let fixed = ["--proto", "stamp", "--stamp-port", &stamp, "-D", "AF41", "--cos", "CS1", "--ssid", "77"];
    let asked = ["--direct-measurement", "--telemetry", "--ptp", "-l", "200"];
    let json = ping(&[&fixed[..], &asked].concat());
    assert_eq!((&json["counts"]["received"], &json["header"]["pktlen"]), (&20.into(), &200.into()));
    assert!(json["latency"]["min"].as_i64().unwrap() >= 0, "{}", json["latency"]);
    let remarks = json["two_way"]["remarks"].to_string();
    // Answers have the requested DSCP, which differs from that of the requests.
    assert_eq!(json["far_end"]["dscp"], serde_json::json!({ "8": 20 }));
    let warnings = json["warnings"].as_array().unwrap();
    assert!(!warnings.iter().any(|w| w["code"] == "dscp_changed"), "{warnings:?}");
    for phrase in [
        "arrives unchanged at the far host",
        "20 requests sent, 20 arrived, 20 answered",
        "timestamps of the far host: arrivals in software",
        "answers contain the departure time of the previous answer",
        "this time is not part of round trips and of the down direction",
    ] {
        assert!(remarks.contains(phrase), "'{phrase}' is not in {remarks}");
    }
}

/// Starts a STAMP reflector that sends every answer from another port than the one that received the request.
fn two_ports() -> (u16, std::thread::JoinHandle<()>) {
    let [asked, answering] = [0, 1].map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    let port = asked.local_addr().unwrap().port();
    asked.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let thread = std::thread::spawn(move || {
        let mut request = [0; 1500];
        for _ in 0..20 {
            let Ok((n, from)) = asked.recv_from(&mut request) else { return };
            // Request and answer have the same number; then follow the reflector's time, the arrival, and the
            // request.
            let mut answer = request[..n].to_vec();
            let asked = request[..n].to_vec();
            answer[16..24].copy_from_slice(&asked[4..12]);
            answer[24..28].copy_from_slice(&asked[..4]);
            answer[28..36].copy_from_slice(&asked[4..12]);
            answer[36..38].copy_from_slice(&asked[12..14]);
            answering.send_to(&answer, from).unwrap();
        }
    });
    (port, thread)
}

#[test]
fn answers_from_another_port_are_taken_where_that_is_asked_for() {
    for stamps in ["kernel", "user"] {
        let (port, far) = two_ports();
        let port = port.to_string();
        let asked = ["--proto", "stamp", "--stamp-port", &port, "--stamps", stamps];
        let json = ping(&[&asked[..], &["--any-port"]].concat());
        far.join().unwrap();
        assert_eq!(
            (&json["counts"]["received"], &json["counts"]["lost"]),
            (&20.into(), &0.into()),
            "{stamps}"
        );
        let (port, far) = two_ports();
        let port = port.to_string();
        let output = Command::new(JITLAT)
            .args([
                "ping",
                "127.0.0.1",
                "--no-log",
                "-n",
                "20",
                "-p",
                "2ms",
                "--json",
                "-",
                "--timeout",
                "300ms",
            ])
            .args(["--proto", "stamp", "--stamp-port", &port, "--stamps", stamps])
            .output()
            .unwrap();
        far.join().unwrap();
        assert_eq!(output.status.code(), Some(2), "{stamps}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["two_way"]["not_answers"]["other_port"], 20, "{stamps}: {:#}", json["two_way"]);
        let warnings = json["warnings"].to_string();
        assert!(
            warnings.contains("answers_from_another_port") && warnings.contains("--any-port"),
            "{warnings}"
        );
    }
    let refused = Command::new(JITLAT)
        .args(["ping", "127.0.0.1", "--no-log", "--proto", "lamp", "--any-port", "--raw"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("leave out --raw"), "{refused:?}");
}

fn lines(csv: &std::path::Path) -> usize {
    std::fs::read_to_string(csv).unwrap().lines().count()
}

#[test]
fn a_listener_of_samples_that_is_not_there_stops_no_test() {
    let (_server, [_, lamp, _]) = serve();
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("late.csv");
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = Command::new(JITLAT)
        .args(["ping", "127.0.0.1", "--no-log", "-n", "20", "-p", "2ms", "--json", "-", "--proto", "lamp"])
        .args(["--lamp-port", &lamp, "--late-stream", &gone, "--as"])
        .arg(format!("late={}", csv.display()))
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["counts"]["received"], 20);
    assert_eq!(lines(&csv), 2, "names and values");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--late-stream: the test continues without it"), "{said}");
    assert_eq!(output.status.code(), Some(2), "what was asked for was not delivered");
}

#[test]
fn a_test_that_no_server_accepts_is_a_row() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("late.csv");
    for rows in 1..3 {
        let output = Command::new(JITLAT)
            .args([
                "ping",
                "127.0.0.1",
                "--no-log",
                "-n",
                "3",
                "-p",
                "2ms",
                "--proto",
                "lamp",
                "--lamp-port",
                &port,
            ])
            .args(["--as", &format!("late={}", csv.display())])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(lines(&csv), 1 + rows);
    }
}

#[test]
fn a_plain_echo_server_is_told_from_our_own() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let echo = std::thread::spawn(move || {
        let (mut from, _) = listener.accept().unwrap();
        let mut to = from.try_clone().unwrap();
        let _ = std::io::copy(&mut from, &mut to);
    });
    let json = ping(&["--proto", "tcp", "--tcp-port", &port]);
    echo.join().unwrap();
    assert_eq!(json["counts"]["received"], 20);
    assert!(json["two_way"]["remarks"].to_string().contains("a plain echo server"), "{:#}", json["two_way"]);
    assert!(json["two_way"]["up"].is_null(), "it reports no times");
}

/// Returns the full report of such a test.
fn full_report(arguments: &[&str]) -> String {
    let output = Command::new(JITLAT)
        .args(["ping", "127.0.0.1", "--no-log", "-n", "120", "-p", "1ms", "-v"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn defaults_of_tcp_have_the_sizes_that_were_agreed() {
    let (_server, [_, _, tcp]) = serve();
    for sizes in [&[][..], &["-l", "200"], &["--response", "300"]] {
        let page = full_report(&[&["--proto", "tcp", "--tcp-port", &tcp], sizes].concat());
        assert!(!page.contains("of another size"), "{sizes:?}: {page}");
    }
}

#[test]
fn a_test_of_one_way_says_nothing_of_runs_of_loss() {
    let (_server, [_, lamp, _]) = serve();
    let page = full_report(&["--proto", "lamp", "--mode", "unidir", "--lamp-port", &lamp]);
    assert!(page.contains("No loss in 120 packets") && !page.contains("in a row"), "{page}");
}

#[test]
fn nothing_there_is_an_error_that_says_so() {
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let output = Command::new(JITLAT)
        .args([
            "ping",
            "127.0.0.1",
            "--no-log",
            "--proto",
            "stamp",
            "-n",
            "3",
            "--timeout",
            "200ms",
            "--stamp-port",
            &port,
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing listens"), "{output:?}");
}

#[test]
fn nothing_answered_is_nothing_measured() {
    // A socket that is not read: requests disappear.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let run = |more: &[&str]| {
        let arguments = [
            "ping",
            "127.0.0.1",
            "--no-log",
            "--proto",
            "stamp",
            "-n",
            "3",
            "-p",
            "2ms",
            "--timeout",
            "200ms",
            "-q",
        ];
        let output =
            Command::new(JITLAT).args(arguments).args(["--stamp-port", &port]).args(more).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, errors) = run(&[]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("none of 3 requests was answered"), "{errors}");
    assert_eq!(run(&["--fail-if", "loss>50%"]).0, Some(1));
}

#[test]
fn one_way_lamp_has_one_screen_of_what_the_server_reports() {
    let (_server, [_, lamp, _]) = serve();
    let output = Command::new(JITLAT)
        .args([
            "ping",
            "127.0.0.1",
            "--no-log",
            "--proto",
            "lamp",
            "--mode",
            "unidir",
            "-n",
            "30",
            "-p",
            "2ms",
        ])
        .args(["--lamp-port", &lamp])
        .output()
        .unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.lines().count() <= 24 && page.lines().all(|line| line.chars().count() <= 80), "{page}");
    for said in ["30 LAMP packets of ", "up", "none (<10 %)", "delay from the server's clock", "30 received,"]
    {
        assert!(page.replace("\n       ", " ").contains(said), "'{said}' is not in {page}");
    }
}

#[test]
fn the_screen_says_once_that_nothing_was_answered() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let output = Command::new(JITLAT)
        .args([
            "ping",
            "127.0.0.1",
            "--no-log",
            "--proto",
            "stamp",
            "-n",
            "3",
            "-p",
            "2ms",
            "--timeout",
            "200ms",
        ])
        .args(["--stamp-port", &port])
        .output()
        .unwrap();
    let [page, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(2), "{page}{errors}");
    assert_eq!(errors, "");
    let said = page.to_lowercase().matches("arrived").count() + page.matches("answered").count();
    assert_eq!(said, 1, "{page}");
}
