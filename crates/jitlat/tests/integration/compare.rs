//! `jitlat compare` as users run it: on logs, on JSON summaries, in groups, as a test in CI.

use crate::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name);
    path.to_str().expect("the repository's path is text").to_owned()
}

fn jitlat(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jitlat")).args(args).output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn proxy() -> [String; 2] {
    ["without", "with"].map(|w| format!("{w}={}", data(&format!("compare/{w}_proxy.log"))))
}

fn classes() -> Vec<String> {
    ["1tcp", "20tcp"]
        .iter()
        .flat_map(|load| ["ef", "be", "scavenger"].map(|class| data(&format!("compare/{load}-{class}.log"))))
        .collect()
}

/// Writes the JSON summary of a log to a file.
fn summary(dir: &Path, logs: &[&str]) -> PathBuf {
    let path = dir.join(format!("{}.json", logs.len()));
    let mut args = vec!["analyze"];
    args.extend(logs);
    let file = path.to_str().unwrap().to_owned();
    args.extend(["--json", &file]);
    assert!(jitlat(&args).status.success());
    path
}

#[test]
fn before_and_after_a_proxy() {
    let [without, with] = proxy();
    let output = jitlat(&["compare", "-v", &without, &with]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output));
}

#[test]
fn classes_by_load() {
    let files = classes();
    let mut args = vec!["compare", "-v", "--group-by", "tag:class", "--rows", "tag:load"];
    args.extend(files.iter().map(String::as_str));
    let output = jitlat(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output));
}

/// Returns the output of `line` in the folder of the test data; checks that it fits one screen.
fn one_screen(line: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .args(line.split(' '))
        .current_dir(data("compare"))
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = stdout(&output);
    let fits = page.lines().count() <= 23 && page.lines().all(|l| l.chars().count() <= 80);
    // The verdict line of -q is not wrapped.
    assert!(fits || line.ends_with("-q"), "{page}");
    page
}

#[test]
fn a_comparison_is_one_screen() {
    insta::assert_snapshot!(one_screen("compare without=without_proxy.log with=with_proxy.log"));
    let classes = "1tcp-be.log 1tcp-ef.log 1tcp-scavenger.log 20tcp-be.log 20tcp-ef.log 20tcp-scavenger.log";
    insta::assert_snapshot!("several_tests_are_one_screen", one_screen(&format!("compare {classes}")));
    let line = format!("compare {classes} --group-by tag:class --rows tag:load");
    insta::assert_snapshot!("rows_of_tests_are_one_screen", one_screen(&line));
    let brief = one_screen("compare 1tcp-be.log 20tcp-be.log -q");
    assert!(
        brief.lines().count() == 1 && brief.starts_with("Worse: 20tcp-be has 481 us more jitter"),
        "{brief}"
    );
}

#[test]
fn tests_along_a_number_are_one_screen_and_one_line() {
    let classes = "1tcp-be.log 1tcp-ef.log 1tcp-scavenger.log 20tcp-be.log 20tcp-ef.log 20tcp-scavenger.log";
    let line = format!("compare {classes} --along tag:load --group-by tag:class");
    let page = one_screen(&line);
    insta::assert_snapshot!("tests_along_a_number_are_one_screen", page);
    let brief = one_screen(&format!("{line} -q"));
    assert_eq!(brief.lines().count(), 1, "{brief}");
    // The line is the verdict with which the screen begins.
    let start: String = page.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
    assert!(brief.starts_with(&start), "{brief}{page}");
}

