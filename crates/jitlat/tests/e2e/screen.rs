//! The full-screen view of `--live` in a real terminal: tmux provides it, presses keys and reads the screen.

use crate::harness::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, Output};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_jitlat");

/// A terminal with a shell; ended when dropped.
pub struct TerminalUnderTest {
    pub folder: TempDir,
}

impl TerminalUnderTest {
    /// Starts a terminal; `None` without tmux: prints that, and fails if the environment requires other programs.
    pub fn new(test: &str) -> Option<TerminalUnderTest> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("JITLAT_REQUIRE_PEERS").is_none(), "{test}: tmux is not installed");
            let _ = writeln!(std::io::stderr(), "skipped: {test} needs tmux");
            return None;
        }
        // The first address may belong to a network of this process, which the terminal must share.
        own_address();
        let terminal = TerminalUnderTest { folder: tempfile::tempdir().unwrap() };
        terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24", "sh"]);
        terminal.line("PS1='$ '; unset NO_COLOR; clear");
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(self.folder.path().join("tmux")).args(["-f", "/dev/null"]);
        command.args(arguments).current_dir(self.folder.path());
        command.env("LANG", "C.UTF-8").env_remove("LC_ALL").env_remove("TMUX").env("ENV", "");
        let output = command.output().unwrap();
        assert!(output.status.success(), "tmux {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Presses keys, by tmux's names.
    pub fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Presses Escape and waits until `text` is gone: a key that follows at once would be combined with it to Alt and
    /// that key.
    fn escape(&self, text: &str) {
        self.keys(&["Escape"]);
        self.wait("what Escape takes away", |screen| !screen.contains(text));
    }

    /// Types a line.
    fn line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.keys(&["Enter"]);
    }

    /// Runs `jitlat` with these arguments; its process id is in the file `pid`, and `ended STATUS` is printed
    /// afterwards.
    pub fn jitlat(&self, before: &str, arguments: &str) {
        let command = format!("echo $$ > pid; exec {before} {BINARY} {arguments}");
        self.line(&format!("clear; sh -c '{command}'; echo ended $?"));
    }

    fn signal(&self, signal: Signal) {
        let pid = std::fs::read_to_string(self.folder.path().join("pid")).unwrap();
        kill(Pid::from_raw(pid.trim().parse().unwrap()), signal).unwrap();
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Waits until the screen is as `wanted`, and returns it.
    pub fn wait(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        let shown = jitlat_waiting::within(TIMEOUT, || {
            screen = self.screen();
            wanted(&screen)
        });
        assert!(shown, "waited for {what}:\n{screen}");
        screen
    }

    pub fn wait_for(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    /// Waits for the end of `jitlat` with this status, and checks that the terminal is restored.
    pub fn ended(&self, status: i32) -> String {
        let line = format!("ended {status}");
        let screen = self.wait(&line, |screen| screen.lines().any(|l| l.trim_end() == line));
        let modes = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(String::from_utf8_lossy(&modes.stdout).trim(), "0 1", "the terminal is given back");
        // Typed characters are shown again, and Ctrl-C is a signal again.
        self.line("stty -a | grep -ow icanon; stty -a | grep -ow isig");
        self.wait("the modes", |screen| screen.contains("\nicanon") && screen.contains("\nisig"));
        screen
    }
}

impl Drop for TerminalUnderTest {
    fn drop(&mut self) {
        let mut command = Command::new("tmux");
        let _ = command.arg("-S").arg(self.folder.path().join("tmux")).arg("kill-server").output();
    }
}

/// Reads the number in a column of the table, in the row of `stream`.
fn number(screen: &str, stream: &str, column: usize) -> Option<u64> {
    let row = screen.lines().find(|line| line.starts_with(stream))?;
    row[stream.len()..].split_whitespace().nth(column)?.parse().ok()
}

fn server(terminal: &TerminalUnderTest) -> (Ipv4Addr, Server) {
    let host = own_address();
    (host, Server::start(Place::Here, terminal.folder.path(), host, ""))
}

#[test]
fn both_directions_are_watched_and_the_test_ends_with_ctrl_c() {
    let Some(terminal) = TerminalUnderTest::new("both_directions_are_watched") else { return };
    let (host, server) = server(&terminal);
    terminal.jitlat("", &format!("{host} --bind {} -b --duration 10m -o both.log --live", own_address()));
    let received = |screen: &str| {
        let both = ["up", "down"].map(|stream| number(screen, stream, 0));
        both.iter().all(|n| n.is_some_and(|n| n > 0))
    };
    let screen = terminal.wait("packets of both directions", received);
    assert!(screen.contains("1 Overview") && screen.contains("one-way delay"), "{screen}");
    let pages = [("2", "cumulative share"), ("3", "packets received"), ("4", "packets"), ("?", "this help")];
    for (key, text) in pages {
        terminal.keys(&[key]);
        terminal.wait_for(text);
    }
    terminal.escape("this help");
    terminal.keys(&["Tab"]);
    terminal.wait("the first page", received);
    for (columns, rows) in [(60, 20), (120, 40), (80, 24)] {
        terminal.resize(columns, rows);
        terminal.wait("the new size", |screen| {
            let right =
                screen.lines().filter(|line| line.contains("lost →")).map(|line| line.chars().count()).next();
            let wanted = usize::from(columns) * if columns > 110 { 2 } else { 3 } / 3;
            right.is_some_and(|right| (wanted / 2..=wanted).contains(&right)) && received(screen)
        });
    }
    // The far host is stopped: the view reports that nothing arrives, until it continues.
    server.signal(Signal::SIGSTOP);
    terminal.wait_for("down: nothing received for");
    server.signal(Signal::SIGCONT);
    terminal.wait("packets again", |screen| !screen.contains("nothing received"));
    // Scrolls back in time while the test runs, and to the end again.
    terminal.keys(&["+", "+", "Left", ","]);
    terminal.wait_for("\nat ");
    terminal.keys(&["0"]);
    terminal.escape("\nat ");
    terminal.wait_for("one-way delay");
    terminal.keys(&["C-c"]);
    let screen = terminal.ended(0);
    assert!(screen.contains("stopped early"), "the report follows:\n{screen}");
    let logs = std::fs::read_dir(terminal.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let logs: Vec<_> = logs.filter(|path| path.to_string_lossy().contains("both.log")).collect();
    assert_eq!(logs.len(), 2, "{logs:?}");
    // A saved log can be scrolled; its report follows.
    let log = logs.iter().find(|log| log.to_string_lossy().contains("down")).unwrap_or(&logs[0]);
    terminal.jitlat("", &format!("-f {} --live", log.display()));
    terminal.wait_for("one-way delay");
    terminal.keys(&["+", ".", "."]);
    terminal.wait_for("at ");
    terminal.keys(&["3"]);
    terminal.wait_for("of 1");
    terminal.keys(&["q"]);
    terminal.wait("the end", |screen| screen.contains("ended "));
}

#[test]
fn the_terminal_is_given_back_whatever_ends_the_test() {
    let Some(terminal) = TerminalUnderTest::new("the_terminal_is_given_back") else { return };
    let (host, mut server) = server(&terminal);
    let test = |arguments: &str| {
        terminal.jitlat("", &format!("{host} --no-log --live {arguments}"));
        terminal.wait("packets", |screen| number(screen, "down", 0).is_some_and(|n| n > 0));
    };
    test("-R --duration 10m");
    terminal.signal(Signal::SIGTERM);
    terminal.ended(0);
    test("-R -n 100");
    terminal.ended(0);
    test("-R --duration 10m");
    server.kill();
    terminal.wait("the end without a server", |screen| screen.contains("ended "));
    terminal.ended(2);
}

/// A window is closed, or a connection breaks: the test ends, and its recorded packets are stored.
#[test]
fn a_terminal_that_vanishes_ends_the_test() {
    let Some(terminal) = TerminalUnderTest::new("a_terminal_that_vanishes") else { return };
    let (host, _server) = server(&terminal);
    terminal.jitlat("", &format!("{host} -R --duration 10m -o test.log --live"));
    terminal.wait("packets", |screen| number(screen, "down", 0).is_some_and(|n| n > 0));
    let pid = std::fs::read_to_string(terminal.folder.path().join("pid")).unwrap();
    terminal.tmux(&["kill-server"]);
    // If nobody waits for the process, it stays in the kernel's list without a command.
    let command = || std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
    jitlat_waiting::until("its end without a terminal", TIMEOUT, || command().is_empty());
    let mut files = std::fs::read_dir(terminal.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let log = files.find(|path| path.to_string_lossy().contains("test.log")).expect("a log");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("# rows ") && log.contains("# ending interrupted"), "{log}");
}

#[test]
fn many_targets_are_one_table() {
    let Some(terminal) = TerminalUnderTest::new("many_targets_are_one_table") else { return };
    let (host, _server) = server(&terminal);
    let nobody = own_address();
    terminal.jitlat("", &format!("ping {host} {nobody} host.invalid --proto stamp --duration 10m --live"));
    let answered = |screen: &str| {
        screen.contains("3 targets") && number(screen, &host.to_string(), 1) == Some(0) || {
            let row = screen.lines().find(|line| line.starts_with(&host.to_string()));
            row.is_some_and(|row| row.contains(" µs") || row.contains(" ms"))
        }
    };
    terminal.wait("answers", answered);
    terminal.wait_for("cannot find an address of host.invalid");
    terminal.keys(&["s"]);
    terminal.wait_for("↑sent");
    terminal.keys(&["PPage", "NPage", "PPage", "Enter"]);
    terminal.wait_for("1 Targets");
    terminal.keys(&["q"]);
    let screen = terminal.ended(2);
    assert!(screen.contains("not measured") && screen.contains("host.invalid"), "{screen}");
}

#[test]
fn terminals_that_cannot_be_drawn_on_get_lines_and_pipes_a_refusal() {
    let Some(terminal) = TerminalUnderTest::new("terminals_that_cannot_be_drawn_on") else { return };
    let (host, _server) = server(&terminal);
    terminal.jitlat("env TERM=dumb", &format!("{host} -n 150 -q --no-log --live"));
    terminal.wait_for("of 150 sent");
    let screen = terminal.ended(0);
    assert!(screen.contains("TERM=dumb"), "{screen}");
    terminal.jitlat("env NO_COLOR=1", &format!("{host} -R --duration 10m --no-log --live"));
    terminal.wait("packets", |screen| number(screen, "down", 0).is_some_and(|n| n > 0));
    let painted = terminal.tmux(&["capture-pane", "-p", "-e"]).stdout;
    let painted = String::from_utf8_lossy(&painted).into_owned();
    let coloured = |code: &str| ["3", "9"].iter().any(|first| code.starts_with(first) && code.len() == 2);
    let codes = painted.split("\u{1b}[").skip(1).filter_map(|rest| rest.split_once('m'));
    assert!(!codes.flat_map(|(codes, _)| codes.split(';')).any(|c| coloured(c) && c != "39"), "{painted:?}");
    terminal.keys(&["q"]);
    terminal.ended(0);
    let piped = Running::start(Place::Here.jitlat(terminal.folder.path(), &format!("{host} -n 5 --live")));
    piped.finish(TIMEOUT).refused(&["--live", "standard output"]);
}
