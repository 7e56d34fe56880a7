//! Alerts of `jitlat monitor`: each is notified once, even if the monitor is killed.

use crate::harness::*;
use crate::side_by_side::side_by_side;
use jitlat_core::{Direction, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime};
use jitlat_net::emulator::lab::Namespace;
use jitlat_store::log::{LogFile, LogVersion, Naming};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const FILE: &str = "host = [{ name = \"a\", address = \"10.9.0.1\" }]\n[[ping]]\nname = \"echo\"\ntargets = [\"10.9.0.2\"]\n\
                    every = \"2s\"\nfor = \"200ms\"\noptions = { period = \"20ms\", timeout = \"200ms\" }\n\
                    [timetable]\nguard = \"500ms\"\nsetup = \"500ms\"\n[serve]\non = false\n[archive]\nfolder = \"archive\"\n\
                    [[notify]]\nname = \"file\"\ncommand = [\"sh\", \"-c\", \"echo $JITLAT_ALERT $JITLAT_STATE >> notified\"]\n\
                    [[notify]]\nname = \"nobody\"\nwebhook = \"http://127.0.0.1:9/\"\n[[notify]]\nname = \"out\"\nprint = true\n";
const ALERT: &str = "[[alert]]\nname = \"any\"\nif = \"sent>0\"\nof = \"2 of 3\"\n";

fn monitor(place: &Namespace, folder: &Path) -> Running {
    Running::start(Place::In(place).jitlat(folder, "monitor mesh.toml"))
}

fn wait_until(what: &str, enough: impl Fn() -> bool) {
    jitlat_waiting::until(what, Duration::from_secs(100), enough);
}

#[test]
fn an_alert_is_told_once_also_when_the_monitor_is_killed() {
    let Some(lab) = lab("an_alert_is_told_once_also_when_the_monitor_is_killed") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("mesh.toml"), format!("{FILE}{ALERT}")).unwrap();
    let notified = || fs::read_to_string(folder.join("notified")).unwrap_or_default();
    let first = monitor(&lab.client, folder);
    wait_until("the alert", || notified().contains("any firing"));
    let archive = jitlat_archive::Archive::open(&folder.join("archive")).unwrap();
    wait_until("that it was sent", || archive.waiting("file", i64::MAX, 9).unwrap().is_empty());
    first.signal(Signal::SIGKILL);
    first.finish(Duration::from_secs(60));
    let before = archive.judged().unwrap().unwrap();
    let second = monitor(&lab.client, folder);
    wait_until("three more results", || archive.judged().unwrap().unwrap() >= before + 3);
    // An alert whose rule was removed is resolved.
    fs::write(folder.join("mesh.toml"), FILE).unwrap();
    wait_until("its end", || notified().contains("resolved"));
    second.signal(Signal::SIGTERM);
    let ended = second.finish(Duration::from_secs(60));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(notified(), "any firing\nany resolved\n");
    let alerts = archive.alerts(9).unwrap();
    assert!(alerts.len() == 1 && alerts[0].reason.contains("2 of the last 3 tests"), "{alerts:?}");
    assert!(
        ended
            .stdout
            .contains(" RESOLVED warning any: echo, a → 10.9.0.2: the monitor's file no longer contains"),
        "{}",
        ended.stdout
    );
    assert_eq!(ended.stderr.matches("[[notify]] nobody").count(), 1, "{}", ended.stderr);
    let measured = archive.slots().unwrap().into_iter().find(|(slots, _)| slots.ending == "measured");
    assert!(measured.is_some_and(|(slots, n)| slots.server == "10.9.0.2" && n >= 3));
}

