//! `jitlat serve` reports what it has given up, has given it up in every thread, and logs its decisions as JSON
//! lines.

use crate::harness::*;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;

/// Starts a server at `host` that is ready for clients.
fn server(folder: &std::path::Path, host: Ipv4Addr, options: &str) -> Running {
    let server = Running::start(Place::Here.jitlat(folder, &format!("serve --bind {host} {options}")));
    server.wait_for("istening");
    server
}

fn stopped(server: Running) -> Finished {
    server.signal(Signal::SIGTERM);
    server.finish(TIMEOUT)
}

/// Values of `name` in the status of each thread of `process`.
fn of_threads(process: u32, name: &str) -> HashSet<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let status = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("status"))
    };
    let value = |text: String| text.lines().find_map(|l| l.strip_prefix(name).map(|v| v.trim().to_owned()));
    tasks.filter_map(|task| value(status(task).ok()?)).collect()
}

#[test]
fn a_server_says_what_it_gave_up_and_every_thread_has() {
    let (folder, host) = (tempfile::tempdir().unwrap(), own_address());
    let server = server(folder.path(), host, "--only jitlat");
    assert_eq!(of_threads(server.id(), "CapPrm:"), HashSet::from(["0000000000000000".to_owned()]));
    assert_eq!(of_threads(server.id(), "NoNewPrivs:"), HashSet::from(["1".to_owned()]));
    assert_eq!(of_threads(server.id(), "Seccomp:"), HashSet::from(["2".to_owned()]));
    let first = stopped(server).stdout.lines().next().unwrap().to_owned();
    assert!(first.starts_with("jitlat serve: confined: user "), "{first}");
    assert!(first.contains(", no capabilities, no_new_privs, seccomp ("), "{first}");

    let server = self::server(folder.path(), host, "--no-sandbox");
    assert_eq!(of_threads(server.id(), "Seccomp:"), HashSet::from(["0".to_owned()]));
    let first = stopped(server).stdout.lines().next().unwrap().to_owned();
    assert_eq!(first, "jitlat serve: not confined (--no-sandbox)");
}

#[test]
fn a_user_that_does_not_exist_is_refused_before_anything_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("serve --bind {} --user no-such-user-here", own_address());
    let finished = Running::start(Place::Here.jitlat(folder.path(), &line)).finish(TIMEOUT);
    finished.refused(&["no-such-user-here", "--no-sandbox"]);
}

#[test]
fn decisions_are_json_lines() {
    let (folder, host) = (tempfile::tempdir().unwrap(), own_address());
    let key = folder.path().join("key");
    std::fs::write(&key, "correct horse battery staple\n").unwrap();
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    let key = key.display();
    let server = server(folder.path(), host, &format!("--key-file {key} --log-format json"));
    let client = |options: &str| {
        let line = format!("{host} -n 20 -p 1ms --json - {options}");
        Running::start(Place::Here.jitlat(folder.path(), &line)).finish(TIMEOUT)
    };
    let tests = 12;
    for _ in 0..tests {
        assert_eq!(client(&format!("--key-file {key}")).code(), 0);
    }
    client("").refused(&["key"]);
    let log = stopped(server).stderr;
    let lines: Vec<Value> =
        log.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect();
    for line in &lines {
        assert!(
            line["time"].is_string() && line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }
    let of_a_test = |l: &&Value| l["message"].as_str().unwrap().starts_with("session");
    let accepted: Vec<&Value> =
        lines.iter().filter(|l| l["decision"] == "accepted").filter(of_a_test).collect();
    // More lines than the limit of ten seconds for one kind of line.
    assert_eq!(accepted.len(), tests, "{log}");
    assert!(
        accepted.iter().all(|l| l["service"] == "jitlat" && l["peer"].as_str().unwrap().starts_with("127.")),
        "{log}"
    );
}

#[test]
fn every_service_has_a_line_for_each_test_it_accepts() {
    let (folder, host) = (tempfile::tempdir().unwrap(), own_address());
    // Ports of an address that only this test uses.
    let ports = [("stamp", 8620), ("twamp", 8621), ("lamp", 8622), ("tcp", 8623)];
    let options: String = ports.map(|(name, port)| format!(" --{name}-port {port}")).concat();
    let server = server(folder.path(), host, &format!("--log-format json{options}"));
    for (name, port) in ports {
        let line = format!("ping {host} --proto {name} --{name}-port {port} -n 20 -p 1ms --json -");
        assert_eq!(
            Running::start(Place::Here.jitlat(folder.path(), &line)).finish(TIMEOUT).code(),
            0,
            "{name}"
        );
    }
    let log = stopped(server).stderr;
    let accepted: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let accepted: Vec<&Value> = accepted.iter().filter(|l| l["decision"] == "accepted").collect();
    for (name, _) in ports {
        let lines: Vec<&&Value> = accepted.iter().filter(|l| l["service"] == name).collect();
        assert_eq!(lines.len(), 1, "{name}: {log}");
        assert!(lines[0]["peer"].as_str().unwrap().starts_with("127."), "{}", lines[0]);
    }
}
