//! `jitlat archive stream` and `publish`: results and tables for other systems, whatever fails in between.

use crate::schema;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn jitlat(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .current_dir(folder)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// An archive `net` of five tests.
fn archive(folder: &Path) {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let mut logs: Vec<String> = fs::read_dir(testdata.join("verdicts"))
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .filter(|path| path.ends_with(".log"))
        .collect();
    logs.sort();
    logs.truncate(5);
    let add = ["archive", "add", "net"].into_iter().chain(logs.iter().map(String::as_str));
    assert!(jitlat(folder, &add.collect::<Vec<_>>()).status.success());
}

/// Runs `archive stream` with a shell command as destination.
fn stream(folder: &Path, options: &[&str], shell: &str) -> Output {
    let all = ["archive", "stream", "net"].iter().chain(options).copied().chain(["--", "sh", "-c", shell]);
    jitlat(folder, &all.collect::<Vec<_>>())
}

fn lines(folder: &Path, name: &str) -> Vec<String> {
    fs::read_to_string(folder.join(name)).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn every_result_is_sent_at_least_once_by_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    archive(folder);
    // The third message arrives, but its arrival is not confirmed.
    let shell = "cat >> got; echo x >> runs; test $(wc -l < runs) != 3";
    let options = ["--as", "keyed-json", "--state", "sent", "--batch", "1"];
    let first = stream(folder, &options, shell);
    assert_eq!(first.status.code(), Some(2));
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(said.contains("sh did not accept a message") && said.contains("2 tests sent"), "{said}");
    let second = stream(folder, &options, shell);
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    assert!(String::from_utf8_lossy(&second.stdout).contains("3 tests sent"));
    let got = lines(folder, "got");
    assert_eq!(got.len(), 6, "one is repeated");
    assert_eq!(got[2], got[3], "byte for byte");
    let keys: BTreeSet<&str> = got.iter().map(|line| line.split_once('\t').unwrap().0).collect();
    assert_eq!(keys.len(), 5);
    for line in &got {
        let (key, value) = line.split_once('\t').unwrap();
        let value: Value = serde_json::from_str(value).unwrap();
        assert_eq!(value["hash"], key);
        schema::assert_valid("archive-result", &value);
    }
    // Nothing is left, and with --new nothing old is sent.
    for (options, expected) in [(vec!["--state", "sent"], 6), (vec!["--state", "other", "--new"], 6)] {
        assert!(stream(folder, &options, "cat >> got").status.success());
        assert_eq!(lines(folder, "got").len(), expected);
    }
    assert!(folder.join("other").exists(), "the next run continues from here");
}

#[test]
fn a_command_that_reads_nothing_has_not_accepted_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    archive(folder);
    // More than a pipe can hold.
    let done = stream(folder, &["--as", "otlp", "--state", "sent"], "exit 0");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("before it had read the whole message"), "{said}");
    assert!(!folder.join("sent").exists());
    let missing = jitlat(folder, &["archive", "stream", "net", "--state", "sent", "--", "no-such-program"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no-such-program"));
}

#[test]
fn a_state_belongs_to_one_archive() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    archive(folder);
    fs::write(folder.join("sent"), "{\"entered\":3,\"test\":\"0000000000000001\"}").unwrap();
    let done = stream(folder, &["--state", "sent"], "cat > got");
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("belongs to another archive"));
    assert!(!folder.join("got").exists());
}

#[test]
fn the_manifest_of_a_lake_is_what_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    archive(folder);
    assert!(jitlat(folder, &["archive", "publish", "net", "lake"]).status.success());
    let text = fs::read(folder.join("lake/manifests/net.json")).unwrap();
    schema::assert_valid("lake-manifest", &serde_json::from_slice::<Value>(&text).unwrap());
    let bad = jitlat(folder, &["archive", "publish", "net", "lake", "--name", "../net"]);
    assert!(String::from_utf8_lossy(&bad.stderr).contains("cannot be the name"));
    let inside = jitlat(folder, &["archive", "publish", "net", "net/packets/lake"]);
    assert!(String::from_utf8_lossy(&inside.stderr).contains("is in the archive net"));
}
