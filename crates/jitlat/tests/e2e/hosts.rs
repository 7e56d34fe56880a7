//! Hosts as people write them: with ports, with interfaces, and by names that also have an address at which nobody
//! answers.

use crate::harness::*;
use jitlat_net::emulator::lab::{DEVICE, Namespace};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Host names of one namespace (in `/etc/netns`), which are deleted on drop.
struct Names(PathBuf);

impl Names {
    fn new(namespace: &Namespace, hosts: &str) -> Names {
        let folder = PathBuf::from("/etc/netns").join(namespace.name());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("hosts"), hosts).unwrap();
        Names(folder)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until the link-local address of `namespace` is usable, and returns it.
fn link_local(namespace: &Namespace) -> String {
    let mut found = None;
    jitlat_waiting::until("a link-local address", LIMIT, || {
        let mut ip = namespace.command("ip");
        ip.args(["-6", "-o", "address", "show", "dev", DEVICE, "scope", "link", "-tentative"]);
        let shown = String::from_utf8(ip.output().unwrap().stdout).unwrap();
        let net = shown.split_whitespace().nth(3).and_then(|net| net.split('/').next());
        found = net.map(str::to_owned);
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_link_local_address_is_reached_by_every_protocol() {
    let Some(lab) = lab("hosts::a_link_local_address_is_reached_by_every_protocol") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = Place::In(&lab.server).jitlat(folder.path(), "serve --no-sandbox");
    let server = Running::start(server);
    server.wait_for("on the other host: jitlat fd09::2");
    let address = link_local(&lab.server);
    // The client's own address must be usable, too.
    link_local(&lab.client);
    let run = |line: &str| Running::start(Place::In(&lab.client).jitlat(folder.path(), line)).finish(LIMIT);
    for test in
        ["", "ping", "ping --proto stamp", "ping --proto twamp", "ping --proto irtt", "ping --proto tcp"]
    {
        let report = run(&format!("{test} {address}%{DEVICE} --no-log --json - -n 50 -p 2ms")).report();
        assert_eq!(report.count("/counts/received"), 50, "{test}");
    }
    let report =
        run(&format!("ping --proto stamp {address} --interface {DEVICE} --no-log --json - -n 1k -p 1ms"))
            .report();
    assert_eq!(report.count("/counts/received"), 1000);
    let path = run(&format!("path {address}%{DEVICE} -n 1 --json -")).any_report();
    assert_eq!(path.at("/hops").as_array().unwrap().len(), 1, "{:#}", path.0);
    run(&format!("ping {address} -n 5 --no-log")).refused(&["add the interface"]);
    run(&format!("{address} -n 5 --no-log")).refused(&["add the interface"]);
    // An interface stands for its address in the family of the far host.
    for (host, local) in [("10.9.0.2:2666", "10.9.0.1"), ("[fd09::2]:2666", "fd09::1")] {
        let report = run(&format!("{host} --bind {DEVICE} --no-log --json - -n 50 -p 2ms")).report();
        assert_eq!(report.text("/header/src_ip"), local);
    }
}

#[test]
fn an_address_that_nobody_answers_at_is_left_for_the_next() {
    let Some(lab) = lab("hosts::an_address_that_nobody_answers_at_is_left_for_the_next") else { return };
    lab.cable().unwrap();
    lab.client.run(&format!("ip address add 2001:db8::1/64 dev {DEVICE} nodad")).unwrap();
    // A neighbour that exists on paper only: packets to it leave, and nothing comes back.
    lab.client.run(&format!("ip neighbour add 2001:db8::77 lladdr 02:00:00:00:00:77 dev {DEVICE}")).unwrap();
    let _names = Names::new(&lab.client, "2001:db8::77 far.test\n10.9.0.2 far.test\n");
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let run = |line: &str| Running::start(Place::In(&lab.client).jitlat(folder.path(), line)).finish(LIMIT);
    for test in
        ["", "ping", "ping --proto stamp", "ping --proto twamp", "ping --proto lamp", "ping --proto tcp"]
    {
        let report = run(&format!("{test} far.test --no-log --json - -n 50 -p 2ms")).report();
        assert_eq!(
            (report.count("/counts/received"), report.text("/header/dst_ip")),
            (50, "10.9.0.2"),
            "{test}"
        );
        let notes = report.at("/session/client/notes").to_string();
        assert_eq!(notes.contains("2001:db8::77 did not answer"), !test.is_empty(), "{test}: {notes}");
    }
    // Whoever asks for the family gets it.
    let six = run("ping far.test -6 --timeout 200ms --no-log --json - -n 5 -p 2ms").any_report();
    assert_eq!((six.count("/counts/received"), six.text("/header/dst_ip")), (0, "2001:db8::77"));
}

#[test]
fn a_server_that_announces_itself_is_found_on_its_link() {
    let Some(lab) = lab("hosts::a_server_that_announces_itself_is_found_on_its_link") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let find = |place: &Namespace, options: &str| {
        Running::start(Place::In(place).jitlat(folder.path(), &format!("find {options}"))).finish(LIMIT)
    };
    find(&lab.client, "--timeout 300ms").refused(&["no server announced itself", "jitlat serve --announce"]);
    // Confined, as by default.
    let server = Place::In(&lab.server).jitlat(folder.path(), "serve --announce");
    let server = Running::start(server);
    server.wait_for("on the other host: jitlat fd09::2");
    let other = Place::In(&lab.server).jitlat(
        folder.path(),
        "serve --announce --only jitlat --bind fd09::2 --control-port 2700 --test-port 2701 --no-sandbox",
    );
    let other = Running::start(other);
    other.wait_for("istening");
    // From the other end of the link, and from the same host.
    for place in [&lab.client, &lab.server] {
        let found = find(place, "");
        assert_eq!(found.code(), 0, "{}", found.stderr);
        let ends: Vec<&str> = found
            .stdout
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once("jitlat "))
            .map(|(_, to)| to)
            .collect();
        assert_eq!(ends, ["10.9.0.2", "[fd09::2]:2700"], "{}", found.stdout);
    }
    other.signal(nix::sys::signal::Signal::SIGTERM);
    other.finish(LIMIT);
    assert_eq!(find(&lab.client, "").stdout.lines().count(), 2, "one of them has ended");
    // The printed command works.
    let report = Running::start(
        Place::In(&lab.client).jitlat(folder.path(), "10.9.0.2 -n 50 -p 2ms --no-log --json -"),
    )
    .finish(LIMIT)
    .report();
    assert_eq!(report.count("/counts/received"), 50);
    drop(server);
    // A host without a link says so.
    lab.client.run(&format!("ip link delete {DEVICE}")).unwrap();
    find(&lab.client, "").refused(&["no interface for multicast"]);
}

#[test]
fn queries_cannot_make_a_server_send_more_than_one_announcement_per_second() {
    let Some(lab) = lab("hosts::queries_cannot_make_a_server_send_more_than_one_announcement_per_second")
    else {
        return;
    };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server =
        Place::In(&lab.server).jitlat(folder.path(), "serve --announce --bind 10.9.0.2 --no-sandbox");
    let server = Running::start(server);
    server.wait_for("on the other host");
    let sent = || {
        let mut cat = lab.server.command("cat");
        let output = cat.arg(format!("/sys/class/net/{DEVICE}/statistics/tx_packets")).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse::<u64>().unwrap()
    };
    let before = sent();
    let flood = lab.client.within(|| {
        let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
        let query = jitlat_proto::discovery::query();
        let begin = std::time::Instant::now();
        let mut queries = 0u64;
        while begin.elapsed() < Duration::from_secs(3) {
            queries += u64::from(socket.send_to(&query, "224.0.0.251:5353").is_ok());
            // To the server itself: such queries are for another responder, and not answered.
            let _ = socket.send_to(&query, "10.9.0.2:5353");
        }
        queries
    });
    let queries = flood.unwrap();
    let answers = sent() - before;
    // Port unreachable messages for the second kind are limited by the kernel.
    assert!(queries > 1000 && answers < 100, "{answers} packets for {queries} queries");
    drop(server);
}
