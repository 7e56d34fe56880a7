//! `--html` and `--plots` from a saved log.

use std::path::Path;
use std::process::{Command, Output};

fn jitlat(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jitlat")).args(arguments).output().expect("the program starts")
}

fn golden(name: &str) -> String {
    format!("{}/../../testdata/{name}.log", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_saved_log_becomes_a_page_and_files_of_figures() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (page, plots) = (dir.path().join("report.html"), dir.path().join("new/plots"));
    let as_text = |p: &Path| p.to_string_lossy().into_owned();
    let log = golden("b_wan_lossy_v1");
    let out = jitlat(&["-f", &log, "--html", &as_text(&page), "--plots", &as_text(&plots)]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let html = std::fs::read_to_string(page).expect("the page");
    assert!(html.starts_with("<!doctype html>"));
    for name in ["jitter.svg", "jitter.png", "burstiness.svg", "loss-lengths.png", "dejitter.svg"] {
        assert!(plots.join(name).metadata().is_ok_and(|m| m.len() > 1000), "{name}");
    }
}

#[test]
fn a_page_on_standard_output_stands_alone() {
    let out = jitlat(&["-f", &golden("a_loopback_v1"), "--html", "-"]);
    assert!(out.stdout.starts_with(b"<!doctype html>") && out.stdout.ends_with(b"</html>\n"));
    let both = jitlat(&["-f", &golden("a_loopback_v1"), "--html", "-", "--json", "-"]);
    assert_eq!(both.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&both.stderr).contains("standard output"));
}
