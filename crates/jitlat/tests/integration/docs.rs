//! Runs every `console` block of README and docs/guide, so that their contents stay true.
//!
//! In a block, lines that begin with `$ ` are commands for one shell, the others are their output; `...` alone on a
//! line stands for any lines, `[..]` within a line for any text. Blocks run in an empty folder in which `testdata` is
//! the repository's. The address 127.77.0.1 is replaced by one that no other run of this test uses. Blocks with
//! another fence than `console` are not run. A command that ends with `&` and whose output is not redirected is waited
//! for until it has printed as many lines as are shown.
//!
//! Below the comment `<!-- figures differ -->` only words are compared: three of four words on the page must be
//! printed. Numbers, words with a digit, units, drawings and the names of logs may differ. The same holds below `<!--
//! over NAME -->`; such a block measures over the emulated path `testdata/scenarios/NAME.txt`: its shell runs on the
//! host 192.0.2.10, and 192.0.2.80 at the far end runs `jitlat serve`.
//!
//! `UPDATE_SESSIONS=1` rewrites the outputs of such blocks, except those shortened with `...`. `PAGE=TEXT` selects
//! pages with this text in their path.

use crate::lab;
use crate::listening;
use crate::network;
use crate::side_by_side;
use crate::undisturbed::undisturbed;
use jitlat_net::emulator::Numbering;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::cell::RefCell;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time limit of a block in seconds; after it, the output so far is compared.
const LIMIT: &str = "120";
/// Number of pages whose blocks run at the same time: they wait more than they compute.
const AT_A_TIME: usize = 4;
/// Time limit for the processes of a block to end.
const GONE: Duration = Duration::from_secs(20);
/// The hosts of an emulated path, in a network that is reserved for documentation.
const NEAR: &str = "192.0.2.10";
const FAR: &str = "192.0.2.80";

#[test]
fn shown_sessions_are_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut pages = vec![root.join("README.md")];
    pages.extend(fs::read_dir(root.join("docs/guide")).unwrap().map(|e| e.unwrap().path()));
    pages.retain(|page| page.extension().is_some_and(|e| e == "md"));
    let only = std::env::var("PAGE").unwrap_or_default();
    pages.retain(|page| page.to_string_lossy().contains(&only));
    let blocks = AtomicUsize::new(0);
    side_by_side::side_by_side(AT_A_TIME, &pages, |page| {
        let address = network::own_address().to_string();
        let text = fs::read_to_string(page).unwrap();
        let mut printed = Vec::new();
        for block in console_blocks(&text.replace("127.77.0.1", &address)) {
            match &block.comparison {
                Comparison::Text => run(page, &block, &root),
                Comparison::Words => printed.extend(run_here(page, &block, &root, &address)),
                Comparison::WordsOver(path) => printed.extend(run_over(path, page, &block, &root)),
            }
            blocks.fetch_add(1, Ordering::Relaxed);
        }
        if std::env::var_os("UPDATE_SESSIONS").is_some() && !printed.is_empty() {
            fs::write(page, with_outputs(&text, &printed)).unwrap();
        }
    });
    assert!(blocks.into_inner() > 0, "no console block was found: is this test looking in the right place?");
}

/// Processes of one block, including a server in the background; killed when dropped.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // No process exists if the block started none. A server that is still ending holds its ports, which the
        // server of the next block needs.
        jitlat_waiting::within(GONE, || killpg(self.0, Signal::SIGKILL).is_err());
    }
}

/// Commands for one shell.
struct Block {
    steps: Vec<Step>,
    comparison: Comparison,
}

/// Part of the output that is compared.
enum Comparison {
    /// The whole text, with patterns.
    Text,
    /// Only words, because figures differ from run to run.
    Words,
    /// Only words, with output from a scenario of this name.
    WordsOver(String),
}

impl Comparison {
    /// Selects the comparison by the line before the fence of a block.
    fn of(line: &str) -> Comparison {
        match line.strip_prefix("<!-- ").and_then(|comment| comment.strip_suffix(" -->")) {
            Some("figures differ") => Comparison::Words,
            Some(comment) => match comment.strip_prefix("over ") {
                Some(path) => Comparison::WordsOver(path.to_owned()),
                None => panic!("a comment before a block that says nothing: {line}"),
            },
            None => Comparison::Text,
        }
    }
}

/// A command with its expected output.
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

impl Step {
    /// Returns the command for the shell. A background command prints its first lines, like on a terminal.
    fn script(&self) -> String {
        match self.command.strip_suffix('&') {
            Some(command) if !command.contains('>') => {
                let lines = self.expected.iter().filter(|line| *line != "...").count().max(1);
                let file = format!(".printed-{}", self.line);
                format!(
                    ": > {file}\n{command} > {file} 2>&1 &\nuntil [ $(wc -l < {file}) -ge {lines} ]; do sleep 0.1; done\n\
                     head -n {lines} {file}"
                )
            }
            _ => self.command.clone(),
        }
    }
}

