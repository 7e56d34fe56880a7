//! `[[capture]]` of `jitlat monitor`: traffic between two hosts, period by period, with no packet missing or counted
//! twice, even on a bad link and after a kill.

use crate::harness::*;
use jitlat_archive::Archive;
use jitlat_core::session::Ending;
use jitlat_net::emulator::lab::Namespace;
use jitlat_store::log::LogReader;
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const FILE: &str = "host = [{ name = \"a\", address = \"10.9.0.1\" }, { name = \"b\", address = \"10.9.0.2\" }]\n\
                    [[capture]]\nname = \"office\"\nhost = \"a\"\ninterface = \"path\"\ntowards = \"b\"\nfar-interface = \"path\"\n\
                    options = { only = \"udp:7000\" }\nevery = \"5s\"\n\
                    [serve]\nkey = \"correct horse battery staple\"\n[archive]\nfolder = \"archive\"\n[web]\n\
                    [[alert]]\nname = \"loss\"\nif = \"loss>10%\"\n\
                    [[notify]]\nname = \"file\"\ncommand = [\"sh\", \"-c\", \"echo $JITLAT_ALERT $JITLAT_STATE $JITLAT_SRC $JITLAT_DST >> notified\"]\n";

/// The period of the file, in ns.
const EVERY: i64 = 5_000_000_000;

fn wait_until(what: &str, enough: impl FnMut() -> bool) {
    jitlat_waiting::until(what, Duration::from_secs(100), enough);
}

fn monitor(place: &Namespace, folder: &Path, host: &str) -> Running {
    let line = format!("monitor mesh.toml --host {host} --archive {host}");
    Running::start(Place::In(place).jitlat(folder, &line))
}

/// Returns true if one of the captures with logs in this folder has written packets of a period that has not ended.
fn has_begun(folder: &Path) -> bool {
    let within =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let has_rows = |log: std::path::PathBuf| {
        let Ok(mut log) = LogReader::open(&log) else { return false };
        log.session().ending != Ending::Complete && log.records(&mut None).count() > 0
    };
    within(folder).any(|capture| within(&capture).any(has_rows))
}

/// Ends the threads that wait for it, even if the test fails: a scope waits for its threads for ever.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends numbered packets to b every 10 ms until it is stopped.
#[derive(Default)]
struct Traffic {
    stop: AtomicBool,
    /// Time of sending of each packet, in ns.
    sent: Mutex<Vec<i64>>,
    /// Numbers of the packets that arrived.
    arrived: Mutex<Vec<u64>>,
}

impl Traffic {
    fn send(&self, from: &Namespace) {
        let socket = from.within(|| UdpSocket::bind("10.9.0.1:7001").unwrap()).unwrap();
        let mut number = 0u64;
        jitlat_waiting::at_pace(Duration::from_millis(10), || {
            let mut packet = [0; 200];
            packet[..8].copy_from_slice(&number.to_be_bytes());
            number += 1;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            self.sent.lock().unwrap().push(now.as_nanos() as i64);
            socket.send_to(&packet, "10.9.0.2:7000").unwrap();
            !self.stop.load(Ordering::Relaxed)
        });
    }

