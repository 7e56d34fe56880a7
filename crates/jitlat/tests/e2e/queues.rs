//! Queues in the sending host, on the path and in both, checked against captures where packets leave the host and
//! where they arrive. A packet carries the program's own send time, so the captures show how long each packet waited
//! at each point.

use crate::harness::*;
use crate::undisturbed::undisturbed;
use jitlat_net::capture::Capture;
use jitlat_net::emulator::lab::Namespace;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);
/// Delay that a stalled machine may add between two readings of the clock, in ms.
const MARGIN: f64 = 3.0;

/// Token buckets of the kernel: the wide one serves 64 kbit/s, the narrow one 48 kbit/s. The stream has
/// packets of 122 bytes every 10 ms, 97.6 kbit/s.
const WIDE: &str = "root tbf rate 64kbit burst 1600 limit 200000";
const NARROW: &str = "root tbf rate 48kbit burst 1600 limit 200000";

/// Queues take time to fill, so these cases run in parallel.
#[test]
fn a_queue_is_found_where_it_is() {
    std::thread::scope(|s| {
        s.spawn(|| undisturbed(|| a_queue_in("the sending host", Some(WIDE), None, "-n 400 -p 10ms")));
        s.spawn(|| undisturbed(|| a_queue_in("the path", None, Some(WIDE), "-n 400 -p 10ms")));
        s.spawn(|| undisturbed(|| a_queue_in("both", Some(WIDE), Some(NARROW), "-n 400 -p 10ms")));
        s.spawn(|| undisturbed(a_queue_before_round_trips));
        s.spawn(|| undisturbed(a_queue_in_the_server));
        s.spawn(|| undisturbed(a_full_queue_loses_nothing_on_the_path));
    });
}

/// Times of each packet in ns: in the program, on leaving the host, on arrival.
struct Captured(BTreeMap<i32, [i64; 3]>);

impl Captured {
    fn read(left: &Path, arrived: &Path) -> Captured {
        let packets = |file: &Path| {
            let mut capture = Capture::open(&[file.to_owned()]).unwrap();
            let mut found = BTreeMap::new();
            while let Some(frame) = capture.next_frame() {
                // Ethernet, IPv4, UDP; then time and number.
                let Some(payload) = frame.data.get(42..54) else { continue };
                let sent = i64::from_be_bytes(payload[..8].try_into().unwrap());
                let seq = i32::from_be_bytes(payload[8..].try_into().unwrap());
                if seq >= 0 {
                    found.entry(seq).or_insert((sent, frame.at.0));
                }
            }
            found
        };
        let (left, arrived) = (packets(left), packets(arrived));
        let both =
            left.into_iter().filter_map(|(seq, (sent, at))| Some((seq, [sent, at, arrived.get(&seq)?.1])));
        Captured(both.collect())
    }

    /// Sorted times between two points, in ms.
    fn between(&self, from: usize, to: usize) -> Vec<f64> {
        self.of_packets(i32::MIN..=i32::MAX, from, to)
    }

    /// Sorted times of some packets between two points, in ms.
    fn of_packets(&self, packets: std::ops::RangeInclusive<i32>, from: usize, to: usize) -> Vec<f64> {
        let mut some: Vec<f64> = self.0.range(packets).map(|(_, t)| (t[to] - t[from]) as f64 / 1e6).collect();
        some.sort_by(f64::total_cmp);
        some
    }

    /// Median time between two packets at a point, in ms.
    fn usual_gap(&self, place: usize) -> f64 {
        let times: Vec<i64> = self.0.values().map(|t| t[place]).collect();
        let mut gaps: Vec<i64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        gaps.sort_unstable();
        gaps[gaps.len() / 2] as f64 / 1e6
    }
}

fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1]
}

/// Checks that a figure is within 1 % of the captures.
#[track_caller]
fn agrees(what: &str, figure: f64, captured: f64) {
    let off = (figure - captured).abs();
    assert!(off <= captured * 0.01 + MARGIN, "{what}: {figure} ms, the captures say {captured} ms");
}

/// Magnitude of the cause `id` in ms, and the packets that it names; `None` if the cause is not reported.
fn magnitude(report: &Report, id: &str) -> Option<(f64, std::ops::RangeInclusive<i32>)> {
    let causes = report.at("/answer/causes").as_array().unwrap();
    let cause = causes.iter().find(|c| c["id"] == id)?;
    let packet = |k: usize| cause["packets"][k].as_u64().unwrap() as i32;
    Some((cause["magnitude_ns"].as_f64().unwrap() / 1e6, packet(0)..=packet(1)))
}

fn queue(place: &Namespace, device: &str, bucket: Option<&str>) {
    if let Some(bucket) = bucket {
        place.run(&format!("tc qdisc add dev {device} {bucket}")).unwrap();
    }
}

