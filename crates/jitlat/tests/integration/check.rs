//! `--check`: one line and a state for Nagios, Icinga and other systems that run their plug-ins.

use crate::server::Server;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output};

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");
const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/b_wan_lossy_v1.log");

/// Runs a check, which must print one line. Returns its exit status, text and performance data.
fn check(line: &str, folder: &Path) -> (i32, String, Vec<Datum>) {
    let output: Output = Command::new("timeout")
        .args(["-s", "KILL", "60", JITLAT])
        .args(line.split(' '))
        .current_dir(folder)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().unwrap();
    let names = ["OK - ", "WARNING - ", "CRITICAL - ", "UNKNOWN - "];
    assert_eq!(printed.matches('\n').count(), 1, "{line}: '{printed}' {errors}");
    assert!(
        printed.ends_with('\n') && printed.trim_end().chars().all(|c| !c.is_control()),
        "{line}: {printed:?}"
    );
    assert!(printed.starts_with(names[usize::try_from(code).unwrap()]), "{line}: {code}: {printed} {errors}");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "{line}: it wrote a file");
    let (text, data) = printed.trim_end().split_once(" | ").unwrap_or((printed.trim_end(), ""));
    (code, text.to_owned(), Datum::all(data))
}

/// One figure of performance data, as the guidelines for plug-ins define it.
#[derive(Debug)]
struct Datum {
    label: String,
    value: String,
    unit: String,
    warning: String,
    critical: String,
}

impl Datum {
    /// Reads `'LABEL'=VALUE[UNIT];[WARN];[CRIT];[MIN];[MAX]`, separated by blanks.
    fn all(mut text: &str) -> Vec<Datum> {
        let mut found = Vec::new();
        while !text.is_empty() {
            let (label, rest) = text.strip_prefix('\'').and_then(|rest| rest.split_once("'=")).expect(text);
            let (fields, later) = rest.split_once(' ').unwrap_or((rest, ""));
            let fields: Vec<&str> = fields.split(';').collect();
            assert!(!label.contains(['\'', '=']) && fields.len() <= 5, "{text}");
            let digits = |c: char| c.is_ascii_digit() || c == '.' || c == '-' || c == 'U';
            let at = fields[0].find(|c| !digits(c)).unwrap_or(fields[0].len());
            let (value, unit) = fields[0].split_at(at);
            assert!(value == "U" || value.parse::<f64>().is_ok(), "{text}");
            assert!(["", "s", "ms", "us", "%", "B", "c"].contains(&unit), "{text}");
            let field = |k: usize| fields.get(k).copied().unwrap_or_default().to_owned();
            found.push(Datum {
                label: label.to_owned(),
                value: value.to_owned(),
                unit: unit.to_owned(),
                warning: field(1),
                critical: field(2),
            });
            text = later;
        }
        found
    }
}

fn of<'a>(data: &'a [Datum], label: &str) -> &'a Datum {
    data.iter().find(|datum| datum.label == label).unwrap_or_else(|| panic!("no {label}: {data:?}"))
}

#[test]
fn a_host_that_answers_is_judged_by_conditions() {
    let (server, dir) =
        (Server::start("127.0.0.1", "jitlat,stamp", &["--control-port", "0"]), tempfile::tempdir().unwrap());
    let (control, stamp) = (server.port(0).split(',').next().unwrap(), server.port(1));
    let ping = format!("ping 127.0.0.1 --proto stamp --stamp-port {stamp} -n 20 -p 1ms --check");
    let test = format!("127.0.0.1 --control-port {control} -n 20 -p 1ms --check");
    for (test, conditions, code) in [
        (&ping, "", 0),
        (&ping, " -w delay-p99>1h -c loss>5%", 0),
        (&ping, " -w delay-p99<1h", 1),
        (&ping, " -w delay-p99<1h -c loss<5%", 2),
        (&ping, " -w 100000,90% -c 200000,95%", 0),
        (&ping, " -c sent<21 -w mos<1", 2),
        (&ping, " -w path>=poor", 3),
        (&test, "", 0),
        (&test, " -w loss<5%", 1),
        (&test, " -b -w loss<5%", 1),
        (&test, " -w up-loss>5%", 3),
    ] {
        let (found, text, data) = check(&format!("{test}{conditions}"), dir.path());
        assert_eq!(found, code, "{test}{conditions}: {text}");
        assert!(data.iter().any(|datum| datum.label.ends_with("sent") && datum.value == "20"), "{data:?}");
    }
    let (_, text, data) = check(&format!("{ping} -w delay-p99<1h -c up-loss>5% -c loss>7.5%"), dir.path());
    assert!(text.contains("delay-p99<1h (latency-p99 is "), "{text}");
    let delay = of(&data, "latency-p99");
    assert_eq!(
        (delay.unit.as_str(), delay.warning.as_str(), delay.critical.as_str()),
        ("ms", "3600000:", "")
    );
    let loss = of(&data, "loss");
    assert_eq!((loss.value.as_str(), loss.unit.as_str(), loss.critical.as_str()), ("0", "%", "7.5"));
    // This reflector does not count requests, so that losses have no direction.
    let up = of(&data, "up-loss");
    assert_eq!((up.value.as_str(), up.critical.as_str()), ("U", "5"));
    assert!(text.contains("up-loss>5% cannot be decided: up-loss is unknown"), "{text}");
}

