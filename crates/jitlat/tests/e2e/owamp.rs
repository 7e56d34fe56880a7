//! OWAMP between two hosts: jitlat's client and server, in every mode, over a path that loses exactly one packet in
//! twenty in one direction.

use crate::harness::*;
use crate::undisturbed::undisturbed;
use jitlat_impair::Scenario;
use jitlat_net::emulator::Numbering;
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const PACKETS: u64 = 200;

/// 8 ms up, 3 ms down. Small packets, those of the control conversation, are neither counted nor lost.
fn path(lossy: &str) -> Scenario {
    let lost: Vec<String> = (0..PACKETS / 20).map(|k| (k * 20 + 7).to_string()).collect();
    let loss = |way: &str| {
        if way == lossy { format!("loss = at {}\n", lost.join(" ")) } else { String::new() }
    };
    format!(
        "seed = 1\n[both]\nmin-bytes = 300\n[up]\ndelay = 8ms\n{}[down]\ndelay = 3ms\n{}",
        loss("up"),
        loss("down")
    )
    .parse()
    .unwrap()
}

fn users(folder: &Path) {
    let file = folder.join("users.pfs");
    fs::write(&file, "tester 6f77616d702d736563726574\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn loss_of_one_packet_in_twenty_one_way_is_found_in_that_direction() {
    let Some(lab) = lab("loss_of_one_packet_in_twenty_one_way_is_found_in_that_direction") else { return };
    let folder = tempfile::tempdir().unwrap();
    users(folder.path());
    let key = "--owamp-key-file users.pfs";
    for (mode, schedule, lossy, v6) in [
        ("open", "periodic", "up", false),
        ("open", "poisson", "down", true),
        ("authenticated", "periodic", "down", false),
        ("encrypted", "poisson", "up", false),
    ] {
        undisturbed(|| {
            let _tun = lab.tun(path(lossy), Numbering::Arrival).unwrap();
            let host = if v6 { lab.server.v6 } else { lab.server.v4 };
            let key = if mode == "open" { "" } else { key };
            let server = Place::In(&lab.server);
            let _server = Server::start(
                server,
                folder.path(),
                host,
                &format!("--only jitlat,owamp --open jitlat {key}"),
            );
            let line = format!(
                "{host} --proto owamp --owamp-mode {mode} {key} --schedule {schedule} -b -n {PACKETS} -p 5ms -l 300 \
                 --owamp-timeout 1s --no-log --json -"
            );
            let reports = Running::start(Place::In(&lab.client).jitlat(folder.path(), &line))
                .finish(LIMIT)
                .report()
                .directions();
            for (way, report) in ["up", "down"].into_iter().zip(&reports) {
                let place = format!("{mode} {schedule}, {way}");
                assert_eq!(report.count("/counts/sent"), PACKETS, "{place}");
                let lost = if way == lossy { PACKETS / 20 } else { 0 };
                assert_eq!(report.count("/counts/lost"), lost, "{place}");
                assert_eq!(report.count("/counts/duplicate"), 0, "{place}");
                let lost_stamps = report.at("/stamps/sent_lost").as_u64();
                assert_eq!(
                    lost_stamps,
                    (way == "up").then_some(0),
                    "{place}: this host's stamps alone are known"
                );
                let (least, delay) = (report.ms("/latency/min"), if way == "up" { 8.0 } else { 3.0 });
                assert!(fits(least, delay), "{place}: {least} ms");
            }
        });
    }
}

#[test]
fn a_log_of_owamp_gives_the_same_figures_again() {
    let Some(lab) = lab("a_log_of_owamp_gives_the_same_figures_again") else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = lab.server.v4;
    let _tun = lab.tun(path("neither"), Numbering::Arrival).unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), host, "--only jitlat,owamp");
    let client = |line: &str| {
        Running::start(Place::In(&lab.client).jitlat(folder.path(), line)).finish(LIMIT).report()
    };
    let line = format!("{host} --proto owamp -R -n 100 -p 5ms --owamp-timeout 300ms -o a.log --json -");
    let (measured, again) = (client(&line), client("-f a.log --json -"));
    for figure in ["/counts/received", "/latency/min", "/latency/max", "/latency/median"] {
        assert_eq!(measured.at(figure), again.at(figure), "{figure}");
    }
    let stamps = fs::read_to_string(folder.path().join("a.log")).unwrap();
    assert!(
        stamps.lines().any(|line| line.starts_with("# server.sync_before")),
        "its clock by its error estimates"
    );
}

