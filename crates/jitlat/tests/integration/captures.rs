//! Captures that are still being written, and random pairs of captures, cut at random.

use jitlat_core::time::SECOND;
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_impair::Impairment;
use jitlat_impair::{Choice, Clock, DuplicationModel, GilbertModel, Jitter, PathModel, ReorderingModel};
use jitlat_net::capture::PcapWriter;
use jitlat_passive::{Frame, LinkType};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::spawn;
use std::time::{Duration, Instant};

/// Time limit for any wait.
const LIMIT: Duration = Duration::from_secs(120);

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/spp").join(name)
}

fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jitlat"));
    command.env("LC_ALL", "C").args(arguments).stdin(Stdio::null());
    command
}

fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    command(arguments).output().unwrap()
}

/// A running command whose lines are read as they arrive. It ends with the test.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(arguments: &[&str]) -> Running {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (to, lines) = channel();
        spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
        Running { child, lines }
    }

    /// Waits for the first lines.
    fn wait_for(&mut self, lines: usize) -> Vec<String> {
        let began = Instant::now();
        let mut seen = Vec::new();
        while seen.len() < lines {
            match self.lines.recv_timeout(LIMIT.saturating_sub(began.elapsed())) {
                Ok(line) => seen.push(line),
                Err(e) => {
                    let _ = self.child.kill();
                    let mut said = String::new();
                    let _ = self.child.stderr.take().unwrap().read_to_string(&mut said);
                    panic!("{e} after {} of {lines} lines: {said}", seen.len());
                }
            }
        }
        seen
    }

    /// Ends the command like Ctrl-C; returns the remaining lines.
    fn interrupt(mut self) -> Vec<String> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        let began = Instant::now();
        let mut rest = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(LIMIT.saturating_sub(began.elapsed())) {
            rest.push(line);
        }
        jitlat_waiting::until("the end after Ctrl-C", LIMIT, || self.child.try_wait().unwrap().is_some());
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Splits a capture into `files` captures of about as many packets each.
fn rotated(capture: &Path, files: usize) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(capture).unwrap();
    let mut ends = vec![24];
    while let Some(at) = ends.last().copied().filter(|at| *at < bytes.len()) {
        ends.push(at + 16 + u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize);
    }
    let each = ends.len().div_ceil(files);
    let borders: Vec<usize> = ends.iter().step_by(each).chain(ends.last()).copied().collect();
    borders.windows(2).map(|w| [&bytes[..24], &bytes[w[0]..w[1]]].concat()).collect()
}

/// Writes files like a rotating capture, each in two pieces that end anywhere.
fn write_slowly(folder: &Path, files: &[Vec<u8>]) {
    let halves = files.iter().map(|file| file.split_at(file.len() / 2 + 5));
    let mut pieces =
        halves.enumerate().flat_map(|(k, (first, second))| [(k, first, true), (k, second, false)]);
    jitlat_waiting::at_pace(Duration::from_millis(30), || {
        let Some((k, piece, begins)) = pieces.next() else { return false };
        // Names like those of `tcpdump -C`: from the tenth file on, the order of the names differs.
        let path = folder.join(format!("cap{}", k + 8));
        let mut out =
            if begins { File::create(path) } else { File::options().append(true).open(path) }.unwrap();
        out.write_all(piece).unwrap();
        true
    });
}

