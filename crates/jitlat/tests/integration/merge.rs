//! `jitlat analyze --merge` and `--state`: parts of a test, several tests, saved states.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

fn jitlat(dir: &Path, line: &str) -> Output {
    let arguments = line.split_whitespace();
    let command = Command::new(env!("CARGO_BIN_EXE_jitlat")).current_dir(dir).args(arguments).output();
    command.expect("the binary runs")
}

/// Returns the JSON object that `line` prints, without warnings about the files, because a part of a log has its own
/// gaps.
fn json(dir: &Path, line: &str) -> Value {
    let output = jitlat(dir, &format!("{line} --json -"));
    assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let mut object: Value = serde_json::from_slice(&output.stdout).unwrap();
    object["warnings"].as_array_mut().unwrap().retain(|warning| warning["code"] != "log");
    object
}

/// Fails with the keys in which two summaries differ.
#[track_caller]
fn assert_same(a: &Value, b: &Value) {
    let (a, b) = (a.as_object().unwrap(), b.as_object().unwrap());
    let different: Vec<&String> = a.keys().chain(b.keys()).filter(|key| a.get(*key) != b.get(*key)).collect();
    assert!(different.is_empty(), "{different:?} differ");
}

/// Creates a folder with a whole golden log, and its rows in three parts.
fn parts() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(data("b_wan_lossy_v1.log")).unwrap();
    let (head, rows): (Vec<&str>, Vec<&str>) = text.lines().partition(|l| l.starts_with('#'));
    let write = |name: &str, rows: &[&str]| {
        fs::write(dir.path().join(name), [&head, rows].concat().join("\n") + "\n").unwrap();
    };
    write("whole.log", &rows);
    write("1.log", &rows[..100]);
    write("2.log", &rows[100..777]);
    write("3.log", &rows[777..]);
    dir
}

#[test]
fn parts_of_a_test_are_the_whole_from_logs_and_from_states() {
    let dir = parts();
    let dir = dir.path();
    let whole = json(dir, "analyze whole.log");
    assert_same(&json(dir, "analyze 1.log 2.log 3.log --merge"), &whole);
    // A state that is continued in the same file.
    jitlat(dir, "analyze 1.log --state day.state");
    assert!(dir.join("day.state").exists());
    json(dir, "analyze day.state 2.log --merge --state day.state");
    assert_same(&json(dir, "analyze day.state 3.log --merge --state day.state"), &whole);
    assert_same(&json(dir, "analyze day.state"), &whole);
    // Options of the analysis also apply when a state is read.
    let windows = json(dir, "analyze day.state --interval 5s");
    assert_eq!(windows["intervals"], json(dir, "analyze whole.log --interval 5s")["intervals"]);
}

#[test]
fn parts_of_a_test_are_the_whole_in_constant_memory() {
    let dir = parts();
    let dir = dir.path();
    let whole = json(dir, "analyze whole.log --streaming");
    assert_same(&json(dir, "analyze 1.log 2.log 3.log --merge --streaming"), &whole);
    // Nothing is lost if the analysis is saved to a file in between.
    jitlat(dir, "analyze 1.log --streaming --state day.state");
    json(dir, "analyze day.state 2.log --merge --streaming --state day.state");
    assert_same(&json(dir, "analyze day.state 3.log --merge --streaming --state day.state"), &whole);
    assert_same(&json(dir, "analyze day.state"), &whole);
    // Parts that were analysed separately, in constant memory or not.
    for n in [2, 3] {
        jitlat(dir, &format!("analyze {n}.log --streaming --state {n}.state"));
    }
    jitlat(dir, "analyze 1.log --state 1.state");
    assert_same(&json(dir, "analyze 1.state 2.state 3.state --merge"), &whole);
    assert_same(&json(dir, "analyze 1.log 2.state 3.log --merge"), &whole);
    // A state contains every packet, no matter what follows.
    jitlat(dir, "analyze 1.log --state 1.state");
    let exact = json(dir, "analyze whole.log");
    assert_same(&json(dir, "analyze 1.state 2.log 3.log --merge --streaming"), &exact);
}

#[test]
fn several_tests_are_one_after_another() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text = fs::read_to_string(data("b_wan_lossy_v1.log")).unwrap();
    fs::write(dir.join("a.log"), &text).unwrap();
    // The first line is the beginning of the test.
    let other = text.split_once('\n').unwrap().1;
    fs::write(dir.join("b.log"), format!("# Mon Mar 14 07:06:40 UTC 2011\n{other}")).unwrap();
    let (one, both) = (json(dir, "analyze a.log"), json(dir, "analyze a.log b.log --merge"));
    for key in ["sent", "received", "lost", "duplicate", "invalid"] {
        let count = |of: &Value| of["counts"][key].as_u64().unwrap();
        assert_eq!(count(&both), 2 * count(&one), "{key}");
    }
    assert_eq!(both["latency"]["min"], one["latency"]["min"]);
    assert_eq!(both["session"]["tags"]["tests"], "2");
    // This is impossible in constant memory.
    jitlat(dir, "analyze a.log --streaming --state a.state");
    let output = jitlat(dir, "analyze a.state b.log --merge");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("only parts of the same test"), "{said}");
}

#[test]
fn what_cannot_be_merged_or_read_is_said_so() {
    let dir = parts();
    let dir = dir.path();
    fs::copy(data("d_edge_small_v1.log"), dir.join("other.log")).unwrap();
    jitlat(dir, "analyze whole.log --state whole.state");
    jitlat(dir, "analyze whole.log --streaming --state streaming.state");
    let mut bytes = fs::read(dir.join("whole.state")).unwrap();
    fs::write(dir.join("short.state"), &bytes[..bytes.len() / 2]).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(dir.join("changed.state"), &bytes).unwrap();
    fs::write(dir.join("new.state"), "# jitlat state 9\nwhatever").unwrap();
    for (line, phrase) in [
        ("analyze whole.log other.log --merge", "do not have the same traffic"),
        ("analyze short.state", "damaged"),
        ("analyze changed.state", "damaged"),
        ("analyze new.state", "version 9"),
        ("analyze whole.state --csv -", "needs the rows of a single log"),
        ("analyze 1.log 2.log --state x.state", "give one log, or --merge"),
        ("analyze whole.log other.log --merge --streaming", "belongs to another test"),
        (
            "analyze streaming.state --as hdr",
            "--as hdr needs all packets, but streaming.state was analysed in constant memory",
        ),
        ("analyze streaming.state --within 1ms", "--within needs all packets"),
        ("analyze whole.log --state /nonexistent/x.state", "/nonexistent/x.state"),
    ] {
        let output = jitlat(dir, line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(phrase), "{line}: {said}");
    }
}
