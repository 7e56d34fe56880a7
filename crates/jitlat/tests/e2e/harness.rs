//! Runs the real binary: a server that ends with its test, a client with a time limit, and the JSON report.

use jitlat_impair::Scenario;
use jitlat_net::emulator::{Numbering, lab::Namespace};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

pub use crate::lab::lab;
pub use crate::network::own_address;

/// Time limit for everything that does not measure.
pub const TIMEOUT: Duration = Duration::from_secs(60);

const BINARY: &str = env!("CARGO_BIN_EXE_jitlat");

/// The host on which a program runs.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    Here,
    In(&'a Namespace),
}

impl Place<'_> {
    /// Returns a command with these arguments, separated by spaces, that runs the binary in `folder`.
    pub fn jitlat(self, folder: &Path, arguments: &str) -> Command {
        let mut command = match self {
            Place::Here => Command::new(BINARY),
            Place::In(namespace) => namespace.command(BINARY),
        };
        command.args(arguments.split_whitespace()).current_dir(folder);
        command
    }
}

/// Reads a scenario in the repository.
pub fn scenario(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/scenarios")
        .join(name)
        .with_extension("txt");
    std::fs::read_to_string(&path).unwrap().parse().unwrap()
}

/// Patterns refer to sequence numbers.
pub const BY_SEQUENCE: Numbering = Numbering::Sequence;

/// An output of a program, read by a thread of its own.
struct Printed {
    text: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl Printed {
    fn by(output: impl Read + Send + 'static) -> Printed {
        let text = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut lines = BufReader::new(output);
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                shared.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        Printed { text, reader }
    }

    fn so_far(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    fn matches(&self, text: &str) -> usize {
        self.text.lock().unwrap().matches(text).count()
    }

    /// Returns the whole output after the end of the program.
    fn whole(self) -> String {
        let _ = self.reader.join();
        std::mem::take(&mut self.text.lock().unwrap())
    }
}

/// A running program; killed when dropped.
pub struct Running {
    child: Child,
    printed: Option<[Printed; 2]>,
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
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Running { child, printed: Some([Printed::by(stdout), Printed::by(stderr)]), what }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Applies `look` to standard output and standard error so far.
    fn printed<T>(&self, look: impl Fn(&Printed) -> T) -> [T; 2] {
        self.printed.as_ref().expect("only finish takes it").each_ref().map(look)
    }

    /// Waits until the program has printed `text`.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        let is_there = || self.printed(|output| output.matches(text) > 0).contains(&true);
        if !jitlat_waiting::within(TIMEOUT, is_there) {
            let [stdout, stderr] = self.printed(Printed::so_far);
            panic!("{} has not printed '{text}', but:\n{stdout}\n{stderr}", self.what);
        }
    }

    /// Number of lines that the program has printed to standard output.
    pub fn lines(&self) -> usize {
        self.printed(|output| output.matches("\n"))[0]
    }

    /// Checks that the program continues to run for `period`.
    #[track_caller]
    pub fn runs_for(&mut self, period: Duration) {
        jitlat_waiting::while_true(&format!("{} runs", self.what), period, || {
            self.child.try_wait().unwrap().is_none()
        });
    }

    /// Waits for the end of the program; fails the test if that takes longer than `limit` from now on.
    pub fn finish(mut self, limit: Duration) -> Finished {
        let ended = jitlat_waiting::within(limit, || self.child.try_wait().unwrap().is_some());
        if !ended {
            let _ = self.child.kill();
        }
        let status = self.child.wait().unwrap();
        let [stdout, stderr] = self.printed.take().expect("it ends once").map(Printed::whole);
        assert!(ended, "{} has not ended within {limit:?}; it printed:\n{stdout}\n{stderr}", self.what);
        Finished { status, stdout, stderr }
    }
}

/// Largest advance of a packet's timestamp over its departure: a sender adds the time that the last packets took to
/// leave, at most this (`net/lead`), and a packet that leaves at once then seems to arrive sooner than the path
/// allows.
const LEAD_MS: f64 = 0.1;

/// Returns true if a smallest delay of `ms` is plausible on a path of `path` ms, given departure times in packets.
pub fn fits(ms: f64, path: f64) -> bool {
    (path - LEAD_MS..path + 10.0).contains(&ms)
}

/// Starts tcpdump at a device, writing to a file.
pub fn capture(place: &Namespace, device: &str, file: &Path, filter: &str) -> Running {
    let mut command = place.command("tcpdump");
    command.args(["-q", "-U", "-n", "-s", "80", "-B", "4096", "-i", device, "-w"]).arg(file);
    command.args(filter.split_whitespace());
    capture_with(command, file)
}

/// Starts tcpdump with any arguments.
pub fn capture_with(tcpdump: Command, file: &Path) -> Running {
    let tcpdump = Running::start(tcpdump);
    // tcpdump writes the file's header when it begins to capture.
    let listens = || std::fs::metadata(file).is_ok_and(|m| m.len() > 0);
    jitlat_waiting::until("tcpdump to listen", TIMEOUT, listens);
    tcpdump
}

/// Ends captures once their files do not grow any more: tcpdump gets packets in blocks, up to a second late.
pub fn end_captures(captures: [Running; 2], files: [&Path; 2]) {
    let sizes = || files.map(|file| std::fs::metadata(file).map(|m| m.len()).unwrap_or_default());
    jitlat_waiting::until("the last captured packets", TIMEOUT, || {
        let before = sizes();
        !jitlat_waiting::within(Duration::from_millis(1500), || sizes() != before)
    });
    captures.iter().for_each(|tcpdump| tcpdump.signal(Signal::SIGTERM));
    captures.into_iter().for_each(|tcpdump| drop(tcpdump.finish(TIMEOUT)));
}

/// Waits until this many programs in `place` capture packets: the kernel lists their sockets below a heading.
pub fn wait_for_captures(place: &Namespace, count: usize) {
    let listed = || {
        let output = place.command("cat").arg("/proc/net/packet").output().unwrap();
        String::from_utf8_lossy(&output.stdout).lines().count().saturating_sub(1)
    };
    jitlat_waiting::until("programs that capture", TIMEOUT, || listed() >= count);
}

/// Returns true if tcpdump is installed; otherwise prints that `test` is skipped.
pub fn has_tcpdump(test: &str) -> bool {
    let found = Command::new("tcpdump").arg("--version").output().is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: {test} needs tcpdump");
    }
    found
}

