//! Marks (ECN) between namespaces: a router whose firewall rewrites or drops marks, a router with two queues by mark, and the
//! emulator's coupled dual queue. The report names what each of them does.

use crate::harness::*;
use crate::undisturbed::undisturbed;
use jitlat_net::emulator::lab::Namespace;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);
/// Kinds of cause that marks show.
const BY_MARKS: [&str; 6] =
    ["ecn-bleached", "ecn-remarked", "ce-erased", "ect-dropped", "ecn-marked", "dual-queue"];

/// Returns the causes that marks show, with their directions.
fn by_marks(report: &Report) -> Vec<(String, String)> {
    let causes = report.at("/answer/causes").as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let all = causes.iter().map(|cause| (text(&cause["id"]), text(&cause["direction"])));
    all.filter(|(id, _)| BY_MARKS.contains(&id.as_str())).collect()
}

/// Replaces the rules of the router for packets to the server.
fn rules(router: &Namespace, rules: &[&str]) {
    let _ = router.run("nft delete table inet marks");
    for command in [
        "nft add table inet marks",
        "nft add chain inet marks through { type filter hook forward priority 0 ; }",
    ] {
        router.run(command).unwrap();
    }
    for rule in rules {
        router.run(&format!("nft add rule inet marks through {rule}")).unwrap();
    }
}

#[test]
fn a_router_that_rewrites_or_drops_marks_is_found_out() {
    const NAME: &str = "a_router_that_rewrites_or_drops_marks_is_found_out";
    let Some(lab) = lab(NAME) else { return };
    if std::process::Command::new("nft").arg("--version").output().is_err() {
        eprintln!("skipped: {NAME} needs nft");
        return;
    }
    let router = lab.router(1500).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let hosts = [lab.server.v4.to_string(), lab.server.v6.to_string()];
    let serve = |address: std::net::IpAddr| Server::start(Place::In(&lab.server), folder.path(), address, "");
    let _servers = [serve(lab.server.v4), serve(lab.server.v6)];
    let cases: [(&[&str], Option<&str>); 5] = [
        (&[], None),
        (
            &[
                "ip daddr 10.9.0.2 meta l4proto udp ip ecn set not-ect",
                "ip6 daddr fd09::2 meta l4proto udp ip6 ecn set not-ect",
            ],
            Some("ecn-bleached"),
        ),
        (
            &[
                "ip daddr 10.9.0.2 meta l4proto udp ip ecn ect1 ip ecn set ect0",
                "ip6 daddr fd09::2 meta l4proto udp ip6 ecn ect1 ip6 ecn set ect0",
            ],
            Some("ecn-remarked"),
        ),
        (
            &[
                "ip daddr 10.9.0.2 meta l4proto udp ip ecn != not-ect drop",
                "ip6 daddr fd09::2 meta l4proto udp ip6 ecn != not-ect drop",
            ],
            Some("ect-dropped"),
        ),
        (
            &[
                "ip daddr 10.9.0.2 meta l4proto udp ip ecn ect1 numgen random mod 10 == 0 ip ecn set ce",
                "ip6 daddr fd09::2 meta l4proto udp ip6 ecn ect1 numgen random mod 10 == 0 ip6 ecn set ce",
            ],
            Some("ecn-marked"),
        ),
    ];
    for (router_rules, expected) in cases {
        rules(&router, router_rules);
        for line in [
            format!("{} --ecn both -n 1200 -p 1ms --no-log", hosts[0]),
            format!("{} --ecn both -n 1200 -p 1ms --no-log", hosts[1]),
            format!("ping {} --proto stamp --ecn both -n 1200 -p 1ms --timeout 500ms", hosts[0]),
        ] {
            // A ping slows down when it is marked: checked below.
            if line.starts_with("ping") && expected == Some("ecn-marked") {
                continue;
            }
            let test = Place::In(&lab.client).jitlat(folder.path(), &format!("{line} --json -"));
            let report = Running::start(test).finish(LIMIT).any_report();
            let found = by_marks(&report);
            let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
            assert_eq!(
                ids,
                Vec::from_iter(expected),
                "{line} {router_rules:?}: {}",
                report.text("/answer/headline")
            );
            if line.starts_with("ping") && expected.is_some_and(|id| id != "ect-dropped") {
                assert_eq!(found[0].1, "up", "{line}");
            }
        }
    }
    // Each mark of congestion increases the time between the requests.
    rules(&router, &["ip daddr 10.9.0.2 meta l4proto udp ip ecn ect1 numgen inc mod 10 == 0 ip ecn set ce"]);
    let line = format!("ping {} --proto stamp --ecn ect1 -n 60 -p 1ms --no-log --json -", hosts[0]);
    let slowed =
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).any_report();
    assert_eq!(slowed.count("/two_way/up/marks/received/ect1/ce"), 6);
    assert!(slowed.at("/warnings").to_string().contains("slowed_by_marks"), "{}", slowed.at("/warnings"));
    // Round trips: requests and answers, each with the marks as sent and as received.
    rules(&router, &["ip daddr 10.9.0.2 meta l4proto udp ip ecn ect1 ip ecn set not-ect"]);
    let line = format!("ping {} --proto stamp --ecn ect1 -n 100 -p 5ms --json - -o marks.log", hosts[0]);
    let report =
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).any_report();
    let again = Running::start(Place::In(&lab.client).jitlat(folder.path(), "-f marks.log --json -"));
    for report in [report, again.finish(LIMIT).any_report()] {
        assert_eq!(report.count("/two_way/up/marks/received/ect1/not_ect"), 100);
        assert_eq!(report.count("/two_way/down/marks/received/ect1/ect1"), 100);
        assert_eq!(by_marks(&report), [("ecn-bleached".to_owned(), "up".to_owned())]);
    }
}

