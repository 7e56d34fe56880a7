//! `jitlat archive`: tests come out as they went in, even if a writer is killed.

use crate::schema;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn jitlat(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jitlat")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = jitlat(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn known_logs() -> Vec<PathBuf> {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let mut logs = Vec::new();
    for folder in [testdata.clone(), testdata.join("verdicts"), testdata.join("compare")] {
        logs.extend(fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()));
    }
    logs.retain(|log| log.extension().is_some_and(|e| e == "log"));
    logs.sort();
    assert!(logs.len() > 30);
    logs
}

/// Writes a log of `packets` packets, different for each `seed`.
fn write_log(folder: &Path, seed: u64, packets: u64) -> PathBuf {
    let log =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/a_loopback_v1.log"))
            .unwrap();
    let header: String = log.lines().take_while(|l| l.starts_with('#')).map(|l| format!("{l}\n")).collect();
    let row = |i: u64| {
        let sent = 1_300_000_000_000_000_000 + i * 20_000_000;
        format!("{i} {sent} {i} {} 0\n", sent + 1_000_000 + (i * 7919 + seed * 31) % 99_991)
    };
    let path = folder.join(format!("{seed}.log"));
    fs::write(&path, header + &(0..packets).map(row).collect::<String>()).unwrap();
    path
}

fn ids(archive: &str) -> Vec<String> {
    let list = stdout(&["archive", "ls", archive, "--csv"]);
    list.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect()
}

#[test]
fn every_command_reads_a_test_of_an_archive_as_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("a");
    let root = archive.to_str().unwrap();
    for log in known_logs() {
        let log = log.to_str().unwrap();
        let id = stdout(&["archive", "add", root, log])[..16].to_owned();
        let archived = archive.join(&id);
        let archived = archived.to_str().unwrap();
        let (theirs, mine) = (jitlat(&["-f", log, "--json", "-"]), jitlat(&["-f", archived, "--json", "-"]));
        assert_eq!(theirs.status.code(), mine.status.code(), "{log}");
        assert!(theirs.stdout == mine.stdout, "{log}");
    }
    let list = stdout(&["archive", "ls", root, "--csv"]);
    let found = |log: &str| {
        let line = list.lines().find(|line| line.contains(&format!(",{log},"))).unwrap();
        archive.join(&line[..16]).to_str().unwrap().to_owned()
    };
    let (archived, other) = (&found("20tcp-be.log"), &found("1tcp-be.log"));
    let id = archived.rsplit('/').next().unwrap();
    let rows = stdout(&["-f", archived, "--csv", "-"]);
    assert!(rows.lines().count() > 5, "{rows}");
    stdout(&["compare", archived, other]);
    stdout(&["archive", "show", root, &id[..6]]);
    let logs = folder.path().join("logs");
    stdout(&["archive", "export", root, logs.to_str().unwrap()]);
    assert_eq!(fs::read_dir(&logs).unwrap().count(), ids(root).len());
    assert!(stdout(&["archive", "fsck", root, "--logs"]).ends_with("clean\n"));
    // Analyses the packets again, and compares the catalogue's figures.
    let again = stdout(&["analyze", "--dataset", root, "--by", "path,day", "--jobs", "2"]);
    assert_eq!(again, stdout(&["analyze", "--dataset", root, "--by", "path,day", "--jobs", "1"]));
    assert!(again.lines().count() > 3, "{again}");
    dataset_obeys_or_refuses(root, &again);
    for bad in [
        vec!["-f", "/nowhere/0123"],
        vec!["archive", "ls", "/nowhere"],
        vec!["archive", "show", root, "zzzz"],
    ] {
        let output = jitlat(&bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
    }
}