fn a_queue_in(place: &str, host: Option<&str>, path: Option<&str>, arguments: &str) {
    let Some(lab) = lab("a_queue_is_found_where_it_is") else { return };
    if !has_tcpdump("a_queue_is_found_where_it_is") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let switch = lab.switch().unwrap();
    let files = ["left.pcap", "arrived.pcap"].map(|name| folder.path().join(name));
    let report = {
        let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
        let captures = [
            capture(&lab.client, "path", &files[0], "udp and dst port 2667"),
            capture(&lab.server, "path", &files[1], "udp and dst port 2667"),
        ];
        queue(&lab.client, "path", host);
        queue(&switch, "server", path);
        let line = format!("{} --json - --csv packets.csv {arguments}", lab.server.v4);
        let report =
            Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report();
        end_captures(captures, [&files[0], &files[1]]);
        report
    };
    let captured = Captured::read(&files[0], &files[1]);
    let received = report.count("/counts/received") as usize;
    assert!(received > 300 && captured.0.len() >= received, "{place}: {received}, {}", captured.0.len());

    let (local, across) = (captured.between(0, 1), captured.between(1, 2));
    for (figure, captured) in
        [("median", at(&local, 0.5)), ("p99", at(&local, 0.99)), ("max", at(&local, 1.0))]
    {
        agrees(
            &format!("{place}, local queue, {figure}"),
            report.ms(&format!("/local_queue/{figure}")),
            captured,
        );
    }
    for (figure, captured) in [("median", at(&across, 0.5)), ("max", at(&across, 1.0))] {
        agrees(&format!("{place}, path, {figure}"), report.ms(&format!("/latency/{figure}")), captured);
    }
    assert_eq!(report.count("/local_queue/bounded"), 0, "{place}: the kernel stamps both");
    // 122 bytes take 15.25 ms at 64 kbit/s.
    if host.is_some() {
        agrees(&format!("{place}, host's bucket"), captured.usual_gap(1), 15.25);
    }

    // Compares packet by packet.
    let csv = std::fs::read_to_string(folder.path().join("packets.csv")).unwrap();
    let names: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let column = |name: &str| names.iter().position(|n| *n == name).unwrap();
    let (seq, time) = (column("seq"), column("local_queue_ns"));
    let off = csv.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let [sent, left, _] = captured.0[&cells[seq].parse::<i32>().unwrap()];
        let (here, there) = (cells[time].parse::<f64>().unwrap() / 1e6, (left - sent) as f64 / 1e6);
        (here - there).abs() - there * 0.01
    });
    let mut off: Vec<f64> = off.collect();
    off.sort_by(f64::total_cmp);
    assert!(at(&off, 0.9) <= MARGIN, "{place}: {} ms off", at(&off, 0.9));

    // Expected waiting time at each point: the 95th percentile of the packets that waited.
    let waited = |times: &[f64]| at(&times.iter().copied().filter(|ms| *ms >= 5.0).collect::<Vec<_>>(), 0.95);
    match magnitude(&report, "local-queue") {
        Some((named, _)) if host.is_some() => {
            agrees(&format!("{place}, local-queue"), named, waited(&local));
        }
        named => assert_eq!((named, host), (None, None), "{place}: {:#}", report.at("/answer")),
    }
    match magnitude(&report, "queue") {
        Some((named, packets)) if path.is_some() => {
            // 95th percentile of these packets' waiting times, beyond the fastest packet.
            let captured = at(&captured.of_packets(packets, 1, 2), 0.95) - across[0];
            let off = (named - captured).abs();
            assert!(off <= captured * 0.01, "{place}: queue of {named}, the captures say {captured} ms");
        }
        named => assert_eq!((named, path), (None, None), "{place}: {:#}", report.at("/answer")),
    }
    if path.is_none() {
        assert_eq!(report.text("/answer/causes/0/id"), "local-queue");
        assert_eq!(report.text("/answer/causes/0/fault"), "sender");
        // The program was on time, except when this machine stalled: packets that wait in the queue are not late.
        let warnings = report.at("/warnings").to_string();
        let late = warnings.split("half a period late ").nth(1).and_then(|rest| rest.split(' ').next());
        let late = late.map_or(0, |times| times.parse::<u32>().unwrap());
        assert!(late < 20, "{warnings}");
    }
}

/// The requests of a two-way test wait in this host: round trips exclude that time, the log contains it.
fn a_queue_before_round_trips() {
    let Some(lab) = lab("a_queue_before_round_trips") else { return };
    let folder = tempfile::tempdir().unwrap();
    lab.cable().unwrap();
    queue(&lab.client, "path", Some(WIDE));
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let line = format!(
        "ping {} --proto stamp -n 300 -p 10ms -l 80 --timeout 20s --json - -o ping.log",
        lab.server.v4
    );
    let report =
        Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).any_report();
    let local = report.ms("/local_queue/max");
    assert!(local > 500.0, "{local} ms");
    assert_eq!(report.count("/local_queue/bounded"), 0);
    assert!(report.ms("/latency/median") < 100.0, "a round trip begins when the request leaves");
    assert_eq!(report.text("/answer/causes/0/id"), "local-queue");
    let again = Running::start(Place::Here.jitlat(folder.path(), "analyze ping.log --json -"));
    let again = again.finish(TIMEOUT).report();
    assert_eq!(again.at("/local_queue"), report.at("/local_queue"), "the log has it packet by packet");
}

