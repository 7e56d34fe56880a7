//! The table of natural mistakes in the guide: each row is run, and prints what the table says.

use crate::side_by_side::side_by_side;
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../../docs/guide/mistakes.md");

/// Returns the command and the text of each row.
fn rows() -> Vec<(&'static str, &'static str)> {
    let row = |line: &'static str| {
        let mut cells = line.strip_prefix("| `jitlat ")?.split("` | `");
        Some((cells.next()?, cells.next()?.split("` | ").next()?))
    };
    PAGE.lines().filter_map(row).collect()
}

/// True if `text` contains all parts of `pattern`, in this order. The parts are separated by `…`, which stands for any
/// text.
fn contains(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    pattern.split('…').all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[test]
fn natural_mistakes_print_what_the_guide_says() {
    let rows = rows();
    assert!(rows.len() >= 10, "{rows:?}");
    side_by_side(2, &rows, |(typed, said)| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_jitlat"));
        command.args(typed.split_whitespace()).current_dir(folder.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        // The table is Markdown, in which backquotes cannot be nested.
        let errors = String::from_utf8_lossy(&output.stderr).replace('`', "");
        assert!(contains(&errors, said), "jitlat {typed}: '{said}' is not in {errors}");
        let is_measured = output.status.success();
        assert!(is_measured || output.status.code() == Some(2), "jitlat {typed}: {:?}", output.status);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "jitlat {typed} left a file");
    });
}

/// Returns the command and the message of each row in the guide about other programs. Messages contain no backquotes.
fn rows_of_other_programs() -> Vec<(&'static str, String)> {
    let page = include_str!("../../../../docs/guide/other-programs.md");
    let row = |line: &'static str| {
        let (typed, said) = line.strip_prefix("| `jitlat as ")?.split_once("` | ")?;
        Some((typed, said.trim_end_matches(" |").replace('`', "")))
    };
    page.lines().filter_map(row).collect()
}

#[test]
fn mistakes_in_other_programs_command_lines_print_what_the_guide_says() {
    let rows = rows_of_other_programs();
    assert!(rows.len() >= 10, "{rows:?}");
    side_by_side(2, &rows, |(typed, said)| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jitlat"));
        command.arg("as").args(typed.split_whitespace()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).replace('`', "");
        assert!(contains(&errors, said), "jitlat as {typed}: '{said}' is not in {errors}");
        assert!(matches!(output.status.code(), Some(1 | 2)), "jitlat as {typed}: {:?}", output.status);
    });
}
