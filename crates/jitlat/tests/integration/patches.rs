//! An addition appears everywhere: three patches, each with one new file, its two lines in a list and a row of the
//! documentation, are applied to a copy of the sources, compiled and tested.
//!
//! Slow: `just patches`, part of `just full`.

use crate::listening;
use crate::network;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A copy of the sources, and its build folder.
struct Copy {
    sources: PathBuf,
    jitlat: PathBuf,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

impl Copy {
    /// Copies the current sources, committed or not. Files that have not changed since the last run stay untouched,
    /// so that they are not compiled again.
    fn make() -> Copy {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("patches");
        let sources = target.join("sources");
        let mut list = Command::new("git");
        list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
        let list = String::from_utf8(run(&mut list).stdout).unwrap();
        let wanted = |path: &&str| !path.starts_with("fuzz/") && root().join(path).is_file();
        let files: BTreeSet<&str> = list.split_terminator('\0').filter(wanted).collect();
        for file in &files {
            let (from, to) = (root().join(file), sources.join(file));
            if fs::read(&from).unwrap() != fs::read(&to).unwrap_or_default() || !to.exists() {
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::copy(from, to).unwrap();
            }
        }
        remove_others(&sources, &sources, &files);
        Copy { sources, jitlat: target.join("out/debug/jitlat") }
    }

    fn apply(&self, patch: &str, options: &[&str]) {
        let mut apply = Command::new("git");
        // The copy is inside a repository, but is not a repository itself.
        apply.env("GIT_CEILING_DIRECTORIES", self.sources.parent().unwrap()).current_dir(&self.sources);
        run(apply.arg("apply").args(options).arg(patches().join(patch)));
    }

    /// Compiles the command in a separate folder, because cargo would confuse the copy with the original. The folder
    /// starts with the dependencies that were compiled for the tests.
    fn build(&self) {
        let out = self.jitlat.parent().unwrap();
        let compiled = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../debug");
        if !out.exists() && compiled.exists() {
            let others = |name: &str| !name.contains("jitlat");
            copy_with_times(&compiled.join(".fingerprint"), &out.join(".fingerprint"), &others);
            copy_with_times(&compiled.join("build"), &out.join("build"), &others);
            let library = |name: &str| others(name) && (name.starts_with("lib") || name.ends_with(".d"));
            copy_with_times(&compiled.join("deps"), &out.join("deps"), &library);
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--offline", "-p", "jitlat"]).current_dir(&self.sources);
        cargo.env("CARGO_TARGET_DIR", out.parent().unwrap());
        run(cargo.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0"));
    }

    /// Runs `jitlat`, and returns its standard output.
    fn run(&self, arguments: &str) -> String {
        let mut jitlat = Command::new(&self.jitlat);
        String::from_utf8(run(jitlat.args(arguments.split_whitespace()).current_dir(&self.sources)).stdout)
            .unwrap()
    }

    /// Starts a server that answers `only` these protocols, each at one port.
    fn serve(&self, only: &str, ports: &str) -> Server {
        let host = network::own_address().to_string();
        let mut serve = Command::new(&self.jitlat);
        serve
            .args(["serve", "--bind", &host, "--only", only])
            .args(ports.split_whitespace())
            .stdout(Stdio::piped());
        let mut child = serve.spawn().unwrap();
        let listening = listening::wait_until_listening(&mut child, only.split(',').count());
        Server { child, host, listening }
    }
}

/// A server that ends with the test, and the addresses it printed.
struct Server {
    child: Child,
    host: String,
    listening: Vec<String>,
}

impl Server {
    /// Port in line `k` of the output, for two-way tests.
    fn port(&self, k: usize) -> &str {
        self.listening[k].rsplit(':').next().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Copies files and folders whose names are `wanted` from a folder, with the times by which cargo detects changes.
fn copy_with_times(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (source, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
        let copy = to.join(&name);
        if !wanted(name.to_str().unwrap()) {
            continue;
        }
        if source.is_dir() {
            copy_with_times(&source, &copy, &|_| true);
        } else {
            fs::copy(&source, &copy).unwrap();
            let modified = fs::metadata(&source).unwrap().modified().unwrap();
            fs::File::options().write(true).open(&copy).unwrap().set_modified(modified).unwrap();
        }
    }
}

fn remove_others(root: &Path, folder: &Path, files: &BTreeSet<&str>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            remove_others(root, &path, files);
        } else if !files.contains(path.strip_prefix(root).unwrap().to_str().unwrap()) {
            fs::remove_file(path).unwrap();
        }
    }
}

fn patches() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/patches")
}

/// Checks that a patch has one new file, the module and its entry in one list, and one row of one page.
fn assert_small(patch: &str) {
    let text = fs::read_to_string(patches().join(patch)).unwrap();
    let mut lists = 0;
    let (mut new, mut rows) = (0, 0);
    for file in text.split("diff --git ").skip(1) {
        let path = file.split_whitespace().next().unwrap();
        let changes = |sign: char| {
            let lines = file.lines().skip_while(|l| !l.starts_with("@@"));
            lines.filter(|l| l.starts_with(sign)).map(|l| l[1..].trim()).collect::<Vec<_>>()
        };
        assert!(changes('-').is_empty(), "{patch} changes {path}");
        let added = changes('+');
        match path {
            _ if file.contains("\nnew file mode") => new += 1,
            _ if path.ends_with(".md") => rows += added.iter().filter(|l| l.starts_with('|')).count(),
            _ => {
                assert!(
                    added.len() == 2 && added.iter().any(|l| l.contains("mod ")),
                    "{patch}: {path}: {added:?}"
                );
                lists += 1;
            }
        }
    }
    assert_eq!((new, lists, rows), (1, 1, 1), "{patch}: new files, lists, rows of the documentation");
}

const LOG: &str = "testdata/b_wan_lossy_v1.log";
const OTHER: &str = "testdata/a_loopback_v1.log";

fn a_metric_is_everywhere(copy: &Copy) {
    let analyze = |options: &str| copy.run(&format!("analyze {LOG} {options}"));
    assert!(analyze("-v").contains("latest latency"));
    let json: serde_json::Value = serde_json::from_str(&analyze("--json -")).unwrap();
    assert!(json["figures"]["latency-latest"].is_number(), "{:#}", json["figures"]);
    // The metric also works in bounded memory and with joined parts.
    let streamed: serde_json::Value = serde_json::from_str(&analyze("--streaming --json -")).unwrap();
    assert_eq!(streamed["figures"], json["figures"]);
    let kept = tempfile::tempdir().unwrap();
    let archive = kept.path().to_str().unwrap();
    copy.run(&format!("archive add {archive} {LOG} {OTHER}"));
    let days = copy.run(&format!("archive query {archive} --figure latency-latest --by day --json"));
    let days: serde_json::Value = serde_json::from_str(&days).unwrap();
    assert!(days["streams"][0]["points"][0]["value"].is_number(), "{days:#}");
    let rows = analyze("--as summary-csv");
    let column = rows.lines().next().unwrap().split(',').position(|c| c == "latency_latest_ns").unwrap();
    assert!(rows.lines().nth(1).unwrap().split(',').nth(column).unwrap().parse::<f64>().is_ok(), "{rows}");
    assert!(analyze("--as openmetrics").contains("\njitlat_latency_latest_seconds{"));
    assert!(analyze("--html -").contains("latest latency"));
    let mut fail_if = Command::new(&copy.jitlat);
    fail_if.args(["analyze", LOG, "--fail-if", "latency-latest<1h"]).current_dir(&copy.sources);
    let failed = fail_if.output().unwrap();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(copy.run("analyze --help").contains("latency-latest"));
    let compared = copy.run(&format!("compare a={OTHER} b={LOG} --csv -"));
    assert!(compared.lines().next().unwrap().contains("latency_latest_ns"), "{compared}");
    assert!(copy.run(&format!("compare a={OTHER} b={LOG} -v")).contains("latest latency"));
}

fn a_protocol_is_everywhere(copy: &Copy) {
    for command in ["ping", "serve"] {
        let help = copy.run(&format!("{command} --help"));
        assert!(help.contains("udp-echo") && help.contains("--udp-echo-port"), "{help}");
    }
    let server = copy.serve("udp-echo", "--udp-echo-port 0");
    assert!(server.listening[0].contains("UDP echo"), "{:?}", server.listening);
    let options = format!("--udp-echo-port {}", server.port(0));
    let json =
        copy.run(&format!("ping {} --no-log --proto udp-echo {options} -n 20 -p 2ms --json -", server.host));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["counts"]["received"], &json["two_way"]["protocol"]), (&20.into(), &"udp-echo".into()));
    let sweep = format!(
        "sweep {} -v --proto udp-echo -l 40,80 -n 5 -p 1ms --repetitions 1 -o {{}} -- {options}",
        server.host
    );
    let kept = tempfile::tempdir().unwrap();
    let table = copy.run(&sweep.replace("{}", kept.path().join("s").to_str().unwrap()));
    assert!(table.contains("80 bytes"), "{table}");
}