#[test]
fn an_answer_says_what_is_wrong_where_it_is_worse() {
    let [be, loaded] = ["1tcp-be", "20tcp-be"].map(|name| data(&format!("compare/{name}.log")));
    let output = jitlat(&["compare", &be, &loaded, "--json", "-"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let answer = &json["answer"];
    assert_eq!((&answer["severity"], &answer["complete"]), (&"poor".into(), &true.into()));
    assert_eq!(answer["causes"][0]["id"], "policing");
    assert!(answer["headline"].as_str().unwrap().starts_with("Worse: 20tcp-be has"), "{answer}");
    assert_eq!(json["rows"][0]["cells"][0]["answer"]["severity"], "good");
}

#[test]
fn summaries_compare() {
    let dir = tempfile::tempdir().unwrap();
    let logs = [data("compare/without_proxy.log"), data("compare/with_proxy.log")];
    // Both summaries in one file, as `analyze` writes several logs.
    let both = summary(dir.path(), &[&logs[0], &logs[1]]);
    let output = jitlat(&["compare", "-v", both.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output));
    // Summaries of older versions lack `comparable`, as do those made in constant memory: changes are only shown.
    let mut older: Value = serde_json::from_str(&std::fs::read_to_string(&both).unwrap()).unwrap();
    for run in older["runs"].as_array_mut().unwrap() {
        run.as_object_mut().unwrap().remove("comparable").unwrap();
    }
    let path = dir.path().join("older.json");
    std::fs::write(&path, older.to_string()).unwrap();
    let c = &compared(&[path.to_str().unwrap().to_owned()])[0];
    assert_eq!((&c["outcome"], &c["n"]), (&"undecided".into(), &serde_json::json!([0, 0])));
    assert!(c["p99"]["change"].as_f64().unwrap() < -3e9, "{c}");
}

/// Returns the comparisons that `jitlat compare FILES` makes.
fn compared(files: &[String]) -> Vec<Value> {
    let mut args = vec!["compare", "--json", "-"];
    args.extend(files.iter().map(String::as_str));
    let output = jitlat(&args);
    assert!(output.status.code().is_some_and(|c| c != 101), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::assert_valid("compare", &json);
    json["rows"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|r| r["comparisons"].as_array().unwrap().clone())
        .collect()
}

#[test]
fn summaries_give_the_verdicts_of_their_logs() {
    let dir = tempfile::tempdir().unwrap();
    let mut logs = classes();
    logs.extend(["compare/without_proxy.log", "compare/with_proxy.log"].map(data));
    logs.extend(
        ["a_loopback_v1.log", "b_wan_lossy_v1.log", "c_unsync_v2.log", "d_edge_small_v1.log"].map(data),
    );
    let summaries: Vec<String> = logs
        .iter()
        .zip(1..)
        .map(|(log, k)| {
            let file = dir.path().join(format!("{k}.json")).to_str().unwrap().to_owned();
            assert!(jitlat(&["analyze", log, "--json", &file]).status.success());
            file
        })
        .collect();
    let mut verdicts = std::collections::BTreeMap::<String, usize>::new();
    for first in [1, 9] {
        let from = |files: &[String]| {
            let mut files = files.to_vec();
            files.rotate_left(first);
            files
        };
        let (of_logs, of_summaries) = (compared(&from(&logs)), compared(&from(&summaries)));
        for (log, json) in of_logs.iter().zip(&of_summaries) {
            for key in ["outcome", "effect", "median", "p99", "loss", "n"] {
                close(&log[key], &json[key], key);
            }
            let delta = |c: &Value| c["cliffs_delta"].as_f64().unwrap();
            let error = json["cliffs_delta_error"].as_f64().unwrap();
            assert!((delta(log) - delta(json)).abs() <= error + 1e-9 && error < 0.01, "{json}");
            *verdicts.entry(log["outcome"].to_string()).or_default() += 1;
        }
    }
    assert_eq!(verdicts.values().sum::<usize>(), 22);
    assert!(verdicts.len() >= 2, "{verdicts:?}");
    // Compares a log with a summary.
    let of = |a: &str, b: &str| compared(&[format!("a={a}"), format!("b={b}")]).remove(0);
    let (expected, mixed) = (of(&logs[6], &logs[7]), of(&summaries[6], &logs[7]));
    for key in ["outcome", "median", "p99", "n"] {
        close(&expected[key], &mixed[key], key);
    }
}

/// Checks that values are equal, except for the last digits of the decimal representation.
fn close(a: &Value, b: &Value, key: &str) {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            let (x, y) = (x.as_f64().unwrap(), y.as_f64().unwrap());
            assert!((x - y).abs() <= 1e-3 + 1e-9 * x.abs(), "{key}: {x} and {y}");
        }
        (Value::Object(x), Value::Object(y)) => x.iter().for_each(|(k, v)| close(v, &y[k], key)),
        (Value::Array(x), Value::Array(y)) => x.iter().zip(y).for_each(|(x, y)| close(x, y, key)),
        _ => assert_eq!(a, b, "{key}"),
    }
}

#[test]
fn all_formats_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let [without, with] = proxy();
    let output = jitlat(&[
        "compare",
        &without,
        &with,
        "--csv",
        &file("t.csv"),
        "--html",
        &file("t.html"),
        "--plots",
        &file("plots"),
        "--json",
        "-",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let c = &json["rows"][0]["comparisons"][0];
    assert_eq!((&c["outcome"], &c["effect"]), (&Value::from("different"), &Value::from("large")));
    assert_eq!(json["rows"][0]["cells"][0]["column"], "without");
    let csv = std::fs::read_to_string(file("t.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[2].contains(",better,"), "{csv}");
    let html = std::fs::read_to_string(file("t.html")).unwrap();
    assert!(html.contains("with against without") && html.contains("id=\"figure-compare-jitter-cdf\""));
    let mut drawn: Vec<String> = std::fs::read_dir(file("plots"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    drawn.sort();
    assert_eq!(
        drawn,
        [
            "card.png",
            "card.svg",
            "compare-ipdv-cdf.png",
            "compare-ipdv-cdf.svg",
            "compare-jitter-cdf.png",
            "compare-jitter-cdf.svg",
            "compare-jitter.png",
            "compare-jitter.svg",
            "compare-latency-cdf.png",
            "compare-latency-cdf.svg",
            "compare-latency.png",
            "compare-latency.svg"
        ]
    );
}

#[test]
fn thresholds_make_it_a_test() {
    let [without, with] = proxy();
    let status = |a: &str, b: &str, condition: &str| {
        let output = jitlat(&["compare", a, b, "--fail-if", condition]);
        (output.status.code().unwrap(), stderr(&output))
    };
    for (condition, expected) in [
        ("worse", 0),
        ("different", 1),
        ("jitter-p99>+5ms", 0),
        ("jitter-p99<-50%", 1),
        ("jitter-max>1s", 1),
        ("jitter-max>1h", 0),
    ] {
        let (code, output) = status(&without, &with, condition);
        assert_eq!(code, expected, "{condition}: {output}");
        assert_eq!(output.is_empty(), expected == 0, "{condition}: {output}");
    }
    let (code, output) = status(&with, &without, "worse");
    assert_eq!((code, output.as_str()), (1, "jitlat: failed: without is worse than with\n"));
    assert_eq!(status(&with, &without, "jitter-p99>+20%").0, 1);
}

#[test]
fn a_side_that_loses_more_is_worse_for_the_headline_and_for_the_threshold() {
    let [before, after] =
        ["before", "after"].map(|when| format!("{when}={}", data(&format!("compare/loss_{when}.log"))));
    let compare =
        |a: &str, b: &str, condition: &str| jitlat(&["compare", "-q", a, b, "--fail-if", condition]);
    let worse = compare(&before, &after, "worse");
    assert!(
        stdout(&worse)
            .starts_with("Worse: after has 8.0 percentage points more loss (6.5 to 9.6) than before"),
        "{}",
        stdout(&worse)
    );
    assert_eq!(
        (worse.status.code(), stderr(&worse).as_str()),
        (Some(1), "jitlat: failed: after is worse than before\n")
    );
    let better = compare(&after, &before, "different");
    assert!(
        stdout(&better).starts_with("Better: before has 8.0 percentage points less loss"),
        "{}",
        stdout(&better)
    );
    let said = "jitlat: failed: before is different from after\n";
    assert_eq!((better.status.code(), stderr(&better).as_str()), (Some(1), said));
    let better = compare(&after, &before, "worse");
    assert_eq!((better.status.code(), stderr(&better)), (Some(0), String::new()));
}

/// 4 % of the packets are 106 ms later, the rest is equal.
#[test]
fn late_packets_are_seen_at_the_99th_percentile() {
    let [before, after] =
        ["before", "after"].map(|when| format!("{when}={}", data(&format!("compare/tail_{when}.log"))));
    let p99 = jitlat(&["compare", "-q", &before, &after, "--statistic", "p99", "--fail-if", "worse"]);
    assert!(
        stdout(&p99).starts_with("Worse: after has 106 ms more jitter at the 99th percentile ("),
        "{}",
        stdout(&p99)
    );
    assert_eq!(
        (p99.status.code(), stderr(&p99).as_str()),
        (Some(1), "jitlat: failed: after is worse than before\n")
    );
    let c = &compared(&[before, after])[0];
    assert_ne!(c["outcome"], "different", "the median is the same: {c}");
    assert!(c["tail"]["above"][1].as_f64().unwrap() > 0.04 && c["tail"]["effect"] == "large", "{c}");
}

#[test]
fn no_difference_is_said_with_what_is_possible() {
    let [a, b] = ["1tcp-ef", "1tcp-scavenger"].map(|name| data(&format!("compare/{name}.log")));
    let jitlat_with = |margins: &[&str]| {
        let output = jitlat(&[&["compare", "-q", &a, &b], margins].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let open = jitlat_with(&[]);
    assert!(
        open.starts_with("No difference found between 1tcp-ef and 1tcp-scavenger; differences up to"),
        "{open}"
    );
    assert!(open.contains("percentage points in loss are possible."), "{open}");
    let wide = jitlat_with(&["--margin", "5ms", "--loss-margin", "5%"]);
    assert!(wide.starts_with("Same: 1tcp-ef and 1tcp-scavenger differ by at most"), "{wide}");
    let bad = jitlat(&["compare", &a, &b, "--margin", "-1%"]);
    assert_eq!(bad.status.code(), Some(2));
}

#[test]
fn what_cannot_be_compared_is_said() {
    let log = data("a_loopback_v1.log");
    let refused = |args: &[&str], code: i32, why: &str| {
        let mut line = vec!["compare", "-v"];
        line.extend(args);
        let output = jitlat(&line);
        // Sentences are wrapped, so white space is normalised.
        let all = (stdout(&output) + &stderr(&output)).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {all}");
        assert!(all.contains(why), "{args:?}: {all}");
    };
    refused(&[&log], 2, "only one run");
    refused(&[&log, &log], 2, "one run is compared with itself");
    refused(&[&log, "/nonexistent.log"], 2, "opening /nonexistent.log");
    refused(
        &[&log, &data("a_loopback_v1.expected.json"), "--group-by", "direction"],
        2,
        "nothing to compare it with",
    );
    refused(&[&log, &data("metrics_golden.json")], 2, "is not a summary written by --json");
    refused(&[&log, &data("README.md")], 2, "README.md");
    let dir = tempfile::tempdir().unwrap();
    let part = |name: &str, lines: usize| {
        let text: String =
            std::fs::read_to_string(&log).unwrap().lines().take(lines).map(|l| format!("{l}\n")).collect();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (none, one, few) = (part("none", 11), part("one", 12), part("few", 20));
    refused(&[&log, &part("empty", 0)], 2, "it is empty");
    refused(&[&log, &none], 0, "one of the two has no packets: nothing arrived");
    compared(&[log.clone(), none.clone(), one.clone(), few.clone()]);
    let (html, plots) = (dir.path().join("x.html"), dir.path().join("plots"));
    let drawn = ["--html", html.to_str().unwrap(), "--plots", plots.to_str().unwrap()];
    refused(&[&[none.as_str(), &one, &few, &log], &drawn[..]].concat(), 0, "few against none");
    assert!(!std::fs::read_to_string(html).unwrap().contains("NaN"));
    refused(&[&log, &data("b_wan_lossy_v1.log"), "--baseline", "x"], 2, "unknown column x");
    refused(&[&log, &data("b_wan_lossy_v1.log"), "--group-by", "colour"], 2, "not a key for grouping");
    // The difference is reported, but the tests are compared.
    refused(&[&log, &data("d_edge_small_v1.log")], 0, "different payloads: 80 and 12 bytes");
}

#[test]
fn directions_are_compared_each_with_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let log = std::fs::read_to_string(data("compare/1tcp-be.log")).unwrap();
    let other = std::fs::read_to_string(data("compare/20tcp-be.log")).unwrap();
    let mut files = Vec::new();
    for (test, text) in [("monday", &log), ("tuesday", &other)] {
        for direction in ["up", "down"] {
            let path = dir.path().join(format!("{test}.{direction}"));
            // One test has a name, the logs of the other have the names given by -b.
            let name = if test == "monday" { "\n# name monday" } else { "" };
            let text = text.replace("# direction up", &format!("# direction {direction}{name}"));
            std::fs::write(&path, text).unwrap();
            files.push(path.to_str().unwrap().to_owned());
        }
    }
    let mut args = vec!["compare", "--json", "-"];
    args.extend(files.iter().map(String::as_str));
    let output = jitlat(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["columns"], serde_json::json!(["monday", "tuesday"]));
    assert_eq!((&json["rows"][0]["name"], &json["rows"][1]["name"]), (&"up".into(), &"down".into()));
    // A comparison of different directions is refused.
    let output = jitlat(&["compare", "-v", &format!("a={}", files[0]), &format!("b={}", files[3])]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).contains("refused: Not compared: different directions"), "{}", stdout(&output));
}
