//! `jitlat doctor` on this machine, with and without privileges.

use crate::schema;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");
/// The user `nobody`.
const UNPRIVILEGED: u32 = 65_534;

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = serde_json::from_slice(&output.stdout).unwrap();
    schema::assert_valid("doctor", &document);
    document
}

#[test]
fn the_examination_ends_in_time_and_tells_all() {
    let started = Instant::now();
    let output = Command::new(JITLAT)
        .args(["doctor", "--duration", "2s", "-p", "5ms", "--json", "-"])
        .output()
        .unwrap();
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    let v = json(&output);
    assert_eq!(v["format"], "jitlat doctor 1");
    assert!(v["wall_clock"]["reads"].as_u64().unwrap() >= 100_000);
    assert!(v["wake"].as_array().unwrap().len() >= 3);
    for way in ["one_way", "two_way"] {
        assert!(v[way]["received"].as_u64().unwrap() > 0, "{:#}", v["failures"]);
        assert!(v[way]["pdv_p99"].as_i64().unwrap() >= 0);
    }
    assert!(v["noise_floor"]["pdv_p99"].is_i64());
    assert!(v["findings"].as_array().unwrap().iter().any(|f| f["code"] == "noise_floor"));
    assert!(["good", "note", "poor", "bad"].contains(&v["verdict"].as_str().unwrap()));
}

#[test]
fn without_privileges_it_says_what_is_missing_and_how_to_grant_it() {
    let line = ["doctor", "--duration", "500ms", "-p", "1ms", "--json", "-"];
    if nix::unistd::geteuid().is_root() {
        // A copy of the binary in a folder that another user can read.
        let folder = tempfile::Builder::new()
            .permissions(PermissionsExt::from_mode(0o755))
            .tempdir_in("/tmp")
            .unwrap();
        let copy = folder.path().join("jitlat");
        std::fs::copy(JITLAT, &copy).unwrap();
        let mut command = Command::new(&copy);
        command.args(line).current_dir("/").uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        let v = json(&command.output().unwrap());
        assert!(v["capabilities"].as_array().unwrap().iter().all(|c| c["held"] == false), "{v:#}");
    }
    let v =
        json(&Command::new(JITLAT).args(["doctor", "--duration", "100ms", "--json", "-"]).output().unwrap());
    let lacking = v["capabilities"].as_array().unwrap().iter().any(|c| c["held"] == false);
    assert_eq!(lacking, v["grant"].as_str().is_some_and(|g| g.contains("setcap cap_")), "{:#}", v["grant"]);
}

#[test]
fn people_get_a_verdict() {
    let output = Command::new(JITLAT).args(["doctor", "--duration", "200ms"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["is it fit for tests", "Waking up", "Over its own loopback", "Findings", "his host"] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    assert!(!text.contains("NaN") && !text.contains("null"), "{text}");
}
