//! Tests pushed to a collector: each is stored once, or counted, no matter what is killed, cut or full.

use crate::harness::*;
use crate::side_by_side::side_by_side;
use jitlat_archive::{Archive, CollectedHost, Filter, Pushed};
use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
use jitlat_net::emulator::lab::{Lab, Namespace};
use jitlat_store::log::{LogVersion, LogWriter};
use jitlat_web::Identity;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Time limit for a monitor to end after the request.
const TO_END: Duration = Duration::from_secs(60);
const HOSTS: &str = "host = [\n  { name = \"a\", address = \"10.9.0.1\", key-file = \"a.key\" },\n  \
                     { name = \"b\", address = \"10.9.0.2\", key-file = \"b.key\" },\n  \
                     { name = \"c\", address = \"10.9.0.254\", key-file = \"c.key\" },\n]\n";
/// Only an absent host measures: tests are added to the archive of a directly.
const QUIET: &str = "[[ping]]\nname = \"none\"\nfrom = \"c\"\ntargets = [\"10.9.0.9\"]\nevery = \"1h\"\n[serve]\non = false\n[archive]\nfolder = \"archive\"\n[[collector]]\nhost = \"b\"\nfrom = [\"a\"]\n";

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

/// Writes the file, a key for each host, and the certificate of the collector, which the other hosts pin.
fn prepare(folder: &Path, text: &str) {
    let (identity, _) = Identity::made(&folder.join("collector.pem"), &["10.9.0.2".to_owned()]).unwrap();
    let trust = format!("certificate = \"collector.pem\"\npin = \"{}\"\n", identity.fingerprint());
    write(&folder.join("mesh.toml"), &text.replace("[[collector]]\n", &format!("[[collector]]\n{trust}")));
    for host in ["a", "b", "c"] {
        write(&folder.join(format!("{host}.key")), &format!("the key of {host}, and of nobody else"));
    }
}

fn monitor(place: &Namespace, folder: &Path, host: &str) -> Running {
    Running::start(monitor_command(place, folder, host))
}

fn monitor_command(place: &Namespace, folder: &Path, host: &str) -> Command {
    let line = format!("monitor mesh.toml --host {host} --archive {host}");
    Place::In(place).jitlat(folder, &line)
}

/// Finds a library (package libfaketime) that makes a program read another wall clock.
fn other_clock() -> Option<PathBuf> {
    let libraries = fs::read_dir("/usr/lib").ok()?.flatten();
    libraries
        .map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.is_file())
}

fn wait_until(what: &str, limit: u64, enough: impl FnMut() -> bool) {
    jitlat_waiting::until(what, Duration::from_secs(limit), enough);
}

fn end(monitor: Running) -> Finished {
    // From this line on, signals end running tests in order.
    monitor.wait_for("monitoring as");
    monitor.signal(Signal::SIGTERM);
    let finished = monitor.finish(TO_END);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    finished
}

