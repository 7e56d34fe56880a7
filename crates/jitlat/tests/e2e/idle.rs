//! A server and a monitor with nothing to do must hardly run, because they add noise to the host that they measure.

use crate::harness::*;
use jitlat_net::emulator::lab::Namespace;
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time for which wake-ups are counted.
const COUNTED: Duration = Duration::from_secs(5);
/// Allowed wake-ups per second, of all threads together.
const ALLOWED: f64 = 1.0;

/// Number of times that the threads of a process have waited so far.
fn waits(process: u32) -> u64 {
    let of = |task: fs::DirEntry| -> Option<u64> {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
    };
    fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten().filter_map(of).sum()
}

/// Checks that a process that has just started becomes idle, and ends on request.
fn becomes_idle(what: &str, running: Running) {
    let mut rates = Vec::new();
    let is_idle = jitlat_waiting::within(TIMEOUT, || {
        let (before, counted) = (waits(running.id()), Instant::now());
        jitlat_waiting::while_true("counting", COUNTED, || true);
        let rate = waits(running.id()).saturating_sub(before) as f64 / counted.elapsed().as_secs_f64();
        rates.push(rate);
        rate <= ALLOWED
    });
    assert!(is_idle, "{what}: {rates:.1?} wake-ups a second with nothing to do");
    running.signal(Signal::SIGTERM);
    let ended = running.finish(TIMEOUT);
    assert_eq!(ended.code(), 0, "{what}: {}", ended.stderr);
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

/// Waits until something listens at a TCP port of a namespace.
fn wait_for_port(place: &Namespace, port: u16) {
    let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    jitlat_waiting::until(&format!("a listener at TCP {port}"), TIMEOUT, || place.within(listens).unwrap());
}

#[test]
fn a_server_with_every_service_is_idle_without_clients() {
    let Some(lab) = lab("a_server_with_every_service_is_idle_without_clients") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let line = "serve --capture lo --capture-without-key --late-packets packets --rpm";
    let server = Running::start(Place::In(&lab.server).jitlat(folder.path(), line));
    for port in [2666, 2668, 2669, 4043, 861, 862] {
        wait_for_port(&lab.server, port);
    }
    becomes_idle(line, server);
}

#[test]
fn a_monitor_is_idle_while_nothing_is_due() {
    let Some(lab) = lab("a_monitor_is_idle_while_nothing_is_due") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Host c, which measures, does not exist.
    let file = "host = [\n  { name = \"a\", address = \"10.9.0.1\", key-file = \"a.key\" },\n  \
                { name = \"b\", address = \"10.9.0.2\", key-file = \"b.key\" },\n  \
                { name = \"c\", address = \"10.9.0.254\", key-file = \"c.key\" },\n]\n\
                [[ping]]\nname = \"none\"\nfrom = \"c\"\ntargets = [\"10.9.0.9\"]\nevery = \"1h\"\n\
                [archive]\nfolder = \"archive\"\n[web]\nhosts = [\"a\"]\nrun = true\n\
                [[alert]]\nname = \"any\"\nif = \"sent>0\"\nof = \"2 of 3\"\n\
                [[notify]]\nname = \"file\"\ncommand = [\"sh\", \"-c\", \"echo $JITLAT_ALERT >> notified\"]\n\
                [[notify]]\nname = \"nobody\"\nwebhook = \"http://127.0.0.1:9/\"\n\
                [[collector]]\nhost = \"a\"\nplain = true\nfrom = [\"b\"]\n[[collector]]\nhost = \"b\"\nplain = true\nfrom = [\"a\"]\n";
    write(&folder.join("mesh.toml"), file);
    for host in ["a", "b", "c"] {
        write(&folder.join(format!("{host}.key")), &format!("the key of {host}, and of nobody else"));
    }
    let line = "monitor mesh.toml --host a";
    let monitor = Running::start(Place::In(&lab.client).jitlat(folder, line));
    for port in [2666, 2680] {
        wait_for_port(&lab.client, port);
    }
    becomes_idle(line, monitor);
}
