//! Standard error that is closed or full: the exit status does not change, and servers continue.

use crate::harness::*;
use nix::sys::signal::Signal;
use std::fs::OpenOptions;
use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Ways in which standard error cannot be written.
fn broken() -> [(&'static str, Stdio); 3] {
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    // A pipe whose reader has stopped reading; the reader lives as long as this program.
    let (reader, mut stuck) = std::io::pipe().unwrap();
    std::mem::forget(reader);
    nix::fcntl::fcntl(&stuck, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK)).unwrap();
    while std::io::Write::write(&mut stuck, &[b'x'; 4096]).is_ok() {}
    nix::fcntl::fcntl(&stuck, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty())).unwrap();
    [
        ("closed", OwnedFd::from(closed).into()),
        ("full", OwnedFd::from(full).into()),
        ("stuck", OwnedFd::from(stuck).into()),
    ]
}

/// Returns the exit status. `interrupted`: the server of a test that is ended by Ctrl-C while it runs.
fn status(mut command: Command, stderr: Stdio, interrupted: Option<&Server>) -> i32 {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let before = interrupted.map(Server::tests);
    let mut child = command.spawn().unwrap();
    if let Some(server) = interrupted {
        jitlat_waiting::until("the test to begin", TIMEOUT, || Some(server.tests()) > before);
        let runs = || child.try_wait().unwrap().is_none();
        jitlat_waiting::while_true("the test runs", Duration::from_millis(500), runs);
        signal(&child, Signal::SIGINT);
    }
    wait(&mut child, TIMEOUT)
}

#[test]
fn a_test_keeps_its_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let host = own_address();
    let server = Server::start(Place::Here, folder.path(), host, "");
    let nobody = own_address();
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/b_wan_lossy_v1.log");
    let cases = [
        (format!("{host} -n 5 -p 1ms --fail-if latency-max>1ns"), None, 1),
        (format!("{nobody} -n 5 -p 1ms"), None, 2),
        (format!("{host} -n 30000 -p 1ms"), Some(&server), 0),
        (format!("analyze {log} --fail-if loss>0.1%"), None, 1),
        ("analyze /nonexistent".to_owned(), None, 2),
    ];
    for (line, interrupted, expected) in cases {
        for (how, stderr) in broken() {
            let command = Place::Here.jitlat(folder.path(), &line);
            assert_eq!(status(command, stderr, interrupted), expected, "jitlat {line}, standard error {how}");
        }
    }
}

#[test]
fn a_server_serves_on() {
    let folder = tempfile::tempdir().unwrap();
    for (how, stderr) in broken() {
        let host = own_address();
        let arguments = format!("serve --bind {host} --max-connections-per-client 1");
        let mut command = Place::Here.jitlat(folder.path(), &arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().unwrap();
        wait_for_line(&mut child, "listening");
        // The second connection is refused, and the server logs that.
        let held = TcpStream::connect((host, 2666)).unwrap();
        for _ in 0..20 {
            refused(host);
        }
        drop(held);
        assert_eq!(measured(host, folder.path()), 20, "standard error {how}");
        assert!(child.try_wait().unwrap().is_none(), "standard error {how}");
        signal(&child, Signal::SIGTERM);
        assert_eq!(wait(&mut child, TIMEOUT), 0, "standard error {how}");
    }
}

/// Measures, and returns the number of packets that arrived. The slot of the previous connection is free as soon as
/// the server notices its end.
fn measured(host: Ipv4Addr, folder: &Path) -> u64 {
    let test = format!("{host} -n 20 -p 1ms --json -");
    jitlat_waiting::for_value("room for another connection", TIMEOUT, || {
        let finished = Running::start(Place::Here.jitlat(folder, &test)).finish(TIMEOUT);
        if finished.code() != 0 {
            assert!(finished.stderr.contains("max-connections-per-client"), "{}", finished.stderr);
            return None;
        }
        Some(finished.report().count("/counts/unique_valid"))
    })
}

/// Connects and waits until the server has closed the connection.
fn refused(host: Ipv4Addr) {
    let mut stream = TcpStream::connect((host, 2666)).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
}
