//! Result files: refused before the measurement, or written as far as possible.

use crate::server::Server;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");

fn jitlat(arguments: &str, folder: &Path) -> Output {
    Command::new(JITLAT).args(arguments.split_whitespace()).current_dir(folder).output().unwrap()
}

#[test]
fn what_cannot_be_written_costs_no_other_file() {
    let (server, dir) = (Server::start("127.0.0.1", "stamp", &[]), tempfile::tempdir().unwrap());
    symlink("/dev/full", dir.path().join("full")).unwrap();
    let formats = ["html", "csv", "summary-csv", "openmetrics", "hdr", "json"];
    for failing in formats {
        let options =
            formats.map(|f| format!("--as {f}={}", if f == failing { "full" } else { f })).join(" ");
        let ping = format!("ping 127.0.0.1 -n 5 -p 1ms --proto stamp --stamp-port {} -o log", server.port(0));
        let output = jitlat(&format!("{ping} {options}"), dir.path());
        let [text, log] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert_eq!(output.status.code(), Some(2), "{failing}: {log}");
        assert!(log.contains(failing) && log.contains("cannot write full"), "{failing}: {log}");
        assert!(text.contains("5 "), "{failing}: {text}");
        for written in formats.iter().filter(|f| **f != failing).chain(&["log"]) {
            let path = dir.path().join(written);
            assert!(fs::metadata(&path).is_ok_and(|m| m.len() > 0), "{failing}: {written}");
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn what_could_not_be_written_is_refused_before_anything_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/b_wan_lossy_v1.log");
    symlink(testdata, dir.path().join("log")).unwrap();
    let streams = ["json", "csv", "summary-csv", "openmetrics", "hdr", "html", "plots"];
    // 192.0.2.0/24 is reserved for documentation: an actual test would end with another error after seconds.
    for (command, formats) in [
        ("192.0.2.1", &streams[..]),
        ("192.0.2.1 --load udp:1Mbit", &streams),
        ("ping 192.0.2.1", &streams),
        ("ping 192.0.2.1 --load udp:1Mbit", &streams),
        ("analyze log", &streams),
        ("compare log log", &["json", "csv", "html", "plots"]),
        ("sweep 192.0.2.1 -l 100,200", &["json", "csv", "plots"]),
        ("doctor", &["json"]),
    ] {
        for format in formats {
            let output = jitlat(&format!("{command} --as {format}=/dev/null/x"), dir.path());
            let log = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command} --as {format}: {log}");
            assert!(log.contains(format) && log.contains("/dev/null/x"), "{command}: {log}");
            assert!(output.stdout.is_empty() && !log.contains("192.0.2.1"), "{command} --as {format}: {log}");
        }
    }
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["log"], "nothing was begun");
}

#[test]
fn a_format_of_round_trips_is_refused_where_there_are_none() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["192.0.2.1", "spp -f none.pcap -F none.pcap"] {
        let output = jitlat(&format!("{command} --as irtt=x"), dir.path());
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {log}");
        assert!(log.contains("--as irtt is only defined for round trips"), "{command}: {log}");
    }
}

#[test]
fn two_files_of_one_name_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for options in ["--json x --html x", "--json x -o x", "--json - --csv -"] {
        let output = jitlat(&format!("192.0.2.1 {options}"), dir.path());
        assert_eq!(output.status.code(), Some(2), "{options}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("192.0.2.1"), "{options}");
    }
}

#[test]
fn a_log_on_standard_output_has_it_to_itself() {
    let (server, dir) = (Server::start("127.0.0.1", "stamp", &[]), tempfile::tempdir().unwrap());
    let ping = format!("ping 127.0.0.1 -n 20 -p 1ms --proto stamp --stamp-port {} -o -", server.port(0));
    let output = jitlat(&ping, dir.path());
    assert!(output.status.success(), "{output:?}");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(report.contains("round trip") && report.contains("No verdict: 20 packets"), "{report}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no file called -");
    // The log is complete and can be read from standard input; redirected to a file it is the same.
    let file = fs::File::create(dir.path().join("redirected")).unwrap();
    let status = Command::new(JITLAT)
        .args(ping.split_whitespace())
        .current_dir(dir.path())
        .stdout(file)
        .stderr(std::process::Stdio::null())
        .status();
    assert!(status.unwrap().success());
    fs::write(dir.path().join("piped"), &output.stdout).unwrap();
    for log in ["piped", "redirected"] {
        let input = fs::File::open(dir.path().join(log)).unwrap();
        let read = Command::new(JITLAT).args(["analyze", "-", "--json", "-"]).stdin(input).output().unwrap();
        let summary: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
        assert_eq!(summary["counts"]["received"], 20, "{log}: {summary}");
        assert_eq!(summary["answer"]["complete"], true, "{log}");
    }
    for (line, why) in [
        ("192.0.2.1 -b -o -", "-o - writes one stream"),
        ("ping 192.0.2.1 --json - -o -", "standard output can hold only one format"),
    ] {
        let refused = jitlat(line, dir.path());
        assert_eq!(refused.status.code(), Some(2), "{line}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{line}: {refused:?}");
    }
}

