//! The manual pages and the shells' completions contain every command and option in `--help`.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");

fn jitlat(arguments: &[&str]) -> String {
    let output = Command::new(JITLAT).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Lists the commands in the help of the main command.
fn commands() -> Vec<String> {
    let help = jitlat(&["--help"]);
    let list = help.split_once("\nCommands:\n").expect("a list of commands").1;
    let indented = list.lines().take_while(|line| line.starts_with("  "));
    let names = indented.filter(|line| !line.starts_with("   ")).filter_map(|l| l.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Lists the options with a description in a help text.
fn options(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let parts =
        lines.flat_map(|line| line.split(&[' ', ',', '.', '[', '=', '\u{a0}']).take(3).map(str::to_owned));
    parts.filter(|word| word.starts_with("--") && word.len() > 2).collect()
}

#[test]
fn each_command_has_a_page_with_each_option() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("not/yet/there");
    jitlat(&["man", pages.to_str().unwrap()]);
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    for command in &commands {
        let page = fs::read_to_string(pages.join(format!("jitlat-{command}.1"))).unwrap().replace(r"\-", "-");
        let options = options(&jitlat(&[command, "--help"]));
        assert!(options.contains("--help"), "{command}: {options:?}");
        for option in options {
            assert!(
                page.contains(&format!(r"\fB{option}\fR")),
                "jitlat-{command}.1 does not contain {option}"
            );
        }
        assert!(page.contains(&format!("\n.SH SYNOPSIS\n\\fBjitlat {command}\\fR")), "{page}");
        for other in commands.iter().filter(|other| *other != command) {
            assert!(page.contains(&format!(r"\fBjitlat-{other}\fR(1)")), "jitlat-{command}.1: {other}");
        }
    }
    let root = fs::read_to_string(pages.join("jitlat.1")).unwrap().replace(r"\-", "-");
    for option in options(&jitlat(&["--help"])) {
        assert!(root.contains(&format!(r"\fB{option}\fR")), "jitlat.1 does not contain {option}");
    }
    assert!(root.contains("jitlat-serve(1)") && root.contains("Exit status"), "{root}");
    assert_eq!(fs::read_dir(&pages).unwrap().count(), commands.len() + 1, "a page of no command");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let output = Command::new(JITLAT).args(["man", "/dev/null/pages"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/null/pages"));
}

#[test]
fn shells_know_each_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = jitlat(&["completions", shell]);
        for command in commands() {
            assert!(script.contains(&command), "{shell} does not know {command}");
        }
    }
}

#[test]
fn bash_completes() {
    let complete = |typed: &str| {
        let script = format!(
            "eval \"$(\"$0\" completions bash)\"\nCOMP_WORDS=(jitlat {typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _jitlat jitlat \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let output =
            Command::new("bash").args(["-c", &script, JITLAT]).stdin(Stdio::null()).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        printed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("ser"), ["serve"]);
    assert_eq!(complete("serve --no-cl"), ["--no-classic"]);
    assert!(complete("ping --proto ''").contains(&"stamp".to_owned()));
}