/// The output of a block.
struct Ran {
    /// Printed lines of each step.
    printed: Vec<Vec<String>>,
    /// Information that could explain a failure.
    explanation: String,
}

fn console_blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut block: Option<Block> = None;
    let mut before = "";
    for (number, line) in page.lines().enumerate() {
        match &mut block {
            None if line.trim() == "```console" => {
                block = Some(Block { steps: Vec::new(), comparison: Comparison::of(before) });
            }
            None => before = line,
            Some(_) if line.trim() == "```" => blocks.extend(block.take()),
            Some(Block { steps, .. }) => match line.strip_prefix("$ ") {
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

/// Returns `page` with the outputs of its steps replaced; each output has the line number of its command. Outputs
/// shortened with `...` stay.
fn with_outputs(page: &str, outputs: &[(usize, Vec<String>)]) -> String {
    let mut lines: Vec<&str> = page.lines().collect();
    for (line, output) in outputs.iter().rev() {
        let shown = lines[*line..].iter().take_while(|l| !l.starts_with("$ ") && l.trim() != "```").count();
        let shown = *line..line + shown;
        if !lines[shown.clone()].contains(&"...") {
            lines.splice(shown, output.iter().map(String::as_str));
        }
    }
    lines.join("\n") + "\n"
}

/// Runs a block on this host, and compares its output exactly.
fn run(page: &Path, block: &Block, root: &Path) {
    let folder = folder(root);
    let ran = execute(Command::new("timeout"), folder.path(), block);
    for (step, printed) in block.steps.iter().zip(&ran.printed) {
        let actual: Vec<&str> = printed.iter().map(String::as_str).collect();
        let expected: Vec<&str> = step.expected.iter().map(String::as_str).collect();
        assert!(lines_match(&expected, &actual), "{}", failure(page, step, printed, &ran));
    }
}

/// Runs a block over the scenario `path`, and compares words. Returns the output of each command with its line
/// number; nothing without the privilege to make the path.
fn run_over(path: &str, page: &Path, block: &Block, root: &Path) -> Vec<(usize, Vec<String>)> {
    let Some(mut lab) = lab::lab("shown_sessions_are_true, over emulated paths,") else { return Vec::new() };
    lab.client.v4 = NEAR.parse().unwrap();
    lab.server.v4 = FAR.parse().unwrap();
    let scenario = fs::read_to_string(root.join("testdata/scenarios").join(path).with_extension("txt"));
    let scenario = scenario.unwrap_or_else(|e| panic!("{}: over {path}: {e}", page.display()));
    let measured = RefCell::new(Vec::new());
    undisturbed(|| {
        let _path = lab.tun(scenario.parse().unwrap(), Numbering::Sequence).unwrap();
        let folder = folder(root);
        let mut serve = lab.server.command(env!("CARGO_BIN_EXE_jitlat"));
        serve.args(["serve", "--bind", FAR]).current_dir(folder.path());
        let mut server = Server(serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        listening::wait_until_listening(&mut server.0, 1);
        let ran = execute(lab.client.command("timeout"), folder.path(), block);
        measured.replace(compare_words(page, block, ran));
    });
    measured.into_inner()
}

/// Runs a block on this host, and compares words. Returns the output of each command with its line number.
fn run_here(page: &Path, block: &Block, root: &Path, address: &str) -> Vec<(usize, Vec<String>)> {
    let measured = RefCell::new(Vec::new());
    undisturbed(|| {
        let folder = folder(root);
        let ran = execute(Command::new("timeout"), folder.path(), block);
        measured.replace(compare_words(page, block, ran));
    });
    let shown = |lines: Vec<String>| lines.iter().map(|line| line.replace(address, "127.77.0.1")).collect();
    measured.into_inner().into_iter().map(|(line, printed)| (line, shown(printed))).collect()
}

/// Checks that most words of the page were printed, unless the page is rewritten.
fn compare_words(page: &Path, block: &Block, ran: Ran) -> Vec<(usize, Vec<String>)> {
    for (step, printed) in block.steps.iter().zip(&ran.printed) {
        let alike = words_match(&step.expected.join("\n"), &printed.join("\n"));
        let compared = std::env::var_os("UPDATE_SESSIONS").is_none();
        assert!(alike || !compared, "{}", failure(page, step, printed, &ran));
    }
    block.steps.iter().map(|step| step.line).zip(ran.printed).collect()
}

/// A server at the far end of a path; killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates an empty folder with `testdata`.
fn folder(root: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root.join("testdata"), folder.path().join("testdata")).unwrap();
    folder
}

/// Runs the commands of a block in one shell. `timeout` is the program of this name, set up for the host where the
/// shell should run.
fn execute(mut timeout: Command, folder: &Path, block: &Block) -> Ran {
    const MARK: &str = "-- end of step --";
    let script: String =
        block.steps.iter().map(|s| format!("{{ {}\n}} 2>&1\necho '{MARK}'\n", s.script())).collect();
    let binaries = PathBuf::from(env!("CARGO_BIN_EXE_jitlat")).parent().unwrap().to_owned();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let shell = timeout
        .args(["-k", "5", LIMIT, "sh", "-c", &script])
        .current_dir(folder)
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
    let mut parts = printed.split(&mark);
    let lines = |part: &str| part.lines().map(|line| line.trim_end().to_owned()).collect();
    let by_step = block.steps.iter().map(|_| lines(parts.next().unwrap_or_default())).collect();
    // A block may fail because of leftovers of an earlier step, or on a busy machine: show what could explain it.
    let shown: Vec<String> =
        block.steps.iter().map(|s| format!("$ {}\n{}", s.command, s.expected.join("\n"))).collect();
    let explanation = format!(
        "--- the whole block, as shown\n{}\n--- as printed ({}, {took:.1?} of {LIMIT} s)\n{printed}\n\
         --- files left\n{}\n--- this machine\n{}",
        shown.join("\n"),
        output.status,
        files(folder),
        fs::read_to_string("/proc/loadavg").unwrap_or_default(),
    );
    Ran { printed: by_step, explanation }
}

fn failure(page: &Path, step: &Step, printed: &[String], ran: &Ran) -> String {
    format!(
        "{}:{}: $ {}\n--- shown\n{}\n--- printed\n{}\n{}",
        page.display(),
        step.line,
        step.command,
        step.expected.join("\n"),
        printed.join("\n"),
        ran.explanation,
    )
}

/// Lists name and size of each file that a block left, and the text of small ones.
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

/// Returns true if three of four words of `shown` are in `printed`, each as often: a screen folds lines to make room
/// for additional ones of a busy host.
fn words_match(shown: &str, printed: &str) -> bool {
    let shown = words(shown);
    let mut printed = words(printed);
    let mut take = |word: &&&str| printed.iter().position(|p| p == *word).map(|k| printed.swap_remove(k));
    let found = shown.iter().filter(|word| take(word).is_some()).count();
    4 * found >= 3 * shown.len()
}

/// Words of a text without numbers, words with a digit, units, and generated names of logs.
fn words(text: &str) -> Vec<&str> {
    const UNITS: [&str; 9] = ["ns", "us", "µs", "ms", "s", "min", "h", "k", "M"];
    let compared = |word: &&str| !word.starts_with("jitlat.") && !word.contains(|c: char| c.is_ascii_digit());
    let is_word = |part: &&str| part.contains(char::is_alphabetic) && !UNITS.contains(part);
    // Marks of lost packets.
    let is_mark = |part: &&str| part.chars().all(|c| "xX".contains(c));
    text.split_whitespace()
        .filter(compared)
        .flat_map(|word| word.split(|c: char| !c.is_alphabetic() && !"-_".contains(c)))
        .filter(|part| is_word(part) && !is_mark(part))
        .collect()
}

#[test]
fn most_words_must_be_printed() {
    let shown = "Why    poor: 3.9 % lost in 22 bursts\nto server ▁▁█ +93.9 ms";
    assert_eq!(words(shown), ["Why", "poor", "lost", "in", "bursts", "to", "server"]);
    assert!(words_match(shown, "Why  good: x\n poor: 41 % lost in 2\n bursts\nto server █ +1.2 us\nTrust"));
    assert!(words_match(shown, "Why    poor: 3.9 % lost in 22 runs\nto server ▁▁█ +93.9 ms"));
    assert!(!words_match(shown, "Why    poor: 3.9 % missing in 22 runs\nto server ▁▁█ +93.9 ms"));
    assert!(!words_match("to the server, to the client", "to the server"));
    assert!(words_match("Log    jitlat.vP1BXb\nNext   jitlat -f", "Log    jitlat.QkkZZa\nNext   jitlat -f"));
}

#[test]
fn outputs_of_a_page_are_replaced() {
    let page = "# A\n```console\n$ a\n1\n2\n$ b\n```\n\n```console\n$ c\n3\n$ d\n...\n4\n```\n";
    let output = |line: usize, text: &str| (line, vec![text.to_owned()]);
    let new = with_outputs(page, &[output(3, "x"), output(6, "y"), output(10, "z"), output(12, "w")]);
    assert_eq!(new, "# A\n```console\n$ a\nx\n$ b\ny\n```\n\n```console\n$ c\nz\n$ d\n...\n4\n```\n");
}

#[test]
fn the_matcher_can_fail() {
    assert!(lines_match(&["a [..] c", "...", "z"], &["a b c", "d", "e", "z"]));
    assert!(!lines_match(&["a [..] c"], &["a b d"]));
    assert!(!lines_match(&["a"], &["a", "b"]));
    assert!(!lines_match(&["a", "b"], &["a"]));
    assert!(line_matches("[..]x[..]y", "1x2y") && !line_matches("[..]x[..]y", "1y2x"));
}
