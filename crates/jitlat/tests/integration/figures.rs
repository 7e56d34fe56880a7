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

#[test]
fn every_figure_is_drawn_in_each_format_asked_for() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let drawn = |name: &str, arguments: &[&str]| -> Vec<String> {
        let folder = dir.path().join(name);
        let out = jitlat(&[arguments, &["--plots", &folder.to_string_lossy()]].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder")
            .map(|file| file.expect("a file").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let (a, b) = (golden("a_loopback_v1"), golden("b_wan_lossy_v1"));
    for (name, arguments) in [("analyze", vec!["-f", &b]), ("compare", vec!["compare", &a, &b])] {
        let usual = drawn(&format!("{name}-usual"), &arguments);
        let stems: Vec<&str> = usual.iter().filter_map(|file| file.strip_suffix(".svg")).collect();
        assert!(stems.len() > 3 && stems.contains(&"card"), "{name}: {usual:?}");
        let each: Vec<String> =
            stems.iter().flat_map(|stem| [format!("{stem}.png"), format!("{stem}.svg")]).collect();
        assert_eq!(usual, each, "{name}");
        let papers = drawn(&format!("{name}-papers"), &[&arguments[..], &["--format", "pdf,eps"]].concat());
        let each: Vec<String> =
            stems.iter().flat_map(|stem| [format!("{stem}.eps"), format!("{stem}.pdf")]).collect();
        assert_eq!(papers, each, "{name}");
        let start =
            |file: &str| std::fs::read(dir.path().join(format!("{name}-papers/{file}"))).expect("a file");
        assert!(
            start("card.pdf").starts_with(b"%PDF-")
                && start("card.eps").starts_with(b"%!PS-Adobe-3.0 EPSF-3.0")
        );
    }
    for (arguments, says) in [
        (vec!["-f", &a, "--format", "pdf"], "add --plots DIR"),
        (vec!["-f", &a, "--plots", "x", "--format", "pdf,gif"], "choose from svg, png, pdf, eps"),
    ] {
        let out = jitlat(&arguments);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && said.contains(says), "{said}");
    }
}
