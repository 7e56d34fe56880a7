//! Each test confines a separate process: this test program, started again with one of [`ATTEMPTS`].

use super::*;
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
    let confinement = Confinement { folders: vec![folder.clone()], ..Confinement::default() };
    let act = ATTEMPTS.iter().find(|(name, _)| *name == attempt).unwrap().1;
    let confining = confinement.begin().unwrap();
    // Services have threads before the filter is applied, and so does this test.
    let (go, wait) = std::sync::mpsc::channel();
    let early = attempt.ends_with("of before");
    let inside = folder.clone();
    let thread = std::thread::spawn(move || wait.recv().map(|()| act(&inside)));
    let confined = confining.complete().unwrap();
    assert!(confined.to_string().contains("no capabilities, no_new_privs, seccomp ("), "{confined}");
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
fn writing_elsewhere_and_packet_sockets_fail() {
    for name in ["write outside", "packet socket"] {
        let output = attempt(name);
        assert_eq!(output.status.code(), Some(7), "{name}: {output:?}");
    }
}

#[test]
fn what_services_need_works() {
    for name in ["write inside", "socket, thread, clock"] {
        let output = attempt(name);
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
    }
}

#[test]
fn a_user_that_does_not_exist_is_an_error() {
    let error = find("nobody-of-this-name").unwrap_err();
    assert!(error.to_string().contains("nobody-of-this-name"), "{error}");
}
