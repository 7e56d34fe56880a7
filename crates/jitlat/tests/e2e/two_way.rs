//! Every two-way protocol over a path with known delay, loss, duplication and reordering by direction: the report
//! contains them, by direction if the protocol can distinguish directions.

use crate::harness::*;
use crate::undisturbed::undisturbed;
use jitlat_impair::Scenario;
use jitlat_net::emulator::lab::Namespace;
use jitlat_net::emulator::{Lab, Numbering};
use std::net::IpAddr;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// 15 ms up, 5 ms down. Packets are numbered at each end on arrival, without small ones (conversations, neighbour
/// discovery), so the down direction counts answers.
const PATH: &str = "seed = 1
[both]
min-bytes = 300
[up]
delay = 15ms
loss = at 20-22 60
duplicate = at 30 copies 1
reorder = at 65 by 250ms
[down]
delay = 5ms
loss = at 10 50
duplicate = at 75 copies 1
";

const REQUESTS: u64 = 100;

/// Runs each of `tests` over a path of its own.
fn across(lab: &Lab, host: IpAddr, tests: &[&str], look: impl Fn(&str, &Report)) {
    let folder = tempfile::tempdir().unwrap();
    for test in tests {
        undisturbed(|| {
            let _tun = lab.tun(PATH.parse::<Scenario>().unwrap(), Numbering::Arrival).unwrap();
            let _server = Server::start(Place::In(&lab.server), folder.path(), host, "");
            let line = format!("ping {host} --json - -n {REQUESTS} -p 10ms --timeout 1s -l 300 {test}");
            let report =
                Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report();
            look(test, &report);
        });
    }
}

/// Checks everything that every round-trip protocol over datagrams must find.
fn round_trips(test: &str, report: &Report) {
    assert_eq!(report.count("/counts/sent"), REQUESTS, "{test}");
    assert_eq!(report.count("/counts/lost"), 6, "{test}");
    assert_eq!(report.histogram("/loss/run_length_hist").iter().map(|(l, n)| *l as u64 * n).sum::<u64>(), 6);
    assert_eq!(report.count("/counts/invalid"), 0, "{test}");
    // One copy of a request and one of an answer, unless the other copy was lost.
    assert_eq!(report.count("/counts/duplicate"), 2, "{test}");
    assert_eq!(report.count("/counts/out_of_sequence"), 1, "{test}");
    let min = report.ms("/latency/min");
    assert!(fits(min, 20.0), "{test}: {min}");
}

fn both_families(name: &str, tests: &[&str], look: impl Fn(&str, &Report)) {
    let Some(lab) = lab(name) else { return };
    for host in [lab.server.v4, lab.server.v6] {
        across(&lab, host, tests, &look);
    }
}

#[test]
fn a_counting_reflector_tells_loss_duplication_and_order_by_direction() {
    let tests = ["--proto stamp", "--proto twamp --light", "--proto irtt"];
    both_families(
        "a_counting_reflector_tells_loss_duplication_and_order_by_direction",
        &tests,
        |test, report| {
            round_trips(test, report);
            let d = |name: &str| report.count(&format!("/two_way/directions/{name}"));
            assert_eq!((d("up_lost"), d("down_lost"), d("unknown_lost")), (4, 2, 0), "{test}");
            assert_eq!((d("up_duplicates"), d("down_duplicates")), (1, 1), "{test}");
            assert_eq!((d("up_reordered"), d("down_reordered")), (1, 0), "{test}");
            // Both namespaces use the same clock.
            let (up, down) = (report.ms("/two_way/up/latency/min"), report.ms("/two_way/down/latency/min"));
            assert!(fits(up, 15.0) && fits(down, 5.0), "{test}: {up} there, {down} back");
            assert_eq!(
                (report.count("/two_way/up/lost"), report.count("/two_way/down/lost")),
                (4, 2),
                "{test}"
            );
            let runs = |way: &str| report.count(&format!("/two_way/{way}/loss/periods"));
            assert_eq!(
                (runs("up"), runs("down"), report.count("/two_way/up/undetermined")),
                (2, 2, 0),
                "{test}"
            );
        },
    );
}

