//! Requests to a broadcast address: refused unless requested explicitly, and never answered.

use crate::harness::*;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_segment_is_flooded_only_on_request_and_nobody_answers() {
    let Some(lab) = lab("a_segment_is_flooded_only_on_request_and_nobody_answers") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // A server bound to no address receives broadcasts.
    let server = Server::start(Place::In(&lab.server), folder.path(), std::net::Ipv4Addr::UNSPECIFIED, "");
    let ping = |arguments: &str| {
        let line = format!("ping 10.9.0.255 -n 20 -p 5ms --timeout 200ms --json - {arguments}");
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT)
    };
    for protocol in ["--proto lamp", "--proto stamp"] {
        ping(protocol).refused(&["broadcast address", "--broadcast"]);
    }
    ping("--proto lamp --broadcast --wait 1ms").refused(&["--wait"]);
    ping("--proto lamp --broadcast --raw").refused(&["--raw"]);

    let before = Interface::of(&lab.server);
    let flood = ping("--proto lamp --broadcast").report();
    let after = Interface::of(&lab.server);
    assert_eq!((flood.count("/counts/sent"), flood.count("/counts/received")), (20, 0));
    assert!(flood.text("/two_way/remarks/0").contains("broadcast address of the local segment"));
    assert!(flood.text("/answer/headline").starts_with("Flood: 20 requests to all hosts of the segment, "));
    assert!(flood.text("/answer/headline").ends_with("; no host answered, and none has to."));
    assert!(after.received >= before.received + 20, "{before:?} {after:?}: they have arrived");
    // Neighbour discovery and other protocols may send a few packets; twenty answers would be noticed.
    assert!(after.sent < before.sent + 20, "{before:?} {after:?}: nothing was answered");
    drop(server);
}

/// Number of packets seen at a namespace's end of the path.
#[derive(Debug)]
struct Interface {
    received: u64,
    sent: u64,
}

impl Interface {
    fn of(namespace: &jitlat_net::emulator::lab::Namespace) -> Interface {
        let count = |what: &str| {
            let file = format!("/sys/class/net/path/statistics/{what}_packets");
            let output = namespace.command("cat").arg(file).output().unwrap();
            String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
        };
        Interface { received: count("rx"), sent: count("tx") }
    }
}