fn an_output_is_everywhere(copy: &Copy) {
    let server = copy.serve("jitlat,stamp", "--stamp-port 0");
    let kept = tempfile::tempdir().unwrap();
    let kept = kept.path().to_str().unwrap();
    let host = &server.host;
    let stamp = format!("--stamp-port {}", server.port(1));
    let captures = "testdata/spp/atm_loss_udp340";
    for instrument in [
        format!("{host} -n 20 -p 2ms -o {kept}/log"),
        format!("{host} -n 20 -p 2ms --load udp:1Mbit --no-log"),
        format!("ping {host} -n 20 -p 2ms --no-log --proto stamp {stamp}"),
        format!("sweep {host} -l 60,90 --proto stamp -n 5 -p 1ms --repetitions 1 -o {kept}/sweep -- {stamp}"),
        format!("analyze {LOG}"),
        format!("compare a={OTHER} b={LOG}"),
        "doctor --duration 1s".to_owned(),
        format!("spp -q -f {captures}.ref.pcap -F {captures}.mon.pcap"),
        "tcp testdata/spp/atm_tcp_up.ref.pcap".to_owned(),
    ] {
        let file = format!("{kept}/line");
        let (options, of_the_test) = instrument.split_at(instrument.find(" -- ").unwrap_or(instrument.len()));
        let output = copy.run(&format!("{options} --as json-line={file}{of_the_test}"));
        let line = fs::read_to_string(&file).unwrap();
        let whole = line.lines().count() == 1 && line.starts_with('{') && line.ends_with("}\n");
        assert!(whole, "{instrument}: {output}: {line}");
        fs::remove_file(file).unwrap();
    }
}

#[test]
#[ignore = "compiles the program three times: just patches"]
fn each_patch_is_small_and_what_it_adds_is_everywhere() {
    let copy = Copy::make();
    // Starts with the crate on which the fewest others depend, because each patch is removed before the next and
    // compiled again.
    for (patch, is_everywhere) in [
        ("output.patch", an_output_is_everywhere as fn(&Copy)),
        ("protocol.patch", a_protocol_is_everywhere),
        ("metric.patch", a_metric_is_everywhere),
    ] {
        assert_small(patch);
        copy.apply(patch, &[]);
        copy.build();
        is_everywhere(&copy);
        copy.apply(patch, &["--reverse"]);
    }
}
