//! irtt's own client and server, flent with links named irtt and fping, fping, smokeping's probe, and stamp-suite in both
//! roles. Skipped if these programs are not installed (Debian: irtt, flent, fping, smokeping; `packaging/tools stamp-suite`),
//! unless `JITLAT_REQUIRE_PEERS` is set.

use crate::network;
use crate::server::Server;
use crate::undisturbed::undisturbed;
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");
/// Location in Debian's package.
const FLENT: &str = "/usr/share/flent";

/// Returns true if `programs` are installed.
fn installed(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| {
        let path = Path::new(program);
        !path.exists() && Command::new(program).arg("version").output().is_err()
    });
    if let Some(missing) = missing {
        assert!(std::env::var_os("JITLAT_REQUIRE_PEERS").is_none(), "{missing} is not installed");
        println!("skipped: {missing} is not installed");
    }
    missing.is_none()
}

fn run(program: &str, arguments: &str, folder: &Path) -> Output {
    // A test ends by itself within seconds; the time limit is for a conversation that hangs.
    let mut command = Command::new("timeout");
    command.args(["60", program]).args(arguments.split_whitespace()).current_dir(folder);
    command.output().unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer}"))
}

/// A server of another program at a separate port; it ends with the test.
struct Background {
    child: Child,
    port: u16,
}

