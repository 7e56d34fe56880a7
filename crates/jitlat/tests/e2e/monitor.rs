//! `jitlat monitor` on two and three hosts with one file: tests of all pairs are in the archives, none overlap, and
//! failures are logged once.

use crate::harness::*;
use jitlat_net::emulator::lab::Namespace;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// Time limit for a monitor to end after the request.
const TO_END: Duration = Duration::from_secs(60);

const HOSTS: &str = "host = [\n  { name = \"a\", address = \"10.9.0.1\" },\n  { name = \"b\", address = \"10.9.0.2\" },\n  \
                     { name = \"c\", address = \"10.9.0.254\" },\n]\n";
const TESTS: &str = "[[test]]\nname = \"delay\"\nevery = \"12s\"\nfor = \"1s\"\noptions = { period = \"10ms\" }\n\
                     [timetable]\nguard = \"1s\"\nsetup = \"2s\"\n[archive]\nfolder = \"archive\"\n";

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

/// Starts a monitor of `file` in a namespace, with an archive of its own.
fn monitor(place: &Namespace, folder: &Path, file: &str, archive: &str, options: &str) -> Running {
    let line = format!("monitor {file} --archive {archive} {options} --log-level debug");
    Running::start(Place::In(place).jitlat(folder, &line))
}

/// Lists the tests in an archive with `archive ls --json`.
fn tests(folder: &Path, archive: &str, tag: &str) -> Vec<Value> {
    if !folder.join(archive).join("catalogue.sqlite").exists() {
        return Vec::new();
    }
    let line = format!("archive ls {archive} --json {tag}");
    let listed = Running::start(Place::Here.jitlat(folder, &line)).finish(TIMEOUT);
    if listed.code() != 0 {
        // The archive does not exist before its first test.
        return Vec::new();
    }
    let list: Value = serde_json::from_str(&listed.stdout).unwrap();
    list["tests"].as_array().unwrap().clone()
}

/// Waits until `enough` is true, with a limit.
fn wait_until(what: &str, enough: impl Fn() -> bool) {
    jitlat_waiting::until(what, Duration::from_secs(100), enough);
}

fn end(monitor: Running) -> Finished {
    // From this line on, signals end running tests in order.
    monitor.wait_for("monitoring as");
    monitor.signal(Signal::SIGTERM);
    let finished = monitor.finish(TO_END);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    finished
}

#[test]
fn three_hosts_with_one_file_test_each_other_in_turn() {
    let Some(lab) = lab("three_hosts_with_one_file_test_each_other_in_turn") else { return };
    let switch = lab.switch().unwrap();
    switch.run("ip addr add 10.9.0.254/24 dev bridge").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(
        &folder.join("mesh.toml"),
        &format!("{HOSTS}{TESTS}[serve]\nkey = \"correct horse battery staple\"\n"),
    );
    let places = [(&lab.client, "a"), (&lab.server, "b"), (&switch, "c")];
    // Each monitor finds its host by the address.
    let monitors = places.map(|(place, name)| monitor(place, folder, "mesh.toml", name, ""));
    let all = || -> Vec<Value> { ["a", "b", "c"].iter().flat_map(|host| tests(folder, host, "")).collect() };
    // Three pairs in both directions, twice.
    wait_until("every pair twice", || all().len() >= 12);
    let ended = monitors.map(end);
    let list = all();
    let mut slots = Vec::new();
    for pair in [("10.9.0.1", "10.9.0.2"), ("10.9.0.1", "10.9.0.254"), ("10.9.0.2", "10.9.0.254")] {
        for (src, dst) in [pair, (pair.1, pair.0)] {
            let own: Vec<&Value> = list.iter().filter(|t| t["src"] == src && t["dst"] == dst).collect();
            assert!(own.len() >= 2, "{src} to {dst}: {list:#?}");
            slots.extend(own.iter().map(|t| t["started_ns"].as_i64().unwrap()));
        }
    }
    // Each pair has a slot of its own: packets of two pairs are never sent within the same second.
    slots.sort_unstable();
    for pair in slots.windows(2) {
        let apart = pair[1] - pair[0];
        assert!(!(500_000_000..=1_500_000_000).contains(&apart), "{apart} ns between two tests: {slots:?}");
    }
    // The tests of a pair are started by one of its hosts only.
    let said: Vec<&str> = ended.iter().map(|e| e.stdout.as_str()).collect();
    let rows = said.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("delay"));
    assert_eq!(rows.count(), 3, "{said:#?}");
    for finished in &ended {
        assert!(finished.stderr.contains("monitoring as "), "{}", finished.stderr);
        // In parentheses: a host that listens a moment later than another starts refuses the connection.
        assert!(!finished.stderr.contains("(refused)"), "{}", finished.stderr);
    }
    // Every test has the tags by which it is found.
    let tagged: usize = ["a", "b", "c"].iter().map(|h| tests(folder, h, "--tag test=delay").len()).sum();
    assert_eq!(tagged, list.len());
}