    fn receive(&self, at: &Namespace) {
        let socket = at.within(|| UdpSocket::bind("10.9.0.2:7000").unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut packet = [0; 300];
        let mut quiet = 0;
        while quiet < 5 {
            match socket.recv(&mut packet) {
                Ok(_) => {
                    let number = u64::from_be_bytes(packet[..8].try_into().unwrap());
                    self.arrived.lock().unwrap().push(number);
                    // Each packet has an answer, so that both directions have traffic.
                    let _ = socket.send_to(&packet[..100], "10.9.0.1:7001");
                    quiet = 0;
                }
                Err(_) => quiet += u32::from(self.stop.load(Ordering::Relaxed)),
            }
        }
    }
}

/// Contents of an archive for the direction from a to b: packets sent and arrival times, by slot.
#[derive(Debug, Default)]
struct Kept {
    sent: u64,
    times: Vec<i64>,
    slots: BTreeMap<i64, usize>,
    cut: usize,
}

fn kept(folder: &Path, archive: &str) -> Kept {
    let out = folder.join(format!("{archive}.logs"));
    let _ = fs::remove_dir_all(&out);
    let line = format!("archive export {archive} {archive}.logs");
    let exported = Running::start(Place::Here.jitlat(folder, &line)).finish(TIMEOUT);
    assert_eq!(exported.code(), 0, "{}", exported.stderr);
    let mut kept = Kept::default();
    for entry in fs::read_dir(&out).unwrap() {
        let mut log = LogReader::open(&entry.unwrap().path()).unwrap();
        let session = log.session().clone();
        if session.spec.direction() != jitlat_core::Direction::Up {
            continue;
        }
        let tag = |key: &str| session.tags.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        assert_eq!([tag("test"), tag("client"), tag("server")], [Some("office"), Some("a"), Some("b")]);
        let slot: i64 = tag("slot").unwrap().parse().unwrap();
        *kept.slots.entry(slot).or_default() += 1;
        kept.cut += usize::from(session.reason.is_some());
        kept.sent += session.packets();
        let times: Vec<i64> = log.records(&mut None).map(|record| record.sent().unwrap().0).collect();
        for at in &times {
            assert_eq!(at.div_euclid(EVERY), slot, "each packet is in the period in which it was sent");
        }
        kept.times.extend(times);
    }
    kept
}

/// Answer of a page at this host.
fn ask(host: &Namespace, path: &str) -> String {
    let get = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect("127.0.0.1:2680")?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:2680\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    host.within(get).unwrap().unwrap_or_default()
}

#[test]
fn what_passes_two_hosts_is_archived_period_by_period() {
    let Some(lab) = lab("what_passes_two_hosts_is_archived_period_by_period") else { return };
    let switch = lab.switch().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = folder.join("mesh.toml");
    fs::write(&file, FILE).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let traffic = Traffic::default();
    let notified = || fs::read_to_string(folder.join("notified")).unwrap_or_default();
    let measured = |host: &str| slots(&folder.join(host), "measured");
    let b = monitor(&lab.server, folder, "b");
    let a = monitor(&lab.client, folder, "a");
    // Packets are captured completely only after both points listen.
    wait_until("the capture", || ask(&lab.client, "/api/v1/hosts").contains("HTTP/1.1 200"));
    a.wait_for("capturing on path and path of");
    std::thread::scope(|threads| {
        let _stop = StopOnDrop(&traffic.stop);
        threads.spawn(|| traffic.receive(&lab.server));
        threads.spawn(|| traffic.send(&lab.client));
        wait_until("two whole periods", || measured("a") >= 2);
        // 100 packets of 242 bytes per second are 194 kbit/s.
        switch.run("tc qdisc add dev server root tbf rate 100kbit burst 2000 limit 4000").unwrap();
        wait_until("the alert", || notified().contains("loss firing a b"));
        let now = ask(&lab.client, "/api/v1/now");
        assert!(now.contains("captured office") && now.contains("\"bad\""), "{now}");
        switch.run("tc qdisc del dev server root").unwrap();
        wait_until("its end", || notified().contains("loss resolved a b"));
        traffic.stop.store(true, Ordering::Relaxed);
    });
    let so_far = measured("a");
    wait_until("the last period with packets", || measured("a") >= so_far + 2);
    a.signal(Signal::SIGTERM);
    let ended = a.finish(TIMEOUT);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert_eq!(notified(), "loss firing a b\nloss resolved a b\n");
    let all = kept(folder, "a");
    // After the first matched packet, each packet is in exactly one period.
    let (sent, arrived) = (traffic.sent.into_inner().unwrap(), traffic.arrived.into_inner().unwrap());
    let before = sent.partition_point(|at| at <= all.times.iter().min().unwrap()) as u64 - 1;
    let arrived = arrived.iter().filter(|number| **number >= before).count();
    assert_eq!((all.sent, all.times.len()), (sent.len() as u64 - before, arrived), "{ended:?}");
    assert!(before < 200, "learning whose packets these are took {before} of them");
    assert_eq!(all.times.iter().collect::<BTreeSet<_>>().len(), arrived, "nothing is there twice");
    assert!(all.slots.values().all(|tests| *tests == 1) && all.cut == 0, "{:?}", all.slots);
    let row = ended.stdout.lines().find(|line| line.starts_with("office")).unwrap();
    assert!(row.contains('b'), "{row}");
    b.signal(Signal::SIGTERM);
    assert_eq!(b.finish(TIMEOUT).code(), 0);
}

#[test]
fn a_capture_survives_kills_and_a_far_host_and_interface_that_go() {
    let Some(lab) = lab("a_capture_survives_kills_and_a_far_host_and_interface_that_go") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = folder.join("mesh.toml");
    fs::write(&file, FILE).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let traffic = Traffic::default();
    let entered = || Archive::open(&folder.join("a")).and_then(|archive| archive.entered()).unwrap_or(0);
    let b = monitor(&lab.server, folder, "b");
    let first = monitor(&lab.client, folder, "a");
    let second = std::thread::scope(|threads| {
        let _stop = StopOnDrop(&traffic.stop);
        threads.spawn(|| traffic.receive(&lab.server));
        threads.spawn(|| traffic.send(&lab.client));
        wait_until("a period", || entered() >= 2);
        wait_until("rows of the next one in its logs", || has_begun(&folder.join("a/captures")));
        first.signal(Signal::SIGKILL);
        let killed = first.finish(TIMEOUT);
        let before = entered();
        let second = monitor(&lab.client, folder, "a");
        wait_until("what the killed one left, and two periods more", || entered() >= before + 6);
        // The far host is killed. The first periods may have missed it as well, before it listened.
        let unreachable = || slots(&folder.join("a"), "unreachable");
        let missed = unreachable();
        b.signal(Signal::SIGKILL);
        b.finish(TIMEOUT);
        wait_until("a period without it", || unreachable() > missed);
        let before = entered();
        let b = monitor(&lab.server, folder, "b");
        wait_until("a period after its return", || entered() >= before + 4);
        second.wait_for("capturing again");
        traffic.stop.store(true, Ordering::Relaxed);
        second.signal(Signal::SIGTERM);
        b.signal(Signal::SIGTERM);
        b.finish(TIMEOUT);
        drop(killed);
        second
    });
    let ended = second.finish(TIMEOUT);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let said = |text: &str| ended.stderr.matches(text).count();
    assert_eq!(said("logs of a killed capture were recovered"), 1, "{}", ended.stderr);
    assert_eq!(said("retrying at growing intervals"), 1, "{}", ended.stderr);
    assert_eq!(said("capturing again"), 1, "{}", ended.stderr);
    let row = ended.stdout.lines().find(|line| line.starts_with("office")).unwrap();
    assert!(row.contains("unreachable"), "{row}");
    let all = kept(folder, "a");
    assert_eq!(all.times.iter().collect::<BTreeSet<_>>().len(), all.times.len(), "nothing is there twice");
    assert!(all.cut >= 1 && all.sent <= traffic.sent.lock().unwrap().len() as u64, "{all:?}");
    // Nothing was lost on the cable: packets that were not captured are in no count.
    assert_eq!(all.sent, all.times.len() as u64);
}

#[test]
fn tcp_segments_that_leave_have_round_trips_and_losses() {
    let Some(lab) = lab("tcp_segments_that_leave_have_round_trips_and_losses") else { return };
    let switch = lab.switch().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = "host = [{ name = \"a\", address = \"10.9.0.1\" }, { name = \"b\", address = \"10.9.0.2\" }]\n\
                [[capture]]\nname = \"uploads\"\nhost = \"a\"\ninstrument = \"tcp\"\ninterface = \"path\"\ntowards = \"b\"\n\
                options = { only = \"tcp:7000\" }\nevery = \"5s\"\n[serve]\non = false\n[archive]\nfolder = \"archive\"\n\
                [[alert]]\nname = \"repeated\"\nif = \"loss>1%\"\n\
                [[notify]]\nname = \"file\"\ncommand = [\"sh\", \"-c\", \"echo $JITLAT_ALERT $JITLAT_STATE $JITLAT_SRC $JITLAT_DST >> notified\"]\n";
    fs::write(folder.join("mesh.toml"), text).unwrap();
    let notified = || fs::read_to_string(folder.join("notified")).unwrap_or_default();
    let entered = || Archive::open(&folder.join("a")).and_then(|archive| archive.entered()).unwrap_or(0);
    let a = monitor(&lab.client, folder, "a");
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _stop = StopOnDrop(&stop);
        let listener = lab.server.within(|| TcpListener::bind("10.9.0.2:7000").unwrap()).unwrap();
        threads.spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut part = [0; 65536];
            while stream.read(&mut part).is_ok_and(|n| n > 0) {}
        });
        threads.spawn(|| {
            let mut stream = lab.client.within(|| TcpStream::connect("10.9.0.2:7000").unwrap()).unwrap();
            jitlat_waiting::at_pace(Duration::from_millis(50), || {
                stream.write_all(&[7; 20_000]).unwrap();
                !stop.load(Ordering::Relaxed)
            });
        });
        wait_until("two periods", || entered() >= 2);
        assert_eq!(notified(), "");
        // 20 kB in 50 ms are 3.2 Mbit/s: the packets wait in a queue, which is long enough for all of them. Each twentieth is dropped, so that the
        // share of losses does not depend on how many arrive together.
        switch.run("tc qdisc add dev server root tbf rate 1500kbit burst 4000 limit 1000000").unwrap();
        for rule in [
            "nft add table netdev lossy",
            "nft add chain netdev lossy in { type filter hook ingress device client priority 0 ; }",
            "nft add rule netdev lossy in tcp dport 7000 numgen inc mod 20 == 0 drop",
        ] {
            switch.run(rule).unwrap();
        }
        wait_until("the alert", || notified().contains("repeated firing a b"));
        switch.run("nft delete table netdev lossy").unwrap();
        switch.run("tc qdisc del dev server root").unwrap();
        wait_until("its end", || notified().contains("repeated resolved a b"));
        stop.store(true, Ordering::Relaxed);
    });
    a.signal(Signal::SIGTERM);
    let ended = a.finish(TIMEOUT);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let ask = |figure: &str| -> Vec<f64> {
        let line = format!("archive ls a --csv --figure {figure}");
        let listed = Running::start(Place::Here.jitlat(folder, &line)).finish(TIMEOUT);
        assert!(listed.stdout.contains("captured uploads"), "{}", listed.stdout);
        let last = |row: &str| row.rsplit(',').next().and_then(|cell| cell.parse().ok());
        listed.stdout.lines().skip(1).filter_map(last).collect()
    };
    let (losses, delays, sent) = (ask("loss"), ask("latency-median"), ask("sent"));
    assert_eq!(losses[0], 0.0, "{losses:?}");
    assert!(losses.iter().any(|loss| (0.01..0.6).contains(loss)), "{losses:?}");
    // 20 writes per second; each is one segment if the adapter cuts it, and 14 if the host does.
    assert!(sent[..2].iter().any(|n| *n > 50.0), "{sent:?}");
    assert!(delays[0] > 0.0 && delays[0] < 5e6 && delays.iter().any(|ns| *ns > 1e7), "{delays:?}");
}