/// Checks `analyze --dataset` of an archive whose groups by path and day are printed as `table`: every option of a
/// report has an effect, or is refused with the reason.
fn dataset_obeys_or_refuses(root: &str, table: &str) {
    let run =
        |options: &[&str]| jitlat(&[&["analyze", "--dataset", root, "--by", "path,day"], options].concat());
    let json: Value =
        serde_json::from_str(&stdout(&["analyze", "--dataset", root, "--by", "path,day", "--json", "-"]))
            .unwrap();
    schema::assert_valid("dataset", &json);
    let groups = json["groups"].as_array().unwrap();
    assert_eq!(
        (groups.len(), &json["by"], &json["failed"]),
        (table.lines().count() - 1, &json!(["path", "day"]), &json!(0))
    );
    assert!(
        groups.iter().all(|g| g["tests"].as_u64() > Some(0) && g["figures"]["sent"].as_f64() > Some(0.0))
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    let file = file.to_str().unwrap();
    let beside = run(&["--json", file]);
    assert_eq!(String::from_utf8_lossy(&beside.stdout), table);
    assert_eq!(serde_json::from_str::<Value>(&fs::read_to_string(file).unwrap()).unwrap(), json);
    for (condition, code) in [("sent>0", 1), ("sent<0", 0), ("loss>100%", 0), ("latency-mean>-1h", 1)] {
        let output = run(&["--fail-if", condition]);
        let failures =
            String::from_utf8_lossy(&output.stderr).lines().filter(|l| l.contains("failed: ")).count();
        assert_eq!((output.status.code(), failures > 0), (Some(code), code == 1), "{condition}");
    }
    let csv = stdout(&["analyze", "--dataset", root, "--by", "path,day", "--csv", "-"]);
    assert!(csv.starts_with("path,day,tests,sent,"), "{csv}");
    assert_eq!(csv.lines().count(), table.lines().count());
    for refused in [
        "--summary-csv x",
        "--openmetrics x",
        "--intervals x --interval 1s",
        "--hdr x",
        "--html x",
        "--plots x",
        "-C",
        "-L",
        "-v",
        "--text-plots",
        "-q",
        "--live",
        "--fail-if mos<3",
        "--fail-if up-loss>1%",
    ] {
        let output = run(&refused.split(' ').collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains("group"),
            "{refused}: {:?} {said}",
            output.status
        );
        assert!(output.stdout.is_empty() && !Path::new("x").exists(), "{refused}");
    }
}

#[test]
fn figures_of_selected_tests_are_printed_with_their_units() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("a");
    let root = archive.to_str().unwrap();
    let logs: Vec<PathBuf> = (1..25).map(|seed| write_log(folder.path(), seed, 100)).collect();
    for (k, log) in logs.iter().enumerate() {
        // A day apart.
        let text = fs::read_to_string(log).unwrap();
        fs::write(log, text.replacen("Jul 3 ", &format!("Jul {} ", k + 1), 1)).unwrap();
        let tag = if k % 2 == 0 { "half=even" } else { "half=odd" };
        stdout(&["archive", "add", root, log.to_str().unwrap(), "--tag", tag]);
        // Two collectors, which have some of the tests in common.
        let parts = [folder.path().join("first"), folder.path().join("second")];
        for (part, range) in parts.iter().zip([0..16, 8..24]) {
            if range.contains(&k) {
                stdout(&["archive", "add", part.to_str().unwrap(), log.to_str().unwrap(), "--tag", tag]);
            }
        }
    }
    let both = ["first", "second"].map(|part| folder.path().join(part).to_str().unwrap().to_owned());
    for verb in [&["ls"][..], &["query", "--figure", "pdv-p99,loss"], &["compare", "--before", "2009-07-13"]]
    {
        let of = |roots: &[&str]| stdout(&[&["archive", verb[0]], roots, &verb[1..]].concat());
        assert_eq!(of(&[&both[0], &both[1]]), of(&[root]), "{verb:?}");
    }
    let parsed = |args: &[&str]| -> Value { serde_json::from_str(&stdout(args)).unwrap() };
    let query = ["archive", "query", root, "--figure", "pdv-p99,loss", "--figure", "sent"];
    let json = parsed(&[&query[..], &["--json", "--tz", "Asia/Kolkata", "--tag", "half=odd"]].concat());
    schema::assert_valid("archive-query", &json);
    let units: Vec<&str> =
        json["figures"].as_array().unwrap().iter().map(|f| f["unit"].as_str().unwrap()).collect();
    assert_eq!((units, &json["tz"]), (vec!["ns", "ratio", "packets"], &json!("Asia/Kolkata")));
    let points = json["streams"][0]["points"].as_array().unwrap();
    assert_eq!(points.len(), 12);
    assert!(
        points.iter().all(|p| p["figures"]["sent"] == json!(2000.0) && p["figures"]["loss"] == json!(0.95))
    );
    // Midnight of India is 18:30 UTC.
    assert!(
        points.iter().all(|p| p["start_ns"].as_i64().unwrap() % 86_400_000_000_000 == 66_600_000_000_000)
    );
    let text = stdout(&[&query[..], &["--by", "all"]].concat());
    assert!(text.contains("all") && text.contains("pdv-p99") && text.contains("48000"), "{text}");
    let csv = stdout(&[&query[..], &["--by", "month", "--csv"]].concat());
    assert!(csv.lines().next().unwrap().ends_with(",tests,sent,pdv_p99_ns,loss_ratio"), "{csv}");
    let list = parsed(&["archive", "ls", root, "--json", "--figure", "loss"]);
    schema::assert_valid("archive-ls", &list);
    assert_eq!((&list["figures"][0]["unit"], list["tests"].as_array().unwrap().len()), (&json!("ratio"), 24));
    let severity = list["tests"][0]["severity"].as_str().unwrap();
    let of_severity =
        |name: &str| stdout(&["archive", "ls", root, "--csv", "--severity", name]).lines().count() - 1;
    let all: usize = ["good", "fair", "poor", "bad", "unknown"].map(of_severity).iter().sum();
    assert!(all == 24 && of_severity(severity) > 0);
    let middle = "2009-07-13";
    let compared = parsed(&["archive", "compare", root, "--before", middle, "--json"]);
    schema::assert_valid("archive-compare", &compared);
    let stream = &compared["streams"][0];
    let sizes = [&stream["before"]["tests"], &stream["after"]["tests"]].map(|n| n.as_u64().unwrap());
    assert_eq!(sizes.iter().sum::<u64>(), 24);
    let figures = stream["figures"].as_array().unwrap();
    let of = |key: &str| figures.iter().find(|f| f["key"] == key).unwrap();
    assert!(of("latency-mean")["change_low"].as_f64() < of("latency-mean")["change_high"].as_f64());
    assert_eq!(
        (&of("latency-mean")["outcome"], &of("latency-min")["outcome"]),
        (&json!("higher"), &json!("unknown"))
    );
    let text = stdout(&["archive", "compare", root, "--before", middle, "--figure", "latency-mean,loss"]);
    assert!(text.contains("95 % interval") && text.contains("higher"), "{text}");
    let would =
        stdout(&["archive", "prune", root, "--keep", "packets=30d", "--keep", "tests=30d", "--dry-run"]);
    assert!(
        would.starts_with("would remove the packets of 24 tests (24 files,")
            && would.ends_with(" and 24 tests\n")
    );
    assert_eq!(ids(root).len(), 24);
}