#[test]
fn a_host_that_does_not_answer_is_critical() {
    let server = Server::start("127.0.0.1", "stamp", &[]);
    let dir = tempfile::tempdir().unwrap();
    // A socket that is not read: requests disappear.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().port();
    let base = "--proto stamp -n 3 -p 1ms --timeout 200ms --check";
    let (code, text, data) = check(&format!("ping 127.0.0.1 --stamp-port {silent} {base}"), dir.path());
    assert!(code == 2 && text.contains("none of 3 requests was answered"), "{text}");
    assert_eq!(of(&data, "received").value, "0");
    let (code, text, _) =
        check(&format!("ping 127.0.0.1 --stamp-port {silent} {base} -w loss>50%"), dir.path());
    assert!(code == 2, "{text}");
    // Nothing listens at the second address.
    let hosts = format!("ping 127.0.0.1 127.0.0.9 --stamp-port {} {base}", server.port(0));
    let (code, text, data) = check(&hosts, dir.path());
    assert!(code == 2 && text.starts_with("CRITICAL - 1 of 2: 127.0.0.9: "), "{text}");
    assert_eq!(of(&data, "127.0.0.1 loss").value, "0");
    // Nothing listens at the port of the server for one-way tests.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (code, text, _) = check(&format!("127.0.0.1 --control-port {closed} --check"), dir.path());
    assert!(code == 2 && text.contains("cannot connect to 127.0.0.1"), "{text}");
}

#[test]
fn a_host_without_a_route_is_critical_as_for_check_ping() {
    // A namespace of its own has no route to any host.
    for line in ["ping 192.0.2.7 -n 2", "ping 192.0.2.7 -n 2 --proto stamp", "192.0.2.7 -n 2"] {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", "unshare", "--user", "--map-root-user", "--net", JITLAT]);
        let output = command.args(line.split(' ')).arg("--check").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        if errors.contains("unshare") {
            assert!(std::env::var_os("JITLAT_REQUIRE_PRIVILEGED").is_none(), "{errors}");
            println!("skipped: {errors}");
            return;
        }
        assert!(
            output.status.code() == Some(2)
                && said.starts_with("CRITICAL - ")
                && said.contains("unreachable"),
            "{line}: {said} {errors}"
        );
    }
}

#[test]
fn a_check_that_cannot_be_made_is_unknown_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    for (line, why) in [
        ("ping 127.0.0.1 --check -w delay>100ms", "'delay' is not a figure: did you mean delay-p99"),
        ("ping 127.0.0.1 --check -c 3", "--critical"),
        ("ping 127.0.0.1 --check -w loss>5", "is not a percentage"),
        ("ping --check", "not provided"),
        ("--check", "not provided"),
        ("pnig 127.0.0.1 --check", "did you mean `jitlat ping`"),
        ("ping 127.0.0.1 --check --json -", "standard output can hold only the line of --check"),
        ("ping 127.0.0.1 --check -q", "cannot be used with"),
        ("ping 127.0.0.1 --check --load tcp", "--load: --check prints one line"),
        ("ping no.such.host.invalid --check -n 3", "no.such.host.invalid"),
        ("-f none.log --check", "none.log"),
        ("rpm 127.0.0.1 --check", "--check judges tests (jitlat HOST, jitlat ping) and saved logs"),
        ("127.0.0.1 --check --bind 198.51.100.7", "--bind must be an address"),
    ] {
        let (code, text, data) = check(line, dir.path());
        assert!(code == 3 && text.contains(why) && data.is_empty(), "{line}: {code}: {text}");
    }
}

#[test]
fn a_check_ends_at_its_time_limit() {
    let dir = tempfile::tempdir().unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let line = format!(
        "ping 127.0.0.1 --proto stamp --stamp-port {port} --timeout 1h --check --check-timeout 200ms"
    );
    let (code, text, _) = check(&line, dir.path());
    assert!(code == 3 && text.contains("did not end within 0.2 s (--check-timeout)"), "{text}");
}

#[test]
fn a_saved_log_is_judged_like_a_test() {
    let dir = tempfile::tempdir().unwrap();
    for (line, code) in [
        (format!("-f {LOG} --check"), 0),
        (format!("analyze {LOG} --check -w loss>0.1%"), 1),
        (format!("analyze {LOG} {LOG} --check -w loss>90% -c loss>0.1%"), 2),
        (format!("analyze none.log {LOG} {LOG} --check -c loss>0.1%"), 2),
        (format!("analyze none.log {LOG} --check"), 3),
        (format!("-f {LOG} --check -w skew>1000000ppm -w up-loss>1%"), 3),
    ] {
        let (found, text, data) = check(&line, dir.path());
        assert_eq!(found, code, "{line}: {text}");
        assert!(data.iter().any(|datum| datum.label.ends_with("pdv-p99") && datum.unit == "ms"), "{data:?}");
        assert_eq!(line.contains("none.log"), text.contains("none.log: "), "{line}: {text}");
    }
    // The parts of one test are judged together or not at all.
    let (code, text, data) = check(&format!("analyze {LOG} none.log --merge --check"), dir.path());
    assert!(code == 3 && text.contains("none.log") && data.is_empty(), "{code}: {text}");
}
