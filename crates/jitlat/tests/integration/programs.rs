//! Other programs' command lines: the ten that people of each program type most, against `jitlat serve` on loopback, with
//! the text and the exit status that their scripts expect.

use crate::server::Server;
use crate::side_by_side::side_by_side;
use crate::undisturbed::undisturbed;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");
const IP: &str = "127.0.0.1";

/// A command line, the exit status, and words that its output contains. In the command line, `{}` is the port of the
/// server.
type Case = (&'static str, i32, &'static [&'static str]);

fn run(arguments: &str, folder: &Path) -> Output {
    // A test ends by itself within seconds; the time limit is for a conversation that hangs.
    let mut command = Command::new("timeout");
    command.args(["60", JITLAT]).args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command.output().unwrap()
}

/// Returns both outputs, with standard error after `--- stderr`.
fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

fn check(program: &str, port: &str, cases: &[Case]) {
    side_by_side(4, cases, |(line, status, words)| {
        let dir = tempfile::tempdir().unwrap();
        let line = line.replace("{}", port);
        let output = run(&format!("as {program} {line}"), dir.path());
        let said = said(&output);
        assert_eq!(output.status.code(), Some(*status), "{program} {line}: {said}");
        for word in *words {
            assert!(said.contains(word), "{program} {line}: no '{word}' in {said}");
        }
    });
}

#[test]
fn irtt_as_people_type_it() {
    let server = Server::start(IP, "irtt", &["--irtt-trust", "127.0.0.0/8"]);
    let words =
        &["[Connected] connection established\nseq=0 rtt=", " rd=", " ipdv=n/a\n", "packets sent/received: "];
    check(
        "irtt",
        server.port(0),
        &[
            ("client -d 200ms -i 20ms 127.0.0.1:{}", 0, words),
            ("client -i 10ms -d 0.1s -q 127.0.0.1:{}", 0, &["Stddev\n", "send/receive rate: "]),
            (
                "client -i 10ms -d 100ms -Q -o - 127.0.0.1:{}",
                0,
                &["\"packets_sent\": ", "\"lost\": \"false\""],
            ),
            ("client -o - --fill=rand -Q -d 0.1s -i 0.01s -4 127.0.0.1:{}", 0, &["\"ipdv_round_trip\": {"]),
            ("client -n -Q --timeouts=200ms,300ms,400ms 127.0.0.1:{}", 0, &[]),
            ("client -n 127.0.0.1:{}", 0, &["[NoTest] skipping test at user request"]),
            (
                "client -i 10ms -d 100ms -l 172 --dscp=0xb8 -Q -o - 127.0.0.1:{}",
                0,
                &["\"length\": 172", "\"dscp\": 184"],
            ),
            ("client -r -i 10ms -d 50ms 127.0.0.1:{}", 0, &["\n0 0."]),
            ("client -i 10ms -d 50ms --stats=count --tstamp=midpoint --clock=wall 127.0.0.1:{}", 0, &["RTT"]),
            ("client -i 10ms -d 50ms -q -l 20 127.0.0.1:{}", 0, &["RTT"]),
            ("client -i 10ms -d 50ms -Q -l 50 -o - 127.0.0.1:{}", 0, &["\"length\": 60"]),
            ("client -v", 0, &["irtt version: 0.9.0 (jitlat "]),
            ("version", 0, &["irtt version: 0.9.0 (jitlat "]),
            ("client -d 0 127.0.0.1:{}", 1, &["--- stderr\nirtt: -d 0: the duration must be longer"]),
            ("client -i 0s 127.0.0.1:{}", 1, &["--- stderr\nirtt: -i 0s: the interval must be longer"]),
            ("client --fill=foo 127.0.0.1:{}", 2, &["--- stderr\nirtt: invalid value 'foo'"]),
            ("client -l 70000 127.0.0.1:{}", 2, &["--- stderr\nirtt: -l 70000: irtt takes"]),
            ("client", 2, &["give a host: irtt client HOST"]),
            ("client -i 20 127.0.0.1:{}", 2, &["irtt: -i 20: '20' is not a time"]),
            ("client -s 127.0.0.1:{}", 2, &["irtt: -s is not taken: "]),
            ("127.0.0.1", 2, &["give a command: irtt client HOST"]),
            ("help client", 0, &["--fill FILL", "--timeouts TIMES"]),
        ],
    );
}

#[test]
fn owping_as_people_type_it() {
    let server = Server::start(IP, "owamp", &[]);
    let both = &[
        "owping statistics from [127.0.0.1]:",
        "5 sent, 0 lost (0.000%), 0 duplicates",
        "one-way jitter = ",
        "no reordering\n\n",
    ];
    check(
        "owping",
        server.port(0),
        &[
            ("-c 5 -i 0.01f -L 0.3 127.0.0.1:{}", 0, both),
            ("-c 5 -i 0.01e -L 0.3 -t 127.0.0.1:{}", 0, &["Approximately "]),
            ("-c 5 -i 0.01f -L 0.3 -f 127.0.0.1:{}", 0, &["hops = 0 (consistently)"]),
            ("-c 5 -i 0.01f -L 0.3 -t -R 127.0.0.1:{}", 0, &["\n4 17"]),
            (
                "-c 5 -i 0.01f -L 0.3 -t -M 127.0.0.1:{}",
                0,
                &["SUMMARY\t3.00\n", "LOSS_TIMEOUT\t128849018", "<NREORDERING>\n\t1\t0\n"],
            ),
            ("-c 5 -i 0.01f -L 0.3 -t -v 127.0.0.1:{}", 0, &["seq_no=0          delay="]),
            (
                "-c 5 -i 0.01f -L 0.3 -t -a 50,90 -b 0.000001 -n u 127.0.0.1:{}",
                0,
                &["Percentiles:\n\t50.0: ", " us, "],
            ),
            ("-c 5 -i 0.01f -L 0.3 -t -D EF -s 100 -P 8760-9960 127.0.0.1:{}", 0, &["5 sent"]),
            ("-c 5 -i 0.01f -L 0.3 -t -Q -T data.owp 127.0.0.1:{}", 0, &[]),
            ("-c 5 -N 2 127.0.0.1:{}", 1, &["owping: -N is not taken: `jitlat HOST --interval 1s"]),
            ("-c 5 -t -u tester 127.0.0.1:{}", 1, &["--owamp-key-file"]),
            // As in owping, the time is announced when the session has started.
            ("-c 5 -i 0.01f -D 99 127.0.0.1:{}", 1, &["--- stderr\nowping: invalid value '99'"]),
            ("-c 5 -P 1-2 127.0.0.1:{}", 1, &["--- stderr\nowping: -P needs -t or -f"]),
            ("-c 5 -i 0.01f -L 0.3 -t -z 0.2 127.0.0.1:{}", 0, &["Approximately ", "5 sent"]),
            ("-c 5 -i 0.01f 127.0.0.1:1", 1, &["--- stderr\nowping: cannot connect to 127.0.0.1"]),
            ("", 1, &["owping: give HOST"]),
        ],
    );
}

#[test]
fn twping_as_people_type_it() {
    let server = Server::start(IP, "twamp", &[]);
    let text = &[
        "twping statistics from [127.0.0.1]:",
        "round-trip time min/median/max = ",
        "5 sent, 0 lost (0.000%), 0 send duplicates",
    ];
    check(
        "twping",
        server.port(0),
        &[
            ("-c 5 -i 0.01f -L 0.5 127.0.0.1:{}", 0, text),
            ("-c 5 -i 0.01f 127.0.0.1:{}", 0, &["Approximately 3.0 seconds until results available\n"]),
            ("-c 5 -i 0.01e 127.0.0.1:{}", 0, &["reflect hops = 0 (consistently)\n\n"]),
            ("-R -c 5 -i 0.01f 127.0.0.1:{}", 0, &["\n4 17"]),
            // The command of pScheduler.
            ("-R -c 5 -i 0.01f -L 1 -P 8760-9960 -D 46 -s 100 -S 127.0.0.1 127.0.0.1:{}", 0, &["\n4 17"]),
            (
                "-M -c 5 -i 0.01f 127.0.0.1:{}",
                0,
                &["PACKET_PADDING\t27\n", "DUPS_BCK\t0\n", "</TTLBUCKETS>\n\n"],
            ),
            ("-v -c 5 -i 0.01f 127.0.0.1:{}", 0, &["seq_no=0          fwd_delay="]),
            ("-v2 -c 5 -i 0.01f 127.0.0.1:{}", 0, &["seq_no=1 "]),
            ("-b 0.000001 -n u -c 5 -i 0.01f 127.0.0.1:{}", 0, &[" us (P95-P50)"]),
            ("-A O -4 -c 5 -i 0.01f 127.0.0.1:{}", 0, &["5 sent"]),
            ("-Z -c 5 -i 0.01f 127.0.0.1:{}", 0, &["5 sent"]),
            ("-a 50 127.0.0.1:{}", 1, &["twping: -a is not taken: percentiles"]),
            ("-c 5 -i 0.01f 127.0.0.1:1", 1, &["--- stderr\ntwping: "]),
            ("-i 1e,0f 127.0.0.1:{}", 1, &["a list of gaps is not possible here"]),
        ],
    );
}

#[test]
fn fping_as_people_type_it() {
    check(
        "fping",
        "",
        &[
            ("127.0.0.1", 0, &["127.0.0.1 is alive\n"]),
            ("-e 127.0.0.1", 0, &["127.0.0.1 is alive (", " ms)\n"]),
            ("-a -q 127.0.0.1 127.0.0.2", 0, &["127.0.0.1\n127.0.0.2\n"]),
            ("-u 127.0.0.1", 0, &[]),
            ("-C 3 -q -p 20 127.0.0.1 127.0.0.11", 0, &["--- stderr\n127.0.0.1  : 0", "\n127.0.0.11 : 0"]),
            (
                "-c 3 -p 20 127.0.0.1",
                0,
                &[
                    "127.0.0.1 : [2], 64 bytes, ",
                    "--- stderr\n\n127.0.0.1 : xmt/rcv/%loss = 3/3/0%, min/avg/max = ",
                ],
            ),
            ("-c 3 -p 20 -q 127.0.0.1", 0, &["127.0.0.1 : xmt/rcv/%loss = 3/3/0%"]),
            ("-D -c 2 -p 20 127.0.0.1", 0, &["] 127.0.0.1 : [1], 64 bytes, "]),
            ("-s 127.0.0.1", 0, &["       1 alive\n", "       1 ICMP Echos sent\n"]),
            ("-4 -b 1000 -t 500 -i 10 -c 2 -p 20 127.0.0.1", 0, &["[1], 1008 bytes"]),
            // The command of smokeping's probe.
            ("-C 5 -q -B1 -r1 -4 -t1500 -i10 -p20 127.0.0.1", 0, &["127.0.0.1 : 0"]),
            ("none.invalid 127.0.0.1", 2, &["127.0.0.1 is alive\n", "none.invalid: "]),
            ("-g 127.0.0.0/30", 0, &["127.0.0.1 is alive\n127.0.0.2 is alive\n"]),
            ("-a -g 127.0.0.1 127.0.0.3", 0, &["127.0.0.1\n127.0.0.2\n127.0.0.3\n"]),
            ("-g 127.0.0.0/8", 1, &["hosts are too many"]),
            ("-A -e localhost -4", 0, &["127.0.0.1 is alive ("]),
            ("-x 2 127.0.0.1", 1, &["Not enough hosts reachable (required: 2, reachable: 1)\n"]),
            ("-c 2 -C 3 -q -p 20 127.0.0.1", 0, &["127.0.0.1 : 0."]),
            ("-v", 0, &["fping: Version 5.1 (jitlat "]),
            ("-J 127.0.0.1", 1, &["`jitlat ping A B C --json -`"]),
            ("-c x 127.0.0.1", 1, &["fping: invalid value 'x'"]),
            ("-c 0 127.0.0.1", 1, &["--- stderr\nfping: invalid value '0' for '-c <N>'"]),
            ("-b 70000 127.0.0.1", 1, &["--- stderr\nfping: -b 70000: icmp takes"]),
            ("", 1, &["fping: give a host"]),
            ("-f none.txt", 4, &["reading the hosts in none.txt"]),
        ],
    );
}

#[test]
fn late_as_people_type_it() {
    let server = Server::start(IP, "lamp", &[]);
    let text = &[
        "[latency type] = User-to-user",
        "Received a reply from 127.0.0.1 (seq=4). Time: ",
        "Lost packets: 0.00% [0/5]",
        "Program terminated.",
    ];
    check(
        "LaTe",
        server.port(0),
        &[
            ("-c 127.0.0.1 -B -u -p {} -t 10 -n 5", 0, text),
            (
                "-l -B -u -p {} -t 10 -n 5 -C 7",
                0,
                &["Confidence intervals (.90): ", "Confidence intervals (.99): "],
            ),
            ("-l -B -u -p {} -t 10 -n 5 -f out -o", 0, &["Report data was saved inside out.csv"]),
            ("-l -B -u -p {} -t 10 -n 5 -W pkt -y -X a", 0, &["Report data was saved inside pkt.csv"]),
            ("-l -B -u -p {} -t 10 -n 5 -P 1448 -L r", 0, &["[payload length] = 1448 B ", "(KRT) Minimum: "]),
            ("-l -B -u -p {} -t 10 -n 5 -L s", 0, &["Software (kernel) timestamps"]),
            ("-l -B -u -p {} -t 10 -n 5 -F", 0, &["Lost packets: 0.00%"]),
            ("-l -U -u -p {} -t 10 -n 5", 0, &["Unidirectional statistics:\nLatency over 5 packets:"]),
            ("-l -B -u -p {} -i 1 -t 50", 0, &["[test duration] = 1 s"]),
            ("-l -B -u -p {} -t 10 -n 5 -R u5,2", 0, &["[random interval] = RAND_UNIFORM"]),
            ("-l -u -p {}", 1, &["LaTe: choose -B (round trips) or -U"]),
            ("-c 127.0.0.1 -B -a", 1, &["LaTe: -a is not taken: there is no AMQP here"]),
        ],
    );
}

#[test]
fn iperf3_as_people_type_it() {
    let server = Server::start(IP, "jitlat", &["--control-port", "0"]);
    // The line also has the test port.
    let port = server.port(0).split(',').next().unwrap();
    let text = &[
        "Connecting to host 127.0.0.1, port ",
        "[ ID] Interval           Transfer     Bitrate         Total Datagrams\n",
        " (0%)  sender\n",
        "  receiver\n\niperf Done.\n",
    ];
    check(
        "iperf3",
        port,
        &[
            ("-u -c 127.0.0.1 -p {} -b 1M -l 1000 -t 1", 0, text),
            ("-u -c 127.0.0.1 -p {} -k 100 -l 100", 0, &["0/100 (0%)  receiver"]),
            ("-c 127.0.0.1 -u -p {} -n 10K -l 1024", 0, &["0/10 (0%)  receiver"]),
            (
                "-u -c 127.0.0.1 -p {} -k 100 -l 100 -R",
                0,
                &["Reverse mode, remote host 127.0.0.1 is sending", " ms  0/100 (0%)  \n"],
            ),
            (
                "-u -c 127.0.0.1 -p {} -k 100 -l 100 -J",
                0,
                &["\"protocol\": \"UDP\"", "\"jitter_ms\"", "\"lost_percent\": 0.0"],
            ),
            ("-u -c 127.0.0.1 -p {} -k 100 -l 100 -R -J", 0, &["\"reverse\": 1"]),
            ("-u -c 127.0.0.1 -p {} -k 100 -l 100 -i 0", 0, &["iperf Done."]),
            ("-u -c 127.0.0.1 -p {} -k 100 -l 100 -S 0xb8 -4 -P 1", 0, &["iperf Done."]),
            ("-u -c 127.0.0.1:{} -k 100 -l 100", 0, &["iperf Done."]),
            ("-u -c 127.0.0.1 -p {} -b 1K -t 1", 0, &["  0.00-1.00   sec  1.43 KBytes  11.7 Kbits/sec"]),
            ("-u -c 127.0.0.1 -p 1", 1, &["iperf3: cannot connect to 127.0.0.1"]),
            (
                "-u -c 127.0.0.1 -p 1 -J",
                0,
                &["\"error\": \"cannot connect to 127.0.0.1", "\"intervals\": []"],
            ),
            ("-u -c none.invalid -J", 0, &["\"error\": \"cannot find an address of none.invalid"]),
            ("-u -c 127.0.0.1 -n 10 -t 1", 1, &["-t, -n and -k all set the length"]),
            ("-u -c 127.0.0.1 -i 0.01", 1, &["-i 0.01: give 0.1 to 60 seconds"]),
            ("-u -c 127.0.0.1 -f x -J", 1, &["-f x: give one of the letters"]),
            ("-v", 0, &["iperf 3.12 (jitlat "]),
            ("-s", 1, &["iperf3: -s is not taken: `jitlat serve` is the server"]),
            ("-c 127.0.0.1", 1, &["without -u iperf3 measures the throughput of TCP"]),
            ("-u -c 127.0.0.1 -b 0", 1, &["-b 0: an unlimited rate is not possible"]),
        ],
    );
}

#[test]
fn irtts_compressed_files_have_the_names_of_irtt() {
    let (server, dir) = (Server::start(IP, "irtt", &[]), tempfile::tempdir().unwrap());
    for (given, name) in
        [("a", "a.json.gz"), ("b.gz", "b.json.gz"), ("c.json.gz", "c.json.gz"), ("d.json", "d.json")]
    {
        let line = format!("as irtt client -i 10ms -d 50ms -Q -o {given} {IP}:{}", server.port(0));
        let output = run(&line, dir.path());
        assert!(output.status.success(), "{}", said(&output));
        let bytes = fs::read(dir.path().join(name)).unwrap();
        assert_eq!(bytes.starts_with(&[0x1f, 0x8b]), name.ends_with(".gz"), "{name}");
        let text = match name.ends_with(".gz") {
            true => Command::new("zcat").arg(dir.path().join(name)).output().unwrap().stdout,
            false => bytes,
        };
        let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(document["stats"]["packets_sent"], 5, "{name}");
    }
}

#[test]
fn requests_that_are_not_answered_are_printed_while_fping_runs() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody answers at an address that is not one of this host's.
    let output = run("as fping -c 3 -p 20 -t 20 192.0.2.55", dir.path());
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let lines: String =
        (0..3).map(|seq| format!("192.0.2.55 : [{seq}], timed out (NaN avg, 100% loss)\n")).collect();
    assert!(said.contains(&lines) && said.contains("192.0.2.55 : xmt/rcv/%loss = 3/0/100%"), "{said}");
    let mut child = Command::new(JITLAT)
        .args(["as", "fping", "-l", "-p", "50", "-t", "50", "192.0.2.55"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut first)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(first, "192.0.2.55 : [0], timed out (NaN avg, 100% loss)\n");
}

#[test]
fn a_link_of_a_programs_name_is_that_program() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("fping");
    std::os::unix::fs::symlink(JITLAT, &link).unwrap();
    let output = Command::new(&link).args(["-C", "2", "-q", "-p", "20", IP]).output().unwrap();
    assert!(
        output.status.success() && said(&output).starts_with("--- stderr\n127.0.0.1 : 0"),
        "{}",
        said(&output)
    );
    let other = run("as ping 127.0.0.1", dir.path());
    assert_eq!(other.status.code(), Some(2));
    assert!(said(&other).contains("the command line of 'ping' is not supported: choose one of irtt, "));
}

#[test]
fn sessions_are_stored_fetched_and_analysed() {
    let (server, dir) = (Server::start(IP, "owamp", &[]), tempfile::tempdir().unwrap());
    let port = server.port(0);
    let ok = |line: &str| {
        let output = run(line, dir.path());
        assert!(output.status.success(), "{line}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let first = ok(&format!("as owping -c 20 -i 0.005f -L 0.3 -t -T sent.owp {IP}:{port}"));
    let sid = first.lines().find_map(|line| line.strip_prefix("SID:\t")).unwrap();
    let fetched = ok(&format!("as owfetch {IP}:{port} {sid} fetched.owp"));
    assert!(fetched.contains(sid) && fetched.contains("20 sent, 0 lost (0.000%), 0 duplicates"), "{fetched}");
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(read("sent.owp"), read("fetched.owp"));
    let raw = ok("as owstats -R fetched.owp");
    assert_eq!(raw.lines().count(), 20);
    // A data file is a log for every other command, and a log is a data file for owstats.
    let report: serde_json::Value = serde_json::from_str(&ok("analyze fetched.owp --json -")).unwrap();
    assert_eq!((&report["counts"]["sent"], &report["counts"]["received"]), (&20.into(), &20.into()));
    assert_eq!(ok("export fetched.owp --as owping"), raw);
    // The same packets are not compared, but both files are read.
    let compared = said(&run("compare fetched.owp sent.owp", dir.path()));
    assert!(compared.contains("the same packets") && compared.contains("against fetched.owp"), "{compared}");
    ok("export fetched.owp --as owp again.owp");
    assert_eq!(ok("as owstats -R again.owp"), raw);
    let unknown = run(&format!("as owfetch {IP}:{port} {}", "0".repeat(32)), dir.path());
    assert_eq!(unknown.status.code(), Some(1), "{}", said(&unknown));
    assert!(said(&unknown).contains("the server has no records of it"));
    fs::write(dir.path().join("broken.owp"), &read("sent.owp")[..200]).unwrap();
    let broken = run("as owstats broken.owp", dir.path());
    assert!(broken.status.code() == Some(1) && said(&broken).contains("truncated"), "{}", said(&broken));
}

#[test]
fn sessions_follow_each_other_until_the_limit() {
    let (server, dir) = (Server::start(IP, "owamp", &[]), tempfile::tempdir().unwrap());
    let line =
        format!("as powstream -d . -c 5 -i 0.01f -L 0.2 --sessions 3 --keep 2 {IP}:{}", server.port(0));
    let output = run(&line, dir.path());
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3);
    let mut names: Vec<String> =
        fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    let endings: Vec<&str> = names.iter().map(|name| name.rsplit('.').next().unwrap()).collect();
    assert_eq!(endings, ["owp", "sum", "owp", "sum"], "the oldest session is removed");
    // A session begins at the time of the last packet of the previous one, or later if that was too soon.
    let ends: Vec<[u64; 2]> = names
        .iter()
        .filter_map(|name| name.strip_suffix(".owp")?.split_once('_'))
        .map(|(begin, end)| [begin, end].map(|time| time.parse().unwrap()))
        .collect();
    assert!(ends[0][0] < ends[0][1] && ends[0][1] <= ends[1][0], "{ends:?}");
    assert!(
        names[0].len() == 45
            && fs::read_to_string(dir.path().join(&names[1])).unwrap().starts_with("SUMMARY\t3.00\n")
    );
}

#[test]
fn a_session_that_did_not_take_place_has_no_file() {
    let (server, dir) = (Server::start(IP, "owamp", &[]), tempfile::tempdir().unwrap());
    let mut command = Command::new("timeout");
    command.args(["-s", "INT", "3.5", JITLAT, "as", "powstream", "-c", "10", "-i", "0.1f", "-L", "1"]);
    let at = format!("{IP}:{}", server.port(0));
    let output = command.arg(at).current_dir(dir.path()).stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: Vec<&str> = printed.lines().collect();
    assert!(names.is_sorted() && !names.is_empty(), "{}", said(&output));
    for name in names {
        let stored = said(&run(&format!("as owstats {name}"), dir.path()));
        assert!(!stored.contains("\n0 sent"), "{name}: {stored}");
        let is_whole = stored.contains("\n10 sent");
        // owstats has no line for it.
        assert_eq!(stored.contains("owstats: ") && stored.contains("the session ended early"), !is_whole);
        assert_eq!(said(&output).contains(&format!("powstream: {name}: the session ended early")), !is_whole);
    }
}

#[test]
fn twping_announces_results_only_if_there_is_a_server() {
    let output = run("as twping -c 5 -i 0.01f 127.0.0.1:1", Path::new("."));
    assert!(output.stdout.is_empty() && said(&output).contains("twping: "), "{}", said(&output));
}

#[test]
fn sessions_of_powstream_follow_each_other_without_a_gap() {
    let server = Server::start(IP, "owamp", &[]);
    let line = format!("as powstream -d . -c 100 -i 0.02f -L 0.2 --sessions 3 {IP}:{}", server.port(0));
    // A host that stalls for most of a second opens the next session too late.
    undisturbed(|| {
        let dir = tempfile::tempdir().unwrap();
        let output = run(&line, dir.path());
        assert!(output.status.success(), "{}", said(&output));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let times = |name: &str| {
            let (begin, end) =
                name.trim_start_matches("./").strip_suffix(".owp").unwrap().split_once('_').unwrap();
            [begin, end].map(|time| time.parse::<u64>().unwrap())
        };
        let times: Vec<[u64; 2]> = printed.lines().map(times).collect();
        assert_eq!(times.len(), 3, "{printed}");
        for pair in times.windows(2) {
            // In units of 2⁻³² s; the conversion from nanoseconds and back loses a few of them.
            assert!(
                pair[0][1].abs_diff(pair[1][0]) < 16,
                "a session starts when the previous one ends: {printed}"
            );
        }
    });
}

#[test]
fn saved_tests_have_the_formats_of_other_programs() {
    let dir = tempfile::tempdir().unwrap();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/b_wan_lossy_v1.log");
    let ok = |line: String| {
        let output = run(&line, dir.path());
        assert!(output.status.success(), "{line}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let report: serde_json::Value = serde_json::from_str(&ok(format!("analyze {golden} --json -"))).unwrap();
    let count = |name: &str| report["counts"][name].as_u64().unwrap();
    let text = ok(format!("export {golden} --as owstats"));
    assert!(
        text.contains(&format!("{} sent, {} lost", count("sent"), count("lost"))),
        "{}",
        &text[text.len() - 400..]
    );
    let machine = ok(format!("export {golden} --as owstats-m"));
    assert!(machine.contains(&format!("\nLOST\t{}\n", count("lost"))), "{machine}");
    ok(format!("export {golden} --as owp a.owp"));
    let read: serde_json::Value = serde_json::from_str(&ok("analyze a.owp --json -".to_owned())).unwrap();
    for name in ["sent", "lost", "duplicate", "out_of_sequence"] {
        assert_eq!(read["counts"][name], report["counts"][name], "{name}");
    }
    let iperf3: serde_json::Value =
        serde_json::from_str(&ok(format!("export {golden} --as iperf3"))).unwrap();
    assert_eq!(iperf3["end"]["sum"]["lost_packets"], report["counts"]["lost"]);
    for (format, why) in [("twping", "it needs round trips"), ("fping", "it needs round trips")] {
        let refused = run(&format!("export {golden} --as {format}"), dir.path());
        assert!(!refused.status.success() && said(&refused).contains(why), "{format}: {}", said(&refused));
    }
}

#[test]
fn the_page_has_the_tables_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/other-programs.md");
    let page = fs::read_to_string(path).unwrap();
    let (text, tables) = page.split_once("<!-- tables -->\n").unwrap();
    let expected = format!("\n{}", jitlat::tables().trim_end().to_owned() + "\n");
    if std::env::var_os("UPDATE_SESSIONS").is_some() {
        fs::write(path, format!("{text}<!-- tables -->\n{expected}")).unwrap();
        return;
    }
    assert_eq!(tables, expected, "UPDATE_SESSIONS=1 writes the tables");
}
