//! Facts about the clocks on the console, in logs of version 2 and in figures; and how a stream ends when its end is
//! lost.

use crate::harness::*;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Beginnings of the lines of a report that are about the clocks.
const LINES: [&str; 4] = [
    "Estimated control channel minimum RTT",
    "Estimated relative clock error",
    "min/avg/max corrected latency",
    "min/avg/max latency",
];

fn clock_lines(report: &str) -> Vec<String> {
    let begins = |line: &&str| LINES.iter().any(|l| line.starts_with(l));
    report.lines().filter(begins).map(str::to_owned).collect()
}

/// Runs a test against its own server; returns its console output.
fn measured(folder: &Path, arguments: &str) -> String {
    let (host, client) = (own_address(), own_address());
    let _server = Server::start(Place::Here, folder, host, "");
    let line = format!("{host} --bind {client} -n 20 -p 5ms -C {arguments}");
    let done = Running::start(Place::Here.jitlat(folder, &line)).finish(LIMIT);
    assert_eq!(done.code(), 0, "{arguments}: {}", done.stderr);
    done.stdout
}

fn analysed(folder: &Path, arguments: &str) -> String {
    let done = Running::start(Place::Here.jitlat(folder, arguments)).finish(LIMIT);
    assert_eq!(done.code(), 0, "{arguments}: {}", done.stderr);
    done.stdout
}

#[test]
fn a_version_2_log_read_back_says_what_the_console_said() {
    let cases =
        ["", "-R", "-t", "-t -R", "-b", "--classic", "--classic -R", "--classic -t", "--classic -t -R"];
    std::thread::scope(|s| {
        for case in cases {
            s.spawn(move || {
                let folder = tempfile::tempdir().unwrap();
                let said = measured(folder.path(), &format!("--log-version 2 -o log -v {case}"));
                let logs: &[&str] = if case == "-b" { &["log.up", "log.down"] } else { &["log"] };
                let read: Vec<String> = logs
                    .iter()
                    .flat_map(|log| clock_lines(&analysed(folder.path(), &format!("-C -v -f {log}"))))
                    .collect();
                assert_eq!(read, clock_lines(&said), "{case}");
                assert_eq!(read.len(), LINES.len() * logs.len(), "{case}: {read:?}");
                for log in logs {
                    let text = std::fs::read_to_string(folder.path().join(log)).unwrap();
                    let header: Vec<&str> = text.lines().take_while(|l| l.starts_with('#')).collect();
                    assert_eq!(header.len(), 13, "{case}: {header:#?}");
                    assert!(header[11].starts_with("# Estimated relative clock error = "), "{}", header[11]);
                    assert!(
                        header[12].starts_with("# Estimated control channel minimum RTT = "),
                        "{}",
                        header[12]
                    );
                }
                let left = std::fs::read_dir(folder.path()).unwrap().count();
                assert_eq!(left, logs.len(), "{case}: nothing beside the logs");
            });
        }
    });
}

#[test]
fn classic_tests_have_the_median_and_name_the_other_estimate() {
    let folder = tempfile::tempdir().unwrap();
    let said = measured(folder.path(), "--classic -o log --json report.json -v");
    let report = std::fs::read(folder.path().join("report.json")).unwrap();
    let report = Report(serde_json::from_slice(&report).unwrap());
    let [offset, median] = ["offset_ns", "offset_median_ns"].map(|k| report.number(&format!("/clock/{k}")));
    assert!((offset - median).abs() <= 0.5 && report.count("/clock/probes") == 5, "{offset} {median}");
    let (best, bound) = (report.number("/clock/offset_min_rtt_ns"), report.number("/clock/bound_min_rtt_ns"));
    assert!(bound > 0.0 && (best - offset).abs() < 1e9, "{best} {bound}");
    let said_on_one_line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for phrase in [
        "Estimated relative clock error = ",
        "median of 5 probes, as in classic tests",
        "estimate of the shortest round trip = ",
    ] {
        assert!(said_on_one_line.contains(phrase), "{phrase} is not in {said}");
    }
    assert_eq!(
        clock_lines(&analysed(folder.path(), "-C -v -f log")),
        clock_lines(&said),
        "version 3 keeps it, too"
    );
}

