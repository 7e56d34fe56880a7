//! Failures: a clear error within bounded time, nothing lost, the server still running.

use crate::harness::*;
use jitlat_net::emulator::lab::Namespace;
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn client(folder: &Path, line: &str) -> Running {
    Running::start(Place::Here.jitlat(folder, line))
}

fn start(arguments: &str) -> (TempDir, Ipv4Addr, Server) {
    let (folder, host) = (tempfile::tempdir().unwrap(), own_address());
    let server = Server::start(Place::Here, folder.path(), host, arguments);
    (folder, host, server)
}

/// Time for some packets of each stream. No assertion depends on their number.
const A_WHILE: Duration = Duration::from_millis(500);

/// Starts a test, which is running when this returns.
fn under_way(server: &Server, folder: &Path, line: &str) -> Running {
    server.under_way(Place::Here.jitlat(folder, line), A_WHILE)
}

fn still_serves(folder: &Path, host: Ipv4Addr, options: &str) {
    let report = client(folder, &format!("{host} -n 20 -p 1ms --json - {options}")).finish(TIMEOUT).report();
    assert_eq!(report.count("/counts/unique_valid"), 20);
}

#[test]
fn nobody_listens() {
    let folder = tempfile::tempdir().unwrap();
    let host = own_address();
    let finished = client(folder.path(), &format!("{host} -n 10")).finish(TIMEOUT);
    finished.refused(&[&host.to_string(), "2666", "refused", "jitlat serve"]);
}

#[test]
fn an_unknown_host() {
    let folder = tempfile::tempdir().unwrap();
    client(folder.path(), "no-such-host.invalid -n 10").finish(TIMEOUT).refused(&["no-such-host.invalid"]);
}

#[test]
fn something_else_listens() {
    let folder = tempfile::tempdir().unwrap();
    let host = own_address();
    let other = TcpListener::bind((host, 2666)).unwrap();
    std::thread::spawn(move || {
        for stream in other.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
            let _ = stream.read(&mut [0; 100]);
        }
    });
    client(folder.path(), &format!("{host} -n 10")).finish(TIMEOUT).refused(&[&host.to_string()]);
}

/// Adds a firewall in front of the server that rejects what `matches` with this ICMP type; it is removed with the
/// laboratory.
fn reject(host: &Namespace, folder: &Path, matches: &str, with: &str) {
    let file = folder.join("rules");
    let rules = format!(
        "table inet firewall {{\n chain in {{\n type filter hook input priority 0;\n {matches} reject with {with}\n }}\n}}\n"
    );
    std::fs::write(&file, rules).unwrap();
    host.run(&format!("nft -f {}", file.display())).unwrap();
}

#[test]
fn a_firewall_that_prohibits_is_named() {
    let Some(lab) = lab("a_firewall_that_prohibits_is_named") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (v4, v6) = (lab.server.v4, lab.server.v6);
    let run =
        |line: &str| Running::start(Place::In(&lab.client).jitlat(folder.path(), line)).finish(2 * TIMEOUT);
    // Each packet is answered, including those of the next test.
    for limit in ["net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0"] {
        lab.server.run(&format!("sysctl -q -w {limit}")).unwrap();
    }
    // Codes 9, 10 and 13 of ICMP, 1 of ICMPv6.
    for (host, with) in [
        (v4, "icmp type net-prohibited"),
        (v4, "icmp type host-prohibited"),
        (v4, "icmp type admin-prohibited"),
        (v6, "icmpv6 type admin-prohibited"),
    ] {
        reject(&lab.server, folder.path(), "meta l4proto { tcp, udp }", with);
        run(&format!("ping {host} --proto stamp -n 20 -p 10ms --timeout 1s"))
            .refused(&["prohibited (ICMP)", "firewall"]);
        // An ICMP error about a connection may also mean that there is no route.
        run(&format!("ping {host} --proto tcp -n 20 -p 10ms")).refused(&["route", "firewall", "prohibit"]);
        run(&format!("{host} -n 20 -p 10ms")).refused(&["route", "firewall", "prohibit"]);
        lab.server.run("nft delete table inet firewall").unwrap();
    }
    let server = |ip: std::net::IpAddr| Server::start(Place::In(&lab.server), folder.path(), ip, "");
    for (host, with) in [(v4, "icmp type admin-prohibited"), (v6, "icmpv6 type admin-prohibited")] {
        let server = server(host);
        // The control connection passes, the test packets do not.
        reject(&lab.server, folder.path(), "meta l4proto udp", with);
        run(&format!("{host} -n 20 -p 10ms")).refused(&["prohibited (ICMP)", "firewall"]);
        lab.server.run("nft delete table inet firewall").unwrap();
        // The reason is temporary.
        for proto in ["stamp", "irtt"] {
            let line = format!("ping {host} --proto {proto} -n 400 -p 10ms --timeout 1s --json {proto}.json");
            let mut test = server.under_way(Place::In(&lab.client).jitlat(folder.path(), &line), A_WHILE);
            reject(&lab.server, folder.path(), "meta l4proto udp", with);
            test.runs_for(A_WHILE);
            lab.server.run("nft delete table inet firewall").unwrap();
            let done = test.finish(2 * TIMEOUT);
            let what = "a filter or policy prohibits these packets";
            let said = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").contains(what);
            assert!(said(&done.stdout), "{host} {proto}: {}\n{}", done.stdout, done.stderr);
            let json = std::fs::read_to_string(folder.path().join(format!("{proto}.json"))).unwrap();
            let report = Report(serde_json::from_str(&json).unwrap());
            let warnings = report.at("/warnings").to_string();
            assert!(warnings.contains("requests_prohibited") && said(&warnings), "{warnings}");
            assert!(report.count("/two_way/not_answers/prohibited") > 0, "{json}");
            assert!(report.count("/counts/lost") > 0 && report.count("/counts/received") > 200, "{json}");
            std::fs::remove_file(folder.path().join(format!("{proto}.json"))).unwrap();
        }
    }
}

