//! `jitlat path` through three routers in their own namespaces: the second rewrites DSCPs, the third does not report
//! expired packets.

#[path = "../../../store/tests/schema/mod.rs"]
mod schema;

use crate::harness::*;
use crate::screen::TerminalUnderTest;
use serde_json::Value;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A chain of namespaces (host, three routers, host), deleted when dropped.
struct Chain(Vec<String>);

impl Chain {
    /// Creates the chain; `None` without the privilege.
    fn new(test: &str) -> Option<Chain> {
        lab(test)?;
        static CHAINS: AtomicU32 = AtomicU32::new(0);
        let chain = format!("jitlat-{}-path-{}", std::process::id(), CHAINS.fetch_add(1, Relaxed));
        let names = (0..5).map(|k| format!("{chain}-{k}")).collect();
        let chain = Chain(names);
        for name in &chain.0 {
            run(&format!("ip netns add {name}"));
            run(&format!("ip -n {name} link set lo up"));
        }
        for (k, pair) in chain.0.windows(2).enumerate() {
            run(&format!("ip -n {} link add right type veth peer name left netns {}", pair[0], pair[1]));
            for (name, device, end) in [(&pair[0], "right", 1), (&pair[1], "left", 2)] {
                run(&format!("ip -n {name} address add 10.77.{k}.{end}/24 dev {device}"));
                run(&format!("ip -n {name} address add fd77:{k}::{end}/64 dev {device} nodad"));
                run(&format!("ip -n {name} link set {device} up"));
            }
        }
        for (k, name) in chain.0.iter().enumerate() {
            // Routers send ICMP errors without a rate limit.
            for setting in [
                "net.ipv4.ip_forward=1",
                "net.ipv6.conf.all.forwarding=1",
                "net.ipv4.icmp_ratelimit=0",
                "net.ipv6.icmp.ratelimit=0",
                "net.ipv4.icmp_msgs_per_sec=100000",
            ] {
                let _ = Command::new("ip").args(["netns", "exec", name, "sysctl", "-qw", setting]).output();
            }
            if k < 4 {
                run(&format!("ip -n {name} route add default via 10.77.{k}.2"));
                run(&format!("ip -n {name} -6 route add default via fd77:{k}::2"));
            }
            for far in 0..k.saturating_sub(1) {
                run(&format!("ip -n {name} route add 10.77.{far}.0/24 via 10.77.{}.1", k - 1));
                run(&format!("ip -n {name} -6 route add fd77:{far}::/64 via fd77:{}::1", k - 1));
            }
        }
        chain.rules(
            2,
            "table inet rewrite { chain out { type filter hook postrouting priority mangle;
               meta l4proto { tcp, udp } ip dscp set cs1\n meta l4proto { tcp, udp } ip6 dscp set cs1\n }\n }",
        );
        chain.rules(
            3,
            "table inet silent { chain out { type filter hook output priority 0;
               icmp type time-exceeded drop\n icmpv6 type time-exceeded drop\n }\n }",
        );
        Some(chain)
    }

    /// Adds a second link between the first two routers, which no packet takes until a route uses it. The second router
    /// answers with the address of the link on which a packet arrived.
    fn second_link(&self) {
        let [near, far] = [&self.0[1], &self.0[2]];
        run(&format!("ip -n {near} link add other type veth peer name other netns {far}"));
        for (name, end) in [(near, 1), (far, 2)] {
            run(&format!("ip -n {name} address add 10.78.1.{end}/24 dev other"));
            run(&format!("ip -n {name} link set other up"));
        }
        for setting in ["icmp_errors_use_inbound_ifaddr=1", "conf.all.rp_filter=0", "conf.other.rp_filter=0"]
        {
            run(&format!("ip netns exec {far} sysctl -qw net.ipv4.{setting}"));
        }
    }

    fn rules(&self, k: usize, rules: &str) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules");
        std::fs::write(&file, rules).unwrap();
        run(&format!("ip netns exec {} nft -f {}", self.0[k], file.display()));
    }

    fn path(&self, arguments: &str) -> Finished {
        let folder = tempfile::tempdir().unwrap();
        self.jitlat(folder.path(), &format!("path {arguments}"))
    }

    /// Runs jitlat at the near end.
    fn jitlat(&self, folder: &Path, arguments: &str) -> Finished {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[0], env!("CARGO_BIN_EXE_jitlat")]);
        command.args(arguments.split_whitespace()).current_dir(folder);
        Running::start(command).finish(LIMIT)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}

