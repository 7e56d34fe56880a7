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
        let options = formats.map(|f| format!("--{f} {}", if f == failing { "full" } else { f })).join(" ");
        let ping = format!("ping 127.0.0.1 -n 5 -p 1ms --proto stamp --stamp-port {} -o log", server.port(0));
        let output = jitlat(&format!("{ping} {options}"), dir.path());
        let [text, log] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert_eq!(output.status.code(), Some(2), "{failing}: {log}");
        assert!(
            log.contains(&format!("--{failing}")) && log.contains("cannot write full"),
            "{failing}: {log}"
        );
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
    // 192.0.2.0/24 is reserved for documentation: a test would end with another error, after seconds.
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
            let output = jitlat(&format!("{command} --{format} /dev/null/x"), dir.path());
            let log = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command} --{format}: {log}");
            assert!(log.contains(&format!("--{format}")) && log.contains("/dev/null/x"), "{command}: {log}");
            assert!(output.stdout.is_empty() && !log.contains("192.0.2.1"), "{command} --{format}: {log}");
        }
    }
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["log"], "nothing was begun");
}

#[test]
fn a_format_of_round_trips_is_refused_where_there_are_none() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["192.0.2.1", "spp -f none.pcap -F none.pcap"] {
        let output = jitlat(&format!("{command} --json-irtt x"), dir.path());
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {log}");
        assert!(log.contains("--json-irtt is of round trips"), "{command}: {log}");
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
    // It is whole, and read again from standard input; redirected to a file it is the same.
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
        ("192.0.2.1 --csv rows -o -", "--csv takes its rows from the log"),
        ("192.0.2.1 --csv rows --no-log", "--csv takes its rows from the log"),
        ("ping 192.0.2.1 --json - -o -", "standard output can take one format only"),
    ] {
        let refused = jitlat(line, dir.path());
        assert_eq!(refused.status.code(), Some(2), "{line}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{line}: {refused:?}");
    }
}
