//! Runs every `console` block of README and docs/guide, so that their contents stay true.
//!
//! In a block, lines that begin with `$ ` are commands for one shell, the others are their output; `...` alone on a
//! line stands for any lines, `[..]` within a line for any text. Blocks run in an empty folder in which `testdata` is
//! the repository's. The address 127.77.0.1 is replaced by one that no other run of this test uses. A fence of `
//! ```console no-run ` is not run.

use crate::network;
use crate::side_by_side;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Seconds that a block may take; then its output so far is compared.
const LIMIT: &str = "120";
/// Pages whose blocks run at a time: they wait more than they compute.
const AT_A_TIME: usize = 4;
/// How long the processes of a block may take to be gone.
const GONE: Duration = Duration::from_secs(20);

#[test]
fn shown_sessions_are_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut pages = vec![root.join("README.md")];
    pages.extend(fs::read_dir(root.join("docs/guide")).unwrap().map(|e| e.unwrap().path()));
    pages.retain(|page| page.extension().is_some_and(|e| e == "md"));
    let blocks = AtomicUsize::new(0);
    side_by_side::side_by_side(AT_A_TIME, &pages, |page| {
        let address = network::own_address().to_string();
        for block in console_blocks(&fs::read_to_string(page).unwrap().replace("127.77.0.1", &address)) {
            run(page, &block, &root);
            blocks.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(blocks.into_inner() > 0, "no console block was found: is this test looking in the right place?");
}

/// The processes of one block, including a server in the background; killed when dropped.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // None is left if the block started nothing. A server that is still being ended has its ports, which that of the
        // next block wants.
        jitlat_waiting::within(GONE, || killpg(self.0, Signal::SIGKILL).is_err());
    }
}

/// A command with its expected output.
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

fn console_blocks(page: &str) -> Vec<Vec<Step>> {
    let mut blocks = Vec::new();
    let mut block: Option<Vec<Step>> = None;
    for (number, line) in page.lines().enumerate() {
        match &mut block {
            None if line.trim() == "```console" => block = Some(Vec::new()),
            None => {}
            Some(_) if line.trim() == "```" => blocks.extend(block.take()),
            Some(steps) => match line.strip_prefix("$ ") {
                Some(command) => {
                    steps.push(Step { line: number + 1, command: command.to_owned(), expected: Vec::new() });
                }
                None => {
                    let step = steps.last_mut().expect("a console block begins with a command");
                    step.expected.push(line.trim_end().to_owned());
                }
            },
        }
    }
    blocks
}

fn run(page: &Path, steps: &[Step], root: &Path) {
    const MARK: &str = "-- end of step --";
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root.join("testdata"), folder.path().join("testdata")).unwrap();
    let script: String =
        steps.iter().map(|s| format!("{{ {}\n}} 2>&1\necho '{MARK}'\n", s.command)).collect();
    let binaries = PathBuf::from(env!("CARGO_BIN_EXE_jitlat")).parent().unwrap().to_owned();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let shell = Command::new("timeout")
        .args(["-k", "5", LIMIT, "sh", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", path)
        .envs([("LC_ALL", "C.UTF-8"), ("TERM", "xterm"), ("COLUMNS", "80")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let background = Group(Pid::from_raw(shell.id() as i32));
    let output = shell.wait_with_output().unwrap();
    let took = begun.elapsed();
    drop(background);
    let printed = String::from_utf8_lossy(&output.stdout);
    let mark = format!("{MARK}\n");
    let mut actual = printed.split(&mark);
    for step in steps {
        let actual: Vec<&str> = actual.next().unwrap_or_default().lines().map(str::trim_end).collect();
        let expected: Vec<&str> = step.expected.iter().map(String::as_str).collect();
        if lines_match(&expected, &actual) {
            continue;
        }
        // Whatever could explain it: a block may fail because of what an earlier step left behind, or on a busy machine.
        let shown: Vec<String> =
            steps.iter().map(|s| format!("$ {}\n{}", s.command, s.expected.join("\n"))).collect();
        panic!(
            "{}:{}: $ {}\n--- shown\n{}\n--- printed\n{}\n\
             --- the whole block, as shown\n{}\n--- as printed ({}, {took:.1?} of {LIMIT} s)\n{printed}\n\
             --- files left\n{}\n--- this machine\n{}",
            page.display(),
            step.line,
            step.command,
            expected.join("\n"),
            actual.join("\n"),
            shown.join("\n"),
            output.status,
            files(folder.path()),
            fs::read_to_string("/proc/loadavg").unwrap_or_default(),
        );
    }
}

/// Name and size of each file that a block left, and the text of the small ones.
fn files(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let describe = |entry: fs::DirEntry| {
        let path = entry.path();
        let bytes = path.metadata().ok().filter(fs::Metadata::is_file)?.len();
        let text = fs::read_to_string(&path).ok().filter(|_| bytes < 4000).unwrap_or_default();
        Some(format!("{}: {bytes} bytes\n{text}", path.display()))
    };
    entries.filter_map(describe).collect::<Vec<_>>().join("\n")
}

fn lines_match(expected: &[&str], actual: &[&str]) -> bool {
    match expected {
        [] => actual.is_empty(),
        ["...", rest @ ..] => (0..=actual.len()).any(|skip| lines_match(rest, &actual[skip..])),
        [first, rest @ ..] => {
            actual.first().is_some_and(|line| line_matches(first, line)) && lines_match(rest, &actual[1..])
        }
    }
}

fn line_matches(expected: &str, actual: &str) -> bool {
    let mut parts = expected.split("[..]");
    let Some(mut rest) = actual.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn the_matcher_can_fail() {
    assert!(lines_match(&["a [..] c", "...", "z"], &["a b c", "d", "e", "z"]));
    assert!(!lines_match(&["a [..] c"], &["a b d"]));
    assert!(!lines_match(&["a"], &["a", "b"]));
    assert!(!lines_match(&["a", "b"], &["a"]));
    assert!(line_matches("[..]x[..]y", "1x2y") && !line_matches("[..]x[..]y", "1y2x"));
}