#[test]
fn five_of_a_hundred_lost_one_way_are_found_on_that_way() {
    let Some(lab) = lab("five_of_a_hundred_lost_one_way_are_found_on_that_way") else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = lab.server.v4;
    for (up, down) in [(5, 0), (0, 5)] {
        let loss = |n: u64| if n > 0 { "loss = at 11 30 31 62 80" } else { "" };
        let path = format!(
            "seed = 1\n[both]\nmin-bytes = 300\n[up]\ndelay = 8ms\n{}\n[down]\ndelay = 3ms\n{}\n",
            loss(up),
            loss(down)
        );
        for test in [
            "--proto stamp",
            "--proto twamp",
            "--proto twamp --light",
            "--proto irtt",
            "--proto lamp",
            "--proto lamp --mode unidir",
        ] {
            undisturbed(|| {
                let _tun = lab.tun(path.parse::<Scenario>().unwrap(), Numbering::Arrival).unwrap();
                let _server = Server::start(Place::In(&lab.server), folder.path(), host, "");
                let line =
                    format!("ping {host} --json - -n {REQUESTS} -p 10ms --timeout 1s -l 300 --no-log {test}");
                let report = Running::start(Place::In(&lab.client).jitlat(folder.path(), &line))
                    .finish(LIMIT)
                    .report();
                let lost = report.count("/counts/lost");
                if test.contains("unidir") {
                    // Only the report is sent back.
                    assert_eq!(lost, up, "{test}");
                    return;
                }
                assert_eq!(lost, 5, "{test}, {up} there, {down} back");
                if test.contains("lamp") {
                    assert!(report.at("/two_way/directions").is_null(), "{test} cannot know");
                    return;
                }
                let ways = (report.count("/two_way/up/lost"), report.count("/two_way/down/lost"));
                assert_eq!(ways, (up, down), "{test}");
                assert_eq!(report.count("/two_way/directions/unknown_lost"), 0, "{test}");
            });
        }
    }
}

#[test]
fn echoes_tell_round_trips_only() {
    let tests =
        ["--proto icmp", "--proto lamp", "--proto lamp --timeless --stamps krt", "--proto lamp --follow-up"];
    both_families("echoes_tell_round_trips_only", &tests, |test, report| {
        if test.contains("follow-up") {
            // The processing time has no reordering and loss, because small packets pass.
            assert!(report.count("/two_way/processing/n") >= REQUESTS - 6, "{test}");
        }
        round_trips(test, report);
        assert!(report.at("/two_way/up").is_null() && report.at("/two_way/directions").is_null(), "{test}");
    });
}

#[test]
fn one_way_lamp_is_reported_by_the_server() {
    both_families(
        "one_way_lamp_is_reported_by_the_server",
        &["--proto lamp --mode unidir"],
        |test, report| {
            assert_eq!(report.count("/two_way/far_report/received"), REQUESTS - 4, "{test}");
            assert_eq!(report.count("/two_way/far_report/duplicates"), 1, "{test}");
            assert_eq!(report.count("/two_way/far_report/out_of_order"), 1, "{test}");
            assert_eq!((report.count("/counts/lost"), report.count("/counts/received")), (4, 97), "{test}");
            let min = report.ms("/latency/min");
            assert!(fits(min, 15.0), "{test}: {min}");
        },
    );
}

#[test]
fn tcp_repairs_what_is_lost_and_its_kernel_tells() {
    both_families("tcp_repairs_what_is_lost_and_its_kernel_tells", &["--proto tcp"], |test, report| {
        assert_eq!(report.count("/counts/received"), REQUESTS, "{test}");
        let (up, down) = (report.ms("/two_way/up/latency/min"), report.ms("/two_way/down/latency/min"));
        assert!(fits(up, 15.0) && fits(down, 5.0), "{test}: {up} there, {down} back");
        assert!(report.count("/two_way/tcp/retransmissions") >= 1, "{test}");
        assert!(report.count("/two_way/tcp/srtt_min_us") >= 15_000, "{test}");
    });
}