/// Echo requests are not UDP and have no port, neither where they are answered nor where they are rejected.
#[test]
fn echo_requests_have_no_port_and_are_no_udp() {
    let Some(lab) = lab("echo_requests_have_no_port_and_are_no_udp") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for limit in ["net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0"] {
        lab.server.run(&format!("sysctl -q -w {limit}")).unwrap();
    }
    let outputs =
        "-o e.log --json e.json --html e.html --csv e.csv --as summary-csv=s.csv --as openmetrics=e.om";
    let files = ["e.log", "e.json", "e.html", "s.csv", "e.om"];
    // Output of a test and of the analysis of its log.
    let said = |host: std::net::IpAddr, status: i32| {
        files.iter().for_each(|file| drop(std::fs::remove_file(folder.path().join(file))));
        let run = |line: &str, status: i32| {
            let done = Running::start(Place::In(&lab.client).jitlat(folder.path(), line)).finish(2 * TIMEOUT);
            assert_eq!(done.code(), status, "{line}: {}\n{}", done.stdout, done.stderr);
            [done.stdout, done.stderr]
        };
        let test = format!("ping {host} --proto icmp -n 120 -p 5ms --timeout 1s");
        let mut all: Vec<String> = [&format!("{test} {outputs}"), &format!("{test} -v")]
            .into_iter()
            .chain([&format!("{test} -q")])
            .flat_map(|line| run(line, status))
            .collect();
        let read = |file: &&str| std::fs::read_to_string(folder.path().join(file)).unwrap_or_default();
        if folder.path().join("e.log").exists() {
            all.extend(run("-f e.log -v", 0));
        }
        all.extend(files.iter().map(read));
        for text in &all {
            for wrong in [
                "UDP",
                "udp",
                "port 1",
                "refuses",
                "nothing listened",
                ":0:",
                ":0 ",
                "\"src_port\": 1",
                "proto 17",
            ] {
                let at = text.find(wrong);
                assert!(
                    at.is_none(),
                    "{host}: '{wrong}' in {}",
                    &text[at.unwrap().saturating_sub(200)..][..300]
                );
            }
        }
        all.concat()
    };
    for (host, name, number, rejections) in [
        (lab.server.v4, "icmp", 1, ["icmp type port-unreachable", "icmp type admin-prohibited"]),
        (lab.server.v6, "icmpv6", 58, ["icmpv6 type port-unreachable", "icmpv6 type admin-prohibited"]),
    ] {
        let answered = said(host, 0);
        let title =
            if number == 1 { "120 ICMP requests of 64 bytes" } else { "120 ICMPv6 requests of 64 bytes" };
        for what in [title, &format!("proto=\"{name}\""), &format!("# proto {number}\n")] {
            assert!(answered.contains(what), "{host}: no '{what}'");
        }
        let echo = |rule: &str| format!("{name} type echo-request {rule}");
        for with in rejections {
            reject(&lab.server, folder.path(), &echo(""), with);
            let rejected = said(host, 2);
            for what in [&format!("{host}: "), "prohibited (ICMP)", "does it let echo requests through?"] {
                assert!(rejected.contains(what), "{with}: no '{what}' in {rejected}");
            }
            lab.server.run("nft delete table inet firewall").unwrap();
        }
        // Each fifth packet is rejected, or lost.
        reject(&lab.server, folder.path(), &echo("numgen inc mod 5 == 0"), rejections[0]);
        let some = said(host, 0);
        assert!(some.contains("a filter or policy prohibits these packets"), "{some}");
        lab.server.run("nft delete table inet firewall").unwrap();
        lab.server.run("nft add table inet firewall").unwrap();
        lab.server.run("nft add chain inet firewall in { type filter hook input priority 0; }").unwrap();
        lab.server
            .run(&format!("nft add rule inet firewall in {}", echo("numgen inc mod 5 == 0 drop")))
            .unwrap();
        assert!(!said(host, 0).contains("\"requests_prohibited\""), "{host}");
        lab.server.run("nft flush chain inet firewall in").unwrap();
        lab.server.run(&format!("nft add rule inet firewall in {}", echo("drop"))).unwrap();
        let nothing = said(host, 2);
        assert!(nothing.to_lowercase().contains("none of 120") || nothing.contains("nothing"), "{nothing}");
        lab.server.run("nft delete table inet firewall").unwrap();
    }
}