/// Starts the monitor of `host`, whose archive is on a 1 MB disk in `small` that only it can see.
fn on_small_disk(place: &Namespace, folder: &Path, host: &str) -> Running {
    fs::create_dir(folder.join("small")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=1m jitlat small && exec {} monitor mesh.toml --host {host} --archive small/{host}",
        env!("CARGO_BIN_EXE_jitlat")
    );
    let mut command = place.command("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(folder);
    let monitor = Running::start(command);
    let archive = format!("/proc/{}/root/{}/small/{host}", monitor.id(), folder.display());
    wait_until("that it has an archive", 60, || fs::read_dir(&archive).is_ok());
    monitor
}

/// Runs a shell command in the mount namespace of a monitor with such a disk.
fn inside(monitor: &Running, folder: &Path, what: &str) -> Output {
    let mut command = Command::new("nsenter");
    let pid = monitor.id().to_string();
    // A command in that mount namespace begins in the root folder.
    let what = format!("cd {} && {what}", folder.display());
    command.args(["-t", &pid, "-m", "sh", "-c", &what]).stderr(Stdio::null());
    command.output().unwrap()
}

/// Adds a log of `packets` to the archive; the same seed gives the same log.
fn make(archive: &Archive, folder: &Path, seed: u64, packets: i64) {
    let path = folder.join(format!("{seed}.log"));
    let mut log = LogWriter::new(File::create(&path).unwrap(), LogVersion::V3);
    let session = Session::new(TestSpec::default());
    log.begin(&session);
    for i in 0..packets {
        let sent = 1_767_225_600_000_000_000 + seed as i64 * 60_000_000_000 + i * 20_000_000;
        let noise = (i.wrapping_mul(7919) ^ (seed as i64 * 104_729)) % 1_000_003;
        log.record(&PacketRecord::one_way(i, WallTime(sent), WallTime(sent + 5_000_000 + noise.abs())));
    }
    log.finish(&session);
    log.close().1.unwrap();
    archive.add(&path, &[("made".to_owned(), "here".to_owned())]).unwrap();
    fs::remove_file(path).unwrap();
}

fn pushed(root: &Path) -> Option<Pushed> {
    push_of(&Archive::open(root).ok()?)
}

fn push_of(archive: &Archive) -> Option<Pushed> {
    archive.pushes().ok()?.pop()
}

fn collected(root: &Path) -> Option<CollectedHost> {
    Archive::open(root).ok()?.collected().ok()?.into_iter().find(|c| c.host == "a")
}

fn ids(root: &Path) -> Vec<String> {
    let list = Archive::open(root).unwrap().list(&Filter::default(), &[]).unwrap();
    list.into_iter().map(|test| test.id).collect()
}

fn is_whole(root: &Path) {
    let checked = Archive::open_to_write(root).unwrap().check(true).unwrap();
    assert!(checked.damaged.is_empty(), "{checked:?}");
}

#[test]
fn hosts_push_what_they_measure_to_one_that_collects() {
    let Some(lab) = lab("hosts_push_what_they_measure_to_one_that_collects") else { return };
    let switch = lab.switch().unwrap();
    switch.run("ip addr add 10.9.0.254/24 dev bridge").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rest = "[[test]]\nname = \"delay\"\nevery = \"12s\"\nfor = \"1s\"\noptions = { period = \"10ms\" }\n\
                [timetable]\nguard = \"1s\"\nsetup = \"2s\"\n[archive]\nfolder = \"archive\"\n\
                [[collector]]\nhost = \"c\"\n\
                [[alert]]\nname = \"any\"\nif = \"sent>0\"\nat = [\"c\"]\n[[notify]]\nname = \"out\"\nprint = true\n";
    // Host a pushes with a certificate, host b with a token.
    let (own, _) = Identity::made(&folder.join("a.pem"), &["a".to_owned()]).unwrap();
    let certificate =
        format!("certificate = \"a.pem\", pin = \"{}\", key-file = \"a.key\"", own.fingerprint());
    prepare(folder, &format!("{}{rest}", HOSTS.replace("key-file = \"a.key\"", &certificate)));
    let places = [(&lab.client, "a"), (&lab.server, "b"), (&switch, "c")];
    let monitors = places.map(|(place, host)| monitor(place, folder, host));
    let central = folder.join("c");
    let from = |host: &str| {
        Archive::open(&central)
            .and_then(|archive| archive.collected())
            .is_ok_and(|all| all.iter().any(|c| c.host == host && c.stored >= 2))
    };
    wait_until("a push of each", 100, || from("a") && from("b"));
    // Paths that are bad at about the same time have one message, which is held for a period.
    monitors[2].wait_for(" FIRING warning any: ");
    let [a, b, c] = monitors.map(end);
    for finished in [&a, &b] {
        assert!(!finished.stderr.contains("cannot push tests"), "{}", finished.stderr);
    }
    assert!(c.stderr.contains("collecting tests on https://"), "{}", c.stderr);
    let shown = format!("pushing tests to c with the certificate {}", own.fingerprint());
    assert!(a.stderr.contains(&shown), "{}", a.stderr);
    // The monitor that ended first retained what it could not push any more.
    let all: BTreeSet<String> = ids(&central).into_iter().collect();
    assert_eq!(all.len(), ids(&central).len(), "each once");
    for host in ["a", "b"] {
        let root = folder.join(host);
        let push = pushed(&root).unwrap();
        let own = ids(&root);
        let there = own.iter().filter(|id| all.contains(*id)).count() as u64;
        assert_eq!((push.stored + push.waiting, push.dropped), (own.len() as u64, 0), "{push:?}");
        assert!(there >= push.stored, "{there} of {push:?}");
        let tags = [("collected-from", host), ("client", host), ("test", "delay")];
        let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let tagged =
            Archive::open(&central).unwrap().list(&Filter { tags, ..Filter::default() }, &[]).unwrap();
        assert_eq!(tagged.len() as u64, there);
    }
    // Every path is judged at the collector.
    let archive = Archive::open(&central).unwrap();
    let alerts = archive.alerts(10).unwrap();
    let paths = alerts.iter().flat_map(|alert| archive.alert_paths(alert.id, 10).unwrap());
    let judged: BTreeSet<[String; 3]> = paths.map(|path| [path.test, path.src, path.dst]).collect();
    assert!(judged.contains(&["delay", "a", "b"].map(str::to_owned)), "{alerts:?} {judged:?}");
    let listed = Running::start(Place::Here.jitlat(folder, "archive pushes c")).finish(TIMEOUT);
    assert!(listed.stdout.contains("collected from") && listed.code() == 0, "{}", listed.stdout);
    is_whole(&central);
}

/// Pseudo-random numbers below 1 (splitmix64) from a seed (JITLAT_SEED, or 1), different ones for each `stream`.
fn random(stream: u64) -> impl FnMut() -> f64 {
    let seed: u64 = std::env::var("JITLAT_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut state = seed.wrapping_mul(64).wrapping_add(stream);
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Number of pairs of a monitor and a collector that are killed at the same time. A pair mostly waits: for programs to start, and for
/// the pause of a host between two attempts.
const PAIRS: u64 = 4;

#[test]
fn monitors_and_collectors_that_are_killed_lose_nothing_and_store_nothing_twice() {
    let Some(lab) = lab("monitors_and_collectors_that_are_killed_lose_nothing_and_store_nothing_twice")
    else {
        return;
    };
    lab.cable().unwrap();
    let kills: u64 = std::env::var("JITLAT_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(8);
    let pairs: Vec<(u64, u64)> =
        (0..PAIRS.min(kills)).map(|pair| (pair, (kills + pair) / PAIRS.min(kills))).collect();
    let (begun, killed) = (std::time::Instant::now(), std::sync::atomic::AtomicU64::new(0));
    side_by_side(pairs.len(), &pairs, |(pair, kills)| {
        let made = kill_at_random(&lab, *pair, *kills);
        killed.fetch_add(*kills, std::sync::atomic::Ordering::Relaxed);
        println!("pair {pair}: killed {kills} times during {made} tests, {:.0?} so far", begun.elapsed());
    });
    assert_eq!(killed.into_inner(), kills);
}

/// Kills the monitor of host a, its collector, or both, at random moments while tests are made. Returns the number of tests.
fn kill_at_random(lab: &Lab, pair: u64, kills: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder, &format!("{HOSTS}{QUIET}port = {}\n", 2670 + pair));
    let (own, central) = (folder.join("a"), folder.join("b"));
    let archive = Archive::make(&own).unwrap();
    let mut random = random(pair);
    let (mut made, mut seed) = (0, 1000 * pair);
    let start = |host: &str| monitor(if host == "a" { &lab.client } else { &lab.server }, folder, host);
    // The collector starts first, because a host that does not reach it waits before its next attempt, longer each time.
    let start_collector = || {
        let collector = start("b");
        collector.wait_for("collecting tests on");
        collector
    };
    let collector = start_collector();
    let mut running = [Some(start("a")), Some(collector)];
    // The first push begins when both monitors run. All logs are dated in the past.
    make(&archive, folder, 100_000 + pair, 100);
    wait_until("a first push", 200, || push_of(&archive).is_some_and(|p| p.stored == 1));
    for _ in 0..kills {
        // In most rounds the collector is ready when the tests are made, so that the kill interrupts the push. In the others the collector
        // may still be starting, or the host waits for its next attempt. Then the host is always killed, because its pauses would grow.
        let is_quiet = random() < 0.7;
        if is_quiet {
            wait_until_nothing_waits(&archive);
        }
        for _ in 0..3 {
            seed += 1;
            make(&archive, folder, seed, 50);
            made += 1;
        }
        let moment = Duration::from_secs_f64(0.8 * random());
        let which = random();
        let killed: Vec<usize> = match which {
            _ if which < 0.4 => vec![0],
            _ if which < 0.6 && is_quiet => vec![1],
            _ => vec![1, 0],
        };
        for (n, k) in killed.iter().enumerate() {
            if let Some(mut killed) = running[*k].take() {
                killed.runs_for(if n == 0 { moment } else { Duration::ZERO });
                killed.signal(Signal::SIGKILL);
                // The next monitor needs its port.
                killed.finish(TO_END);
            }
        }
        for k in &killed {
            running[*k] = Some(match k {
                0 => start("a"),
                _ if killed.len() == 2 => start_collector(),
                _ => start("b"),
            });
        }
    }
    made += 1;
    wait_until_nothing_waits(&archive);
    let [a, b] = running.map(|running| end(running.unwrap()));
    let push = pushed(&own).unwrap();
    assert_eq!(
        (push.waiting, push.stored, push.dropped, push.refused),
        (0, made, 0, 0),
        "{}\n{}",
        a.stderr,
        b.stderr
    );
    let there = ids(&central);
    let once: BTreeSet<&String> = there.iter().collect();
    assert_eq!((there.len() as u64, once.len() as u64), (made, made));
    assert_eq!(once, ids(&own).iter().collect());
    assert_eq!(collected(&central).unwrap().stored, made);
    is_whole(&own);
    is_whole(&central);
    made
}

/// Waits as long as the number of waiting tests falls, however slow this machine is.
fn wait_until_nothing_waits(archive: &Archive) {
    let mut before = u64::MAX;
    let fewer = |before: u64| push_of(archive).map(|push| push.waiting).filter(|waiting| *waiting < before);
    while before > 0 {
        before = jitlat_waiting::for_value("fewer tests to wait", Duration::from_secs(200), || fewer(before));
    }
}

#[test]
fn a_full_disk_of_the_collector_is_said_once_and_costs_nothing() {
    let Some(lab) = lab("a_full_disk_of_the_collector_is_said_once_and_costs_nothing") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder, &format!("{HOSTS}{QUIET}"));
    let (own, central) = (folder.join("a"), folder.join("small/b"));
    let archive = Archive::make(&own).unwrap();
    (0..60).for_each(|seed| make(&archive, folder, seed, 8000));
    let b = on_small_disk(&lab.server, folder, "b");
    let a = monitor(&lab.client, folder, "a");
    let inside = |what: &str| inside(&b, folder, what);
    // The collector refuses pushes until its next attempt, so its state does not change meanwhile.
    wait_until("that the disk is full", 100, || {
        let free = inside("df --output=avail small | tail -1");
        String::from_utf8_lossy(&free.stdout).trim().parse::<u64>().is_ok_and(|kilobytes| kilobytes < 200)
    });
    a.wait_for("its disk is full");
    let before = pushed(&own).unwrap();
    assert!(before.waiting > 0 && before.stored > 0, "{before:?}");
    assert!(inside("mount -o remount,size=100m small").status.success());
    make(&archive, folder, 1000, 100);
    wait_until("that nothing waits", 200, || pushed(&own).is_some_and(|p| p.waiting == 0));
    assert!(inside("cp -r small/b copy").status.success());
    let (a, b) = (end(a), end(b));
    assert_eq!(a.stderr.matches("its disk is full").count(), 1, "{}", a.stderr);
    assert_eq!(a.stderr.matches("pushing tests works again").count(), 1, "{}", a.stderr);
    assert_eq!(b.stderr.matches("cannot store tests").count(), 1, "{}", b.stderr);
    let push = pushed(&own).unwrap();
    assert_eq!((push.stored, push.dropped, push.refused), (61, 0, 0));
    assert!(!central.exists());
    let copy = folder.join("copy");
    let there = ids(&copy);
    assert_eq!((there.len(), there.iter().collect::<BTreeSet<_>>()), (61, ids(&own).iter().collect()));
    is_whole(&copy);
}

#[test]
fn a_collector_that_is_away_costs_what_the_spool_has_no_room_for() {
    let Some(lab) = lab("a_collector_that_is_away_costs_what_the_spool_has_no_room_for") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // The limit holds about ten tests.
    prepare(folder, &format!("{HOSTS}{QUIET}spool = \"100k\"\n"));
    let (own, central) = (folder.join("a"), folder.join("b"));
    let archive = Archive::make(&own).unwrap();
    let a = monitor(&lab.client, folder, "a");
    wait_until("that it counts", 60, || pushed(&own).is_some());
    (0..30).for_each(|seed| make(&archive, folder, seed, 2000));
    end(a);
    // The spool is checked when a monitor starts.
    let a = monitor(&lab.client, folder, "a");
    wait_until("that the oldest are dropped", 60, || pushed(&own).is_some_and(|p| p.dropped > 0));
    let dropped = pushed(&own).unwrap().dropped;
    let b = monitor(&lab.server, folder, "b");
    wait_until("that nothing waits", 100, || pushed(&own).is_some_and(|p| p.waiting == 0));
    let (a, b) = (end(a), end(b));
    let push = pushed(&own).unwrap();
    assert_eq!((push.dropped, push.stored + push.dropped), (dropped, 30), "{push:?}");
    assert!((3..27).contains(&dropped), "{dropped}");
    assert_eq!(collected(&central).map(|c| (c.stored, c.dropped)), Some((push.stored, dropped)));
    assert_eq!(a.stderr.matches("the waiting tests exceed the limit").count(), 1, "{}", a.stderr);
    assert_eq!(a.stderr.matches("b: cannot push tests").count(), 1, "{}", a.stderr);
    drop(b);
    // The dropped tests are still in its own archive.
    assert_eq!(ids(&own).len(), 30);
}

/// Host a pings host b, and pushes the results to it.
const PINGS: &str = "[[ping]]\nname = \"echo\"\nfrom = \"a\"\ntargets = [\"10.9.0.2\"]\nevery = \"2s\"\nfor = \"200ms\"\n\
                     options = { period = \"20ms\", timeout = \"200ms\" }\n[timetable]\nguard = \"500ms\"\nsetup = \"500ms\"\n\
                     [serve]\non = false\n[archive]\nfolder = \"archive\"\n[[collector]]\nhost = \"b\"\nfrom = [\"a\"]\n";

#[test]
fn a_host_whose_disk_is_full_says_so_and_pushes_what_it_keeps_before_and_after() {
    let name = "a_host_whose_disk_is_full_says_so_and_pushes_what_it_keeps_before_and_after";
    let Some(lab) = lab(name) else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder, &format!("{HOSTS}{PINGS}"));
    let central = folder.join("b");
    let b = monitor(&lab.server, folder, "b");
    let a = on_small_disk(&lab.client, folder, "a");
    let stored = || collected(&central).map_or(0, |c| c.stored);
    wait_until("that a test is collected", 60, || stored() > 0);
    inside(&a, folder, "cat /dev/zero > small/fill");
    // Waits until no more tests are added, for some slots.
    let mut before = 0;
    wait_until("that the disk is full", 60, || {
        before = stored();
        !jitlat_waiting::within(Duration::from_secs(5), || stored() != before)
    });
    assert!(inside(&a, folder, "rm small/fill").status.success());
    wait_until("that tests are collected again", 60, || stored() > before);
    assert!(inside(&a, folder, "cp -r small/a copy").status.success());
    let kept: BTreeSet<String> = ids(&folder.join("copy")).into_iter().collect();
    wait_until("that all of them are collected", 60, || kept.is_subset(&ids(&central).into_iter().collect()));
    let (a, b) = (end(a), end(b));
    assert!(a.stdout.contains("not stored") && a.stderr.contains("full"), "{}{}", a.stdout, a.stderr);
    assert!(!b.stderr.contains("ERROR"), "{}", b.stderr);
    is_whole(&folder.join("copy"));
    is_whole(&central);
    let there: BTreeSet<String> = ids(&central).into_iter().collect();
    assert_eq!(there.len() as u64, stored(), "each is there once");
}

#[test]
fn clocks_that_step_lose_nothing_and_store_nothing_twice() {
    const DAY: i64 = 86_400_000_000_000;
    let name = "clocks_that_step_lose_nothing_and_store_nothing_twice";
    let Some(lab) = lab(name) else { return };
    let Some(library) = other_clock() else {
        assert!(std::env::var_os("JITLAT_REQUIRE_PEERS").is_none(), "{name}: libfaketime is not installed");
        eprintln!("SKIPPED: {name}: libfaketime is not installed");
        return;
    };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder, &format!("{HOSTS}{QUIET}"));
    let (own, central) = (folder.join("a"), folder.join("b"));
    let set = |host: &str, clock: &str| {
        fs::write(folder.join("new"), clock).unwrap();
        fs::rename(folder.join("new"), folder.join(format!("{host}.clock"))).unwrap();
    };
    let start = |place, host| {
        set(host, "+0");
        let mut command = monitor_command(place, folder, host);
        command
            .env("LD_PRELOAD", &library)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command.env("FAKETIME_TIMESTAMP_FILE", folder.join(format!("{host}.clock")));
        Running::start(command)
    };
    let archive = Archive::make(&own).unwrap();
    let (a, b) = (start(&lab.client, "a"), start(&lab.server, "b"));
    // Clocks that are days ahead or behind at either end, and at both.
    let clocks =
        [("+0", "+0"), ("+0", "+40d"), ("+3d", "+40d"), ("-2d", "-2d"), ("-2d", "+0"), ("+400d", "-1h")];
    let mut stored = Vec::new();
    for ((of_a, of_b), made) in clocks.into_iter().zip((10..).step_by(10)) {
        (made - 10..made - 5).for_each(|seed| make(&archive, folder, seed, 200));
        set("a", of_a);
        set("b", of_b);
        (made - 5..made).for_each(|seed| make(&archive, folder, seed, 200));
        wait_until("that nothing waits", 60, || {
            pushed(&own).is_some_and(|push| (push.stored, push.waiting) == (made, 0))
        });
        stored.push(collected(&central).unwrap().stored_ns.unwrap());
    }
    let made = 10 * clocks.len() as u64;
    let (a, b) = (end(a), end(b));
    let push = pushed(&own).unwrap();
    assert_eq!((push.stored, push.dropped, push.refused), (made, 0, 0), "{}{}", a.stderr, b.stderr);
    let there = ids(&central);
    let once: BTreeSet<&String> = there.iter().collect();
    assert_eq!((there.len() as u64, once), (made, ids(&own).iter().collect()));
    // The collector's clock was different.
    let since = |k: usize| (stored[k] - stored[0]) / DAY;
    assert_eq!([1, 2, 3, 4].map(since), [40, 40, -1, 0], "{stored:?}");
    is_whole(&own);
    is_whole(&central);
}