/// Sends and receives a call of G.711 between two hosts, until it is stopped.
#[derive(Default)]
struct Call {
    stop: AtomicBool,
    /// True if every third packet from a is not sent.
    loses: AtomicBool,
    /// Number of packets that a sent or left out, and that b sent.
    due: [Mutex<u64>; 2],
}

impl Call {
    fn talk(&self, from: &Namespace, side: usize) {
        let ends = ["10.9.0.1:4000", "10.9.0.2:5000"];
        let socket = from.within(|| UdpSocket::bind(ends[side]).unwrap()).unwrap();
        let began = std::time::Instant::now();
        jitlat_waiting::at_pace(Duration::from_millis(20), || {
            let mut due = self.due[side].lock().unwrap();
            let left_out = side == 0 && self.loses.load(Ordering::Relaxed) && due.is_multiple_of(3);
            let mut packet = vec![0x80, 0];
            packet.extend((*due as u16).to_be_bytes());
            packet.extend(((began.elapsed().as_micros() / 125) as u32).to_be_bytes());
            packet.extend([1, 2, 3, side as u8]);
            packet.resize(172, 0x55);
            *due += 1;
            if !left_out {
                socket.send_to(&packet, ends[1 - side]).unwrap();
            }
            !self.stop.load(Ordering::Relaxed)
        });
    }
}