/// Number of ICMP "unreachable" messages that a host has sent.
fn unreachables(host: &Namespace) -> u64 {
    let output = host.command("cat").arg("/proc/net/snmp").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().filter_map(|l| l.strip_prefix("Icmp: ")).map(str::split_whitespace);
    let (mut names, mut values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.position(|n| n == "OutDestUnreachs").unwrap();
    values.nth(place).unwrap().parse().unwrap()
}

#[test]
fn raw_frames_measure_like_datagrams_and_nobody_calls_the_port_unreachable() {
    undisturbed(|| {
        let Some(lab) = lab("raw_frames_measure_like_datagrams_and_nobody_calls_the_port_unreachable") else {
            return;
        };
        lab.cable().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let host = lab.server.v4;
        let _server = Server::start(Place::In(&lab.server), folder.path(), host, "");
        let run = |arguments: &str| {
            let line = format!("ping {host} --proto lamp --raw --json - -n 50 -p 5ms {arguments}");
            Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT)
        };
        for arguments in ["-l 1448 -D EF", "--follow-up --stamps krt", "--stamps user --timeless"] {
            let report = run(arguments).report();
            assert_eq!(
                (report.count("/counts/lost"), report.count("/counts/received")),
                (0, 50),
                "{arguments}"
            );
            assert!(report.number("/latency/min") > 0.0, "{arguments}");
            let sent = if arguments.contains("stamps") { "user" } else { "kernel" };
            assert_eq!(report.count(&format!("/stamps/sent/{sent}")), 50, "{arguments}");
        }
        assert_eq!(run("--mode unidir").report().count("/two_way/far_report/received"), 50);
        assert_eq!(unreachables(&lab.client), 0);
        run("-l 1449").refused(&["1473 bytes are too long"]);
        let nobody = "ping 10.9.0.77 --proto lamp --raw -n 1";
        Running::start(Place::In(&lab.client).jitlat(folder.path(), nobody)).finish(LIMIT).refused(&["ARP"]);
    });
}

#[test]
fn a_server_of_raw_frames_answers_datagrams_and_frames() {
    undisturbed(|| {
        let Some(lab) = lab("a_server_of_raw_frames_answers_datagrams_and_frames") else { return };
        lab.cable().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let host = lab.server.v4;
        let _server = Server::start(Place::In(&lab.server), folder.path(), host, "--lamp-raw path");
        for arguments in
            ["-l 1448 -D EF", "--raw", "--follow-up=krt", "--raw --timeless", "--follow-up=kernel"]
        {
            let line = format!("ping {host} --proto lamp --json - -n 50 -p 5ms {arguments}");
            let report =
                Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report();
            assert_eq!(
                (report.count("/counts/lost"), report.count("/counts/received")),
                (0, 50),
                "{arguments}"
            );
            let reported = report.at("/two_way/processing").is_object();
            assert_eq!(
                reported,
                arguments.contains("krt"),
                "{arguments}: stamps of frames that leave are not taken"
            );
        }
        for arguments in ["", "--raw"] {
            let line = format!("ping {host} --proto lamp --mode unidir --json - -n 50 -p 5ms {arguments}");
            let report =
                Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report();
            assert_eq!(report.count("/two_way/far_report/received"), 50, "{arguments}");
        }
        assert_eq!((unreachables(&lab.client), unreachables(&lab.server)), (0, 0));
    });
}