impl Background {
    /// Starts `program` with the arguments that `line` makes from the port.
    fn start(program: &str, ip: Ipv4Addr, folder: &Path, line: impl Fn(u16) -> String) -> Background {
        let port = UdpSocket::bind((ip, 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command.args(line(port).split_whitespace()).current_dir(folder);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The server listens once the port is in use.
        let listens = || UdpSocket::bind((ip, port)).is_err();
        jitlat_waiting::until(&format!("{program} to listen"), Duration::from_secs(20), listens);
        Background { child, port }
    }

    /// Starts `irtt server`. It drops packets that a client sends at once after a stall, unless such a burst is
    /// allowed.
    fn irtt(ip: Ipv4Addr, folder: &Path, arguments: &str) -> Background {
        Background::start("irtt", ip, folder, |port| {
            format!("server -b {ip}:{port} --pburst=1000 {arguments}")
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn key_file(folder: &Path, key: &str) {
    let path = folder.join("key");
    fs::write(&path, key).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn irtts_client_measures_against_us() {
    if !installed(&["irtt"]) {
        return;
    }
    let (ip, dir) = (network::own_address().to_string(), tempfile::tempdir().unwrap());
    key_file(dir.path(), "0x00c0ffee");
    let key = dir.path().join("key").display().to_string();
    let open = Server::start(&ip, "irtt", &[]);
    let keyed = Server::start(&ip, "irtt", &["--irtt-key-file", &key]);
    for options in [
        "",
        "--hmac=0x00c0ffee",
        "-l 172 --fill=rand --sfill=rand",
        "-l 1472 --dscp=184",
        "--tstamp=none --stats=none",
        "--tstamp=send --clock=wall --stats=count",
        "--tstamp=receive --clock=monotonic --stats=window",
        "--tstamp=midpoint --clock=both",
        "--tstamp=midpoint --clock=wall",
    ] {
        undisturbed(|| {
            let server = if options.contains("hmac") { &keyed } else { &open };
            let result = dir.path().join("result.json");
            let to = format!("{ip}:{}", server.port(0));
            // The last answer may arrive later than three times the longest round trip, for which irtt waits by
            // default.
            let line = format!("client -d 500ms -i 20ms --wait=200ms -o result.json {options} {to}");
            let output = run("irtt", &line, dir.path());
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{options}: {text}{}", String::from_utf8_lossy(&output.stderr));
            let result = json(&result);
            let sent = number(&result, "/stats/packets_sent");
            assert!(sent >= 5.0 && number(&result, "/stats/packets_received") == sent, "{options}: {text}");
            if !options.contains("stats=none") && !options.contains("stats=window") {
                assert_eq!(number(&result, "/stats/server_packets_received"), sent, "{options}");
            }
            let asked = number(&result, "/config/supplied/params/dscp");
            assert_eq!(number(&result, "/config/params/dscp"), asked, "{options}: nothing is restricted");
        });
    }
    let question = "client -n -Q --timeouts=1s,2s,4s";
    assert!(run("irtt", &format!("{question} {ip}:{}", open.port(0)), dir.path()).status.success());
    let unsigned = run("irtt", &format!("{question} {ip}:{}", keyed.port(0)), dir.path());
    assert_eq!(unsigned.status.code(), Some(1), "without the key there is no answer");
}

#[test]
fn we_measure_against_irtts_server() {
    if !installed(&["irtt"]) {
        return;
    }
    let (ip, dir) = (network::own_address(), tempfile::tempdir().unwrap());
    key_file(dir.path(), "secret");
    let open = Background::irtt(ip, dir.path(), "");
    let keyed = Background::irtt(ip, dir.path(), "--hmac=secret");
    let narrow = Background::irtt(ip, dir.path(), "--tstamp=single --no-dscp -l 100 -d 300ms");
    let jitlat = |server: &Background, options: &str| {
        let (port, json) = (server.port, "--json out.json");
        let line = format!("ping {ip} --proto irtt --irtt-port {port} -n 30 -p 20ms {json} {options}");
        let output = run(JITLAT, &line, dir.path());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (server, options) in [
        (&open, ""),
        (&keyed, "--irtt-key-file key"),
        (&open, "-l 172 --fill rand --server-fill rand"),
        (&open, "-l 1472 -D EF"),
        (&open, "--tstamp none --received-stats none"),
        (&open, "--tstamp send --server-clock wall --received-stats count"),
        (&open, "--tstamp midpoint --server-clock monotonic"),
        (&open, "--wait 15ms"),
        (&narrow, "-l 300 -D EF --loose"),
    ] {
        undisturbed(|| {
            assert_eq!(jitlat(server, options), (Some(0), String::new()), "{options}");
            let summary = json(&dir.path().join("out.json"));
            // The restrictive server grants a test of 300 ms.
            let sent = if options.contains("loose") { 15.0 } else { 30.0 };
            let count = |name: &str| number(&summary, &format!("/counts/{name}"));
            assert_eq!((count("sent"), count("received"), count("invalid")), (sent, sent, 0.0), "{options}");
            if !options.contains("none") && !options.contains("monotonic") {
                assert!(number(&summary, "/two_way/down/latency/max") > 0.0, "{options}: delays one way");
            }
        });
    }
    let (status, log) = jitlat(&narrow, "-l 300");
    assert_eq!(status, Some(2));
    assert!(
        log.contains("restricts the test: duration 0.3 s instead of 0.6 s, length 100 instead of 300"),
        "{log}"
    );
    let (status, log) = jitlat(&keyed, "--timeout 1s");
    assert!(status == Some(2) && log.contains("no irtt server answered"), "{log}");
}

/// 32 bytes, as `--stamp-key-file` and stamp-suite's `--hmac-key-file` read them.
const STAMP_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

#[test]
fn stamp_suite_measures_against_us() {
    if !installed(&["stamp-suite"]) {
        return;
    }
    let (ip, dir) = (network::own_address().to_string(), tempfile::tempdir().unwrap());
    key_file(dir.path(), STAMP_KEY);
    let key = dir.path().join("key").display().to_string();
    let open = Server::start(&ip, "stamp", &[]);
    let keyed = Server::start(&ip, "stamp", &["--stamp-key-file", &key]);
    let measured = |server: &Server, options: &str| {
        let line = format!("-r {ip} -p {} -S {ip} -c 50 -d 5 -L 2 {options}", server.port(0));
        let output = run("stamp-suite", &line, dir.path());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let received = text.lines().find_map(|line| line.strip_prefix("Packets received: ")?.parse().ok());
        (received.unwrap_or(0u32), text + &String::from_utf8_lossy(&output.stderr))
    };
    for (server, options) in [
        (&open, ""),
        (&open, "-K PTP"),
        (&open, "--ssid 7"),
        (&open, "--timestamp-info"),
        (&open, "--cos --dscp 46"),
        (&keyed, "-A A --hmac-key-file key"),
    ] {
        undisturbed(|| {
            let (received, text) = measured(server, options);
            assert_eq!(received, 50, "{options}: {text}");
            assert!(text.contains("Replies: 50 unique, 0 additional"), "{options}: {text}");
        });
    }
    assert_eq!(measured(&keyed, "-c 5").0, 0, "without the key there is no answer");
}

#[test]
fn we_measure_against_stamp_suites_reflector() {
    if !installed(&["stamp-suite"]) {
        return;
    }
    let (ip, dir) = (network::own_address(), tempfile::tempdir().unwrap());
    key_file(dir.path(), STAMP_KEY);
    let reflector = |options: &str| {
        Background::start("stamp-suite", ip, dir.path(), |port| format!("-i -S {ip} -o {port} {options}"))
    };
    let open = reflector("");
    let counting = reflector("--stateful-reflector");
    let keyed = reflector("-A A --hmac-key-file key --require-hmac");
    let jitlat = |server: &Background, options: &str| {
        let port = server.port;
        let line =
            format!("ping {ip} --proto stamp --stamp-port {port} -n 50 -p 5ms --json out.json {options}");
        let output = run(JITLAT, &line, dir.path());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (server, options) in [
        (&open, ""),
        (&open, "--ptp"),
        (&open, "-l 200"),
        (&open, "--cos EF"),
        (&open, "--telemetry"),
        (&counting, ""),
        (&keyed, "--stamp-key-file key"),
    ] {
        undisturbed(|| {
            assert_eq!(jitlat(server, options), (Some(0), String::new()), "{options}");
            let summary = json(&dir.path().join("out.json"));
            let count = |name: &str| number(&summary, &format!("/counts/{name}"));
            assert_eq!((count("sent"), count("received"), count("invalid")), (50.0, 50.0, 0.0), "{options}");
            assert!(number(&summary, "/two_way/down/latency/max") > 0.0, "{options}: delays one way");
        });
    }
    assert_eq!(jitlat(&keyed, "-n 5 --timeout 1s").0, Some(2), "without the key there is no answer");
}

#[test]
fn flent_reads_our_results() {
    if !installed(&[FLENT, "/usr/bin/python3"]) {
        return;
    }
    let (ip, dir) = (network::own_address().to_string(), tempfile::tempdir().unwrap());
    let server = Server::start(&ip, "irtt", &[]);
    let line = format!("ping {ip} --proto irtt --irtt-port {} -n 50 -p 10ms", server.port(0));
    let output = run(JITLAT, &format!("{line} --as irtt=irtt.json --json ours.json -o log"), dir.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The log contains everything that the format needs.
    let again = run(JITLAT, "export log --as irtt again.json", dir.path());
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(json(&dir.path().join("irtt.json")), json(&dir.path().join("again.json")));
    let script = "
import io, json, sys
sys.path.insert(0, sys.argv[1])
from flent.runners import IrttRunner
runner = IrttRunner.__new__(IrttRunner)
runner.sample_freq, runner.multi_results = 0, True
text = open('irtt.json').read()
try:
    result = runner.parse(text, '')
except (AttributeError, TypeError):
    result = runner.parse(io.StringIO(text), '')
series, raw, metadata = result
json.dump({'series': series, 'raw': raw, 'metadata': metadata}, open('flent.json', 'w'))
";
    let python =
        Command::new("/usr/bin/python3").args(["-c", script, FLENT]).current_dir(dir.path()).output();
    let python = python.unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let (ours, flents) = (json(&dir.path().join("ours.json")), json(&dir.path().join("flent.json")));
    let count = |of: &str| flents.pointer(of).and_then(Value::as_array).map_or(0, Vec::len);
    assert_eq!((count("/raw"), count("/series/rtt"), count("/series/delay")), (50, 50, 50));
    assert_eq!(number(&flents, "/metadata/PACKETS_RECEIVED"), 50.0);
    assert_eq!(number(&flents, "/metadata/PACKET_LOSS_RATE"), 0.0);
    for (flent, name) in [
        ("RTT_MEAN", "/latency/mean"),
        ("RTT_MEDIAN", "/latency/median"),
        ("RTT_MAX", "/latency/max"),
        ("OWD_UP_MEAN", "/two_way/up/latency/mean"),
        ("OWD_DOWN_MEAN", "/two_way/down/latency/mean"),
    ] {
        let ms = number(&flents, &format!("/metadata/{flent}"));
        let ns = number(&ours, name);
        assert!((ms * 1e6 - ns).abs() <= 1.0, "{flent}: {ms} ms, {ns} ns");
    }
}

/// Makes links of `names` to jitlat in `folder`.
fn links(folder: &Path, names: &[&str]) {
    names.iter().for_each(|name| std::os::unix::fs::symlink(JITLAT, folder.join(name)).unwrap());
}

/// flent checks the help and the output of irtt and fping before it calls them.
#[test]
fn flent_calls_us_as_irtt_and_fping() {
    if !installed(&[FLENT, "/usr/bin/python3"]) {
        return;
    }
    let (ip, dir) = (network::own_address().to_string(), tempfile::tempdir().unwrap());
    links(dir.path(), &["irtt", "fping"]);
    // The port that irtt's client uses without another; the address belongs to this process.
    let mut server = Command::new(JITLAT);
    server.args([
        "serve",
        "--only",
        "irtt",
        "--irtt-port",
        "2112",
        "--irtt-trust",
        "127.0.0.0/8",
        "--bind",
        &ip,
    ]);
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    crate::listening::wait_until_listening(&mut server, 1);
    for test in ["ping", "voip"] {
        let flent = Command::new("timeout")
            .args(["60", "flent", test, "-l", "3", "-s", "0.1", "-H", &ip, "-f", "summary", "-v"])
            .env("PATH", format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", dir.path().display()))
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&flent.stdout) + String::from_utf8_lossy(&flent.stderr);
        assert!(flent.status.success() && !said.contains("Not using."), "{test}: {said}");
        let called =
            |name: &str| said.contains(&format!("Forking to run command {}/{name}", dir.path().display()));
        assert!(called("irtt") && (test == "voip" || called("fping")), "{test}: {said}");
        for name in
            if test == "ping" { ["Ping (ms) ICMP", "Ping (ms) UDP"] } else { ["VoIP::delay", "VoIP::rtt"] }
        {
            let line = said.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
            let points = line.split_whitespace().last().and_then(|word| word.parse::<u32>().ok());
            assert!(points.is_some_and(|points| points >= 20), "{test}: {name}: {said}");
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn our_lines_are_those_of_fping() {
    if !installed(&["/usr/bin/fping"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Numbers with a point differ.
    let form = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).into_owned();
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let mut parts: Vec<String> = Vec::new();
        for c in text.chars() {
            match parts.last_mut() {
                Some(part) if part.ends_with(is_number) == is_number(c) => part.push(c),
                _ => parts.push(c.to_string()),
            }
        }
        let of = |part: &String| {
            if part.parse::<f64>().is_ok() && part.contains('.') { "N".to_owned() } else { part.clone() }
        };
        parts.iter().map(of).collect::<String>()
    };
    for line in [
        "-C 3 -q -p 20 127.0.0.1 127.0.0.11",
        "-C 2 -p 20 127.0.0.1",
        "-c 3 -p 20 127.0.0.1",
        "-c 3 -q -p 20 127.0.0.1",
        "127.0.0.1 127.0.0.2",
        "-a 127.0.0.1",
        "-u 127.0.0.1",
    ] {
        let theirs = run("/usr/bin/fping", line, dir.path());
        let ours = run(JITLAT, &format!("as fping {line}"), dir.path());
        assert_eq!(ours.status.code(), theirs.status.code(), "{line}");
        assert_eq!(form(&ours.stdout), form(&theirs.stdout), "{line}");
        assert_eq!(form(&ours.stderr), form(&theirs.stderr), "{line}");
    }
}

/// The probe FPing of smokeping checks the program when it is created, and then reads its lines.
/// Returns `text` with `#` instead of each number and one blank instead of several, without the lines and words that only
/// the other program can print.
fn shape(text: &str) -> String {
    // Times of the program's own calls, which jitlat does not measure.
    let apart = ["send call time", "timer error", "timer stats", "[WaitForPackets]"];
    let lines = text.lines().filter(|line| !apart.iter().any(|words| line.contains(words)));
    let mut shape = String::new();
    for line in lines {
        // Also leaves out irtt's ` (wait 328µs)`.
        let line = line.split(" (wait").next().unwrap_or(line);
        let words = line.split_whitespace().map(|word| {
            let mut plain = String::new();
            for c in word.chars() {
                match c {
                    '0'..='9' if plain.ends_with('#') => {}
                    '0'..='9' => plain.push('#'),
                    '.' if plain.ends_with('#') => {}
                    c => plain.push(c),
                }
            }
            // The prefix of a unit depends on the number.
            plain.replace("#µs", "#s").replace("#ms", "#s").replace("#ns", "#s")
        });
        shape += &words.collect::<Vec<String>>().join(" ");
        shape.push('\n');
    }
    shape
}

/// Runs each command line with the program itself and with jitlat, and compares the exit statuses and, if `texts` is
/// true, what is printed on standard output. `ours` replaces words of the line for jitlat.
fn compare(program: &str, lines: &[(&str, bool)], ours: impl Fn(&str) -> String) {
    let dir = tempfile::tempdir().unwrap();
    for (line, texts) in lines {
        let real = run(program, line, dir.path());
        let own = run(JITLAT, &format!("as {program} {}", ours(line)), dir.path());
        let said = |output: &Output| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (text(&output.stdout), text(&output.stderr))
        };
        let (theirs, mine) = (said(&real), said(&own));
        assert_eq!(real.status.code(), own.status.code(), "{program} {line}: {theirs:?} {mine:?}");
        if *texts {
            assert_eq!(shape(&theirs.0), shape(&mine.0), "{program} {line}");
        }
    }
}

#[test]
fn command_lines_end_and_print_as_those_of_fping() {
    if !installed(&["fping"]) {
        return;
    }
    let lines = [
        "127.0.0.1",
        "-e 127.0.0.1",
        "-c 3 -p 20 127.0.0.1",
        "-qc2 -p20 127.0.0.1",
        "--count=2 --period=20 127.0.0.1",
        "-C 2 -p 20 127.0.0.1",
        "-c 2 -C 2 -p 20 127.0.0.1",
        "-c 3 -p 20 -t 20 192.0.2.55",
        "-r 0 -t 60 192.0.2.55",
        "-a -r 0 -t 60 192.0.2.55 127.0.0.1",
        "-u -r 0 -t 60 192.0.2.55 127.0.0.1",
        "-A -c 1 localhost",
        "-g 127.0.0.1/30",
        "-g 127.0.0.1 127.0.0.3",
        "-x 1 127.0.0.1",
        "-x 2 127.0.0.1",
        "-D -c 1 127.0.0.1",
        "-s 127.0.0.1",
        "-b 5 127.0.0.1",
        "-S 127.0.0.3 127.0.0.1",
        "-I lo 127.0.0.1",
        "none.invalid 127.0.0.1",
        "-q none.invalid",
        "-c 1 256.1.1.1",
        "-4 ::1",
        "-c x 127.0.0.1",
        "-c 0 127.0.0.1",
        "-t x 127.0.0.1",
        "-Z",
        "--nosuch 127.0.0.1",
        "-t 10 -t",
        "-a -u 127.0.0.1",
        "-l -c 2 127.0.0.1",
        "-b 70000 127.0.0.1",
        "-f nosuch.txt",
        "-S 9.9.9.9 127.0.0.1",
    ];
    compare("fping", &lines.map(|line| (line, true)), str::to_owned);
}

#[test]
fn command_lines_end_and_print_as_those_of_irtt() {
    if !installed(&["irtt"]) {
        return;
    }
    let (ip, dir) = (network::own_address(), tempfile::tempdir().unwrap());
    let server = Background::irtt(ip, dir.path(), "");
    let lines: Vec<(String, bool)> = [
        ("client -d 60ms -i 20ms HOST", true),
        ("client -d 60ms -i 20ms -q -l 20 HOST", true),
        ("client -d 60ms -i 20ms -q -l 50 HOST", true),
        ("client -d 60ms -i 20ms -Q HOST", true),
        ("client -d 60ms -i 20ms -Q -o x HOST", true),
        ("client -n HOST", true),
        ("client -d 60ms -i 20ms -q --tstamp=none HOST", true),
        ("client -d 60ms -i 20ms -q --stats=none HOST", true),
        ("client -d 60ms -i 20ms -q --dscp=46 --clock=wall HOST", true),
        ("client -d 5 HOST", true),
        ("client -i 20 HOST", true),
        ("client --nosuch HOST", true),
        ("client", true),
        ("client -d 60ms HOST extra", true),
        ("nosuch", false),
        ("client --stats=foo HOST", true),
        ("client --tstamp=foo HOST", true),
        ("client --clock=foo HOST", true),
        ("client --wait=foo HOST", true),
        ("client --timer=foo HOST", true),
        ("client --fill=foo HOST", true),
        ("client --fill=pattern:zz HOST", true),
        ("client -d 60ms -i 20ms none.invalid", true),
        ("client -d 60ms -i 20ms -6 HOST", true),
        ("client --version", false),
        ("server -x", true),
    ]
    .map(|(line, texts)| (line.replace("HOST", &format!("{ip}:{}", server.port)), texts))
    .into();
    let lines: Vec<(&str, bool)> = lines.iter().map(|(line, texts)| (line.as_str(), *texts)).collect();
    // A measurement that loses nothing prints the same rows.
    undisturbed(|| compare("irtt", &lines, str::to_owned));
}

#[test]
fn command_lines_end_and_print_as_those_of_iperf3() {
    if !installed(&["iperf3"]) {
        return;
    }
    let ip = network::own_address();
    let dir = tempfile::tempdir().unwrap();
    // Its server listens on TCP.
    let port = std::net::TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap().port();
    let line = format!("-s -B {ip} -p {port}");
    let child = Command::new("iperf3")
        .args(line.split(' '))
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let background = Background { child, port };
    let listens = || std::net::TcpStream::connect((ip, port)).is_ok();
    jitlat_waiting::until("iperf3 to listen", Duration::from_secs(20), listens);
    let server = Server::start(&ip.to_string(), "jitlat", &["--control-port", "0"]);
    let own_port = server.port(0).split(',').next().unwrap().to_owned();
    let there = format!("-u -c {ip} -p {}", background.port);
    let lines: Vec<(String, bool)> = [
        // Far from the rate at which the prefix of the unit changes.
        ("THERE -b 500K -l 1000 -t 1", true),
        ("THERE -b 1K -l 1000 -t 1", true),
        ("THERE -b 500K -l 1000 -t 1 -R", true),
        ("THERE -b 1M -l 1000 -k 20 -i 0", false),
        ("-u -c 127.0.0.1 -p 1 -t 1", true),
        ("-u -c 127.0.0.1 -p 1 -t 1 -J", false),
        ("-u -c none.invalid -J", false),
        ("-u -c none.invalid", true),
        ("-u -c", true),
        ("-u", false),
        ("THERE -t 100000", false),
        ("THERE -l 70000", false),
        ("THERE -l 1", false),
        ("-u -c 127.0.0.1 -p 99999", false),
        ("THERE --nosuch", true),
        ("THERE -i 0.01", false),
        ("THERE -n 10 -t 1", false),
        ("THERE -n 10K -k 2", false),
        ("THERE -S 300", false),
        ("THERE -f x", false),
        ("THERE -J --nosuch", true),
        ("-v", false),
    ]
    .map(|(line, texts)| (line.replace("THERE", &there), texts))
    .into();
    let lines: Vec<(&str, bool)> = lines.iter().map(|(line, texts)| (line.as_str(), *texts)).collect();
    undisturbed(|| {
        compare("iperf3", &lines, |line| line.replace(&format!("-p {port}"), &format!("-p {own_port}")));
    });
}

#[test]
fn smokepings_probe_reads_our_lines() {
    let probe = "/usr/share/perl5/Smokeping/probes/FPing.pm";
    if !installed(&[probe, "/usr/bin/perl"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    links(dir.path(), &["fping"]);
    let script = "
use Smokeping::probes::FPing;
my $properties = { binary => $ARGV[0], protocol => 4, mininterval => 0.01, hostinterval => 0.02, timeout => 1.5 };
my $probe = Smokeping::probes::FPing->new($properties, {}, 'FPing');
$probe->{properties} = $properties;
$probe->{targets} = { one => '127.0.0.1', two => '127.0.0.2' };
$probe->{addrlookup} = { '127.0.0.1' => ['one'], '127.0.0.2' => ['two'] };
no warnings;
*Smokeping::probes::FPing::pings = sub { 20 };
*Smokeping::probes::FPing::addresses = sub { ['127.0.0.1', '127.0.0.2'] };
$probe->ping;
print join(' ', $probe->{pingfactor}, map { scalar @{$probe->{rtts}{$_}} } qw(one two)), ' ', $probe->{rtts}{one}[0], qq(\\n);
";
    let output = Command::new("timeout")
        .args(["60", "perl", "-e", script, &dir.path().join("fping").display().to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let words: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(words.get(..3), Some(&[1000.0, 20.0, 20.0][..]), "{said}");
    assert!(words[3] > 0.0 && words[3] < 1.0, "seconds: {said}");
}
