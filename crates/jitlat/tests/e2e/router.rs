//! A router between two hosts: its link to the server carries packets of up to 1280 bytes, and its messages about longer
//! ones arrive or not; or it changes the class of service.

use crate::harness::*;
use jitlat_net::emulator::lab::Namespace;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);
const MTU: u64 = 1280;

/// Makes the router drop its own messages about packets that are too long.
fn silence(router: &Namespace) {
    for command in [
        "nft add table inet filter",
        "nft add chain inet filter out { type filter hook output priority 0 ; }",
        "nft add rule inet filter out icmp type destination-unreachable drop",
        "nft add rule inet filter out icmpv6 type packet-too-big drop",
    ] {
        router.run(command).unwrap();
    }
}

fn has_nft(test: &str) -> bool {
    let found = std::process::Command::new("nft").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {test} needs nft");
    }
    found
}

#[test]
fn packets_that_vanish_because_of_their_length_are_explained() {
    const NAME: &str = "packets_that_vanish_because_of_their_length_are_explained";
    let Some(lab) = lab(NAME).filter(|_| has_nft(NAME)) else { return };
    let router = lab.router(MTU as u32).unwrap();
    silence(&router);
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let host = lab.server.v4;
    let stream = "-n 100 -p 10ms -l 1400 --timeout 500ms";
    let tests = [
        format!("{host} -n 100 -p 10ms -l 1400 --no-log"),
        format!("{host} -n 100 -p 10ms -l 1400 --no-log -R"),
        format!("ping {host} --proto stamp {stream}"),
        format!("ping {host} --proto irtt {stream}"),
        format!("ping {host} --proto lamp {stream}"),
        format!("ping {host} --proto icmp {stream}"),
    ];
    let client = |line: &str| {
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &format!("{line} --json -")))
    };
    // Two searches at a time: each has a limit of time, which many would exceed on a busy machine.
    let pairs = tests.chunks(2).flat_map(|pair| {
        let running: Vec<_> = pair.iter().map(|line| (line, client(line))).collect();
        running.into_iter().map(|(line, test)| (line, test.finish(LIMIT).any_report())).collect::<Vec<_>>()
    });
    for (line, report) in pairs {
        let headline = report.at("/answer/headline").as_str().unwrap();
        assert_eq!(report.at("/answer/causes/0/id"), "mtu", "{line}: {headline}");
        let passes = report.count("/answer/causes/0/bytes");
        // The virtual cable delivers packets with up to four bytes more to the router.
        assert!(
            (MTU..=MTU + if line.ends_with("-R") { 4 } else { 0 }).contains(&passes),
            "{line}: {headline}"
        );
        let named = format!(" do not pass, packets of up to {passes} bytes do (-l 12");
        assert!(
            headline.starts_with("Bad: nothing arrived: packets of 14") && headline.contains(&named),
            "{line}: {headline}"
        );
        let payload = report.count("/session/size_limit/payload");
        let passing = line.replace("-l 1400", &format!("-l {payload}"));
        let report = client(&passing).finish(LIMIT).any_report();
        assert_eq!(report.count("/counts/received"), 100, "{passing}");
    }
}

#[test]
fn a_class_of_service_that_the_path_changes_is_on_the_screen() {
    const NAME: &str = "a_class_of_service_that_the_path_changes_is_on_the_screen";
    let Some(lab) = lab(NAME).filter(|_| has_nft(NAME)) else { return };
    let router = lab.router(1500).unwrap();
    for command in [
        "nft add table inet filter",
        "nft add chain inet filter through { type filter hook forward priority 0 ; }",
        "nft add rule inet filter through ip daddr 10.9.0.2 ip dscp ef ip dscp set cs1",
    ] {
        router.run(command).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let host = lab.server.v4;
    let _server = Server::start(Place::In(&lab.server), folder.path(), host, "");
    let line = format!("ping {host} --proto stamp -D EF -n 100 -p 5ms --timeout 500ms -o a.log");
    let screen = Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT);
    let text = screen.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let changed =
        "the path changes the class of service: requests were sent with DSCP 46 (EF), but 100 of 100 arrived";
    assert!(text.contains(changed), "{}", screen.stdout);
    let again = Place::In(&lab.client).jitlat(folder.path(), "-f a.log --json -");
    let report = Running::start(again).finish(LIMIT).report();
    assert_eq!(report.count("/two_way/request_dscp/8"), 100);
    let codes: Vec<&str> =
        report.at("/warnings").as_array().unwrap().iter().filter_map(|w| w["code"].as_str()).collect();
    assert!(codes.contains(&"request_dscp_changed"), "{codes:?}");
}

#[test]
fn packets_lost_to_path_mtu_discovery_are_said_to_be_that() {
    const NAME: &str = "packets_lost_to_path_mtu_discovery_are_said_to_be_that";
    let Some(lab) = lab(NAME) else { return };
    let _router = lab.router(MTU as u32).unwrap();
    lab.server.run("ip link set path mtu 1280").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let host = lab.server.v4;
    for line in [
        format!("{host} -n 500 -p 2ms -l 1400 --no-log"),
        format!("ping {host} --proto stamp -n 500 -p 2ms -l 1400 --timeout 500ms"),
        format!("ping {host} --proto icmp -n 500 -p 2ms -l 1400 --timeout 500ms"),
    ] {
        lab.client.run("ip route flush cache").unwrap();
        let test = Place::In(&lab.client).jitlat(folder.path(), &format!("{line} --json -"));
        let report = Running::start(test).finish(LIMIT).report();
        assert_eq!(report.count("/session/path_mtu"), MTU, "{line}");
        let lost = report.count("/counts/lost");
        assert!((1..=50).contains(&lost), "{line}: {lost} lost");
        let causes = report.at("/answer/causes").as_array().unwrap();
        let cause =
            causes.iter().find(|cause| cause["id"] == "mtu").unwrap_or_else(|| panic!("{line}: {causes:?}"));
        assert_eq!((cause["bytes"].as_u64(), cause["packets"][0].as_u64()), (Some(MTU), Some(0)), "{line}");
        let losses = ["random-loss", "bursty-loss", "outage", "send-failure"];
        assert!(causes.iter().all(|c| !losses.contains(&c["id"].as_str().unwrap())), "{line}: {causes:?}");
    }
}
