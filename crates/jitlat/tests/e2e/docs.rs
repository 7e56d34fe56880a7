//! The sessions shown in the documentation are run, so that they stay true: every command of a `console`
//! block in docs/guide and the README, with `far.example` standing for a server of this test's own.
//!
//! Figures differ from run to run; the text around them may not. Of the output shown, every line must
//! come, in order, once numbers and their units are masked. A line `...` stands for any number of lines.

use crate::harness::*;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// One command and what the page shows of its output.
struct Step {
    command: String,
    shown: Vec<String>,
}

/// The commands of the `console` blocks of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            inside = !inside && language == "console";
        } else if inside && line.starts_with("$ ") {
            steps.push(Step { command: line[2..].to_owned(), shown: Vec::new() });
        } else if inside && let Some(step) = steps.last_mut() {
            step.shown.push(line.to_owned());
        }
    }
    steps
}

/// A line without its figures: numbers with their units, addresses, bars and spacing.
fn masked(line: &str) -> String {
    let mut out = String::new();
    for word in line.split_whitespace() {
        let core = word.trim_matches(|c: char| "(),;:[]=%".contains(c));
        let figure =
            core.chars().any(|c| c.is_ascii_digit()) && !core.starts_with(|c: char| c.is_ascii_alphabetic());
        let unit = matches!(core, "ns" | "us" | "µs" | "ms" | "s" | "kbps" | "Mbps" | "bps" | "ppm");
        let bar = !core.is_empty() && core.chars().all(|c| "#*|▏▎▍▌▋▊▉█·.-".contains(c));
        match () {
            _ if figure => out += "0 ",
            _ if unit || bar => {}
            _ => {
                out += word;
                out.push(' ');
            }
        }
    }
    out.trim_end().to_owned()
}

/// The first line shown that did not come, if any.
fn missing<'a>(shown: &'a [String], said: &str) -> Option<&'a str> {
    let mut lines = said.lines().map(masked);
    shown
        .iter()
        .filter(|l| l.as_str() != "..." && !masked(l).is_empty())
        .find(|l| !lines.any(|said| said == masked(l)))
        .map(String::as_str)
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_dir(root.join("docs/guide")).into_iter().flatten().flatten().map(|e| e.path());
    let mut pages: Vec<PathBuf> = guide.filter(|p| p.extension().is_some_and(|e| e == "md")).collect();
    pages.push(root.join("README.md"));
    pages.retain(|p| p.exists());
    pages.sort();
    pages
}

#[test]
fn every_command_shown_gives_what_is_shown() {
    for page in pages() {
        let steps = steps(&std::fs::read_to_string(&page).unwrap());
        if steps.is_empty() {
            continue;
        }
        let (folder, host) = (tempfile::tempdir().unwrap(), own_address());
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
        std::os::unix::fs::symlink(testdata.canonicalize().unwrap(), folder.path().join("testdata")).unwrap();
        let _server = Server::start(Place::Here, folder.path(), host, "");
        for Step { command, shown } in steps {
            // What is no run of this program (cargo, sysctl, a server in another window) is shown only.
            let Some(arguments) = command.strip_prefix("jitlat ").filter(|a| !a.starts_with("serve")) else {
                continue;
            };
            let arguments = arguments.replace("far.example", &host.to_string());
            let finished = Running::start(Place::Here.jitlat(folder.path(), &arguments)).finish(LIMIT);
            let said = finished.stdout.clone() + &finished.stderr;
            if let Some(line) = missing(&shown, &said) {
                panic!("{}: '{command}' no longer says\n{line}\nbut\n{said}", page.display());
            }
        }
    }
}

#[test]
fn figures_are_masked_and_words_are_not() {
    assert_eq!(
        masked("min/avg/max latency = 42.00 us / 74.50 us / 2.871 ms"),
        "min/avg/max latency = 0 / 0 / 0"
    );
    assert_eq!(masked("  0 lost (0.00%)"), "0 lost 0");
    assert_eq!(masked("99.9% = 483.2 us"), "0 = 0");
    let shown = |s: &str| s.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(missing(&shown("a 1\n...\nc 3 ms"), "a 2\nb\nc 9 us\n"), None);
    assert_eq!(missing(&shown("c 3\na 1"), "a 2\nb\nc 9\n"), Some("a 1"));
}

#[test]
fn blocks_are_taken_apart() {
    let page = "text\n```console\n$ jitlat a b\none\n\n$ jitlat c\n```\n```text\n$ jitlat no\n```\n";
    let steps: Vec<_> = steps(page).into_iter().map(|s| (s.command, s.shown)).collect();
    assert_eq!(
        steps,
        [("jitlat a b".into(), vec!["one".into(), String::new()]), ("jitlat c".into(), vec![])]
    );
}