/// Number of times that a monitor is killed: JITLAT_KILLS, or 6.
fn kills() -> u64 {
    std::env::var("JITLAT_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(6)
}

/// Pseudo-random numbers below 1 from a seed (JITLAT_SEED, or 1).
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

/// Writes the log of test `k` of a path; if the path is bad, a tenth of its packets is lost.
fn write_log(folder: &Path, k: u64, is_bad: bool) -> std::path::PathBuf {
    const PACKETS: u32 = 50;
    let period = Span::millis(20);
    let spec =
        TestSpec::new(Direction::Up, Transport::Udp, PACKETS.into(), 80, period, Schedule::Periodic).unwrap();
    let begun = WallTime(1_767_225_600_000_000_000 + k as i64 * 60_000_000_000);
    let mut session = Session::new(spec);
    (session.created, session.sent) = (Some(begun), Some(PACKETS));
    session.ending = jitlat_core::session::Ending::Complete;
    let path = folder.join(format!("{k}.log"));
    let mut log = LogFile::create(&Naming::Given(path.clone()), LogVersion::V3).unwrap();
    log.begin(&session);
    for seq in (0..i64::from(PACKETS)).filter(|seq| !is_bad || seq % 10 != 5) {
        let sent = begun + period.times(seq);
        log.record(&PacketRecord::one_way(seq, sent, sent + Span::millis(1)));
    }
    log.finish(&session);
    log.close().unwrap();
    path
}

/// Returns for each change whether the alert begins to fire (true) or is resolved, result by result.
fn expected(bad: &[bool], wanted: usize, of: usize, clear: usize) -> Vec<bool> {
    let (mut recent, mut firing, mut notified) = (Vec::new(), false, Vec::new());
    for is_bad in bad {
        recent.push(*is_bad);
        let last = |n: usize| &recent[recent.len().saturating_sub(n)..];
        if !firing && last(of).iter().filter(|bad| **bad).count() >= wanted {
            firing = true;
            notified.push(true);
        } else if firing && recent.len() >= clear && last(clear).iter().all(|bad| !bad) {
            firing = false;
            notified.push(false);
            recent.clear();
        }
    }
    notified
}

/// Number of monitors that are killed at the same time. Each one mostly waits: for the moment of the next kill, or for a program to
/// start.
const MONITORS: u64 = 4;

#[test]
fn each_result_is_judged_once_and_each_message_told_once_over_kills() {
    let count = MONITORS.min(kills());
    let monitors: Vec<(u64, u64)> = (0..count).map(|k| (k, (kills() + k) / count)).collect();
    assert_eq!(monitors.iter().map(|(_, kills)| kills).sum::<u64>(), kills());
    side_by_side(monitors.len(), &monitors, |(k, kills)| kill_at_random(*k, *kills));
}

/// Kills a monitor at random moments while results are added, and checks its messages.
fn kill_at_random(stream: u64, kills: u64) {
    const FILE: &str = "host = [{ name = \"a\", address = \"192.0.2.1\" }, { name = \"b\", address = \"192.0.2.2\" }]\n\
                        [[test]]\nname = \"t\"\nevery = \"24h\"\nfor = \"1s\"\nclient = \"second\"\n[serve]\non = false\n[archive]\nfolder = \"archive\"\n\
                        [[alert]]\nname = \"each\"\nif = \"loss>1%\"\nat = [\"a\"]\n\
                        [[alert]]\nname = \"often\"\nif = \"loss>1%\"\nof = \"2 of 3\"\nat = [\"a\"]\n\
                        [[notify]]\nname = \"file\"\ncommand = [\"sh\", \"-c\", \"echo $JITLAT_MESSAGE $JITLAT_ALERT $JITLAT_STATE >> notified\"]\n";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("mesh.toml"), FILE).unwrap();
    let start = || Running::start(Place::Here.jitlat(folder, "monitor mesh.toml --host a"));
    let end = |monitor: Running| {
        monitor.signal(Signal::SIGTERM);
        let ended = monitor.finish(Duration::from_secs(60));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    };
    // Results from before the first start are not judged.
    let first = start();
    let root = folder.join("archive");
    wait_until("the archive", || {
        jitlat_archive::Archive::open(&root).is_ok_and(|archive| archive.judged().is_ok_and(|n| n.is_some()))
    });
    end(first);
    let enough = AtomicBool::new(false);
    let bad = std::thread::scope(|threads| {
        let adding = threads.spawn(|| {
            let (mut random, mut bad) = (random(2 * stream + 1), Vec::new());
            while !enough.load(Ordering::Relaxed) {
                // Good and bad results form runs, so that both rules fire and are resolved.
                let is_bad = bad.last().copied().unwrap_or(false) != (random() < 0.3);
                let log = write_log(folder, bad.len() as u64, is_bad);
                let tags = [("test", "t"), ("client", "b"), ("server", "a")];
                let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned()));
                jitlat_archive::Archive::open_to_write(&root).unwrap().add(&log, &tags).unwrap();
                fs::remove_file(log).unwrap();
                bad.push(is_bad);
                let next = Duration::from_millis((random() * 150.0) as u64);
                jitlat_waiting::within(next, || enough.load(Ordering::Relaxed));
            }
            bad
        });
        let mut random = random(2 * stream);
        for _ in 0..kills {
            let mut monitor = start();
            monitor.runs_for(Duration::from_secs_f64(random() * 1.5));
            monitor.signal(Signal::SIGKILL);
            monitor.finish(Duration::from_secs(60));
        }
        enough.store(true, Ordering::Relaxed);
        adding.join().unwrap()
    });
    let last = start();
    let archive = jitlat_archive::Archive::open(&root).unwrap();
    wait_until("all to be judged", || archive.judged().unwrap() == Some(archive.entered().unwrap()));
    wait_until("all to be sent", || archive.waiting("file", i64::MAX, 9).unwrap().is_empty());
    end(last);
    // Without a message there is no file.
    let notified = fs::read_to_string(folder.join("notified")).unwrap_or_default();
    let mut messages: BTreeMap<u64, &str> = BTreeMap::new();
    for line in notified.lines() {
        let (number, what) = line.split_once(' ').unwrap();
        let known = messages.entry(number.parse().unwrap()).or_insert(what);
        assert_eq!(*known, what, "a message that is sent again has the same number");
    }
    let mut fired = 0;
    for (rule, expected) in [("each", expected(&bad, 1, 1, 1)), ("often", expected(&bad, 2, 3, 2))] {
        let found: Vec<bool> = messages
            .values()
            .filter_map(|what| what.strip_prefix(rule))
            .map(|state| state.trim() == "firing")
            .collect();
        assert_eq!(found, expected, "{rule}: {bad:?}");
        fired += expected.iter().filter(|fires| **fires).count();
    }
    assert_eq!(archive.alerts(100_000).unwrap().len(), fired);
    let again = notified.lines().count() - messages.len();
    println!("{kills} kills, {} results, {} messages, {again} of them sent again", bad.len(), messages.len());
}
