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

/// The only values of threads of a confined process: no capability but those in `capabilities`, no new ones, filtered calls.
fn is_confined(process: u32, capabilities: &str) {
    assert_eq!(of_threads(process, "CapPrm:"), HashSet::from([capabilities.to_owned()]));
    assert_eq!(of_threads(process, "NoNewPrivs:"), HashSet::from(["1".to_owned()]));
    assert_eq!(of_threads(process, "Seccomp:"), HashSet::from(["2".to_owned()]));
    // Core dumps are off.
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert!(line.split_whitespace().skip(4).take(2).all(|limit| limit == "0"), "{line}");
}

#[test]
fn a_page_says_what_it_gave_up_and_becomes_the_owner_of_its_archive() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    drop(jitlat_archive::Archive::make(&archive).unwrap());
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let owned = nix::unistd::Uid::effective().is_root();
    if owned {
        // Everybody may pass through the folder of the test.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let all = [".", "packets", "tmp", "lock", "catalogue.sqlite"];
        for path in all {
            nix::unistd::chown(&archive.join(path), Some(nobody.uid), Some(nobody.gid)).unwrap();
        }
    }
    let page = |options: &str| {
        let page = Running::start(
            Place::Here.jitlat(folder.path(), &format!("web archive --listen 127.0.0.1:0 {options}")),
        );
        page.wait_for("confined");
        page
    };
    let confined = page("");
    is_confined(confined.id(), "0000000000000000");
    if owned {
        assert_eq!(
            of_threads(confined.id(), "Uid:"),
            HashSet::from([format!("{0}\t{0}\t{0}\t{0}", nobody.uid)])
        );
    }
    let said = stopped(confined).stdout;
    let line = said.lines().nth(1).unwrap();
    assert!(
        line.starts_with("jitlat web: confined: user ")
            && line.contains("Landlock (writes to archive, reads system files)"),
        "{said}"
    );
    let free = page("--no-sandbox");
    assert_eq!(of_threads(free.id(), "Seccomp:"), HashSet::from(["0".to_owned()]));
    assert!(stopped(free).stdout.contains("jitlat web: not confined (--no-sandbox)"));
}

#[test]
fn a_monitor_is_confined_and_the_commands_of_its_alerts_are_not() {
    let Some(lab) = lab("a_monitor_is_confined_and_the_commands_of_its_alerts_are_not") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = "host = [{ name = \"a\", address = \"10.9.0.1\" }, { name = \"b\", address = \"10.9.0.2\" }]\n\
                [[ping]]\nname = \"p\"\nfrom = \"a\"\ntargets = [\"127.0.0.1\"]\nevery = \"5s\"\nfor = \"500ms\"\n\
                [serve]\non = false\n[archive]\nfolder = \"archive\"\n[timetable]\nguard = \"500ms\"\nsetup = \"500ms\"\n[web]\nhosts = [\"a\"]\n\
                [[alert]]\nname = \"any\"\nif = \"sent>0\"\n\
                [[notify]]\nname = \"file\"\ncommand = [\"sh\", \"-c\", \"cat - /etc/passwd > notified; grep Seccomp: /proc/self/status > filter\"]\n";
    std::fs::write(folder.path().join("mesh.toml"), file).unwrap();
    let monitor = Running::start(Place::In(&lab.client).jitlat(folder.path(), "monitor mesh.toml --host a"));
    monitor.wait_for("confined: user ");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    jitlat_waiting::until("a message to the command", TIMEOUT, || read("filter").contains("Seccomp"));
    // Raw sockets for pings are what it keeps.
    is_confined(monitor.id(), "0000000000002000");
    assert!(
        read("notified").contains("FIRING warning any") && read("notified").contains("root:"),
        "{}",
        read("notified")
    );
    assert_eq!(read("filter").trim(), "Seccomp:\t0");
    let children =
        || std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", monitor.id())).unwrap_or_default();
    let helper: i32 =
        children().split_whitespace().next().expect("the process that runs commands").parse().unwrap();
    let ended = stopped(monitor);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    // It may remain as a zombie if nobody waits for it.
    let is_gone = || {
        let status = std::fs::read_to_string(format!("/proc/{helper}/status"));
        status.is_err() || status.is_ok_and(|text| text.contains("State:\tZ"))
    };
    jitlat_waiting::until("the end of the process that runs commands", TIMEOUT, is_gone);
}

#[test]
fn a_monitor_that_could_write_its_commands_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let run = |archive: &str, command: &str| {
        let file = format!(
            "[[host]]\nname = \"here\"\naddress = \"{}\"\n[archive]\nfolder = \"{archive}\"\n[[ping]]\nname = \"p\"\ntargets = [\"127.0.0.1\"]\nevery = \"60s\"\n[[notify]]\nname = \"n\"\ncommand = [{command}]\n",
            own_address()
        );
        std::fs::create_dir_all(folder.path().join("inside/archive")).unwrap();
        std::fs::write(folder.path().join("inside/mesh.toml"), file).unwrap();
        std::fs::write(folder.path().join("inside/archive/told"), "").unwrap();
        Running::start(Place::Here.jitlat(folder.path(), "monitor inside/mesh.toml --host here --for 1s"))
            .finish(TIMEOUT)
    };
    run(".", "\"true\"").refused(&["mesh.toml is in the archive", "[archive] folder"]);
    run("archive", "\"sh\", \"inside/archive/told\"").refused(&["told is in the archive"]);
}

#[test]
fn a_new_archive_belongs_to_the_user_that_the_page_becomes() {
    if !nix::unistd::Uid::effective().is_root() {
        return;
    }
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let own = |name: &str| {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
        nix::unistd::chown(&folder.path().join(name), Some(nobody.uid), Some(nobody.gid)).unwrap();
    };
    own("prepared");
    for line in ["web prepared --run", "web new --run --user nobody"] {
        let page = Running::start(Place::Here.jitlat(folder.path(), &format!("{line} --listen 127.0.0.1:0")));
        page.wait_for("confined: user nobody");
        assert_eq!(stopped(page).code(), 0, "{line}");
        let archive = folder.path().join(line.split(' ').nth(1).unwrap());
        for path in [".", "catalogue.sqlite", "packets", "tmp", "lock"] {
            let about = std::fs::metadata(archive.join(path)).unwrap();
            assert_eq!(std::os::unix::fs::MetadataExt::uid(&about), nobody.uid.as_raw(), "{line}: {path}");
        }
    }
    // The folder that is in the way is named, not the one that is not.
    own("locked/archive");
    std::fs::set_permissions(folder.path().join("locked"), PermissionsExt::from_mode(0o700)).unwrap();
    let page = Place::Here.jitlat(folder.path(), "web locked/archive --run --listen 127.0.0.1:0");
    Running::start(page)
        .finish(TIMEOUT)
        .refused(&["cannot pass through", "locked, which contains locked/archive"]);
    // A part of the archive elsewhere cannot be reached.
    own("linked");
    own("disk");
    std::os::unix::fs::symlink("../disk", folder.path().join("linked/packets")).unwrap();
    let page = Place::Here.jitlat(folder.path(), "web linked --run --listen 127.0.0.1:0");
    Running::start(page).finish(TIMEOUT).refused(&["linked/packets is a symbolic link", "mount --bind"]);
}
