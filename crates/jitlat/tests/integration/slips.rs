//! Mistakes on the command line: message and exit status, and nothing is done first.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs the binary in `folder`; returns exit status and standard error.
fn said(folder: &Path, arguments: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jitlat"));
    command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Checks that `arguments` are refused with `phrases`, and that no file is left.
fn refused(arguments: &str, phrases: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (status, errors) = said(folder.path(), arguments);
    assert_eq!(status, Some(2), "{arguments}: {errors}");
    for phrase in phrases {
        assert!(errors.contains(phrase), "{arguments}: '{phrase}' is not in {errors}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{arguments} left a file");
}

#[test]
fn a_bare_number_that_is_an_absurd_period_is_refused() {
    for test in ["127.0.0.1", "ping 127.0.0.1", "ping 127.0.0.1 --proto stamp"] {
        refused(&format!("{test} -p 20"), &["did you mean 20ms?", "20ns"]);
    }
}

#[test]
fn without_arguments_five_commands_are_shown_and_that_is_no_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_jitlat")).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    let commands = text.lines().filter(|line| line.starts_with("  ")).count();
    assert!(commands == 5 && text.contains("jitlat demo") && text.contains("jitlat -h"), "{text}");
}

#[test]
fn the_demonstration_ends_with_commands_to_try() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_jitlat"));
    command.args(["demo", "-n", "50", "-p", "1ms", "--no-log", "--open"]).current_dir(folder.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    assert!(last.len() == 3 && last.iter().all(|line| line.contains("  jitlat ")), "{text}");
    // Standard output is not a terminal: the page is written, and no browser is started.
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("figures: jitlat-demo.html") && !errors.contains("xdg-open"), "{errors}");
    assert!(folder.path().join("jitlat-demo.html").is_file());
}

#[test]
fn a_misspelt_command_is_no_host() {
    // No name is looked up: the answer is immediate, and says how to test a host of that name.
    refused("srve", &["did you mean `jitlat serve`?", "`jitlat test srve`"]);
    refused("pingg 127.0.0.1", &["did you mean `jitlat ping`?"]);
    refused("-q", &["<HOST>"]);
    refused("--nolog 127.0.0.1", &["--no-log"]);
}

#[test]
fn an_address_that_is_not_this_hosts_is_named() {
    for test in ["127.0.0.1", "ping 127.0.0.1", "ping 127.0.0.1 --proto tcp"] {
        refused(&format!("{test} --bind 198.51.100.7"), &["--bind must be an address of this host"]);
    }
}

#[test]
fn a_folder_that_takes_no_log_is_said_before_the_test() {
    // No file can be created there.
    let (status, errors) = said(Path::new("/proc"), "127.0.0.1 -n 3");
    assert_eq!(status, Some(2), "{errors}");
    for phrase in ["creating the log", "-o LOG", "--no-log"] {
        assert!(errors.contains(phrase), "'{phrase}' is not in {errors}");
    }
    let (status, errors) = said(Path::new("/proc"), "127.0.0.1 -n 3 --no-log --control-port 1");
    assert!(status == Some(2) && errors.contains("is `jitlat serve` running on that host"), "{errors}");
}

#[test]
fn a_control_port_that_says_nothing_is_named_with_the_time() {
    // A listener with a full backlog accepts no further connection.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300));
    let held: Vec<TcpStream> = std::iter::from_fn(|| connect().ok()).take(5000).collect();
    assert!(connect().is_err(), "the backlog holds more than {}", held.len());
    let begun = Instant::now();
    let (status, errors) =
        said(Path::new("/tmp"), &format!("127.0.0.1 --no-log --control-port {}", address.port()));
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains(&format!("connecting to {address}: no answer yet")), "{errors}");
    assert!(errors.contains("cannot connect to 127.0.0.1"), "{errors}");
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
}
