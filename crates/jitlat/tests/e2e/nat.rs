//! Tests through a router that translates addresses: that of a client, so that the server sees another one, or that of
//! a server, to which the router forwards only some ports.

use crate::harness::*;
use jitlat_net::emulator::lab::{Lab, Namespace};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Returns the lab with a router in which nftables executes `rules`; `None` if that is not possible here.
fn translated(test: &str, rules: &[&str]) -> Option<(Lab, Namespace)> {
    if std::process::Command::new("nft").arg("--version").output().is_err() {
        eprintln!("skipped: {test} needs nft");
        return None;
    }
    let lab = lab(test)?;
    let router = lab.router(1500).unwrap();
    router.run("nft add table ip nat").unwrap();
    router.run("nft add chain ip nat out { type nat hook postrouting priority 100 ; }").unwrap();
    router.run("nft add chain ip nat in { type nat hook prerouting priority -100 ; }").unwrap();
    rules.iter().for_each(|rule| router.run(&format!("nft add rule ip nat {rule}")).unwrap());
    Some((lab, router))
}

#[test]
fn clients_behind_address_translation_are_served_by_every_protocol() {
    const NAME: &str = "clients_behind_address_translation_are_served_by_every_protocol";
    let Some((lab, _router)) = translated(NAME, &["out oifname server masquerade"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = lab.server.v4;
    let server = Server::start(Place::In(&lab.server), folder.path(), host, "--ipsla");
    for (test, address_refused) in [
        (format!("{host}"), false),
        (format!("{host} -R"), false),
        (format!("{host} -b"), false),
        (format!("{host} --proto owamp"), true),
        // The packets in this direction pass because the client opens the port.
        (format!("{host} --proto owamp -R"), true),
        (format!("ping {host} --proto stamp"), false),
        (format!("ping {host} --proto twamp"), true),
        (format!("ping {host} --proto twamp --nat"), false),
        (format!("ping {host} --proto irtt"), false),
        (format!("ping {host} --proto lamp"), false),
        (format!("ping {host} --proto ipsla"), false),
        (format!("ping {host} --proto ipsla --ipsla-version 2"), false),
        (format!("ping {host} --proto tcp"), false),
    ] {
        let line = format!("{test} -n 100 -p 5ms --no-log --json -");
        let report =
            Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report();
        let reports = if test.ends_with("-b") { report.directions().into() } else { vec![report] };
        for report in reports {
            assert_eq!(report.count("/counts/received"), 100, "{test}: {:#}", report.at("/counts"));
            let said = report.0.to_string();
            assert_eq!(said.contains("there is address translation on the path"), address_refused, "{test}");
        }
    }
    // The server saw the router's address only.
    let log = server.stop();
    assert!(log.contains("peer=10.9.0.254:") && !log.contains("peer=10.9.0.1:"), "{log}");
}

#[test]
fn a_refusal_for_another_reason_than_addresses_names_that_reason() {
    const NAME: &str = "a_refusal_for_another_reason_than_addresses_names_that_reason";
    let Some((lab, _router)) = translated(NAME, &["out oifname server masquerade"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = lab.server.v4;
    let _server = Server::start(Place::In(&lab.server), folder.path(), host, "--max-packets 50");
    let line = format!("{host} --proto owamp -n 20 -p 1ns --no-log");
    let test = Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT);
    test.refused(&["the server refused while requesting a session"]);
}

#[test]
fn a_server_with_forwarded_ports_sends_from_the_forwarded_one_if_asked() {
    const NAME: &str = "a_server_with_forwarded_ports_sends_from_the_forwarded_one_if_asked";
    let rules = [
        "in iifname client tcp dport 2666 dnat to 10.9.0.2",
        "in iifname client udp dport 2667 dnat to 10.9.0.2",
    ];
    let Some((lab, router)) = translated(NAME, &rules) else { return };
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let run = |options: &str| {
        let line = format!("{} {options} -n 100 -p 5ms --no-log --json -", router.v4);
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT)
    };
    assert_eq!(run("").report().count("/counts/received"), 100);
    run("-R")
        .refused(&["If a router forwards ports to that host, -s 2667 makes it send from the forwarded port"]);
    assert_eq!(run("-R -s 2667").report().count("/counts/received"), 100);
}
