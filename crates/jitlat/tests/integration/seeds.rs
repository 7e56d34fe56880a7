//! docs/seeds.md: runs the command of every row; its output must contain the phrases of the row.

use crate::listening;
use crate::network;
use crate::side_by_side;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Number of commands that run at the same time.
const AT_A_TIME: usize = 4;

struct Row {
    line: usize,
    command: String,
    says: Vec<String>,
}

/// Rows of every table: place, item, command, phrases.
fn rows(page: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, line) in page.lines().enumerate() {
        let Some(line) = line.strip_prefix("| ").and_then(|l| l.strip_suffix(" |")) else { continue };
        let cells: Vec<String> =
            line.replace("\\|", "\u{1}").split(" | ").map(|c| c.replace('\u{1}', "|")).collect();
        let [_, _, command, says] = &cells[..] else { panic!("line {}: {line}", number + 1) };
        let Some(command) = command.strip_prefix('`').and_then(|c| c.strip_suffix('`')) else { continue };
        let says = says.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        rows.push(Row { line: number + 1, command: command.to_owned(), says });
    }
    rows
}

/// `jitlat serve` on its own address; killed when dropped.
struct Server(Child);

impl Server {
    fn start(host: Ipv4Addr) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_jitlat"))
            .args(["serve", "--bind", &host.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        listening::wait_until_listening(&mut child, 1);
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(row: &Row, host: Ipv4Addr, root: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    for given in ["testdata", "examples"] {
        std::os::unix::fs::symlink(root.join(given), folder.path().join(given)).unwrap();
    }
    let binaries = PathBuf::from(env!("CARGO_BIN_EXE_jitlat")).parent().unwrap().to_owned();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let command = row.command.replace("HOST", &host.to_string());
    let done = Command::new("timeout")
        .args(["180", "sh", "-c", &command])
        .current_dir(folder.path())
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&printed).split_whitespace().collect::<Vec<_>>().join(" ");
    let says = row.says.iter().map(|phrase| phrase.replace("HOST", &host.to_string()));
    let missing: Vec<String> = says.filter(|phrase| !said.contains(phrase.as_str())).collect();
    match (missing.is_empty(), done.status.success()) {
        (true, true) => Ok(()),
        _ => Err(format!("line {}: {command}\n{}, without {missing:?}:\n{said}\n", row.line, done.status)),
    }
}

#[test]
fn every_row_shows_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut rows = rows(&fs::read_to_string(root.join("docs/seeds.md")).unwrap());
    assert!(rows.len() > 60, "{} rows", rows.len());
    if !nix::unistd::geteuid().is_root() {
        eprintln!("left out without root: raw sockets and network namespaces");
        let needs_root = ["jitlat path", "003.sh raw", "003.sh ethernet", "003.sh wsmp"];
        rows.retain(|row| !needs_root.iter().any(|command| row.command.contains(command)));
    }
    let host = network::own_address();
    let _server = Server::start(host);
    let failures = Mutex::new(Vec::new());
    side_by_side::side_by_side(AT_A_TIME, &rows, |row| {
        let failure = run(row, host, &root).err();
        failures.lock().unwrap().extend(failure);
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} rows:\n{}", failures.len(), rows.len(), failures.join("\n"));
}