#[test]
fn one_letter_corrects_every_figure_of_latency() {
    let folder = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/c_unsync_v2.log");
    let draw = |letter: &str, to: &str| {
        let line = format!("-f {} {letter} --plots {to} --html {to}.html --text-plots", golden.display());
        analysed(folder.path(), &line)
    };
    let (raw, corrected) = (draw("", "raw"), draw("-L", "corrected"));
    let read = |to: &str, name: &str| std::fs::read_to_string(folder.path().join(to).join(name)).unwrap();
    for name in ["latency.svg", "latency-full.svg", "burstiness.svg"] {
        assert!(read("raw", name).contains("not corrected"), "{name}");
        assert!(read("corrected", name).contains("latency, corrected"), "{name}");
        assert!(!read("corrected", name).contains("not corrected"), "{name}");
    }
    for name in ["jitter.svg", "ipdv.svg"] {
        assert_eq!(read("raw", name), read("corrected", name), "{name} does not depend on the clocks");
    }
    assert!(
        raw.contains("latency, not corrected (") && raw.contains("latency, not corrected over arrival time")
    );
    assert!(
        corrected.contains("latency, corrected (") && corrected.contains("latency, corrected over arrival")
    );
    assert!(raw.contains("jitter (PDV) (") && corrected.contains("jitter (PDV) ("));
    let page = |to: &str| std::fs::read_to_string(folder.path().join(format!("{to}.html"))).unwrap();
    assert!(page("raw").contains("one-way latency, not corrected"));
    assert!(!page("corrected").contains("one-way latency, not corrected"));
}

#[test]
fn the_system_chooses_where_a_reverse_stream_comes_from() {
    let folder = tempfile::tempdir().unwrap();
    let port = |arguments: &str| {
        let log = format!("log{}", arguments.replace(' ', ""));
        measured(folder.path(), &format!("-R -o {log} {arguments}"));
        let text = std::fs::read_to_string(folder.path().join(log)).unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix("# src_port ")).map(str::to_owned);
        line.unwrap().parse::<u16>().unwrap()
    };
    for arguments in ["", "-t"] {
        assert!(![0, 2667].contains(&port(arguments)), "{arguments}");
    }
    assert_eq!(port("-s 2667"), 2667);
}

/// Drops the first 300 bytes of sentinels that reach a host, and as many bytes of its first answers on the control
/// connection.
fn lose_ends(server: Ipv4Addr, answers: bool) -> String {
    let (sentinel, both) = ("udp length 88 @th,128,32 0xffffffff", "quota until 300 bytes drop");
    let lost = match answers {
        false => format!("chain in {{ type filter hook input priority 0; {sentinel} {both}\n }}"),
        true => format!(
            "set ended {{ type ipv4_addr; flags dynamic, timeout; timeout 30s; }}
             chain in {{ type filter hook input priority 0; {sentinel} add @ended {{ ip daddr }}\n }}
             chain out {{ type filter hook output priority 0; ip saddr {server} ip saddr @ended tcp sport 2666 \
             tcp flags psh {both}\n }}"
        ),
    };
    format!("table inet ends {{\n{lost}\n}}\n")
}

#[test]
fn a_stream_ends_well_whose_sentinels_or_their_answers_are_lost() {
    let Some(lab) = lab("a_stream_ends_well_whose_sentinels_or_their_answers_are_lost") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let std::net::IpAddr::V4(server) = lab.server.v4 else { panic!("the laboratory has IPv4") };
    let _server = Server::start(Place::In(&lab.server), folder.path(), server, "");
    for answers in [false, true] {
        for arguments in ["", "--classic"] {
            let rules = folder.path().join("rules");
            std::fs::write(&rules, lose_ends(server, answers)).unwrap();
            lab.server.run(&format!("nft -f {}", rules.display())).unwrap();
            let line = format!("{server} -n 50 -p 5ms --json - {arguments}");
            let done = Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT);
            let name = format!("{arguments}, answers lost: {answers}: {}", done.stderr);
            let dropped = lab.server.command("nft").args(["list", "table", "inet", "ends"]).output().unwrap();
            let dropped = String::from_utf8_lossy(&dropped.stdout).into_owned();
            assert!(dropped.contains("used") && !dropped.contains("used 0 bytes"), "{name}\n{dropped}");
            let report = done.report();
            assert_eq!(report.text("/session/ending"), "complete", "{name}");
            assert_eq!(
                (report.count("/counts/unique_valid"), report.count("/counts/lost")),
                (50, 0),
                "{name}"
            );
            lab.server.run("nft delete table inet ends").unwrap();
        }
    }
}