fn lines(o: &Output) -> Vec<String> {
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8(o.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn folders_are_followed_while_captures_appear_in_them() {
    for name in ["atm_loss_udp340", "atm_tcp_up"] {
        let [reference, monitor] = ["ref", "mon"].map(|point| data(&format!("{name}.{point}.pcap")));
        let paths = [reference.to_str().unwrap(), monitor.to_str().unwrap()];
        let whole = lines(&run(["spp", "-f", paths[0], "-F", paths[1], "-c", "-p", "-q"]));
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [near, far] = folders.each_ref().map(|folder| folder.path().to_str().unwrap().to_owned());
        let mut follows = Running::start(&["spp", "-f", &near, "-F", &far, "--follow", "-c", "-p", "-q"]);
        let writers = [(near, reference, 5), (far, monitor, 4)].map(|(folder, capture, files)| {
            spawn(move || write_slowly(Path::new(&folder), &rotated(&capture, files)))
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        // Packets that may still be matched or answered are reported at the end.
        let mut seen = follows.wait_for(whole.len() / 2);
        seen.extend(follows.interrupt());
        let differs = seen.iter().zip(&whole).find(|(a, b)| a != b);
        assert!(seen == whole, "{name}: {} of {} lines, {differs:?}", seen.len(), whole.len());
    }
}

#[test]
fn connections_are_followed_while_captures_appear() {
    let capture = data("atm_tcp_up.ref.pcap");
    let path = capture.to_str().unwrap();
    let whole = lines(&run(["tcp", path, "-e"]));
    let folder = tempfile::tempdir().unwrap();
    let follows = folder.path().to_str().unwrap();
    let mut running = Running::start(&["tcp", follows, "--follow", "-e"]);
    let files = rotated(&capture, 6);
    write_slowly(folder.path(), &files[..3]);
    let mut seen = running.wait_for(1);
    write_slowly(folder.path(), &files);
    seen.extend(running.wait_for(whole.len() - 1));
    seen.extend(running.interrupt());
    assert!(seen == whole, "{} of {} lines", seen.len(), whole.len());
    // With a time limit, the report has everything captured until then.
    let o = run(["tcp", follows, "--follow", "--duration", "300ms", "--json", "-"]);
    let (followed, whole) = (o.stdout, run(["tcp", path, "--json", "-"]).stdout);
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    assert_eq!(String::from_utf8_lossy(&followed), String::from_utf8_lossy(&whole));
}

#[test]
fn what_cannot_be_followed_is_said() {
    let refused = |arguments: &[&str]| {
        let o = run(arguments);
        assert_eq!(o.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&o.stderr).into_owned()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(
        refused(&["spp", "-f", path, path, "-F", path, "--follow"]).contains("one folder or file at each")
    );
    assert!(refused(&["spp", "-f", path, "-F", path, "--follow"]).contains("both points are"));
    assert!(refused(&["spp", "-f", path, "-F", "-", "--follow"]).contains("standard input"));
    assert!(refused(&["spp", "-f", path, "-F", "nowhere", "--follow"]).contains("nowhere"));
    assert!(refused(&["tcp", path, path, "--follow"]).contains("a single folder or file"));
    let nothing = refused(&["tcp", path, "--follow", "--duration", "100ms"]);
    assert!(nothing.contains("contains no packets"), "{nothing}");
}

/// Pseudo-random numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn around_zero(&mut self, most: i64) -> i64 {
        self.below(2 * most as u64 + 1) as i64 - most
    }
}

/// Returns an IPv4 packet with UDP; `back`: from the monitor's side.
fn packet(back: bool, ident: u16, payload: u64, padding: usize) -> Vec<u8> {
    let (mut src, mut dst, mut ports) = ([10, 1, 0, 1], [10, 2, 0, 2], [5000u16, 6000]);
    if back {
        (src, dst) = (dst, src);
        ports.reverse();
    }
    let length = (36 + padding) as u16;
    let mut p = vec![0x45, 0];
    p.extend([length.to_be_bytes(), ident.to_be_bytes(), [0x40, 0], [60, 17], [0, 0]].concat());
    p.extend([src, dst].concat());
    p.extend([ports[0].to_be_bytes(), ports[1].to_be_bytes(), (length - 20).to_be_bytes(), [0, 0]].concat());
    p.extend(payload.to_be_bytes());
    p.resize(36 + padding, 0);
    p
}

/// Generates captures at both points of some minutes of traffic over a path that loses, repeats and reorders packets,
/// with clocks that differ.
fn seen_at_both(dice: &mut Dice, seconds: u64) -> [Vec<(WallTime, Vec<u8>)>; 2] {
    let clock = |dice: &mut Dice| Clock {
        offset: Span(dice.around_zero(3_600 * SECOND)),
        skew_ppb: dice.around_zero(60_000),
        shifts: Vec::new(),
    };
    let clocks = [clock(dice), clock(dice)];
    let epoch = WallTime(1_790_000_000 * SECOND);
    let mut captures = [Vec::new(), Vec::new()];
    for back in [false, true] {
        let config = PathModel {
            delay: Span(dice.below(80_000_000) as i64),
            jitter: Jitter::Exponential { mean: Span(dice.below(8_000_000) as i64 + 1) },
            in_order: dice.below(2) == 0,
            loss: match dice.below(3) {
                0 => Choice::Never,
                1 => Choice::Bernoulli(0.03),
                _ => Choice::Gilbert(GilbertModel::simple(0.004, 0.2)),
            },
            duplication: DuplicationModel {
                choice: Choice::Bernoulli(0.002),
                copies: 1,
                lag: Span(dice.below(30_000_000) as i64),
            },
            reordering: ReorderingModel { choice: Choice::Bernoulli(0.01), by: Span::millis(120) },
            ..PathModel::default()
        };
        let mut path = Impairment::new(config, dice.next());
        let identified = dice.below(3) > 0;
        let (mut at, mut k) = (dice.below(50_000_000) as i64, 0u64);
        while at < seconds as i64 * SECOND {
            // Now and then there is a pause, or the same packet again, with nothing to distinguish it.
            at += match dice.below(400) {
                0 => dice.below(3 * SECOND as u64) as i64,
                _ => dice.below(60_000_000) as i64 + 1_000,
            };
            k += u64::from(dice.below(100) > 0);
            let ident = if identified { (k % 65_535 + 1) as u16 } else { 0 };
            let bytes = packet(back, ident, k, dice.below(3) as usize * 100);
            let [here, there] = if back { [1, 0] } else { [0, 1] };
            captures[here].push((clocks[here].at(epoch, Span(at)), bytes.clone()));
            for arrived in path.pass(SteadyTime(at), bytes.len()).iter() {
                captures[there].push((clocks[there].at(epoch, Span(arrived.0)), bytes.clone()));
            }
        }
    }
    captures.iter_mut().for_each(|capture| capture.sort());
    captures
}

fn write(path: &Path, packets: &[(WallTime, Vec<u8>)]) {
    let mut bytes = Vec::new();
    let mut writer = PcapWriter::new(&mut bytes, LinkType::RAW, 256).unwrap();
    for (at, data) in packets {
        let frame = Frame { at: *at, link: LinkType::RAW, wire_length: data.len() as u32, data };
        writer.write(&frame).unwrap();
    }
    std::fs::write(path, bytes).unwrap();
}

/// JITLAT_SEEDS sets the number of random pairs and cuts, JITLAT_SEED the first seed.
#[test]
fn parts_of_unseen_pairs_cut_at_random_are_the_whole() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (first, seeds) = (number("JITLAT_SEED").unwrap_or(1), number("JITLAT_SEEDS").unwrap_or(4));
    for seed in first..first + seeds {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let mut dice = Dice(seed);
        let seconds = 60 + dice.below(120);
        let captures = seen_at_both(&mut dice, seconds);
        let [near, far, plan] = ["near.pcap", "far.pcap", "plan.json"].map(path);
        write(Path::new(&near), &captures[0]);
        write(Path::new(&far), &captures[1]);
        let points = ["spp", "-f", &near, "-F", &far, "-d", "2", "-q"];
        let columns = ["-c", "-p", "-O", "--sizes", "--rate"];
        let whole = run(points.iter().chain(&columns));
        assert!(lines(&whole).len() as u64 > 4 * seconds, "{seed}: {} lines", lines(&whole).len());
        // Now and then each part makes the first pass itself.
        let planned = dice.below(3) > 0;
        if planned {
            lines(&run(points.iter().chain(&["--write-plan", &plan])));
        }
        let mut cuts: Vec<i64> =
            (0..1 + dice.below(4)).map(|_| dice.below(seconds * SECOND as u64) as i64).collect();
        if dice.below(2) == 0 {
            // A part of one millisecond, and a part that begins with a packet.
            cuts.push(cuts[0] + 1_000_000);
            let (began, packet) =
                (captures[0][0].0, &captures[0][dice.below(captures[0].len() as u64) as usize]);
            cuts.push((packet.0 - began).0.max(1));
        }
        cuts.sort_unstable();
        cuts.dedup();
        let border = |ns: i64| format!("+{}.{:09}", ns / SECOND, ns % SECOND);
        let borders: Vec<String> = cuts.into_iter().map(border).collect();
        let ends = borders.iter().map(String::as_str).chain([""]);
        let parts = [""].into_iter().chain(borders.iter().map(String::as_str)).zip(ends);
        let mut states = Vec::new();
        for (from, to) in parts {
            let (keep, state) = (format!("{from}..{to}"), path(&format!("{}.part", states.len())));
            let own = ["--keep", &keep, "--state", &state, "--plan", &plan];
            lines(&run(points.iter().chain(&own[..if planned { 6 } else { 4 }])));
            states.push(state);
        }
        let o =
            run(["spp", "-q", "--join"].into_iter().chain(states.iter().map(String::as_str)).chain(columns));
        let (joined, whole) = (lines(&o), lines(&whole));
        let differs = joined.iter().zip(&whole).find(|(a, b)| a != b);
        assert!(
            joined == whole,
            "seed {seed}, cut at {borders:?}: {} of {} lines, {differs:?}",
            joined.len(),
            whole.len()
        );
    }
}