/// Number of packets that a counter of the firewall on `host` has seen.
fn counted(host: &Namespace, counter: &str) -> u64 {
    let output = host.command("nft").args(["list", "counter", "inet", "labels", counter]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().skip_while(|w| *w != "packets").nth(1).unwrap().parse().unwrap()
}

#[test]
fn ipv6_has_its_raw_frames_and_flow_labels_are_left_alone() {
    undisturbed(|| {
        let Some(lab) = lab("ipv6_has_its_raw_frames_and_flow_labels_are_left_alone") else { return };
        lab.cable().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let host = lab.server.v6;
        let rules = "table inet labels { counter datagrams {}\n counter labelled {}\n chain in { type filter hook input priority 0;\n \
                     meta nfproto ipv6 meta l4proto udp counter name datagrams\n \
                     meta nfproto ipv6 meta l4proto udp ip6 flowlabel != 0 counter name labelled\n }\n }\n";
        std::fs::write(folder.path().join("rules"), rules).unwrap();
        for end in [&lab.client, &lab.server] {
            // Otherwise the kernel would make flow labels of its own.
            let set = end.command("sysctl").args(["-qw", "net.ipv6.auto_flowlabels=0"]).output().unwrap();
            assert!(set.status.success(), "{set:?}");
            let done = end.command("nft").arg("-f").arg(folder.path().join("rules")).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        }
        let run = |line: &str| {
            let line = format!("ping {host} --json - -n 50 -p 5ms --no-log {line}");
            Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT)
        };
        for server in ["", "--lamp-raw path"] {
            let _server = Server::start(Place::In(&lab.server), folder.path(), host, server);
            let tests: &[&str] = match server {
                "" => &[
                    "--proto stamp",
                    "--proto twamp",
                    "--proto twamp --light -l 14",
                    "--proto lamp --raw -D EF",
                ],
                _ => &[
                    "--proto lamp",
                    "--proto lamp --raw --follow-up=krt",
                    "--proto lamp --raw --mode unidir",
                ],
            };
            for test in tests {
                let report = run(test).report();
                let place =
                    if test.contains("unidir") { "/two_way/far_report/received" } else { "/counts/received" };
                let received = report.count(place);
                assert_eq!((report.count("/counts/lost"), received), (0, 50), "{test}, serve {server}");
            }
            if server.is_empty() {
                run("--proto lamp --raw -l 1429").refused(&["1453 bytes are too long"]);
            }
        }
        let seen = counted(&lab.server, "datagrams");
        assert!(seen >= 200, "{seen}");
        assert_eq!((counted(&lab.client, "labelled"), counted(&lab.server, "labelled")), (0, 0));
        let nobody = "ping fd09::77 --proto lamp --raw -n 1";
        let nobody = Running::start(Place::In(&lab.client).jitlat(folder.path(), nobody)).finish(LIMIT);
        nobody.refused(&["neighbour discovery"]);
    });
}

#[test]
fn lamp_in_ethernet_frames_of_its_own_needs_no_ip_and_answers_hosts_only() {
    undisturbed(|| {
        let Some(lab) = lab("lamp_in_ethernet_frames_of_its_own_needs_no_ip_and_answers_hosts_only") else {
            return;
        };
        lab.cable().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let host = lab.server.v4;
        let arguments = "--lamp-ethernet path --late-packets kept";
        let server = Server::start(Place::In(&lab.server), folder.path(), host, arguments);
        let run = |arguments: &str| {
            let line = format!("ping {host} --proto lamp --ethernet --json - -n 50 -p 5ms {arguments}");
            Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT)
        };
        let rules = "table inet seen { counter datagrams {}\n chain in { type filter hook input priority 0;\n \
                 ip protocol udp counter name datagrams\n }\n }\n";
        std::fs::write(folder.path().join("rules"), rules).unwrap();
        let done = lab.server.command("nft").arg("-f").arg(folder.path().join("rules")).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        for arguments in ["-l 0", "-l 1448", "--follow-up=krt --stamps krt", "--stamps user --timeless"] {
            let report = run(arguments).report();
            assert_eq!(
                (report.count("/counts/lost"), report.count("/counts/received")),
                (0, 50),
                "{arguments}"
            );
            assert!(report.number("/latency/min") > 0.0, "{arguments}");
            let sent = if arguments.contains("stamps") { "user" } else { "kernel" };
            assert_eq!(report.count(&format!("/stamps/sent/{sent}")), 50, "{arguments}");
        }
        assert_eq!(run("--mode unidir").report().count("/two_way/far_report/received"), 50);
        // Only the datagrams that look up the host's address.
        let seen = lab
            .server
            .command("nft")
            .args(["list", "counter", "inet", "seen", "datagrams"])
            .output()
            .unwrap();
        let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
        let packets: u64 =
            seen.split_whitespace().skip_while(|w| *w != "packets").nth(1).unwrap().parse().unwrap();
        assert!(packets < 20, "{seen}");
        run("-l 1477").refused(&["do not fit"]);
        run("--raw").refused(&["--ethernet"]);
        let before = std::fs::read_dir(folder.path().join("kept")).unwrap().count();
        drop(server);
        assert!(before <= 2, "one test was unidirectional");
        // A policy identifies these hosts by their link-local addresses.
        let closed = Server::start(
            Place::In(&lab.server),
            folder.path(),
            host,
            "--lamp-ethernet path --allow 10.9.0.0/24",
        );
        let refused = run("--timeout 200ms");
        assert_ne!(refused.code(), 0, "{refused:?}");
        drop(closed);
    });
}

