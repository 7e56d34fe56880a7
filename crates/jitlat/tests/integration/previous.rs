//! The previous release and this version measure together and read each other's logs, as docs/stability.md promises.
//!
//! Needs the program of the previous release, which `packaging/previous` builds (minutes): `.ci/full previous`.

use crate::server::Server;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const THIS: &str = env!("CARGO_BIN_EXE_jitlat");
/// Every protocol that version 0.1.0 answers.
const PROTOCOLS: [&str; 5] = ["jitlat", "stamp", "twamp", "lamp", "tcp"];
/// A one-way test in each dialect and transport: its name, and its options.
const ONE_WAY: [(&str, &str); 5] = [
    ("up", ""),
    ("down", "-R"),
    ("classic", "--classic"),
    ("classic-down", "--classic -R"),
    ("over-tcp", "-t -R"),
];

fn previous() -> String {
    let program =
        std::env::var("JITLAT_PREVIOUS").expect("JITLAT_PREVIOUS: the path that packaging/previous prints");
    assert_ne!(version(&program), version(THIS), "{program} is this version");
    program
}

fn version(program: &str) -> String {
    run(program, Path::new("/"), "--version")
}

fn run(program: &str, folder: &Path, arguments: &str) -> String {
    let mut command = Command::new(program);
    let output =
        command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The part of a summary that both versions must compute from one log: counts and delays.
fn figures(program: &str, folder: &Path, log: &str) -> Value {
    let json = run(program, folder, &format!("-f {log} --json -"));
    let summary: Value = serde_json::from_str(&json).unwrap();
    let delay = |part: &Value| ["n", "min", "mean", "max"].map(|key| part["latency"][key].clone()).to_vec();
    let counts = ["sent", "received", "unique_valid", "lost", "duplicate"];
    let counts = counts.map(|key| summary["counts"][key].clone()).to_vec();
    // The directions of round trips; null for one-way tests.
    let directions = ["up", "down"].map(|direction| summary["two_way"][direction].clone());
    let delays = [&summary, &directions[0], &directions[1]].map(delay).concat();
    [counts, delays].concat().into()
}

#[test]
#[ignore = "needs the previous release, which takes minutes to compile: .ci/full previous"]
fn the_previous_release_and_this_version_measure_together_and_read_each_others_logs() {
    let previous = previous();
    for (name, client, server) in [("new-client", THIS, &*previous), ("old-client", &*previous, THIS)] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("key"), "a passphrase that both ends know, and nobody else\n").unwrap();
        fs::set_permissions(folder.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
        let ports = ["--control-port", "0", "--test-port", "0"];
        let open = Server::start_program(server, "127.0.0.1", &PROTOCOLS.join(","), &ports);
        let key = folder.join("key");
        let with_key = [&ports[..], &["--key-file", key.to_str().unwrap()]].concat();
        let keyed = Server::start_program(server, "127.0.0.1", "jitlat", &with_key);

        let mut logs = Vec::new();
        for (test, options) in ONE_WAY {
            let log = format!("{name}-{test}.log");
            run(
                client,
                folder,
                &format!("127.0.0.1 --control-port {} -n 100 -p 2ms {options} -o {log}", open.port(0)),
            );
            logs.push(log);
        }
        run(
            client,
            folder,
            &format!(
                "127.0.0.1 --control-port {} -n 100 -p 2ms --key-file key -o {name}-key.log",
                keyed.port(0)
            ),
        );
        logs.push(format!("{name}-key.log"));
        for (k, protocol) in PROTOCOLS.iter().enumerate().skip(1) {
            let log = format!("{name}-{protocol}.log");
            run(
                client,
                folder,
                &format!(
                    "ping 127.0.0.1 --{protocol}-port {} --proto {protocol} -n 100 -p 2ms -o {log}",
                    open.port(k)
                ),
            );
            logs.push(log);
        }
        for log in &logs {
            let (new, old) = (figures(THIS, folder, log), figures(&previous, folder, log));
            assert!(new.to_string().contains("100"), "{log}: not all packets were measured: {new}");
            assert_eq!(new, old, "{log}: the versions disagree");
        }
        // An archive, which the previous release may not know, returns the logs byte for byte.
        run(THIS, folder, &format!("archive add archive {}", logs.join(" ")));
        run(THIS, folder, "archive export archive exported");
        let contents = |folder: &Path, names: &[String]| -> BTreeSet<Vec<u8>> {
            names.iter().map(|name| fs::read(folder.join(name)).unwrap()).collect()
        };
        let exported = fs::read_dir(folder.join("exported")).unwrap();
        let exported: Vec<String> =
            exported.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(
            contents(folder, &logs) == contents(&folder.join("exported"), &exported),
            "exported logs differ"
        );
        for log in &exported {
            figures(&previous, &folder.join("exported"), log);
        }
    }
}
