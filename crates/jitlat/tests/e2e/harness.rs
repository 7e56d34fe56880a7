//! Runs the real binary: a server that ends with its test, a client that is waited for with a limit, and the JSON
//! report.

use jitlat_impair::Scenario;
use jitlat_net::emulator::{Lab, Numbering, lab::Namespace};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use crate::network::own_address;

/// Time limit for anything that does not measure.
pub const PATIENCE: Duration = Duration::from_secs(60);

const BINARY: &str = env!("CARGO_BIN_EXE_jitlat");

/// Where a program runs.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    Here,
    In(&'a Namespace),
}

impl Place<'_> {
    /// The binary with these arguments, separated by spaces, to run in `folder`.
    pub fn jitlat(self, folder: &Path, arguments: &str) -> Command {
        let mut command = match self {
            Place::Here => Command::new(BINARY),
            Place::In(namespace) => namespace.command(BINARY),
        };
        command.args(arguments.split_whitespace()).current_dir(folder);
        command
    }
}

/// A lab, or `None` without the privilege to make one: printed past the test runner's capture, and a failure if the
/// environment requires it.
pub fn lab(test: &str) -> Option<Lab> {
    let tun = std::fs::File::open("/dev/net/tun").map_err(|e| format!("/dev/net/tun: {e}"));
    match tun.and_then(|_| Lab::new().map_err(|e| e.to_string())) {
        Ok(lab) => Some(lab),
        Err(e) => {
            assert!(std::env::var_os("JITLAT_REQUIRE_PRIVILEGED").is_none(), "{test}: {e}");
            let _ = writeln!(std::io::stderr(), "skipped: {test} needs root for network namespaces: {e}");
            None
        }
    }
}

/// A scenario in the repository.
pub fn scenario(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/scenarios")
        .join(name)
        .with_extension("txt");
    std::fs::read_to_string(&path).unwrap().parse().unwrap()
}

/// Patterns refer to sequence numbers.
pub const BY_SEQUENCE: Numbering = Numbering::Sequence;

/// A running program; killed when dropped.
pub struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
    what: String,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let what = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{what}: {e}"));
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Running { child, stdout, stderr, what }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; fails the test if that takes longer than `limit` from now on.
    pub fn finish(mut self, limit: Duration) -> Finished {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if started.elapsed() > limit {
                let _ = self.child.kill();
                let _ = self.child.wait();
                let said = self.said();
                panic!("{} has not ended within {limit:?}; it said:\n{}\n{}", self.what, said.0, said.1);
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let (stdout, stderr) = self.said();
        Finished { status, stdout, stderr }
    }

    fn said(&mut self) -> (String, String) {
        let text = |t: Option<JoinHandle<String>>| t.and_then(|t| t.join().ok()).unwrap_or_default();
        (text(self.stdout.take()), text(self.stderr.take()))
    }
}

/// How much later than it left a packet may claim to have left: a sender adds what the last packets took to leave, at most
/// this long (`net/lead`), and one that leaves at once then seems to have come sooner than the path lets it.
const LEAD_MS: f64 = 0.1;

/// Whether a smallest delay of `ms` fits a path of `path` ms, where times of departure are those in packets.
pub fn fits(ms: f64, path: f64) -> bool {
    (path - LEAD_MS..path + 10.0).contains(&ms)
}