/// The server sends its kernel's timestamps with the results.
fn a_queue_in_the_server() {
    let Some(lab) = lab("a_queue_in_the_server") else { return };
    let folder = tempfile::tempdir().unwrap();
    lab.cable().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    queue(&lab.server, "path", Some(WIDE));
    let line = format!("{} -R -n 300 -p 10ms --json -", lab.server.v4);
    let report = Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report();
    let local = report.ms("/local_queue/max");
    assert!(local > 500.0, "{local} ms");
    assert_eq!((report.count("/local_queue/n"), report.count("/local_queue/bounded")), (300, 0));
    assert_eq!(report.text("/answer/causes/0/id"), "local-queue");
    assert_eq!(report.text("/answer/causes/0/fault"), "sender");
}

/// A firewall of this host that refuses (EPERM) each fifth packet of a test: the host did not send them.
#[test]
fn what_this_hosts_firewall_refuses_is_no_loss_of_the_path() {
    let Some(lab) = lab("what_this_hosts_firewall_refuses_is_no_loss_of_the_path") else { return };
    let folder = tempfile::tempdir().unwrap();
    lab.cable().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let host = lab.server.v4;
    for (line, packets) in [
        (format!("{host}"), "udp dport 2667"),
        (format!("ping {host} --proto stamp --timeout 1s"), "udp dport 862"),
        (format!("ping {host} --proto icmp --timeout 1s"), "icmp type echo-request"),
    ] {
        let run = |line: &str| {
            Running::start(Place::In(&lab.client).jitlat(folder.path(), line)).finish(2 * TIMEOUT)
        };
        let refuse = |which: &str| {
            lab.client.run("nft add table inet own").unwrap();
            lab.client.run("nft flush table inet own").unwrap();
            lab.client.run("nft add chain inet own out { type filter hook output priority 0; }").unwrap();
            lab.client.run(&format!("nft add rule inet own out {packets} {which} drop")).unwrap();
        };
        // A stalled sender sends all overdue packets in one call; of those refused in the middle, one is sent again.
        undisturbed(|| {
            refuse("numgen inc mod 5 == 0");
            let report = run(&format!("{line} -n 500 -p 5ms --json -")).report();
            let lost = report.count("/counts/lost");
            assert!((98..=102).contains(&lost), "{line}: {lost} lost");
            let causes = report.at("/answer/causes").as_array().unwrap();
            assert_eq!(
                (causes[0]["id"].as_str(), causes[0]["magnitude"].as_f64()),
                (Some("send-failure"), Some(lost as f64 / 500.0)),
                "{line}: {causes:#?}"
            );
            // A busy host may also stall, but no cause is on the path.
            assert!(causes.iter().all(|c| c["fault"] == "sender"), "{line}: {causes:#?}");
        });
        // All packets are refused: nothing is measured, and the error names the firewall.
        refuse("");
        run(&format!("{line} -n 100 -p 5ms")).refused(&[&host.to_string(), "firewall"]);
        lab.client.run("nft delete table inet own").unwrap();
    }
}

/// 4000 bytes at 64 kbit/s are half a second: a third of the packets find the queue full.
fn a_full_queue_loses_nothing_on_the_path() {
    let Some(lab) = lab("a_full_queue_loses_nothing_on_the_path") else { return };
    let folder = tempfile::tempdir().unwrap();
    lab.cable().unwrap();
    let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    queue(&lab.client, "path", Some("root tbf rate 64kbit burst 1600 limit 4000"));
    let line = format!("{} -n 500 -p 10ms --json -", lab.server.v4);
    let report = Running::start(Place::In(&lab.client).jitlat(folder.path(), &line)).finish(LIMIT).report();
    let lost = report.count("/counts/lost");
    assert!(lost > 50, "{lost} lost");
    let causes = report.at("/answer/causes").as_array().unwrap();
    let ids: Vec<&str> = causes.iter().filter_map(|c| c["id"].as_str()).collect();
    assert!(ids.contains(&"local-queue") && ids.contains(&"send-failure"), "{causes:#?}");
    assert!(causes.iter().all(|c| c["fault"] == "sender"), "{causes:#?}");
    let refused = causes.iter().find(|c| c["id"] == "send-failure").unwrap();
    let share = refused["magnitude"].as_f64().unwrap();
    assert!((share - lost as f64 / 500.0).abs() < 0.01, "{share} of 500, {lost} lost");
}