/// Hosts file of a namespace; deleted when dropped.
struct HostsFile(std::path::PathBuf);

impl HostsFile {
    fn write(namespace: &str, text: &str) -> HostsFile {
        let folder = Path::new("/etc/netns").join(namespace);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("hosts"), text).unwrap();
        HostsFile(folder)
    }
}

impl Drop for HostsFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_router_that_removes_marks_is_named() {
    let Some(chain) = Chain::new("the_router_that_removes_marks_is_named") else { return };
    chain.rules(
        1,
        "table inet marks { chain out { type filter hook postrouting priority mangle;
           meta l4proto udp ip ecn set not-ect\n meta l4proto udp ip6 ecn set not-ect\n }\n }",
    );
    for host in ["10.77.3.2", "fd77:3::2"] {
        let done = chain.path(&format!("{host} --ecn ect1 -n 5 -p 100ms --timeout 1s --json -"));
        assert_eq!(done.code(), 0, "{host}: {}", done.stderr);
        let path = Report(serde_json::from_str(&done.stdout).unwrap());
        schema::assert_valid("path", &path.0);
        let change = &path.at("/mark_changes/0");
        let ends = ["after_ttl", "at_ttl"].map(|key| change[key].as_u64());
        assert_eq!(ends, [Some(1), Some(2)], "{host}: {change}");
        assert_eq!((&change["from"], &change["to"]), (&Value::from("ect1"), &Value::from("not_ect")));
        let done = chain.path(&format!("{host} --ecn ect1 -n 3 -p 100ms --timeout 1s"));
        let said = "mark ECT(1) leaves hop 1 and reaches hop 2 as Not-ECT; it is removed there (bleached)";
        let text = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(said), "{}", done.stdout);
    }
}

