//! Measures the memory that captures of any length and of a million flows take: `jitlat spp` and `jitlat tcp` read
//! the traffic of two points from pipes, so no long files are needed, and their peak memory is printed.
//!
//! `cargo build --release && ./target/release/memory [MILLIONS]`: number of packets at each point in the first run;
//! the second run has ten times as many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Delays of the two directions, jitter of both, and time between two exchanges, in ns.
const OUT: u64 = 12_000_000;
const IN: u64 = 9_000_000;
const JITTER: u64 = 200_000;
const GAP: u64 = 20_000;
const START: u64 = 1_700_000_000_000_000_000;
/// Number of exchanges of which one loses its OUT packet.
const LOSS: u64 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let millions: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4);
    let jitlat = std::env::current_exe()?.with_file_name("jitlat");
    let dir = std::env::temp_dir().join(format!("jitlat-memory-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    println!("{:44} {:>10} {:>8} {:>8} {:>8} {:>9}", "", "packets", "flows", "GB read", "MB held", "seconds");
    let result = (|| {
        for (what, arguments, points) in [
            ("spp --summary", &["--summary"][..], 2),
            ("spp --json", &["--json", "/dev/null", "-q"], 2),
            ("spp --per-flow", &["--per-flow", "--summary"], 2),
            ("tcp", &[], 1),
        ] {
            for (times, flows) in [(1, 64), (10, 64), (1, 1_000_000)] {
                let packets = millions * 1_000_000 * times;
                run(&jitlat, &dir, what, arguments, Traffic { packets, flows, tcp: points == 1 })?;
            }
        }
        Ok(())
    })();
    fs::remove_dir_all(&dir)?;
    result
}

#[derive(Clone, Copy)]
struct Traffic {
    /// Number of packets at each point.
    packets: u64,
    flows: u32,
    tcp: bool,
}

fn run(
    jitlat: &Path,
    dir: &Path,
    what: &str,
    arguments: &[&str],
    traffic: Traffic,
) -> Result<(), Box<dyn Error>> {
    let pipes = [dir.join("reference"), dir.join("monitor")];
    for pipe in &pipes {
        let _ = fs::remove_file(pipe);
        nix::unistd::mkfifo(pipe, nix::sys::stat::Mode::S_IRWXU)?;
    }
    let mut command = Command::new(jitlat);
    match traffic.tcp {
        true => command.arg("tcp").arg(&pipes[0]),
        false => command
            .args(["spp", "-a", "10.88.0.0/16", "-A", "10.89.0.0/16", "-f"])
            .arg(&pipes[0])
            .arg("-F")
            .arg(&pipes[1]),
    };
    let start = Instant::now();
    let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (held, bytes, said) = std::thread::scope(|scope| -> io::Result<_> {
        let used = if traffic.tcp { &pipes[..1] } else { &pipes[..] };
        let writers: Vec<_> = used
            .iter()
            .zip([false, true])
            .map(|(pipe, monitor)| scope.spawn(move || write(pipe, monitor, traffic)))
            .collect();
        let outputs = (child.stdout.take(), child.stderr.take());
        let said = [
            scope.spawn(move || outputs.0.map(io::read_to_string)),
            scope.spawn(move || outputs.1.map(io::read_to_string)),
        ];
        let mut held = 0.0f64;
        while child.try_wait()?.is_none() {
            held = held.max(resident(child.id()).unwrap_or(0.0));
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut bytes = 0;
        for writer in writers {
            bytes += writer.join().map_err(|_| io::Error::other("a writer failed"))??;
        }
        let mut text = String::new();
        for s in said.into_iter().filter_map(|s| s.join().ok()?) {
            text.push_str(&s?);
        }
        Ok((held, bytes, text))
    })?;
    println!(
        "{what:44} {:>10} {:>8} {:>8.2} {held:>8.0} {:>9.1}",
        traffic.packets,
        traffic.flows,
        bytes as f64 / 1e9,
        start.elapsed().as_secs_f64()
    );
    let of_matching =
        |l: &&str| l.contains("others") || l.contains("left alone") || l.starts_with("RTT per pair");
    said.lines().filter(of_matching).for_each(|l| println!("    {}", l.trim()));
    Ok(())
}

/// Peak memory of a process in MB.
fn resident(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find(|l| l.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|k| k / 1024.0)
}

/// Writes the packets of one point in time order. Ends if the reader closes the pipe.
fn write(pipe: &Path, monitor: bool, traffic: Traffic) -> io::Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 18, OpenOptions::new().write(true).open(pipe)?);
    for word in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 262_144, 1] {
        file.write_all(&word.to_le_bytes())?;
    }
    let mut bytes = 24;
    let mut put = |at: u64, out: bool, i: u32| {
        let frame = frame(out, i, traffic);
        let (micros, length) = (at / 1000, frame.len() as u32);
        for word in [(micros / 1_000_000) as u32, (micros % 1_000_000) as u32, length, length] {
            file.write_all(&word.to_le_bytes())?;
        }
        bytes += 16 + u64::from(length);
        file.write_all(&frame)
    };
    let mut waiting = BinaryHeap::new();
    for i in 0..(traffic.packets / 2) as u32 {
        // The random numbers are the same at both points.
        let random = |salt: u64| (u64::from(i) + (salt << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let t = START + u64::from(i) * GAP + random(1) % (GAP / 2);
        let (out, back) = (OUT + random(2) % JITTER, IN + random(3) % JITTER);
        let answered = t + out + GAP / 4;
        let lost = random(4).is_multiple_of(LOSS);
        let seen = match monitor {
            false => [(true, t, true), (true, answered + back, false)],
            true => [(!lost, t + out, true), (true, answered, false)],
        };
        waiting.extend(seen.into_iter().filter(|s| s.0).map(|(_, at, out)| Reverse((at, out, i))));
        let safe = if monitor { t + OUT - GAP } else { t - GAP };
        while waiting.peek().is_some_and(|Reverse(w)| w.0 < safe) {
            if let Some(Reverse((at, out, i))) = waiting.pop() {
                put(at, out, i)?;
            }
        }
    }
    while let Some(Reverse((at, out, i))) = waiting.pop() {
        put(at, out, i)?;
    }
    file.flush()?;
    Ok(bytes)
}

/// Makes an Ethernet frame with 32 bytes of UDP payload; with TCP, data in one direction and its acknowledgement in
/// the other.
fn frame(out: bool, i: u32, traffic: Traffic) -> Vec<u8> {
    const PAYLOAD: u32 = 32;
    let (flow, turn) = (i % traffic.flows, i / traffic.flows);
    let payload = if traffic.tcp && !out { 0 } else { PAYLOAD };
    let header = if traffic.tcp { 20 } else { 8 };
    let mut v = vec![2, 0, 0, 0, 0, 1 + u8::from(out), 2, 0, 0, 0, 0, 2 - u8::from(out), 8, 0, 0x45, 0];
    v.extend(((20 + header + payload) as u16).to_be_bytes());
    v.extend(((i * 2 + u32::from(!out)) as u16).to_be_bytes());
    v.extend([0x40, 0, 64, if traffic.tcp { 6 } else { 17 }, 0, 0]);
    let (a, b) = ([10, 88, 0, 1], [10, 89, (flow >> 24) as u8, (flow >> 16) as u8]);
    v.extend(if out { [a, b] } else { [b, a] }.concat());
    for port in if out { [flow as u16, 5001] } else { [5001, flow as u16] } {
        v.extend(port.to_be_bytes());
    }
    if traffic.tcp {
        let sequence = 1000u32.wrapping_add(turn.wrapping_mul(PAYLOAD));
        let numbers = if out { [sequence, 5000] } else { [5000, sequence.wrapping_add(PAYLOAD)] };
        numbers.iter().for_each(|n| v.extend(n.to_be_bytes()));
        v.extend([0x50, if out { 0x18 } else { 0x10 }, 1, 244, 0, 0, 0, 0]);
    } else {
        v.extend((8 + PAYLOAD as u16).to_be_bytes());
        v.extend([0, 0]);
    }
    if payload > 0 {
        v.extend(u64::from(i).to_be_bytes());
        v.resize(v.len() + PAYLOAD as usize - 8, 0);
    }
    v
}
