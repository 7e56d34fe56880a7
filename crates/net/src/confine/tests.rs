//! Each test confines a separate process: this test program, started again with one of [`ATTEMPTS`].

use super::*;
use nix::libc;
use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, exit};

const ATTEMPT: &str = "JITLAT_CONFINED_ATTEMPT";
const FOLDER: &str = "JITLAT_CONFINED_FOLDER";

/// An action of a confined process, by name. The process exits with status 0 if everything that must work
/// works, and with 7 if an action that must fail succeeds.
type Attempt = (&'static str, fn(&Path));

const ATTEMPTS: &[Attempt] = &[
    ("run a program", |_| {
        let _ = unistd::execv(c"/bin/true", &[c"true"]);
    }),
    ("another user", |_| {
        let _ = unistd::setuid(Uid::from_raw(0));
    }),
    ("another user in a thread of before", |_| {
        let _ = unistd::setuid(Uid::from_raw(0));
    }),
    ("write outside", |folder| {
        let outside = folder.with_file_name("outside").join("a");
        exit(if std::fs::write(outside, "a").is_err() { 7 } else { 1 })
    }),
    ("read outside", |folder| {
        let files = ["/etc/passwd".into(), folder.with_file_name("outside").join("secret")];
        let is_hidden = |path: &PathBuf| std::fs::read(path).is_err();
        exit(if files.iter().all(is_hidden) && std::fs::read_dir("/etc").is_err() { 7 } else { 1 })
    }),
    ("read inside and what the system needs", |folder| {
        std::fs::write(folder.join("a"), "a").unwrap();
        assert_eq!(std::fs::read(folder.join("a")).unwrap(), b"a");
        assert!(std::fs::read_dir(folder).unwrap().count() > 0);
        assert_eq!(std::fs::read(folder.with_file_name("readable").join("key")).unwrap(), b"key");
        std::fs::read("/proc/self/status").unwrap();
        std::fs::read("/proc/loadavg").unwrap();
        std::fs::write("/dev/null", "a").unwrap();
        std::net::ToSocketAddrs::to_socket_addrs(&("localhost", 1)).unwrap();
    }),
    ("core dumps", |_| {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert!(line.split_whitespace().skip(4).take(2).all(|limit| limit == "0"), "{line}");
        assert!(!nix::sys::prctl::get_dumpable().unwrap());
        assert!(is_confined());
    }),
    ("what a monitor needs", |folder| {
        let watch = nix::sys::inotify::Inotify::init(nix::sys::inotify::InitFlags::IN_CLOEXEC).unwrap();
        watch.add_watch(folder, nix::sys::inotify::AddWatchFlags::IN_MODIFY).unwrap();
        socket2::Socket::new(libc::AF_NETLINK.into(), socket2::Type::RAW, None).unwrap();
    }),
    ("what only a monitor needs", |_| {
        let opened = socket2::Socket::new(libc::AF_NETLINK.into(), socket2::Type::RAW, None);
        exit(if opened.is_err() { 7 } else { 1 })
    }),
    ("write inside", |folder| {
        std::fs::write(folder.join("a"), "a").unwrap();
        std::fs::rename(folder.join("a"), folder.join("b")).unwrap();
        std::fs::remove_file(folder.join("b")).unwrap();
    }),
    ("packet socket", |_| {
        let opened = socket2::Socket::new(socket2::Domain::PACKET, socket2::Type::RAW, None);
        exit(if opened.is_err() { 7 } else { 1 })
    }),
    ("socket, thread, clock", |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        std::thread::spawn(move || socket.send_to(b"a", to).unwrap()).join().unwrap();
        assert!(crate::clock::sync_state().is_some());
        assert!(std::fs::read_to_string("/proc/thread-self/status").unwrap().contains("Seccomp:\t2"));
    }),
];

/// Runs in the started process; not a test by itself.
#[test]
fn confined_process() {
    let (Ok(attempt), Ok(folder)) = (std::env::var(ATTEMPT), std::env::var(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    let calls = if attempt == "what a monitor needs" { CallSet::Monitor } else { CallSet::Server };
    let readable = vec![folder.with_file_name("readable"), folder.with_file_name("none")];
    let confinement =
        Confinement { folders: vec![folder.clone()], readable, calls, ..Confinement::default() };
    let act = ATTEMPTS.iter().find(|(name, _)| *name == attempt).unwrap().1;
    let confining = confinement.begin().unwrap();
    // Services have threads before the filter is applied, and so does this test.
    let (go, wait) = std::sync::mpsc::channel();
    let early = attempt.ends_with("of before");
    let inside = folder.clone();
    let thread = std::thread::spawn(move || wait.recv().map(|()| act(&inside)));
    let confined = confining.complete().unwrap();
    assert!(confined.to_string().contains("no capabilities, no_new_privs, seccomp ("), "{confined}");
    assert!(confined.to_string().contains("Landlock (writes to "), "{confined}");
    assert_eq!(confined.missing(), [""; 0]);
    if early {
        go.send(()).unwrap();
        thread.join().unwrap().unwrap();
    } else {
        act(&folder);
    }
    exit(0);
}

fn attempt(name: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
    std::fs::create_dir(&inside).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    let readable = folder.path().join("readable");
    std::fs::create_dir(&readable).unwrap();
    std::fs::write(readable.join("key"), "key").unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["confine::tests::confined_process", "--exact", "--nocapture"])
        .env(ATTEMPT, name)
        .env(FOLDER, inside)
        .output()
        .unwrap()
}

#[test]
fn a_forbidden_system_call_ends_the_process() {
    for name in ["run a program", "another user", "another user in a thread of before"] {
        let output = attempt(name);
        assert_eq!(output.status.signal(), Some(nix::libc::SIGSYS), "{name}: {output:?}");
    }
}

#[test]
fn writing_and_reading_elsewhere_and_other_sockets_fail() {
    for name in ["write outside", "read outside", "packet socket", "what only a monitor needs"] {
        let output = attempt(name);
        assert_eq!(output.status.code(), Some(7), "{name}: {output:?}");
    }
}

#[test]
fn what_services_need_works() {
    let names = [
        "write inside",
        "socket, thread, clock",
        "read inside and what the system needs",
        "core dumps",
        "what a monitor needs",
    ];
    for name in names {
        let output = attempt(name);
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
    }
}

#[test]
fn a_user_that_does_not_exist_is_an_error() {
    let error = find("nobody-of-this-name").unwrap_err();
    assert!(error.to_string().contains("nobody-of-this-name"), "{error}");
}