/// HTB classes by the lowest ECN bit, without marking: ECT(1) and CE do not wait behind the load.
#[test]
fn two_queues_by_mark_are_named_although_neither_marks() {
    const NAME: &str = "two_queues_by_mark_are_named_although_neither_marks";
    undisturbed(|| {
        let Some(lab) = lab(NAME) else { return };
        let router = lab.router(1500).unwrap();
        for command in [
            "qdisc add dev server root handle 1: htb default 20",
            "class add dev server parent 1: classid 1:1 htb rate 10mbit burst 3k cburst 3k",
            "class add dev server parent 1:1 classid 1:10 htb rate 1mbit ceil 10mbit prio 0 burst 3k cburst 3k",
            "class add dev server parent 1:1 classid 1:20 htb rate 9mbit ceil 10mbit prio 1 burst 3k cburst 3k",
            "qdisc add dev server parent 1:10 handle 10: bfifo limit 12000",
            "qdisc add dev server parent 1:20 handle 20: bfifo limit 120000",
            "filter add dev server parent 1: protocol ip prio 1 u32 match u8 0x01 0x01 at 1 flowid 1:10",
        ] {
            router.run(&format!("tc {command}")).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let host = lab.server.v4;
        let _server = Server::start(Place::In(&lab.server), folder.path(), host, "");
        let load = Place::In(&lab.client)
            .jitlat(folder.path(), &format!("{host} -r 12Mbit -l 1200 --duration 20s --no-log -q"));
        let load = _server.under_way(load, Duration::from_secs(1));
        let line = format!("{host} --ecn both -n 1200 -p 3ms --no-log --json -");
        let report =
            Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report();
        drop(load);
        assert_eq!(by_marks(&report).iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["dual-queue"]);
        let gain = report.ms("/marks/delay/difference/median_ns");
        assert!(gain > 20.0, "{gain} ms");
    });
}

/// The emulator's coupled dual queue (RFC 9332) with TCP traffic in the classic queue.
#[test]
fn a_coupled_dual_queue_is_named_end_to_end() {
    undisturbed(|| {
        let Some(lab) = lab("a_coupled_dual_queue_is_named_end_to_end") else { return };
        for (aqm, expected) in [
            ("aqm = dualpi2\n", "dual-queue"),
            ("aqm = codel target 5ms interval 100ms threshold 2ms\n", "ecn-marked"),
        ] {
            let text = format!(
                "seed = 5\n[both]\ndelay = 10ms\n[up]\nrate = 20Mbit queue 250kB\n{aqm}competition = tcp 20ms from 0s for 60s\n"
            );
            let folder = tempfile::tempdir().unwrap();
            let _tun = lab.tun(text.parse().unwrap(), BY_SEQUENCE).unwrap();
            let host = lab.server.v4;
            let _server = Server::start(Place::In(&lab.server), folder.path(), host, "");
            let line = format!("{host} --ecn both -n 1200 -p 4ms --no-log --json -");
            let report =
                Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report();
            let found = by_marks(&report);
            let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
            assert_eq!(ids, [expected], "{}", report.text("/answer/headline"));
            assert!(report.count("/marks/received/ect1/ce") > 0, "the queue marks");
        }
    });
}