/// tcpdump at a device, into a file.
pub fn capture(place: &Namespace, device: &str, file: &Path, filter: &str) -> Running {
    let mut command = place.command("tcpdump");
    command.args(["-q", "-U", "-n", "-s", "80", "-B", "4096", "-i", device, "-w"]).arg(file);
    command.args(filter.split_whitespace());
    let tcpdump = Running::start(command);
    let started = Instant::now();
    // It writes the file's header when it listens.
    while !std::fs::metadata(file).is_ok_and(|m| m.len() > 0) {
        assert!(started.elapsed() < PATIENCE, "tcpdump does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    tcpdump
}

/// Whether tcpdump is installed; prints that `test` is skipped if not.
pub fn has_tcpdump(test: &str) -> bool {
    let found = Command::new("tcpdump").arg("--version").output().is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: {test} needs tcpdump");
    }
    found
}

/// Sends `signal` to `child`.
pub fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// Waits for the end of `child`: its exit status, −1 after a signal. Fails the test after `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> i32 {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        if started.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            panic!("not ended within {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until `child` has written a line with `text` to its standard output; keeps reading after that.
pub fn wait_for_line(child: &mut Child, text: &'static str) {
    let (say, said) = mpsc::channel();
    let output = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if line.contains(text) {
                let _ = say.send(());
            }
        }
    });
    if said.recv_timeout(PATIENCE).is_err() {
        let _ = child.kill();
        let _ = child.wait();
        panic!("no line with '{text}' within {PATIENCE:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// `jitlat serve`, ready for clients; killed when dropped.
pub struct Server {
    child: Child,
    output: Option<JoinHandle<String>>,
}

impl Server {
    /// Starts a server on `address` and waits until it says that it listens.
    pub fn start(place: Place<'_>, folder: &Path, address: impl Into<IpAddr>, arguments: &str) -> Server {
        let arguments = format!("serve --bind {} {arguments}", address.into());
        let mut command = place.jitlat(folder, &arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (say, said) = mpsc::channel();
        let output = child.stderr.take().map(|e| listen(e, say.clone()));
        child.stdout.take().map(|o| listen(o, say));
        match said.recv_timeout(PATIENCE) {
            Ok(()) => Server { child, output },
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                let text = output.and_then(|o| o.join().ok()).unwrap_or_default();
                panic!("jitlat {arguments} is not ready within {PATIENCE:?}; it said:\n{text}");
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Like `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it is still running.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Ends it and returns what it wrote to standard error.
    pub fn stop(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.output.take().and_then(|o| o.join().ok()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Collects all lines, and signals when the first line about listening has come.
fn listen(from: impl Read + Send + 'static, ready: mpsc::Sender<()>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut all = String::new();
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if line.to_lowercase().contains("listening") {
                let _ = ready.send(());
            }
            all += &line;
            all.push('\n');
        }
        all
    })
}

impl Finished {
    /// The exit status; −1 after a signal.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// The JSON report of a successful measurement.
    pub fn report(&self) -> Report {
        assert_eq!(self.code(), 0, "{}", self.stderr);
        self.any_report()
    }

    /// The JSON report, whatever the exit status.
    pub fn any_report(&self) -> Report {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => Report(value),
            Err(e) => panic!("no JSON ({e}):\n{}\n{}", self.stdout, self.stderr),
        }
    }

    /// Checks that it could not measure, and that its message contains these phrases.
    pub fn refused(&self, phrases: &[&str]) {
        assert_eq!(self.code(), 2, "{}\n{}", self.stdout, self.stderr);
        for word in phrases {
            assert!(self.stderr.contains(word), "'{word}' is not in: {}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
    }
}

/// A summary in JSON.
#[derive(Clone, Debug)]
pub struct Report(pub Value);

impl Report {
    /// With `-b`: up and down.
    pub fn directions(&self) -> [Report; 2] {
        [0, 1].map(|i| Report(self.at(&format!("/directions/{i}")).clone()))
    }

    /// The value at a JSON pointer such as `/counts/lost`.
    pub fn at(&self, pointer: &str) -> &Value {
        self.0.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {:#}", self.0))
    }

    pub fn count(&self, pointer: &str) -> u64 {
        let value = self.at(pointer);
        value.as_u64().unwrap_or_else(|| panic!("{pointer} is {value}"))
    }

    pub fn number(&self, pointer: &str) -> f64 {
        let value = self.at(pointer);
        value.as_f64().unwrap_or_else(|| panic!("{pointer} is {value}"))
    }

    /// A time in ns, as milliseconds.
    pub fn ms(&self, pointer: &str) -> f64 {
        self.number(pointer) / 1e6
    }

    pub fn text(&self, pointer: &str) -> &str {
        let value = self.at(pointer);
        value.as_str().unwrap_or_else(|| panic!("{pointer} is {value}"))
    }

    /// A histogram as pairs in the order of their keys.
    pub fn histogram(&self, pointer: &str) -> Vec<(i64, u64)> {
        let value = self.at(pointer);
        let map = value.as_object().unwrap_or_else(|| panic!("{pointer} is {value}"));
        let mut pairs: Vec<_> = map.iter().map(|(k, v)| (k.parse().unwrap(), v.as_u64().unwrap())).collect();
        pairs.sort_unstable();
        pairs
    }
}
