//! Android's restrictions of apps, which `packaging/android-like` applies: system calls that end the program, no netlink sockets.
#![cfg(target_arch = "x86_64")]

use crate::server::Server;
use std::process::{Command, Output};

const ANDROID_LIKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/android-like");

fn jitlat(arguments: &str) -> Output {
    let mut command = Command::new(ANDROID_LIKE);
    command.arg(env!("CARGO_BIN_EXE_jitlat")).args(arguments.split(' ')).output().unwrap()
}

/// The filter ends the program at a call that Android forbids, so every exit status below shows that none was made.
#[test]
fn an_app_measures_and_does_not_know_the_state_of_the_clock() {
    let server = Server::start("127.0.0.1", "stamp", &[]);
    let ping = format!(
        "ping 127.0.0.1 --proto stamp --stamp-port {} -n 20 -p 2ms --no-log --json -",
        server.port(0)
    );
    let output = jitlat(&ping);
    assert!(output.status.success(), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["counts"]["received"], 20);
    assert!(json["clock"]["client"]["before"].is_null(), "{:#}", json["clock"]);

    let output = jitlat("doctor --json -");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let codes = json["findings"].as_array().unwrap().iter().map(|finding| &finding["code"]);
    assert!(codes.into_iter().any(|code| code == "sync_unknown"), "{:#}", json["findings"]);
}