/// Number of slots in an archive that ended in this way (`measured`, `unreachable`, …); 0 if there is no archive yet.
pub fn slots(archive: &Path, ending: &str) -> u64 {
    let slots =
        jitlat_archive::Archive::open(archive).and_then(|archive| archive.slots()).unwrap_or_default();
    slots.into_iter().filter(|(slots, _)| slots.ending == ending).map(|(_, count)| count).sum()
}

/// Sends `signal` to `child`.
pub fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// Waits for the end of `child`. Returns its exit status, −1 after a signal. Fails the test after `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> i32 {
    if !jitlat_waiting::within(limit, || child.try_wait().unwrap().is_some()) {
        let _ = child.kill();
        let _ = child.wait();
        panic!("not ended within {limit:?}");
    }
    child.wait().unwrap().code().unwrap_or(-1)
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
    if said.recv_timeout(TIMEOUT).is_err() {
        let _ = child.kill();
        let _ = child.wait();
        panic!("no line with '{text}' within {TIMEOUT:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `jitlat serve`, ready for clients; killed when dropped.
pub struct Server(Running);

impl Server {
    /// Starts a server on `address` and waits until it listens.
    pub fn start(place: Place<'_>, folder: &Path, address: impl Into<IpAddr>, arguments: &str) -> Server {
        let arguments = format!("serve --bind {} {arguments}", address.into());
        let running = Running::start(place.jitlat(folder, &arguments));
        running.wait_for("istening");
        Server(running)
    }

    /// Number of tests that the server has accepted so far, of any protocol.
    pub fn tests(&self) -> usize {
        self.0.printed(|output| output.matches("decision=\"accepted\"")).iter().sum()
    }

    /// Runs `test`, and waits until the server has accepted it and packets have been sent for `period`.
    #[track_caller]
    pub fn under_way(&self, test: Command, period: Duration) -> Running {
        let before = self.tests();
        let mut running = Running::start(test);
        jitlat_waiting::until("the test to begin", TIMEOUT, || self.tests() > before);
        running.runs_for(period);
        running
    }

    pub fn signal(&self, signal: Signal) {
        self.0.signal(signal);
    }

    /// Waits until the server has printed `text`.
    pub fn wait_for(&self, text: &str) {
        self.0.wait_for(text);
    }

    /// Kills the server like `kill -9`.
    pub fn kill(&mut self) {
        self.0.child.kill().unwrap();
        self.0.child.wait().unwrap();
    }

    /// True if the server is still running.
    pub fn is_alive(&mut self) -> bool {
        self.0.child.try_wait().unwrap().is_none()
    }

    /// Ends the server and returns its standard error.
    pub fn stop(mut self) -> String {
        let _ = self.0.child.kill();
        self.0.finish(TIMEOUT).stderr
    }
}

impl Finished {
    /// Exit status; −1 after a signal.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Returns the JSON report of a successful measurement.
    pub fn report(&self) -> Report {
        assert_eq!(self.code(), 0, "{}", self.stderr);
        self.any_report()
    }

    /// Returns the JSON report for any exit status.
    pub fn any_report(&self) -> Report {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => Report(value),
            Err(e) => panic!("no JSON ({e}):\n{}\n{}", self.stdout, self.stderr),
        }
    }

    /// Checks that the program could not measure, and that its message contains these phrases.
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
    /// Reports of a test with `-b`: up and down.
    pub fn directions(&self) -> [Report; 2] {
        [0, 1].map(|i| Report(self.at(&format!("/directions/{i}")).clone()))
    }

    /// Value at a JSON pointer such as `/counts/lost`.
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

    /// Time at a pointer, converted from ns to ms.
    pub fn ms(&self, pointer: &str) -> f64 {
        self.number(pointer) / 1e6
    }

    pub fn text(&self, pointer: &str) -> &str {
        let value = self.at(pointer);
        value.as_str().unwrap_or_else(|| panic!("{pointer} is {value}"))
    }

    /// Histogram as pairs in the order of their keys.
    pub fn histogram(&self, pointer: &str) -> Vec<(i64, u64)> {
        let value = self.at(pointer);
        let map = value.as_object().unwrap_or_else(|| panic!("{pointer} is {value}"));
        let mut pairs: Vec<_> = map.iter().map(|(k, v)| (k.parse().unwrap(), v.as_u64().unwrap())).collect();
        pairs.sort_unstable();
        pairs
    }
}