#[test]
fn calls_are_archived_stream_by_stream() {
    let Some(lab) = lab("calls_are_archived_stream_by_stream") else { return };
    let _switch = lab.switch().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = "host = [{ name = \"a\", address = \"10.9.0.1\" }, { name = \"b\", address = \"10.9.0.2\" }]\n\
                [[capture]]\nname = \"calls\"\nhost = \"a\"\ninstrument = \"rtp\"\ninterface = \"path\"\ntowards = \"b\"\n\
                every = \"5s\"\n[serve]\non = false\n[archive]\nfolder = \"archive\"\n[web]\n\
                [[alert]]\nname = \"voice\"\nif = \"mos<3.6\"\n[[alert]]\nname = \"lost\"\nif = \"loss>10%\"\n\
                [[notify]]\nname = \"file\"\ncommand = [\"sh\", \"-c\", \"echo $JITLAT_ALERT $JITLAT_STATE $JITLAT_SRC $JITLAT_DST >> notified\"]\n";
    fs::write(folder.join("mesh.toml"), text).unwrap();
    let notified = || fs::read_to_string(folder.join("notified")).unwrap_or_default();
    let measured = || slots(&folder.join("a"), "measured");
    let a = monitor(&lab.client, folder, "a");
    a.wait_for("capturing on path");
    let call = Call::default();
    std::thread::scope(|threads| {
        let _stop = StopOnDrop(&call.stop);
        threads.spawn(|| call.talk(&lab.client, 0));
        threads.spawn(|| call.talk(&lab.server, 1));
        wait_until("two whole periods", || measured() >= 2);
        assert_eq!(notified(), "");
        call.loses.store(true, Ordering::Relaxed);
        wait_until("the alerts", || {
            ["voice firing a b", "lost firing a b"].iter().all(|line| notified().contains(line))
        });
        let now = ask(&lab.client, "/api/v1/now");
        assert!(now.contains("captured calls") && now.contains("\"bad\""), "{now}");
        call.loses.store(false, Ordering::Relaxed);
        wait_until("their end", || {
            ["voice resolved a b", "lost resolved a b"].iter().all(|line| notified().contains(line))
        });
        call.stop.store(true, Ordering::Relaxed);
    });
    a.signal(Signal::SIGTERM);
    let ended = a.finish(TIMEOUT);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let out = folder.join("logs");
    let line = format!("archive export a {}", out.display());
    assert_eq!(Running::start(Place::Here.jitlat(folder, &line)).finish(TIMEOUT).code(), 0);
    // Each packet is in one period: together, the periods have all packets of every stream.
    let mut totals = [0; 2];
    for entry in fs::read_dir(&out).unwrap() {
        let mut log = LogReader::open(&entry.unwrap().path()).unwrap();
        let session = log.session().clone();
        let tag = |key: &str| session.tags.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
        assert_eq!([tag("test"), tag("codec")], [Some("calls".to_owned()), Some("PCMU".to_owned())]);
        let slot: i64 = tag("slot").unwrap().parse().unwrap();
        let side = usize::from(session.spec.direction() == jitlat_core::Direction::Down);
        assert_eq!(tag("ssrc").unwrap(), format!("0102030{side}"));
        totals[side] += session.packets();
        let is_within =
            |record: jitlat_core::PacketRecord| record.arrived().unwrap().0.div_euclid(EVERY) == slot;
        assert!(log.records(&mut None).all(is_within), "each packet is in its period");
    }
    // Packets that were not captured because the capture began again on a busy host are in no period.
    let due = call.due.map(|due| due.into_inner().unwrap());
    assert!(
        totals.iter().zip(&due).all(|(counted, due)| 0 < *counted && counted <= due),
        "{totals:?} {due:?}"
    );
}