/// Number of times that a writer is killed: JITLAT_KILLS, or 8.
fn kills() -> u64 {
    std::env::var("JITLAT_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(8)
}

/// Pseudo-random numbers below 1 from a seed (JITLAT_SEED, or 1): splitmix64.
fn random() -> impl FnMut() -> f64 {
    let mut state: u64 = std::env::var("JITLAT_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Runs the command and kills it after `wait`, unless it has ended; returns its output until then.
fn killed_after(wait: Duration, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jitlat"));
    let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    jitlat_waiting::within(wait, || child.try_wait().unwrap().is_some());
    // The process may have ended already.
    let _ = child.kill();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// Number of received packets of all tests, according to the roll-ups of months.
fn packets_received(archive: &str) -> f64 {
    let found = stdout(&["archive", "query", archive, "--figure", "received", "--by", "month", "--csv"]);
    found.lines().skip(1).map(|row| row.rsplit(',').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[test]
fn a_writer_that_is_killed_leaves_nothing_torn_and_nothing_twice() {
    const PACKETS: u64 = 3000;
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("a");
    let root = archive.to_str().unwrap();
    let logs: Vec<PathBuf> = (0..6).map(|seed| write_log(folder.path(), seed, PACKETS)).collect();
    let names: Vec<&str> = logs.iter().map(|log| log.to_str().unwrap()).collect();
    let add = [&["archive", "add", root], &names[..]].concat();
    let compact = ["archive", "compact", root];
    let whole = {
        let begun = Instant::now();
        stdout(&[&["archive", "add", folder.path().join("first").to_str().unwrap()], &names[..]].concat());
        begun.elapsed()
    };
    stdout(&["archive", "add", root, names[0]]);
    let (mut random, mut interrupted, mut left) = (random(), 0, logs.len() - 1);
    for k in 0..kills() {
        let needed = whole.mul_f64(left as f64 / logs.len() as f64);
        let said = killed_after(needed.mul_f64(random()), &add);
        let added: Vec<&str> = said.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
        interrupted += u64::from(added.len() < logs.len());
        // Every fourth time, the process that compacts files is killed as well.
        if k % 4 == 3 {
            killed_after(whole.mul_f64(random() / 4.0), &compact);
        }
        let said = stdout(&["archive", "fsck", root, "--logs"]);
        assert!(said.ends_with("clean\n"), "kill {k}: {said}");
        let found = ids(root);
        let mut once = found.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), found.len(), "kill {k}");
        // Every test that was reported as added exists, and is counted once.
        for line in added {
            assert!(found.iter().any(|id| line.starts_with(id.as_str())), "kill {k}: {line}");
        }
        assert_eq!(packets_received(root), (found.len() as u64 * PACKETS) as f64, "kill {k}");
        left = logs.len() - found.len();
        if left == 0 {
            fs::remove_dir_all(&archive).unwrap();
            stdout(&["archive", "add", root, names[0]]);
            left = logs.len() - 1;
        }
    }
    stdout(&add);
    assert_eq!(ids(root).len(), logs.len());
    println!("{} writers killed, {interrupted} before they had said that all is added", kills());
}

#[test]
fn writers_wait_for_each_other_and_readers_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("a");
    let root = archive.to_str().unwrap();
    let logs: Vec<PathBuf> = (0..8).map(|seed| write_log(folder.path(), seed, 500)).collect();
    stdout(&["archive", "add", root, logs[0].to_str().unwrap()]);
    let spawn = |log: &PathBuf| {
        let add = ["archive", "add", root, log.to_str().unwrap()];
        Command::new(env!("CARGO_BIN_EXE_jitlat")).args(add).stdout(Stdio::null()).spawn().unwrap()
    };
    // Each log is added by two writers.
    let writers: Vec<_> = logs.iter().chain(&logs).map(spawn).collect();
    let seen = ids(root).len();
    assert!((1..=logs.len()).contains(&seen));
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    assert_eq!(ids(root).len(), logs.len());
    assert!(stdout(&["archive", "fsck", root, "--logs"]).ends_with("clean\n"));
}

#[test]
fn a_full_disk_is_said_and_nothing_torn_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    // More than one batch, and more than fits.
    let logs: Vec<PathBuf> = (0..600).map(|seed| write_log(folder.path(), seed, 50)).collect();
    let names: Vec<String> = logs.iter().map(|log| log.display().to_string()).collect();
    let script = format!(
        "mount -t tmpfs -o size=1m jitlat {small} || exit 77; {exe} archive add {small}/a {logs}; echo status $?; \
         {exe} archive ls {small}/a --csv; {exe} archive fsck {small}/a --logs",
        small = small.display(),
        exe = env!("CARGO_BIN_EXE_jitlat"),
        logs = names.join(" "),
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output();
    let needed = std::env::var_os("JITLAT_REQUIRE_PRIVILEGED").is_some();
    let output = match output {
        Ok(output) if output.status.code() != Some(77) && !output.stdout.is_empty() => output,
        other => {
            assert!(!needed, "a file system of its own needs root: {other:?}");
            eprintln!("skipped: a file system of its own needs root");
            return;
        }
    };
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("status 2"), "{said}{failed}");
    assert!(failed.contains("No space left on device") || failed.contains("full"), "{failed}");
    assert!(said.trim_end().ends_with("clean"), "{said}{failed}");
    let added = said.lines().take_while(|l| !l.starts_with("status")).count();
    let listed = said.lines().filter(|l| l.contains(",udp,") || l.contains(",tcp,")).count();
    assert!(added > 0 && added == listed && added < logs.len(), "{said}{failed}");
}
