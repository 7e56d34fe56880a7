//! The build without optional features: it is compiled, and every command in it is tested over loopback.
//!
//! Slow: `just small`, part of `just full`.

use crate::listening;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Limit of the static program's size in bytes: close to the current size, so that growth is noticed. The goal is 4 MB.
const MAX_SIZE: u64 = 6_550_000;
/// Limit of the number of crates in it.
const MAX_CRATES: usize = 120;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn cargo(arguments: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo.args(arguments).args(["--locked", "--offline"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Names of the crates that are linked, or run by the compiler.
fn crates() -> Vec<String> {
    let tree =
        cargo(&["tree", "-p", "jitlat", "--no-default-features", "-e", "normal,build", "--prefix", "none"]);
    let mut names: Vec<String> =
        tree.lines().map(|line| line.split(" (").next().unwrap_or(line).to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

/// Runs the program in `folder`.
fn run(program: &Path, folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command.output().unwrap()
}

/// Runs the program and returns its standard output; checks that it succeeds.
fn measured(program: &Path, folder: &Path, arguments: &str) -> String {
    let output = run(program, folder, arguments);
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "compiles a program of its own, minutes: just small"]
fn a_build_without_optional_features_is_small_and_measures() {
    let crates = crates();
    assert!(crates.len() <= MAX_CRATES, "{} crates: {crates:?}", crates.len());
    let c_code = ["cc ", "libsqlite3-sys ", "zstd-sys ", "ring ", "cmake "];
    let compiles_c = crates.iter().find(|name| c_code.iter().any(|c| name.starts_with(c)));
    assert_eq!(compiles_c, None, "a C compiler is needed");

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small");
    let target = target.to_str().unwrap();
    let static_target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let mut board = Command::new(root().join("packaging/board"));
    let built = board.arg(static_target).env("CARGO_TARGET_DIR", target).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let program = PathBuf::from(String::from_utf8(built.stdout).unwrap().trim_end());
    let size = program.metadata().unwrap().len();
    println!("{} crates, {size} bytes", crates.len());
    assert!(size <= MAX_SIZE, "{size} bytes");

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut server = Command::new(&program)
        .args(
            "serve --bind 127.0.0.1 --control-port 0 --test-port 0 --only jitlat,stamp --stamp-port 0"
                .split_whitespace(),
        )
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = listening::wait_until_listening(&mut server, 2);
    let port = |of: &str| {
        let line = lines.iter().find(|line| line.contains(of)).unwrap_or_else(|| panic!("{of}: {lines:?}"));
        let digits = line.rsplit("127.0.0.1:").next().unwrap();
        digits.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    let (control, stamp) = (port("listening on"), port("STAMP"));
    for log in ["first.log", "second.log"] {
        let options = format!("127.0.0.1 --control-port {control} -n 50 -p 2ms -o {log} --json -");
        let json = measured(&program, folder, &options);
        assert!(json.contains("\"sent\": 50") || json.contains("\"sent\":50"), "{json}");
    }
    std::fs::write(folder.join("first.json"), "{}").unwrap();
    std::fs::copy(folder.join("first.json"), folder.join("second.json")).unwrap();
    let ping = measured(
        &program,
        folder,
        &format!("ping 127.0.0.1 --proto stamp --stamp-port {stamp} -n 20 -p 2ms"),
    );
    assert!(ping.contains("20"), "{ping}");
    server.kill().unwrap();
    server.wait().unwrap();

    let report = measured(&program, folder, "analyze first.log");
    assert!(report.contains("jitter"), "{report}");
    assert!(measured(&program, folder, "analyze first.log --csv -").lines().count() > 50);
    let compared = measured(&program, folder, "compare first.log second.log");
    assert!(compared.contains("second"), "{compared}");
    assert!(measured(&program, folder, "doctor --help").contains("doctor"));

    // Every other command explains how to get it.
    for (arguments, feature) in [
        ("archive ls DIR", "archive"),
        ("monitor mesh.toml --check", "monitor"),
        ("web DIR", "web"),
        ("127.0.0.1 -n 3 --archive DIR", "archive"),
        ("analyze first.log --live", "live"),
        ("analyze first.log --html page.html", "plots"),
        ("analyze first.log --plots DIR", "plots"),
        ("rpm 127.0.0.1", "rpm"),
        ("spp -f a.pcap -F b.pcap", "captures"),
        ("tcp a.pcap", "captures"),
        ("rtp a.pcap", "captures"),
        ("analyze first.log --state state", "saved"),
        ("compare first.json second.json", "saved"),
        ("sweep 127.0.0.1", "sweep"),
        ("as irtt client 127.0.0.1", "programs"),
        ("completions bash", "manual"),
        ("man DIR", "manual"),
    ] {
        let output = run(&program, folder, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.contains(&format!("--features {feature}")), "{arguments}: {said}");
    }
    assert!(!folder.join("page.html").exists() && !folder.join("DIR").exists());
}