/// A sender that is stopped for 2.5 s skips what would leave more than 1 s late: these packets were not sent, and
/// nothing was lost or refused.
#[test]
fn packets_that_a_stopped_sender_skips_are_not_lost() {
    let Some(lab) = lab("packets_that_a_stopped_sender_skips_are_not_lost") else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = lab.server.v4;
    let _tun = lab.tun(path("neither"), Numbering::Arrival).unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), host, "--only jitlat,owamp");
    let line = format!("{host} --proto owamp -n 200 -p 20ms --owamp-timeout 1s -o a.log --json -");
    // The last packet is due 4.3 s after the requests. The sender stops before and after that.
    for stop_after in [Duration::from_millis(1500), Duration::from_millis(3800)] {
        let _ = fs::remove_file(folder.path().join("a.log"));
        let mut client = Running::start(Place::In(&lab.client).jitlat(folder.path(), &line));
        client.runs_for(stop_after);
        client.signal(Signal::SIGSTOP);
        client.runs_for(Duration::from_millis(2500));
        client.signal(Signal::SIGCONT);
        let report = client.finish(LIMIT).report();
        let (sent, skipped) = (report.count("/counts/sent"), report.count("/session/skipped"));
        assert_eq!(sent + skipped, 200, "stopped after {stop_after:?}");
        assert_eq!(report.count("/counts/lost"), 0);
        assert!((5..=80).contains(&skipped), "{skipped}: at most 1.5 s of packets every 20 ms");
        let causes = report.at("/answer/causes");
        let ids: Vec<&str> = causes.as_array().unwrap().iter().filter_map(|c| c["id"].as_str()).collect();
        let expected = if stop_after < Duration::from_secs(3) { "sender-stall" } else { "send-failure" };
        assert!(ids.contains(&expected), "{causes}");
        let again = Running::start(Place::In(&lab.client).jitlat(folder.path(), "-f a.log --json -"));
        let again = again.finish(LIMIT).report();
        for figure in ["/counts/sent", "/counts/lost", "/session/skipped", "/answer/headline"] {
            assert_eq!(report.at(figure), again.at(figure), "{figure}");
        }
    }
}

/// The text of perfSONAR's tools for both directions, in files and next to the JSON.
#[test]
fn a_test_with_owamp_is_printed_as_its_own_tools_print_it() {
    let Some(lab) = lab("a_test_with_owamp_is_printed_as_its_own_tools_print_it") else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = lab.server.v4;
    undisturbed(|| {
        let _tun = lab.tun(path("neither"), Numbering::Arrival).unwrap();
        let _server = Server::start(Place::In(&lab.server), folder.path(), host, "--only jitlat,owamp");
        let line = format!(
            "{host} --proto owamp -b -n 50 -p 5ms --owamp-timeout 1s --no-log --as owstats=stats.txt --as owping=raw.txt \
             --json -"
        );
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line))
            .finish(LIMIT)
            .report()
            .directions();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let (stats, raw) = (read("stats.txt"), read("raw.txt"));
        assert_eq!(stats.matches("50 sent, 0 lost (0.000%), 0 duplicates\n").count(), 2, "{stats}");
        assert_eq!(stats.matches("seq_no=").count(), 100, "{stats}");
        assert!(stats.contains(&format!("[{host}]:")), "{stats}");
        assert_eq!(raw.lines().filter(|line| line.split(' ').count() == 8).count(), 100, "{raw}");
    });
}