/// Slow cases, run in parallel.
#[test]
fn waiting_is_bounded() {
    std::thread::scope(|s| {
        s.spawn(somebody_listens_and_says_nothing);
        s.spawn(a_lost_server_leaves_what_was_received);
        s.spawn(a_server_lost_with_all_it_received_is_an_error);
    });
}

fn somebody_listens_and_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let host = own_address();
    let _silent = TcpListener::bind((host, 2666)).unwrap();
    client(folder.path(), &format!("{host} -n 10")).finish(3 * TIMEOUT).refused(&[&host.to_string()]);
}

#[test]
fn keys() {
    let key_folder = tempfile::tempdir().unwrap();
    let key = |name: &str, text: &str| {
        let path = key_folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let (right, wrong) =
        (key("right", "correct horse battery staple\n"), key("wrong", "incorrect horse battery staple\n"));
    let (folder, host, _server) = start(&format!("--key-file {right}"));
    still_serves(folder.path(), host, &format!("--key-file {right}"));
    let with =
        |options: &str| client(folder.path(), &format!("{host} -n 10 -p 1ms {options}")).finish(TIMEOUT);
    with(&format!("--key-file {wrong}")).refused(&["key"]);
    with("").refused(&["key"]);
    with("--classic").refused(&[]);
    with("--key-file /missing/at/all").refused(&["/missing/at/all"]);
    let open_to_all = key("open", "correct horse battery staple\n");
    std::fs::set_permissions(&open_to_all, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    with(&format!("--key-file {open_to_all}")).refused(&["other users can read", "mode 640", "chmod 600"]);
    with(&format!("--key-file {}", key("empty", "\n"))).refused(&["is empty"]);
    with(&format!("--key-file {}", key("zero", &"0".repeat(64)))).refused(&["repeats one byte"]);
    with(&format!("--key-file {}", key("huge", &"0123456789".repeat(1000))))
        .refused(&["is it the right file?"]);
    still_serves(folder.path(), host, &format!("--key-file {right}"));
    // A client with a key refuses a server that cannot prove that it has the key.
    let (folder, host, _open) = start("");
    let line = format!("{host} -n 10 -p 1ms --key-file {right}");
    client(folder.path(), &line).finish(TIMEOUT).refused(&["key"]);
}

/// A key is changed while a test runs: the test ends as it would have, new tests need the new key, and a file that cannot be used changes
/// nothing.
#[test]
fn a_key_is_changed_without_ending_tests() {
    let folder = tempfile::tempdir().unwrap();
    let key = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    };
    key("served", "the first key of the server");
    key("old", "the first key of the server");
    key("new", "the second key of the server");
    let host = own_address();
    let server = Server::start(Place::Here, folder.path(), host, "--key-file served");
    let line = |key: &str, more: &str| format!("{host} --key-file {key} {more}");
    let long = Place::Here.jitlat(folder.path(), &line("old", "-n 300 -p 10ms --json -"));
    let long = server.under_way(long, Duration::from_millis(200));
    let reread = |text: &str| {
        server.signal(Signal::SIGHUP);
        server.wait_for(text);
    };
    key("served", "the second key of the server");
    reread("were read again");
    let short = |key: &str| client(folder.path(), &line(key, "-n 10 -p 1ms")).finish(TIMEOUT);
    short("old").refused(&["key"]);
    assert_eq!(short("new").code(), 0);
    assert_eq!(long.finish(TIMEOUT).report().count("/counts/received"), 300);
    // A file that others can read, or another file at its path, changes nothing.
    std::fs::set_permissions(
        folder.path().join("served"),
        std::os::unix::fs::PermissionsExt::from_mode(0o644),
    )
    .unwrap();
    reread("other users can read");
    assert_eq!(short("new").code(), 0);
    key("other", "the third key of the server");
    std::fs::rename(folder.path().join("other"), folder.path().join("served")).unwrap();
    reread("was replaced by another file");
    assert_eq!(short("new").code(), 0);
}

#[test]
fn each_peer_has_a_key_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("one", "the key of the first probe"),
        ("two", "the key of the second probe"),
        ("bad", "the key of nobody at all"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let keys = |service: &str| format!("[services.{service}.keys]\nprobe-1 = \"one\"\nprobe-2 = \"two\"\n");
    std::fs::write(folder.path().join("policy"), ["jitlat", "irtt", "digests"].map(keys).concat()).unwrap();
    let host = own_address();
    let shown =
        client(folder.path(), &format!("serve --bind {host} --policy policy --show-policy")).finish(TIMEOUT);
    std::fs::write(folder.path().join("shown"), &shown.stdout).unwrap();
    // The policy shown has the same keys.
    let arguments = "--policy shown --only jitlat irtt --capture lo";
    let server = Server::start(Place::Here, folder.path(), host, arguments);
    let run = |line: &str| client(folder.path(), line).finish(TIMEOUT);
    let digests = |key: &str| {
        run(&format!("spp -i lo -R {host} --key-file {key} --remote-interface nowhere --duration 1"))
    };
    for key in ["one", "two"] {
        still_serves(folder.path(), host, &format!("--key-file {key}"));
        let line = format!("ping {host} --proto irtt -n 20 -p 1ms --json - --irtt-key-file {key}");
        assert_eq!(run(&line).report().count("/counts/received"), 20);
        // The reason is only given to clients that have proven a key.
        digests(key).refused(&["'nowhere' is not offered"]);
    }
    run(&format!("{host} -n 10 --key-file bad")).refused(&["key"]);
    run(&format!("ping {host} --proto irtt -n 5 -p 1ms --timeout 500ms --irtt-key-file bad"))
        .refused(&["key"]);
    digests("bad").refused(&["keys differ"]);
    let log = server.stop();
    for service in ["jitlat", "irtt", "digests"] {
        for peer in ["probe-1", "probe-2"] {
            let line = |line: &str| {
                line.contains(&format!("service=\"{service}\""))
                    && line.contains(&format!("the key of {peer}"))
                    && line.contains("accepted")
            };
            assert!(log.lines().any(line), "{service} {peer}: {log}");
        }
    }
}

#[test]
fn a_busy_server_says_so_and_finishes_what_it_began() {
    let (folder, host, server) = start("--max-sessions 1");
    let first = under_way(&server, folder.path(), &format!("{host} -n 300 -p 10ms --json -"));
    client(folder.path(), &format!("{host} -n 10")).finish(TIMEOUT).refused(&["sessions"]);
    assert_eq!(first.finish(TIMEOUT).report().count("/counts/unique_valid"), 300);
    still_serves(folder.path(), host, "");
}

#[test]
fn requests_beyond_the_limits_name_the_limit() {
    let (folder, host, _server) = start("");
    let with = |options: &str| client(folder.path(), &format!("{host} {options}")).finish(TIMEOUT);
    with("-n 10 -p 1ns").refused(&["rate"]);
    with("-n 2000000000 -p 1s").refused(&[]);
    with("-n 0").refused(&["packets"]);
    with("-n 4000000000").refused(&["packets"]);
    with("-l 11").refused(&["payload"]);
    still_serves(folder.path(), host, "");
}

#[test]
fn interrupted_tests_report_and_keep_what_came() {
    std::thread::scope(|s| {
        for options in ["", "-R", "-t", "-b", "--classic"] {
            s.spawn(move || interrupt(options));
        }
    });
}

fn interrupt(options: &str) {
    let (folder, host, server) = start("");
    let from = own_address();
    let line = format!("{host} --bind {from} -n 6000 -p 5ms -o cut.log --json - {options}");
    let running = under_way(&server, folder.path(), &line);
    running.signal(Signal::SIGINT);
    let report = running.finish(2 * TIMEOUT).report();
    let both = options == "-b";
    let reports = if both { report.directions().to_vec() } else { vec![report] };
    for report in &reports {
        let received = report.count("/counts/unique_valid");
        assert!((10..6000).contains(&received), "{options}: {received} received");
        assert_eq!(report.text("/session/ending"), "interrupted", "{options}");
    }
    if !both {
        let again = client(folder.path(), "-f cut.log --json -").finish(TIMEOUT).report();
        assert_eq!(again.at("/counts"), reports[0].at("/counts"), "{options}");
    }
    still_serves(folder.path(), host, "");
}

/// The first Ctrl-C waits for a silent server; the second does not.
#[test]
fn a_second_interrupt_ends_the_wait_and_keeps_what_came() {
    let (folder, host, server) = start("");
    let line = format!("{host} --bind {} -R -n 6000 -p 5ms -o cut.log --json -", own_address());
    let mut running = under_way(&server, folder.path(), &line);
    server.signal(Signal::SIGSTOP);
    running.signal(Signal::SIGINT);
    running.runs_for(Duration::from_secs(1));
    running.signal(Signal::SIGINT);
    // Well before the timeout of 15 s for an answer of a server.
    let report = running.finish(Duration::from_secs(12)).any_report();
    let received = report.count("/counts/unique_valid");
    assert!((10..6000).contains(&received), "{received} received");
    let again = client(folder.path(), "-f cut.log --json -").finish(TIMEOUT).report();
    assert_eq!(again.at("/counts"), report.at("/counts"));
}

#[test]
fn what_a_killed_client_left_behind_is_collected() {
    std::thread::scope(|s| {
        // A UDP stream towards the server would also be suitable, but needs half a minute of silence first.
        for options in ["-t", "-R"] {
            s.spawn(move || collect_after_death(options));
        }
    });
}

fn collect_after_death(options: &str) {
    // The control port is in the log, whatever tags the user gives.
    let (folder, host, server) = start("--control-port 3666");
    let server_is_at = format!("{host} --control-port 3666");
    let line = format!(
        "{server_is_at} --bind {} -n 6000 -p 5ms -o dead.log --tag control-port=9 {options}",
        own_address()
    );
    let running = under_way(&server, folder.path(), &line);
    running.signal(Signal::SIGKILL);
    drop(running);
    if options == "-R" {
        // Results that cannot be read must not be fetched as if they had not arrived.
        let log = std::fs::read_to_string(folder.path().join("dead.log")).unwrap();
        let header = log.lines().take_while(|l| l.starts_with('#') || l.is_empty());
        let garbled = header.map(|l| format!("{l}\n")).collect::<String>() + &"no row\n".repeat(100);
        std::fs::write(folder.path().join("garbled.log"), garbled).unwrap();
        client(folder.path(), &format!("{host} --collect garbled.log -o none.log"))
            .finish(TIMEOUT)
            .refused(&["garbled.log is not a jitlat log"]);
    }
    // The log names the server.
    let again = format!("--bind {} --collect dead.log -o whole.log --json -", own_address());
    let report = client(folder.path(), &again).finish(3 * TIMEOUT).any_report();
    let received = report.count("/counts/unique_valid");
    assert!((10..6000).contains(&received), "{options}: {received} received");
    if options == "-R" {
        // Nobody received what the server sent after the client's end.
        claims_no_tail(&report);
    }
    assert_eq!(report.at("/session/tags"), &serde_json::json!({"control-port": "9"}), "{options}");
    let again = client(folder.path(), "-f whole.log --json -").finish(TIMEOUT).report();
    assert_eq!(again.at("/counts"), report.at("/counts"), "{options}");
    // Once fetched, the results are deleted; and a test that never existed is not found.
    client(folder.path(), &format!("{host} --collect dead.log -o twice.log"))
        .finish(TIMEOUT)
        .refused(&["no results with this identifier"]);
    // A given port replaces the one in the log, even if it is the usual one.
    client(folder.path(), &format!("{host} --control-port 2666 --collect dead.log -o thrice.log"))
        .finish(TIMEOUT)
        .refused(&[":2666"]);
}

#[test]
fn answers_that_a_killed_two_way_client_received_are_in_its_log() {
    let (folder, host, server) = start("");
    for proto in ["stamp", "tcp"] {
        let line = format!("ping {host} --proto {proto} -n 6000 -p 5ms -o {proto}.log");
        let running = under_way(&server, folder.path(), &line);
        running.signal(Signal::SIGKILL);
        drop(running);
        let report = client(folder.path(), &format!("-f {proto}.log --json -")).finish(TIMEOUT).report();
        let received = report.count("/counts/unique_valid");
        assert!((10..6000).contains(&received), "{proto}: {received} received");
        assert_eq!(report.text("/two_way/protocol"), proto);
        client(folder.path(), &line).finish(TIMEOUT).refused(&["is not overwritten"]);
    }
}

/// Reads the JSON lines of a file, the last of which may be cut.
fn windows(file: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn a_killed_test_leaves_the_windows_that_had_ended() {
    let (folder, host, _server) = start("");
    for test in ["ping {} --proto stamp", "{} --no-log -R", "ping {} --proto tcp"] {
        let line = test.replace("{}", &host.to_string());
        let line = format!("{line} -n 30000 -p 2ms --interval 200ms --as intervals=windows");
        let file = folder.path().join("windows");
        let running = client(folder.path(), &line);
        jitlat_waiting::until(&format!("{test}: windows while it runs"), TIMEOUT, || {
            windows(&file).len() >= 3
        });
        running.signal(Signal::SIGKILL);
        drop(running);
        let found = windows(&file);
        for (k, window) in found.iter().take(3).enumerate() {
            assert_eq!(window["length_ns"], 200_000_000, "{test}");
            let start = window["start_ns"].as_u64().unwrap();
            assert!(start >= 200_000_000 * k as u64 && start % 200_000_000 == 0, "{test}: {start}");
            assert_eq!(
                (&window["sent"], window["first_seq"].as_u64()),
                (&100.into(), Some(start / 2_000_000))
            );
        }
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn windows_are_printed_once_each_as_they_end() {
    let (folder, host, _server) = start("");
    for test in ["ping {} --proto stamp", "{} --no-log -R", "{} --no-log"] {
        let line = test.replace("{}", &host.to_string()) + " -n 750 -p 2ms --interval 500ms";
        let lines = client(folder.path(), &format!("{line} --as intervals")).finish(TIMEOUT * 2);
        assert_eq!(lines.code(), 0, "{}", lines.stderr);
        let starts = lines.stdout.lines().map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["start_ns"].as_u64().unwrap()
                / 500_000_000
        });
        let mut starts: Vec<u64> = starts.collect();
        starts.sort_unstable();
        assert_eq!(starts, [0, 1, 2], "{test}: {}", lines.stdout);
        let page = client(folder.path(), &line).finish(TIMEOUT * 2).stdout;
        let rows = |from: &str| {
            let row = |line: &&str| line.trim_start().starts_with(from) && line.contains(" 250 ");
            page.lines().filter(row).count()
        };
        assert_eq!(["0.000 s", "500.0 ms", "1.000 s"].map(rows), [1; 3], "{test}: {page}");
    }
}

#[test]
fn a_log_that_is_a_pipe_is_written_and_stays_one() {
    let (folder, host, _server) = start("");
    for (test, rows) in [("-R", 50), ("-b", 100), ("", 50)] {
        let pipes: Vec<_> = if test == "-b" { vec!["pipe.up", "pipe.down"] } else { vec!["pipe"] };
        let readers: Vec<_> = pipes
            .iter()
            .map(|name| {
                let path = folder.path().join(name);
                nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
                std::thread::spawn(move || std::fs::read_to_string(path).unwrap())
            })
            .collect();
        let line = format!("{host} {test} -n 50 -p 1ms -o pipe");
        assert_eq!(client(folder.path(), &line).finish(TIMEOUT).code(), 0);
        let read: String = readers.into_iter().map(|r| r.join().unwrap()).collect();
        assert_eq!(read.lines().filter(|l| !l.starts_with('#')).count(), rows, "{test}: {read}");
        for name in pipes {
            let path = folder.path().join(name);
            assert!(!path.metadata().unwrap().is_file(), "{test}: the pipe was replaced by a file");
            std::fs::remove_file(path).unwrap();
        }
    }
}

fn a_lost_server_leaves_what_was_received() {
    let (folder, host, mut server) = start("");
    let line = format!("{host} --bind {} -R -n 3000 -p 5ms -o lost.log --json -", own_address());
    let running = under_way(&server, folder.path(), &line);
    server.kill();
    let killed = Instant::now();
    let finished = running.finish(2 * TIMEOUT);
    assert!(killed.elapsed() < 2 * TIMEOUT);
    let report = finished.any_report();
    let received = report.count("/counts/unique_valid");
    assert!((10..3000).contains(&received), "{received} received");
    assert_eq!(report.text("/session/ending"), "peer_lost");
    assert!(finished.stderr.contains("lost"), "{}", finished.stderr);
    assert_eq!(finished.code(), 2, "the test has no end");
    claims_no_tail(&report);
    let again = client(folder.path(), "-f lost.log --json -").finish(TIMEOUT).report();
    assert_eq!(again.at("/counts"), report.at("/counts"));
}

/// Checks that the packets after the last arrival are unknown, neither sent nor lost, and that the answer says so.
fn claims_no_tail(report: &Report) {
    let [sent, lost, received] =
        ["sent", "lost", "unique_valid"].map(|n| report.count(&format!("/counts/{n}")));
    assert_eq!(sent, lost + received);
    // The receive queue of a loaded host may lose some packets.
    assert!(lost <= sent / 20, "{lost} of {sent} lost");
    assert_eq!(report.at("/answer/complete"), false);
}

/// With `-b`, the server's received packets are lost when it dies; a two-way test's later requests cannot be answered
/// any more.
#[test]
fn what_died_with_the_server_is_unknown_not_lost() {
    std::thread::scope(|s| {
        for options in
            ["-b", "ping --proto stamp", "ping --proto twamp", "ping --proto lamp", "ping --proto tcp"]
        {
            s.spawn(move || lose_the_server(options));
        }
    });
}

fn lose_the_server(options: &str) {
    let (folder, host, mut server) = start("");
    let bind = if options == "-b" { format!("--bind {}", own_address()) } else { String::new() };
    let line = format!("{options} {bind} {host} -n 1500 -p 4ms -o lost.log --json -");
    let running = under_way(&server, folder.path(), &line);
    server.kill();
    let finished = running.finish(2 * TIMEOUT);
    assert_eq!(finished.code(), 2, "{options}: {}", finished.stderr);
    let report = finished.any_report();
    let (reports, logs) = match options {
        "-b" => (report.directions().to_vec(), vec!["lost.log.up", "lost.log.down"]),
        _ => (vec![report], vec!["lost.log"]),
    };
    assert!(reports.iter().any(|r| r.count("/counts/unique_valid") > 10), "{options}");
    for (report, log) in reports.iter().zip(logs) {
        claims_no_tail(report);
        let again = client(folder.path(), &format!("-f {log} --json -")).finish(TIMEOUT).any_report();
        assert_eq!(again.at("/counts"), report.at("/counts"), "{options}");
        claims_no_tail(&again);
    }
}

#[test]
fn what_a_killed_client_did_not_record_is_unknown_not_lost() {
    std::thread::scope(|s| {
        for options in ["", "-R", "-b", "-t", "--classic -R", "--log-version 1", "ping --proto stamp"] {
            s.spawn(move || lose_the_client(options));
        }
    });
}

fn lose_the_client(options: &str) {
    let (folder, host, server) = start("");
    let bind = if options.starts_with("ping") { String::new() } else { format!("--bind {}", own_address()) };
    let line = format!("{options} {bind} {host} -n 3000 -p 4ms -o dead.log");
    let running = under_way(&server, folder.path(), &line);
    running.signal(Signal::SIGKILL);
    drop(running);
    let logs = match options {
        "-b" => vec!["dead.log.up", "dead.log.down"],
        // Logs of versions 1 and 2 have their name only once the test has ended.
        "--log-version 1" => vec!["dead.log.part"],
        _ => vec!["dead.log"],
    };
    for log in logs {
        let finished = client(folder.path(), &format!("-f {log} --json -")).finish(TIMEOUT);
        let report = finished.any_report();
        claims_no_tail(&report);
        // Nothing is known here about a stream towards the server.
        let known = report.count("/counts/sent") > 0;
        assert_eq!(finished.code(), if known { 0 } else { 2 }, "{options}: {}", finished.stderr);
        if known {
            let strict = client(folder.path(), &format!("-f {log} --fail-if loss>99%")).finish(TIMEOUT);
            assert_eq!(strict.code(), 1, "{options}: the rest may violate it: {}", strict.stderr);
        }
    }
}

#[test]
fn a_removed_folder_is_not_said_to_hold_a_log() {
    std::thread::scope(|s| {
        for options in ["", "-R", "-b", "ping --proto stamp"] {
            s.spawn(move || lose_the_folder(options));
        }
    });
}

fn lose_the_folder(options: &str) {
    let (folder, host, server) = start("");
    let logs = folder.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    let bind = if options.starts_with("ping") { String::new() } else { format!("--bind {}", own_address()) };
    let line = format!("{options} {bind} {host} -n 800 -p 5ms -o {}", logs.join("gone.log").display());
    let running = under_way(&server, folder.path(), &line);
    std::fs::remove_dir_all(&logs).unwrap();
    let finished = running.finish(2 * TIMEOUT);
    assert_eq!(finished.code(), 2, "{options}: {}", finished.stdout);
    assert!(!finished.stdout.contains("Data logged to"), "{options}: {}", finished.stdout);
    let said = finished.stderr.split("removed or replaced during the test; all its ").skip(1);
    let rows: Vec<u64> = said.filter_map(|rest| rest.split_once(" rows are lost")?.0.parse().ok()).collect();
    // A packet may have been lost before.
    assert!(
        !rows.is_empty() && rows.iter().all(|n| (790..=800).contains(n)),
        "{options}: {}",
        finished.stderr
    );
}

/// A file of another program that takes the log's name during the test is retained, and the log gets another name.
#[test]
fn a_file_that_took_the_name_of_a_log_stays() {
    let (folder, host, server) = start("");
    let line = format!("{host} --bind {} -R -n 800 -p 5ms -o a.log", own_address());
    let running = under_way(&server, folder.path(), &line);
    std::fs::remove_file(folder.path().join("a.log")).unwrap();
    std::fs::write(folder.path().join("a.log"), "precious").unwrap();
    let finished = running.finish(2 * TIMEOUT);
    assert_eq!(finished.code(), 2);
    assert!(finished.stderr.contains("the complete log is a.log.final"), "{}", finished.stderr);
    assert_eq!(std::fs::read_to_string(folder.path().join("a.log")).unwrap(), "precious");
    let report = client(folder.path(), "-f a.log.final --json -").finish(TIMEOUT).report();
    assert_eq!((report.count("/counts/unique_valid"), report.at("/answer/complete")), (800, &true.into()));
}

fn a_server_lost_with_all_it_received_is_an_error() {
    let (folder, host, mut server) = start("");
    let running = under_way(&server, folder.path(), &format!("{host} -n 3000 -p 5ms"));
    server.kill();
    let finished = running.finish(2 * TIMEOUT);
    finished.refused(&["lost"]);
}

#[test]
fn vanishing_clients_leave_the_server_serving() {
    let (folder, host, mut server) = start("");
    for options in ["", "-R", "-b", "-t", "-t -R", "--classic", "--classic -R"] {
        let mut running = client(folder.path(), &format!("{host} -n 3000 -p 5ms {options}"));
        // Some of the classic tests are still probing.
        running.runs_for(Duration::from_millis(700));
        running.signal(Signal::SIGKILL);
        drop(running);
    }
    still_serves(folder.path(), host, "");
    assert!(server.is_alive());
}

#[test]
fn garbage_on_every_port_harms_nobody() {
    let (folder, host, mut server) = start("");
    let running = under_way(&server, folder.path(), &format!("{host} -n 800 -p 5ms --json -"));
    let control = SocketAddr::from((host, 2666));
    let mut state = 1u64;
    let mut noise = |n: usize| -> Vec<u8> {
        let step = |s: &mut u64| {
            *s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (*s >> 56) as u8
        };
        (0..n).map(|_| step(&mut state)).collect()
    };
    let udp = UdpSocket::bind((host, 0)).unwrap();
    for n in [0, 1, 3, 4, 11, 12, 43, 44, 100, 5000] {
        let bytes = noise(n);
        for start in [&b""[..], b"JLT3", &[0, 0, 0, 1], &[0, 0, 0, 4]] {
            if let Ok(mut stream) = TcpStream::connect(control) {
                let _ = stream.write_all(&[start, &bytes].concat());
            }
        }
        let _ = udp.send_to(&bytes, (host, 2667));
    }
    // A client that connects and sends nothing.
    let _silent = TcpStream::connect(control).unwrap();
    let report = running.finish(TIMEOUT).report();
    assert_eq!((report.count("/counts/unique_valid"), report.count("/counts/lost")), (800, 0));
    still_serves(folder.path(), host, "");
    assert!(server.is_alive());
    assert!(!server.stop().contains("panicked"));
}

#[test]
fn damaged_logs_are_refused_or_read_as_far_as_they_go() {
    let folder = tempfile::tempdir().unwrap();
    let analyse = |line: &str| client(folder.path(), line).finish(TIMEOUT);
    analyse("-f missing.log").refused(&["missing.log"]);
    std::fs::write(folder.path().join("noise"), [0xff, 0, 13, 200, 10, 10, 7]).unwrap();
    analyse("-f noise").refused(&["noise"]);
    std::fs::write(folder.path().join("empty"), "").unwrap();
    analyse("-f empty").refused(&["empty"]);
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/a_loopback_v1.log");
    let text = std::fs::read(log).unwrap();
    std::fs::write(folder.path().join("cut"), &text[..50_000]).unwrap();
    let report = analyse("-f cut --json -").report();
    assert!((500..2000).contains(&report.count("/counts/received")));
}

/// A file system that is too small for a log; removed when dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new(test: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"])
            .arg(folder.path())
            .output();
        match mount {
            Ok(output) if output.status.success() => Some(SmallDisk(folder)),
            other => {
                assert!(std::env::var_os("JITLAT_REQUIRE_PRIVILEGED").is_none(), "{test}: {other:?}");
                let _ =
                    writeln!(std::io::stderr(), "skipped: {test} needs root to mount a small file system");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_keeps_what_fitted_and_reports_everything() {
    let Some(disk) = SmallDisk::new("a_full_disk_keeps_what_fitted_and_reports_everything") else { return };
    for options in ["", "-R"] {
        let (folder, host, _server) = start("");
        let log = disk.0.path().join(format!("full{options}.log"));
        let line = format!("{host} -n 1000 -p 1ms --json - -o {} {options}", log.display());
        let finished = client(folder.path(), &line).finish(TIMEOUT);
        let report = finished.any_report();
        assert_eq!(report.count("/counts/unique_valid"), 1000);
        assert!(finished.stderr.contains("space"), "{}", finished.stderr);
        assert!(finished.stderr.contains(" rows, but the next "), "{}", finished.stderr);
        assert_eq!(finished.code(), 2, "what was asked for was not all written");
        assert_eq!(report.text("/session/ending"), "storage_failed");
        // Only the log lacks packets: the analysis did not read it.
        assert_eq!(report.text("/answer/severity"), "good");
        assert!(!report.text("/answer/headline").contains("incomplete"));
        let kept = client(folder.path(), &format!("-f {} --json -", log.display())).finish(TIMEOUT).report();
        assert!((10..1000).contains(&kept.count("/counts/received")));
        claims_no_tail(&kept);
        std::fs::remove_file(&log).unwrap();
    }
    // Without any room there is neither a log nor a page, and the screen names none.
    std::fs::write(disk.0.path().join("filler"), vec![0; 16_000]).ok();
    let (folder, host, _server) = start("");
    let at = |name: &str| disk.0.path().join(name).display().to_string();
    let line = format!("{host} -n 300 -p 1ms -o {} --html {}", at("none.log"), at("none.html"));
    let finished = client(folder.path(), &line).finish(TIMEOUT);
    assert_eq!(finished.code(), 2);
    let screen = &finished.stdout;
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("the figures of this report are complete"), "{screen}");
    assert!(!screen.contains("incomplete") && !screen.contains("Log  "), "{screen}");
    assert!(!screen.contains("xdg-open") && !screen.contains("jitlat -f"), "{screen}");
    assert_eq!(finished.stderr.matches("none.log").count(), 1, "{}", finished.stderr);
    assert_eq!(finished.stderr.matches("none.html").count(), 1, "{}", finished.stderr);
}