#[test]
fn lamp_in_wave_short_messages_is_answered_for_one_service() {
    undisturbed(|| {
        let Some(lab) = lab("lamp_in_wave_short_messages_is_answered_for_one_service") else { return };
        lab.cable().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let host = lab.server.v4;
        let server = Server::start(Place::In(&lab.server), folder.path(), host, "--lamp-wsmp path,0x1234");
        let run = |arguments: &str| {
            let line = format!("ping {host} --proto lamp --json - -n 50 -p 5ms {arguments}");
            Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT)
        };
        // Without IP in either direction: the counters of the interface see the frames, the filter no datagrams.
        let rules = "table inet seen { counter datagrams {}\n chain in { type filter hook input priority 0;\n \
                 ip protocol udp counter name datagrams\n }\n }\n";
        std::fs::write(folder.path().join("rules"), rules).unwrap();
        let done = lab.server.command("nft").arg("-f").arg(folder.path().join("rules")).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        // 100 and 200 bytes have lengths of one and of two bytes; 1470 is the largest payload of this service.
        for arguments in ["-l 0", "-l 100", "-l 200", "-l 1470", "--follow-up=krt --stamps krt", "--timeless"]
        {
            let report = run(&format!("--lamp-wsmp 0x1234 {arguments}")).report();
            assert_eq!(
                (report.count("/counts/lost"), report.count("/counts/received")),
                (0, 50),
                "{arguments}"
            );
            assert!(report.number("/latency/min") > 0.0, "{arguments}");
        }
        let report = run("--lamp-wsmp 4660 --mode unidir").report();
        assert_eq!(report.count("/two_way/far_report/received"), 50);
        let seen = lab.server.command("nft").args(["list", "counter", "inet", "seen", "datagrams"]).output();
        let seen = String::from_utf8_lossy(&seen.unwrap().stdout).into_owned();
        let packets: u64 =
            seen.split_whitespace().skip_while(|w| *w != "packets").nth(1).unwrap().parse().unwrap();
        assert!(packets < 30, "{seen}");
        // Another service, and LaMP without WSMP, are not answered.
        for other in ["--lamp-wsmp 0x7f", "--lamp-wsmp 0x1235", "--ethernet"] {
            let refused = run(&format!("{other} --timeout 200ms -n 3"));
            assert_ne!(refused.code(), 0, "{other}: {refused:?}");
        }
        run("--lamp-wsmp 0x1234 -l 1471").refused(&["do not fit"]);
        for (arguments, why) in [
            ("--lamp-wsmp 0x20", "signed"),
            ("--lamp-wsmp 0x10204080", "PSID"),
            ("--lamp-wsmp 5 --raw", "--raw"),
            ("--lamp-wsmp 5 --ethernet", "--ethernet"),
            ("--lamp-wsmp 5 --broadcast", "--lamp-wsmp"),
            ("--lamp-wsmp 5 -D EF", "leave out -D"),
            ("--ethernet -D EF", "leave out -D"),
        ] {
            run(arguments).refused(&[why]);
        }
        drop(server);
    });
}

#[test]
fn requests_shorter_than_an_answer_are_answered_in_their_size_or_whole_where_nobody_forges() {
    let Some(lab) =
        lab("requests_shorter_than_an_answer_are_answered_in_their_size_or_whole_where_nobody_forges")
    else {
        return;
    };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let host = lab.server.v4;
    for trust in ["", "--stamp-trust 10.9.0.0/24", "--stamp-trust link"] {
        let server = Server::start(Place::In(&lab.server), folder.path(), host, trust);
        for size in [14, 38, 41] {
            let line = format!("ping {host} --proto twamp --light --json - -n 50 -p 5ms -l {size}");
            let report =
                Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report();
            let what = format!("{size} bytes, {trust}");
            assert_eq!((report.count("/counts/lost"), report.count("/counts/received")), (0, 50), "{what}");
            assert_eq!(report.count("/counts/invalid"), 0, "{what}");
            let whole = size >= 38 || !trust.is_empty();
            assert_eq!(report.at("/two_way/up/latency/min").is_number(), whole, "{what}");
        }
        // One line for this client, which names the option, however many requests were short.
        let warned = server.stop().matches("--stamp-trust 10.9.0.1 answers this client in full").count();
        assert_eq!(warned, usize::from(trust.is_empty()), "{trust}");
    }
}
