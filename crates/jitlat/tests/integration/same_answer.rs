//! Console, page and JSON of one command agree.

use crate::server::Server;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

/// Visible text of a page, in the console's characters, with single spaces.
fn text_of(html: &str) -> String {
    let body = html.split_once("<main>").unwrap().1.split("<script").next().unwrap();
    let mut text = String::new();
    for piece in body.split('<') {
        text.push(' ');
        text += piece.split_once('>').map_or(piece, |(_, text)| text);
    }
    for (page, console) in [("&#39;", "'"), ("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")] {
        text = text.replace(page, console);
    }
    let text = text.replace('µ', "u").replace('−', "-").replace('±', "+/- ").replace('\u{a0}', " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Headlines in a JSON document: that of its answer, or those of its parts.
fn headlines(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(headline) = value.pointer("/answer/headline").and_then(Value::as_str) {
                return found.push(headline.to_owned());
            }
            fields.values().for_each(|value| headlines(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| headlines(value, found)),
        _ => {}
    }
}

/// Runs `command` with a page and JSON, and compares both with the console.
fn compare(command: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let [page, json] = ["page.html", "out.json"].map(|name| folder.path().join(name));
    // Options after -- belong to the tests of a sweep.
    let own = command.iter().position(|word| *word == "--").unwrap_or(command.len());
    let output = Command::new(JITLAT)
        .args(&command[..own])
        .args([Path::new("--html"), &page, Path::new("--json"), &json])
        .args(&command[own..])
        .env("COLUMNS", "80")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let console = String::from_utf8(output.stdout).unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {problem}");
    let page = text_of(&std::fs::read_to_string(page).unwrap());

    let mut said = Vec::new();
    headlines(&serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap(), &mut said);
    assert!(!said.is_empty(), "{command:?}: JSON has no answer");
    let words = console.split_whitespace().collect::<Vec<_>>().join(" ");
    for headline in said {
        assert!(page.contains(&headline), "{command:?}: the page does not say '{headline}':\n{page}");
        // The console cuts text that is longer than its rows.
        let begin: String = headline.chars().take(40).collect();
        assert!(words.contains(&begin), "{command:?}: the console does not say '{headline}':\n{console}");
    }

    // Every figure from the head of the table to the section "Trust" is on the page.
    let screen = console.split("\nTrust").next().unwrap();
    let course = |row: &&str| row.starts_with("lost ") || row.contains(|c| ('▁'..='█').contains(&c));
    let rows = screen.lines().skip_while(|row| !row.starts_with("    ")).filter(|row| !course(row));
    let bare = |word: &'_ str| word.trim_matches(|c| "(),;.:".contains(c)).to_owned();
    let figures = rows.flat_map(str::split_whitespace).map(bare);
    let words: Vec<String> = page.split(' ').map(bare).collect();
    let mut compared = 0;
    for figure in figures.filter(|w| w.contains(|c: char| c.is_ascii_digit()) && !w.ends_with("..")) {
        compared += 1;
        assert!(words.contains(&figure), "{command:?}: {figure} is not on the page:\n{console}\n{page}");
    }
    assert!(compared > 5, "{console}");
}

#[test]
fn of_saved_tests() {
    for log in ["a_loopback_v1.log", "b_wan_lossy_v1.log", "c_unsync_v2.log"] {
        compare(&["-f", testdata(log).to_str().unwrap()]);
    }
    let logs = ["a_loopback_v1.log", "b_wan_lossy_v1.log"].map(testdata);
    compare(&["compare", logs[1].to_str().unwrap(), logs[0].to_str().unwrap()]);
    compare(&["compare", logs[0].to_str().unwrap(), logs[1].to_str().unwrap()]);
}

#[test]
fn of_captures() {
    let capture = |name: &str| testdata("spp").join(name).to_str().unwrap().to_owned();
    let (near, far) = (capture("atm_loss_udp340.ref.pcap"), capture("atm_loss_udp340.mon.pcap"));
    compare(&["spp", "-f", &near, "-F", &far, "-a", "10.77.1.2", "-A", "10.77.2.2", "--summary"]);
    compare(&["tcp", &capture("htb_tcp_up.ref.pcap")]);
}

#[test]
fn of_tests() {
    let server = Server::start("127.0.0.1", "jitlat,stamp", &["--control-port", "0"]);
    let (control, port) = (server.port(0).split(',').next().unwrap().to_owned(), server.port(1).to_owned());
    let stamp = ["--proto", "stamp", "--stamp-port", &port];
    compare(&[&["ping", "127.0.0.1", "-n", "50", "-p", "2ms"][..], &stamp].concat());
    compare(
        &[
            &["ping", "127.0.0.1", "-n", "100", "-p", "2ms", "--load", "udp:1Mbit", "--load-port", &control]
                [..],
            &stamp,
        ]
        .concat(),
    );
    let sweep =
        ["sweep", "127.0.0.1", "-n", "30", "-p", "1ms,2ms", "-l", "100,500", "--repetitions", "2", "-o", "s"];
    compare(&[&sweep[..], &stamp[..2], &["--"], &stamp[2..]].concat());
}
