//! Cisco IP SLA between namespaces: loss that is exact by direction, and address translation.

use crate::harness::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Writes a key file that only its owner can read.
fn write_keys(folder: &Path, name: &str, keys: &str) {
    let path = folder.join(name);
    fs::write(&path, keys).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
}

#[test]
fn losses_are_exact_by_direction() {
    const NAME: &str = "losses_are_exact_by_direction";
    if std::process::Command::new("nft").arg("--version").output().is_err() {
        return eprintln!("skipped: {NAME} needs nft");
    }
    let Some(lab) = lab(NAME) else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    write_keys(folder.path(), "keys", "7 a key\n8 0x00ff\n");
    let host = lab.server.v4;
    // Every seventh probe does not reach the responder, and every eleventh of its answers does not leave.
    let drops = |port: u16| {
        [
            format!("add rule inet lossy in udp dport {port} numgen inc mod 7 3 drop"),
            format!("add rule inet lossy out udp sport {port} numgen inc mod 11 3 drop"),
        ]
    };
    lab.server.run("nft add table inet lossy").unwrap();
    for (hook, chain) in [("input", "in"), ("output", "out")] {
        let added = format!("nft add chain inet lossy {chain} {{ type filter hook {hook} priority 0 ; }}");
        lab.server.run(&added).unwrap();
    }
    let cases = [
        ("", ""),
        ("--ipsla-probe microseconds", ""),
        ("--ipsla-version 2", ""),
        ("--ipsla-key-file keys --ipsla-key-id 8", "--ipsla-key-file keys --open jitlat"),
        (
            "--ipsla-key-file keys --ipsla-key-id 7 --ipsla-auth sha256 --ptp",
            "--ipsla-key-file keys --ipsla-ptp --open jitlat",
        ),
    ];
    for (k, (client, server)) in cases.into_iter().enumerate() {
        let arguments = format!("--only jitlat,ipsla {server}");
        let _server = Server::start(Place::In(&lab.server), folder.path(), host, &arguments);
        let port = 20_000 + k as u16;
        drops(port).iter().for_each(|rule| lab.server.run(&format!("nft {rule}")).unwrap());
        let line = format!(
            "ping {host} --proto ipsla --target-port {port} {client} -n 100 -p 5ms --timeout 1s --no-log --json -"
        );
        let test = Running::start(Place::In(&lab.client).jitlat(folder.path(), &line));
        let report = test.finish(LIMIT).report();
        // Probes 3, 10, … 94 of 100, and answers 3, 14, … 80 of the other 86.
        let lost = ["up_lost", "down_lost", "unknown_lost"]
            .map(|key| report.count(&format!("/two_way/directions/{key}")));
        assert_eq!((report.count("/counts/received"), lost), (78, [14, 8, 0]), "{client}");
        assert_eq!(report.count("/two_way/up/lost"), 14, "{client}");
        let resolution = report.at("/warnings").to_string().contains("far_resolution");
        assert_eq!(resolution, client.is_empty(), "{client}");
    }
}

#[test]
fn ports_that_are_not_allowed_and_keys_that_are_wrong_have_reasons() {
    const NAME: &str = "ports_that_are_not_allowed_and_keys_that_are_wrong_have_reasons";
    let Some(lab) = lab(NAME) else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    write_keys(folder.path(), "keys", "7 a key\n");
    write_keys(folder.path(), "others", "7 another key\n");
    let host = lab.server.v4;
    let ended = |line: &str| {
        let line = format!("ping {host} --proto ipsla -n 10 -p 5ms --no-log {line}");
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT)
    };
    let arguments = "--only jitlat,ipsla --ipsla-test-ports 20000-20009";
    let server = Server::start(Place::In(&lab.server), folder.path(), host, arguments);
    for (line, reason) in [
        ("--ipsla-version 2 --target-port 30000", "refused to open UDP port 30000"),
        ("--target-port 30000", "no IP SLA responder answered 4 requests to open UDP port 30000"),
        ("--ipsla-key-file keys --target-port 20000", "not signed with the key"),
    ] {
        let ended = ended(line);
        assert!(ended.code() == 2 && ended.stderr.contains(reason), "{line}: {}", ended.stderr);
    }
    assert!(ended("--target-port 20009").code() == 0);
    assert!(server.stop().contains("a port or a time that is not allowed"));
    let arguments = "--only jitlat,ipsla --ipsla-key-file keys --open jitlat";
    let _server = Server::start(Place::In(&lab.server), folder.path(), host, arguments);
    let wrong = ended("--ipsla-key-file others");
    assert!(wrong.code() == 2 && wrong.stderr.contains("not signed with the key"), "{}", wrong.stderr);
}