#[test]
fn every_name_of_as_is_a_file_with_a_log_and_without() {
    let server = Server::start("127.0.0.1", "jitlat,stamp", &["--control-port", "0"]);
    let dir = tempfile::tempdir().unwrap();
    let (control, stamp) = (server.port(0).split(',').next().unwrap(), server.port(1));
    let ping = format!("ping 127.0.0.1 --proto stamp --stamp-port {stamp}");
    let one_way = format!("127.0.0.1 --control-port {control}");
    let everywhere = [
        "json",
        "csv",
        "summary-csv",
        "openmetrics",
        "intervals",
        "hdr",
        "html",
        "late",
        "late-packets",
        "graphite",
        "influx",
        "collectd",
        "zabbix",
        "otlp",
        "otlp-protobuf",
    ];
    // These formats have every figure, also those that a log does not contain.
    let with_every_figure =
        ["html", "json", "openmetrics", "influx", "collectd", "zabbix", "otlp", "otlp-protobuf"];
    for (test, more) in [(&ping, &["irtt"][..]), (&one_way, &[][..])] {
        let names: Vec<&str> = everywhere.iter().chain(more).copied().collect();
        let options: String = names.iter().map(|name| format!(" --as {name}={name}")).collect();
        for log in ["--no-log", "-o log"] {
            let line = format!("{test} -n 30 -p 2ms --interval 20ms {log}{options}");
            let output = jitlat(&line, dir.path());
            assert!(output.status.success(), "{line}: {output:?}");
            for name in &names {
                let of_test =
                    fs::read(dir.path().join(name)).unwrap_or_else(|e| panic!("{line}: {name}: {e}"));
                assert!(of_test.len() > 20, "{line}: {name}");
                // The log gives the same results, except for what only the test knows: time of writing, and command.
                if log == "-o log" {
                    let exported = jitlat(&format!("export log --interval 20ms --as {name}"), dir.path());
                    assert!(exported.status.success(), "{name}: {exported:?}");
                    let same = exported.stdout == of_test;
                    assert!(same || with_every_figure.contains(name), "{test}: {name}");
                }
                fs::remove_file(dir.path().join(name)).unwrap();
            }
        }
        fs::remove_file(dir.path().join("log")).unwrap();
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_name_that_is_not_known_lists_those_that_are() {
    let dir = tempfile::tempdir().unwrap();
    let output = jitlat("export log --as hrd", dir.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("unknown format 'hrd'") && said.contains("hdr, "), "{said}");
    let help = jitlat("export --as help", dir.path());
    let list = String::from_utf8_lossy(&help.stdout);
    assert!(help.status.success() && list.contains("hdr ") && list.contains("OpenMetrics"), "{help:?}");
    let output = jitlat("doctor --as hdr", dir.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("this command cannot write 'hdr'") && said.contains("json"), "{said}");
    // Systems get the figures of one test; captures and sweeps have many.
    for command in ["tcp none.pcap", "sweep 127.0.0.1", "compare a b"] {
        let output = jitlat(&format!("{command} --as influx"), dir.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        assert!(
            said.contains("'influx', which needs the figures of one test: choose one of"),
            "{command}: {said}"
        );
    }
    let output = jitlat("export log --as hdr --as csv x", dir.path());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--as NAME=FILE for each"), "{output:?}");
}

#[test]
fn options_of_version_0_1_still_work() {
    let dir = tempfile::tempdir().unwrap();
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/b_wan_lossy_v1.log");
    symlink(testdata, dir.path().join("log")).unwrap();
    for (former, now) in [
        ("--hdr x", "hdr"),
        ("--summary-csv x", "summary-csv"),
        ("--openmetrics x", "openmetrics"),
        ("--interval 5s --intervals x", "intervals"),
    ] {
        for line in [format!("analyze log {former}"), format!("analyze log --interval 5s --as {now}=y")] {
            let output = jitlat(&line, dir.path());
            assert!(output.status.success(), "{line}: {output:?}");
        }
        let (x, y) = (fs::read(dir.path().join("x")).unwrap(), fs::read(dir.path().join("y")).unwrap());
        assert_eq!(x.is_empty(), y.is_empty(), "{former}");
        if former.contains("interval") {
            assert_eq!(x, y);
        }
    }
}
