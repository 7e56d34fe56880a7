//! `--priority` and `--ac`: every packet that a test sends has the requested priority within its host, as counted by
//! a firewall rule.

use crate::harness::*;
use jitlat_net::emulator::lab::Namespace;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn packets_leave_with_the_priority_asked_for() {
    let Some(lab) = lab("packets_leave_with_the_priority_asked_for") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    [&lab.client, &lab.server].iter().for_each(|n| count_priorities(n, folder.path()));
    let server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "--ac VI");
    let run = |line: &str| {
        let line = line.replace("HOST", &lab.server.v4.to_string());
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT)
    };
    // A DSCP must not replace the priority of an answer.
    for (line, client, server) in [
        ("ping HOST --proto lamp -n 20 -p 2ms --ac VO -D EF", "udp_6", "udp_4"),
        ("ping HOST --proto stamp -n 20 -p 2ms --priority 5", "udp_5", "udp_4"),
        ("ping HOST --proto tcp -n 20 -p 2ms --ac BK", "tcp_1", "tcp_4"),
        ("HOST -n 20 -p 2ms --priority 3 -D EF", "udp_3", ""),
        ("HOST -n 20 -p 2ms -t --ac VO", "tcp_6", ""),
        ("HOST -n 20 -p 2ms -R", "", "udp_4"),
        ("ping HOST --proto stamp -n 20 -p 2ms --load udp:100/s,ac=BK --load-settle 200ms", "udp_1", ""),
    ] {
        let expected = [(client, &lab.client), (server, &lab.server)];
        let counters: Vec<_> = expected.iter().filter(|(name, _)| !name.is_empty()).collect();
        let before: Vec<u64> = counters.iter().map(|(name, host)| packets(host, name)).collect();
        let finished = run(line);
        assert_eq!(finished.code(), 0, "{line}: {finished:?}");
        for ((name, host), before) in counters.into_iter().zip(before) {
            let now = packets(host, name);
            assert!(now >= before + 20, "{line}: {name} {before} {now}");
        }
    }
    run("HOST -n 20 -R --ac VO").refused(&["jitlat serve", "-R"]);
    drop(server);
}

/// Makes the firewall of `host` count outgoing packets by protocol and priority.
fn count_priorities(host: &Namespace, folder: &std::path::Path) {
    let kinds = || ["udp", "tcp"].into_iter().flat_map(|p| (0..7).map(move |n| (p, n)));
    let counters: String = kinds().map(|(p, n)| format!("counter {p}_{n} {{}}\n")).collect();
    let rules: String = kinds()
        .map(|(p, n)| format!("meta l4proto {p} meta priority 0:{n} counter name {p}_{n}\n"))
        .collect();
    let file = folder.join("rules");
    let table = format!(
        "table inet seen {{\n{counters}chain out {{ type filter hook output priority 0;\n{rules}}}\n}}\n"
    );
    std::fs::write(&file, table).unwrap();
    let done = host.command("nft").arg("-f").arg(&file).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

fn packets(host: &Namespace, counter: &str) -> u64 {
    let output = host.command("nft").args(["list", "counter", "inet", "seen", counter]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = text.split_whitespace().skip_while(|w| *w != "packets");
    words.nth(1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{output:?}"))
}