#[test]
fn a_far_host_that_goes_comes_and_has_a_wrong_key_is_said_once() {
    let Some(lab) = lab("a_far_host_that_goes_comes_and_has_a_wrong_key_is_said_once") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let hosts = "host = [\n  { name = \"a\", address = \"10.9.0.1\", key-file = \"a.key\" },\n  \
                 { name = \"b\", address = \"10.9.0.2\", key-file = \"b.key\" },\n]\n";
    let test = "[[test]]\nname = \"delay\"\nevery = \"5s\"\nfor = \"1s\"\nclient = \"first\"\n\
                [timetable]\nguard = \"1s\"\nsetup = \"2s\"\n";
    write(&folder.join("mesh.toml"), &format!("{hosts}{test}"));
    write(&folder.join("a.key"), "correct horse battery staple");
    write(&folder.join("b.key"), "another correct horse battery");
    // In the file of b, the key of a is different.
    fs::create_dir(folder.join("wrong")).unwrap();
    write(&folder.join("wrong/mesh.toml"), &format!("{hosts}{test}"));
    write(&folder.join("wrong/a.key"), "incorrect horse battery staple");
    write(&folder.join("wrong/b.key"), "another correct horse battery");

    let count = || tests(folder, "a", "").len();
    let begin = |file: &str| monitor(&lab.server, folder, file, "b", "--host b");
    let a = monitor(&lab.client, folder, "mesh.toml", "a", "");
    let b = begin("mesh.toml");
    wait_until("a first test", || count() >= 2);
    end(b);
    a.wait_for("b: tests fail (unreachable)");
    let before = count();
    let b = begin("mesh.toml");
    wait_until("a test after the return", || count() > before);
    end(b);
    let b = begin("wrong/mesh.toml");
    a.wait_for("b: tests fail (refused)");
    // There is no pause after failures: each slot of the pair is tried.
    wait_until("a third slot", || slots(&folder.join("a"), "refused") > 2);
    let ended = end(a);
    end(b);
    let said = |text: &str| ended.stderr.lines().filter(|line| line.contains(text)).count();
    assert!((1..=2).contains(&said("b: tests fail (unreachable)")), "{}", ended.stderr);
    assert_eq!(said("b: tests fail (refused)"), 1, "{}", ended.stderr);
    assert_eq!(said("b: tests succeed again"), 1, "{}", ended.stderr);
    let row = ended.stdout.lines().find(|line| line.starts_with("delay")).unwrap();
    assert!(row.contains("unreachable") && row.contains("refused"), "{row}");
}

#[test]
fn a_file_that_is_changed_is_taken_up_and_a_bad_one_is_not() {
    let Some(lab) = lab("a_file_that_is_changed_is_taken_up_and_a_bad_one_is_not") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let hosts = "host = [{ name = \"a\", address = \"10.9.0.1\" }, { name = \"b\", address = \"10.9.0.2\" }]\n\
                 [timetable]\nguard = \"1s\"\nsetup = \"2s\"\n";
    let test = |name: &str| {
        format!("[[test]]\nname = \"{name}\"\nevery = \"5s\"\nfor = \"1s\"\nclient = \"first\"\n")
    };
    let file = folder.join("mesh.toml");
    write(&file, &format!("{hosts}{}", test("one")));
    let a = monitor(&lab.client, folder, "mesh.toml", "a", "");
    let b = monitor(&lab.server, folder, "mesh.toml", "b", "");
    let count = |name: &str| tests(folder, "a", &format!("--tag test={name}")).len();
    wait_until("a test of the first file", || count("one") >= 2);
    write(&file, &format!("{hosts}{}", test("one").replace("every", "evry")));
    a.wait_for("still using the previous version");
    b.wait_for("still using the previous version");
    let ping = "[[ping]]\nname = \"two\"\ntargets = [\"10.9.0.2\"]\nevery = \"5s\"\nfor = \"1s\"\n\
                options = { proto = \"tcp\", timeout = \"500ms\" }\n";
    write(&file, &format!("{hosts}{}{}", test("one").replace("5s", "10s"), ping.replace("5s", "10s")));
    a.signal(Signal::SIGHUP);
    wait_until("a test of the new file", || count("two") >= 1);
    let ended = end(a);
    end(b);
    for phrase in [
        "has no key 'evry': did you mean 'every'?",
        "still using the previous version",
        "using the new version of the file; added two; changed one",
    ] {
        assert!(ended.stderr.contains(phrase), "'{phrase}' is not in\n{}", ended.stderr);
    }
}

#[test]
fn every_protocol_is_measured() {
    let Some(lab) = lab("every_protocol_is_measured") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ways =
        [("jitlat", "one-way"), ("owamp", "one-way"), ("icmp", "ping"), ("stamp", "ping"), ("twamp", "ping")];
    let ways =
        ways.into_iter().chain([("lamp", "ping"), ("tcp", "ping"), ("irtt", "ping"), ("ipsla", "ping")]);
    let test = |(proto, instrument): (&str, &str)| {
        format!(
            "[[test]]\nname = \"{proto}\"\ninstrument = \"{instrument}\"\nclient = \"first\"\nevery = \"1min\"\nfor = \"300ms\"\n\
             options = {{ proto = \"{proto}\", period = \"10ms\" }}\n"
        )
    };
    let names: Vec<&str> = ways.clone().map(|way| way.0).collect();
    let text = format!(
        "host = [{{ name = \"a\", address = \"10.9.0.1\" }}, {{ name = \"b\", address = \"10.9.0.2\" }}]\n{}\
         [serve]\noptions = {{ ipsla = true }}\n[timetable]\nguard = \"500ms\"\nsetup = \"4s\"\n",
        ways.map(test).collect::<String>()
    );
    write(&folder.join("mesh.toml"), &text);
    let a = monitor(&lab.client, folder, "mesh.toml", "a", "");
    let b = monitor(&lab.server, folder, "mesh.toml", "b", "");
    for name in &names {
        let wanted = if ["jitlat", "owamp"].contains(name) { 2 } else { 1 };
        let found = || tests(folder, "a", &format!("--tag test={name}")).len();
        wait_until(&format!("a test by {name}"), || found() >= wanted);
    }
    let ended = end(a);
    end(b);
    for row in ended.stdout.lines().skip(1) {
        assert!(
            row.trim_end().ends_with('-') || row.contains("1 cut short"),
            "{}\n{}",
            ended.stdout,
            ended.stderr
        );
    }
}