fn run(command: &str) {
    let mut parts = command.split_whitespace();
    let output = Command::new(parts.next().unwrap()).args(parts).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn three_routers_are_reported_with_what_they_do() {
    let Some(chain) = Chain::new("three_routers_are_reported_with_what_they_do") else { return };
    for (host, router) in [("10.77.3.2", "10.77.N.2"), ("fd77:3::2", "fd77:N::2")] {
        for transport in ["", "-t"] {
            let done = chain.path(&format!("{host} {transport} -D EF -n 5 -p 100ms --timeout 1s --json -"));
            let name = format!("{host} {transport}: {}", done.stderr);
            assert_eq!(done.code(), 0, "{name}");
            let path = Report(serde_json::from_str(&done.stdout).unwrap());
            schema::assert_valid("path", &path.0);
            let hops = path.at("/hops").as_array().unwrap();
            assert_eq!((hops.len(), path.at("/reached")), (4, &Value::Bool(true)), "{name}\n{:#}", path.0);
            for (k, hop) in hops.iter().enumerate() {
                let hop = Report(hop.clone());
                assert_eq!(hop.count("/sent"), 5, "{name} hop {k}");
                if k == 2 {
                    assert_eq!(hop.count("/answered"), 0, "{name}: the third router says nothing");
                    continue;
                }
                assert_eq!(hop.count("/answered"), 5, "{name} hop {k}\n{:#}", path.0);
                let [reported, there] =
                    [hop.text("/responders/0/address"), &router.replace('N', &k.to_string())];
                assert_eq!(reported.parse::<IpAddr>(), there.parse::<IpAddr>(), "{name}");
                let [min, max] = ["/rtt/min", "/rtt/max"].map(|p| hop.ms(p));
                assert!(
                    min > 0.0 && max < 1000.0 && hop.count("/rtt/n") == 5,
                    "{name} hop {k}: {min} {max} ms"
                );
                let dscp = hop.histogram("/dscp");
                match (k, transport) {
                    (0 | 1, _) => assert_eq!(dscp, [(46, 5)], "{name} hop {k}"),
                    // A host that accepts or refuses a connection quotes no packet.
                    (_, "-t") => assert_eq!(dscp, [], "{name} hop {k}"),
                    _ => assert_eq!(dscp, [(8, 5)], "{name} hop {k}"),
                }
            }
            if transport.is_empty() {
                assert_eq!(
                    (path.count("/rewrites/0/after_ttl"), path.count("/rewrites/0/at_ttl")),
                    (2, 4),
                    "{name}"
                );
                assert_eq!((path.count("/rewrites/0/from"), path.count("/rewrites/0/to")), (46, 8), "{name}");
            }
        }
    }
    let text = chain.path("10.77.3.2 -D EF -n 3 -p 100ms --timeout 1s").stdout;
    for phrase in [
        "Path from 10.77.0.1 to 10.77.3.2",
        "46 (EF) leaves hop 2 and reaches hop 4 as 8",
        "1 hop did not answer",
    ] {
        assert!(text.contains(phrase), "{phrase} is not in\n{text}");
    }
}

/// The hops appear as their routers answer, the name of a router and a change of the route are shown, and the report follows.
#[test]
fn a_path_is_watched_until_it_is_ended() {
    let Some(chain) = Chain::new("a_path_is_watched_until_it_is_ended") else { return };
    let Some(terminal) = TerminalUnderTest::new("a_path_is_watched_until_it_is_ended") else { return };
    chain.second_link();
    // `ip netns exec` shows this file as /etc/hosts.
    let files = HostsFile::write(&chain.0[0], "10.77.0.2 gateway.test\n");
    let arguments = "path 10.77.3.2 -D EF -p 100ms --timeout 1s --live";
    terminal.jitlat(&format!("ip netns exec {}", chain.0[0]), arguments);
    let row = |screen: &str, hop: &str| screen.lines().find(|line| line.starts_with(hop)).map(str::to_owned);
    terminal.wait("all hops", |screen| {
        let host = |hop: &str| row(screen, hop)?.split_whitespace().nth(1).map(str::to_owned);
        let hosts = ["  1", "  2", "  3", "  4"].map(host);
        let expected = ["gateway.test", "10.77.1.2", "*", "10.77.3.2"].map(|host| Some(host.to_owned()));
        hosts == expected && screen.contains("hop 3: silence, not loss")
    });
    terminal.keys(&["n"]);
    terminal.wait("addresses", |screen| row(screen, "  1").is_some_and(|row| row.contains("10.77.0.2")));
    terminal.keys(&["PPage", "NPage"]);
    terminal.wait_for("probes arrive here with DSCP CS1");
    // The first router sends everything over the other link.
    run(&format!("ip -n {} route replace default via 10.78.1.2", chain.0[1]));
    terminal.wait_for("3 Changes (1)");
    terminal.keys(&["3"]);
    terminal.wait_for("hop 2: 10.78.1.2 instead of 10.77.1.2");
    for (key, text) in [("2", "round-trip time to hop 4"), ("?", "this help"), ("?", "round-trip time")] {
        terminal.keys(&[key]);
        terminal.wait_for(text);
    }
    terminal.resize(60, 20);
    terminal.keys(&["1"]);
    terminal.wait_for("hop host");
    terminal.resize(120, 40);
    terminal.keys(&["q"]);
    let screen = terminal.ended(0);
    for phrase in ["gateway.test", "the route changed at hop 2: 10.78.1.2 instead of 10.77.1.2"] {
        assert!(screen.contains(phrase), "{phrase} is not in\n{screen}");
    }
    drop(files);
}

/// Several flows show both routers of a hop whose traffic is balanced by ports.
#[test]
fn flows_show_the_routers_of_every_route() {
    let Some(chain) = Chain::new("flows_show_the_routers_of_every_route") else { return };
    chain.second_link();
    let near = &chain.0[1];
    // Layer 4: the kernel chooses the next hop by addresses and ports.
    run(&format!("ip netns exec {near} sysctl -qw net.ipv4.fib_multipath_hash_policy=1"));
    run(&format!("ip -n {near} route replace default nexthop via 10.77.1.2 nexthop via 10.78.1.2"));
    let line = "10.77.3.2 --flows 16 -n 32 -p 20ms --timeout 1s";
    let done = chain.path(&format!("{line} --json -"));
    let path = Report(serde_json::from_str(&done.stdout).unwrap());
    schema::assert_valid("path", &path.0);
    let responders = path.at("/hops/1/responders").as_array().unwrap();
    let of = |address: &str| {
        let found = responders.iter().find(|r| r["address"] == address);
        found.map(|r| r["flows"].as_array().unwrap().iter().map(|f| f.as_u64().unwrap()).collect::<Vec<_>>())
    };
    let [one, other] = ["10.77.1.2", "10.78.1.2"].map(|address| of(address).unwrap_or_default());
    assert!(!one.is_empty() && !other.is_empty(), "{:#}", path.0);
    assert!(one.iter().all(|flow| !other.contains(flow)), "a flow keeps its route: {:#}", path.0);
    assert_eq!(path.at("/changes"), &serde_json::json!([]));
    assert_eq!(path.count("/hops/0/sent"), 32);
    chain.path("10.77.3.2 --flows 2 -t").refused(&["--flows", "cannot be used with"]);
}

#[test]
fn routes_of_classes_are_shown_side_by_side() {
    let Some(chain) = Chain::new("routes_of_classes_are_shown_side_by_side") else { return };
    chain.second_link();
    let near = &chain.0[1];
    run(&format!("ip -n {near} route add default via 10.78.1.2 table 100"));
    run(&format!("ip -n {near} rule add fwmark 1 table 100"));
    chain.rules(
        1,
        "table ip classes { chain in { type filter hook prerouting priority mangle; ip dscp ef meta mark set 1\n }\n }",
    );
    let line = "10.77.3.2 --classes BE,CS1,EF -n 3 -p 100ms --timeout 1s";
    let done = chain.path(&format!("{line} --json -"));
    assert_eq!(done.code(), 0, "{}", done.stderr);
    let found = Report(serde_json::from_str(&done.stdout).unwrap());
    schema::assert_valid("paths", &found.0);
    for (k, (dscp, router)) in [(0, "10.77.1.2"), (8, "10.77.1.2"), (46, "10.78.1.2")].into_iter().enumerate()
    {
        assert_eq!(found.count(&format!("/paths/{k}/dscp")), dscp);
        assert_eq!(found.text(&format!("/paths/{k}/hops/1/responders/0/address")), router);
        assert_eq!(found.at(&format!("/paths/{k}/reached")), &Value::Bool(true));
    }
    let different: Vec<u64> = [0, 1]
        .map(|k| found.at(&format!("/differences/{k}/routers")).as_array().unwrap().len() as u64)
        .into();
    assert_eq!((different, found.count("/differences/1/compared")), (vec![0, 1], 3));
    let text = chain.path(line).stdout;
    let line = |start: &str| -> Vec<String> {
        let found = text.lines().find(|line| line.trim_start().starts_with(start));
        found
            .unwrap_or_else(|| panic!("{start} is not in\n{text}"))
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(line("hop"), ["hop", "address", "BE", "CS1", "EF"]);
    let [both, other] = ["2  10.77.1.2", "10.78.1.2"].map(line);
    assert_eq!(
        (&both[both.len() - 1], &other[1], &other[2]),
        (&"-".to_owned(), &"-".to_owned(), &"-".to_owned())
    );
    for phrase in [
        "Paths from 10.77.0.1 to 10.77.3.2",
        "BE and CS1 pass the same routers, as far as hops answer",
        "BE and EF pass different routers at hop 2",
        "EF: DSCP 46 (EF) leaves hop 2 and reaches hop 4 as 8 (CS1)",
    ] {
        assert!(text.contains(phrase), "{phrase} is not in\n{text}");
    }
    chain.path("10.77.3.2 --classes BE,EF -D EF").refused(&["--classes", "cannot be used with"]);
}

#[test]
fn the_path_is_kept_with_a_test() {
    let Some(chain) = Chain::new("the_path_is_kept_with_a_test") else { return };
    let folder = tempfile::tempdir().unwrap();
    let done = chain.jitlat(folder.path(), "ping 10.77.3.2 -D EF -n 5 -p 20ms --path -o test.log --json -");
    assert_eq!(done.code(), 0, "{}", done.stderr);
    let read = Running::start(Place::Here.jitlat(folder.path(), "analyze test.log --json -")).finish(LIMIT);
    for (name, json) in [("the test", &done.stdout), ("its log", &read.stdout)] {
        let report = Report(serde_json::from_str(json).unwrap());
        let tag = |k: usize| report.text(&format!("/session/tags/hop.{k}")).to_owned();
        let answered =
            ["10.77.0.2, 3 of 3 answered", "10.77.1.2, 3 of 3 answered", "", "10.77.3.2, 3 of 3 answered"];
        for (k, words) in [1, 2, 4].map(|k| (k, answered[k - 1])) {
            assert!(tag(k).starts_with(words), "{name}: hop {k}: {}", tag(k));
        }
        assert_eq!(tag(3), "no answer to 3 probes", "{name}");
        assert!(
            tag(2).ends_with(", DSCP 46") && tag(4).ends_with(", DSCP 8, the destination"),
            "{name}: {}",
            tag(4)
        );
    }
}

#[test]
fn a_path_that_ends_is_reported_as_such() {
    let done = Running::start(Place::Here.jitlat(Path::new("/"), "path no.such.host.invalid")).finish(LIMIT);
    done.refused(&["no.such.host.invalid"]);
}
