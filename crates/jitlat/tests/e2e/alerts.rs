//! Alerts of `jitlat monitor`: told once each, also when the monitor is killed.

use crate::harness::*;
use jitlat_net::emulator::lab::Namespace;
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const FILE: &str = "host = [{ name = \"a\", address = \"10.9.0.1\" }]\n[[ping]]\nname = \"echo\"\ntargets = [\"10.9.0.2\"]\n\
                    every = \"2s\"\nfor = \"200ms\"\noptions = { period = \"20ms\", timeout = \"200ms\" }\n\
                    [timetable]\nguard = \"500ms\"\nsetup = \"500ms\"\n[serve]\non = false\n[archive]\nfolder = \"archive\"\n\
                    [[notify]]\nname = \"file\"\ncommand = [\"sh\", \"-c\", \"echo $JITLAT_ALERT $JITLAT_STATE >> told\"]\n\
                    [[notify]]\nname = \"nobody\"\nwebhook = \"http://127.0.0.1:9/\"\n[[notify]]\nname = \"out\"\nprint = true\n";
const ALERT: &str = "[[alert]]\nname = \"any\"\nif = \"sent>0\"\nof = \"2 of 3\"\n";

fn monitor(place: &Namespace, folder: &Path) -> Running {
    Running::start(Place::In(place).jitlat(folder, "monitor mesh.toml"))
}

fn wait_until(what: &str, enough: impl Fn() -> bool) {
    let begun = Instant::now();
    while !enough() {
        assert!(begun.elapsed() < Duration::from_secs(100), "{what} has not happened");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_alert_is_told_once_also_when_the_monitor_is_killed() {
    let Some(lab) = lab("an_alert_is_told_once_also_when_the_monitor_is_killed") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("mesh.toml"), format!("{FILE}{ALERT}")).unwrap();
    let told = || fs::read_to_string(folder.join("told")).unwrap_or_default();
    let first = monitor(&lab.client, folder);
    wait_until("the alert", || told().contains("any firing"));
    let archive = jitlat_archive::Archive::open(&folder.join("archive")).unwrap();
    wait_until("that it was told", || archive.waiting("file", i64::MAX, 9).unwrap().is_empty());
    first.signal(Signal::SIGKILL);
    first.finish(Duration::from_secs(60));
    let before = archive.judged().unwrap().unwrap();
    let second = monitor(&lab.client, folder);
    wait_until("three more results", || archive.judged().unwrap().unwrap() >= before + 3);
    // Without its rule it is over.
    fs::write(folder.join("mesh.toml"), FILE).unwrap();
    wait_until("its end", || told().contains("resolved"));
    second.signal(Signal::SIGTERM);
    let ended = second.finish(Duration::from_secs(60));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(told(), "any firing\nany resolved\n");
    let alerts = archive.alerts(9).unwrap();
    assert!(alerts.len() == 1 && alerts[0].reason.contains("2 of the last 3 tests"), "{alerts:?}");
    assert!(
        ended.stdout.contains(" RESOLVED warning any: echo, a → 10.9.0.2: it is not in"),
        "{}",
        ended.stdout
    );
    assert_eq!(ended.stderr.matches("[[notify]] nobody").count(), 1, "{}", ended.stderr);
    let measured = archive.slots().unwrap().into_iter().find(|(slots, _)| slots.ending == "measured");
    assert!(measured.is_some_and(|(slots, n)| slots.server == "10.9.0.2" && n >= 3));
}
