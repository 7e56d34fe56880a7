//! Measures how fast two captures are converted to round trips, against tools that read the same files in the same
//! run: tcpdump copying one to /dev/null (the bare read), capinfos and tshark, if they are installed.
//!
//! `cargo build --release && ./target/release/passive [PACKETS [DIR]]`. The true result is known and checked.

use nix::sys::resource::{UsageWho, getrusage};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Delays of the two directions, and jitter of both, in ns.
const OUT: u64 = 12_000_000;
const IN: u64 = 9_000_000;
const JITTER: u64 = 200_000;
/// Packets per second, in both directions together.
const RATE: u64 = 100_000;
/// Number of packets lost per million, in each direction.
const LOST: u64 = 1000;
/// The monitor's clock: ahead by this, and fast by 20 ppm.
const AHEAD: u64 = 3_250_000_000;
const SKEW_PPM: u64 = 20;
/// Number of packets for tshark, which is a hundred times slower.
const FOR_TSHARK: usize = 200_000;

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let packets = args.next().and_then(|n| n.parse().ok()).unwrap_or(8_000_000usize);
    let dir = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = dir.join(format!("jitlat-bench-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let result = run(packets, &dir);
    fs::remove_dir_all(&dir)?;
    result
}

fn run(packets: usize, dir: &Path) -> io::Result<()> {
    let jitlat = std::env::current_exe()?.with_file_name("jitlat");
    println!(
        "{packets} packets at two points, best of 3, files in the page cache; million packets per second of"
    );
    println!("{:44} {:>10} {:>10} {:>10} {:>12}", "", "processor", "the clock", "MB held", "× bare read");
    for tcp in [false, true] {
        let name = if tcp { "tcp" } else { "udp" };
        let [r, m] = write(dir, name, packets, tcp)?;
        let small = write(dir, "small", FOR_TSHARK, tcp)?;
        let one = packets as f64 / 2.0;
        let bare = measure(Command::new("tcpdump").arg("-r").arg(&r).args(["-Z", "root", "-w", "/dev/null"]));
        let floor = bare.as_ref().map(|u| u.processor.as_secs_f64() / one);
        let show = |what: &str, n: f64, used: Option<Used>| match used {
            None => println!("{what:44} not installed, or failed"),
            Some(u) => {
                let per = u.processor.as_secs_f64() / n;
                println!(
                    "{what:44} {:>10.2} {:>10.2} {:>10.0} {:>12}",
                    1e-6 / per,
                    n / u.elapsed.as_secs_f64() / 1e6,
                    u.megabytes,
                    floor.map_or("-".to_owned(), |f| format!("{:.2}", per / f))
                );
            }
        };
        println!("{name}");
        show("  tcpdump -r … -w /dev/null (bare read)", one, bare);
        let spp = |more: &[&str]| {
            measure(Command::new(&jitlat).arg("spp").arg("-f").arg(&r).arg("-F").arg(&m).args(more))
        };
        show("  jitlat spp, a line for each pair", packets as f64, spp(&["-q"]));
        show("  jitlat spp --summary", packets as f64, spp(&["--summary"]));
        show("  jitlat spp --json (both ways analysed)", packets as f64, spp(&["--json", "/dev/null", "-q"]));
        show("  jitlat spp --per-flow", packets as f64, spp(&["--per-flow", "--summary"]));
        if tcp {
            show("  jitlat tcp", one, measure(Command::new(&jitlat).arg("tcp").arg(&r)));
        }
        show("  capinfos", one, measure(Command::new("capinfos").arg(&r)));
        let ack = ["-T", "fields", "-e", "tcp.analysis.ack_rtt"];
        show(
            "  tshark -T fields (200 000 packets)",
            FOR_TSHARK as f64 / 2.0,
            measure(Command::new("tshark").arg("-r").arg(&small[0]).args(ack)),
        );
        check(&jitlat, [&r, &m], &dir.join("result.json"))?;
    }
    Ok(())
}

/// Checks that the round trips written to `result` are those of the captures.
fn check(jitlat: &Path, captures: [&Path; 2], result: &Path) -> io::Result<()> {
    let [r, m] = captures;
    let command = &mut Command::new(jitlat);
    command.arg("spp").arg("-f").arg(r).arg("-F").arg(m).args(["--summary", "--json"]).arg(result);
    if !command.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
        return Err(io::Error::other("jitlat spp failed"));
    }
    let result: serde_json::Value = serde_json::from_slice(&fs::read(result)?)?;
    let (truth, mean) = ((OUT + IN + JITTER) as f64, &result["summary"]["rtt_ns"]["mean"]);
    match mean.as_f64().filter(|mean| (mean / truth - 1.0).abs() < 1e-3) {
        Some(mean) => println!("  mean round trip {:.3} ms, {:.3} were put in", mean / 1e6, truth / 1e6),
        None => return Err(io::Error::other(format!("mean round trip {mean} ns, {truth} were put in"))),
    }
    Ok(())
}

struct Used {
    processor: Duration,
    elapsed: Duration,
    megabytes: f64,
}

fn measure(command: &mut Command) -> Option<Used> {
    let one = |command: &mut Command| {
        let (start, before) = (Instant::now(), children()?);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let mut held = 0.0f64;
        let status = loop {
            held = held.max(resident(child.id()).unwrap_or(0.0));
            match child.try_wait().ok()? {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let used = Used { processor: children()? - before, elapsed: start.elapsed(), megabytes: held };
        status.success().then_some(used)
    };
    (0..3).filter_map(|_| one(command)).min_by_key(|u| u.processor)
}

/// Processor time of all children that have ended.
fn children() -> Option<Duration> {
    let u = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    let time = |t: nix::sys::time::TimeVal| {
        Duration::new(t.tv_sec() as u64, 0) + Duration::from_micros(t.tv_usec() as u64)
    };
    Some(time(u.user_time()) + time(u.system_time()))
}

/// Peak memory of a process in MB.
fn resident(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find(|l| l.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|k| k / 1024.0)
}

/// A sighting: time on the point's clock, direction, number of the packet.
type Seen = (u64, bool, u32);

/// Writes two captures of the same traffic: OUT and IN alternately, 64 flows.
fn write(dir: &Path, name: &str, packets: usize, tcp: bool) -> io::Result<[PathBuf; 2]> {
    let mut state = 1u64;
    let mut below = move |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let start = 1_700_000_000_000_000_000u64;
    let gap = 2_000_000_000 / RATE;
    let monitor = |t: u64| t + AHEAD + (t - start) / 1_000_000 * SKEW_PPM;
    let (mut reference, mut far): (Vec<Seen>, Vec<Seen>) = Default::default();
    let mut t = start;
    // Every packet is seen at two points, so there are half as many packets as sightings.
    for i in 0..(packets / 4) as u32 {
        t += gap * 6 / 10 + below(gap * 8 / 10);
        let (out, back) = (OUT + below(JITTER), IN + below(JITTER));
        let answered = t + out + gap / 25 + below(gap / 5);
        reference.push((t, true, i));
        if below(1_000_000) >= LOST {
            far.push((monitor(t + out), true, i));
        }
        far.push((monitor(answered), false, i));
        if below(1_000_000) >= LOST {
            reference.push((answered + back, false, i));
        }
    }
    let mut paths = [PathBuf::new(), PathBuf::new()];
    for (k, mut seen) in [reference, far].into_iter().enumerate() {
        seen.sort_unstable();
        paths[k] = dir.join(format!("{name}.{k}.pcap"));
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&paths[k])?);
        for word in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 262_144, 1] {
            file.write_all(&word.to_le_bytes())?;
        }
        for (at, out, i) in seen {
            let frame = frame(out, i, tcp);
            let micros = at / 1000;
            for word in [
                (micros / 1_000_000) as u32,
                (micros % 1_000_000) as u32,
                frame.len() as u32,
                frame.len() as u32,
            ] {
                file.write_all(&word.to_le_bytes())?;
            }
            file.write_all(&frame)?;
        }
        file.flush()?;
    }
    Ok(paths)
}

/// Makes an Ethernet frame with 32 bytes of UDP payload; with TCP, data in one direction and its acknowledgement in
/// the other.
fn frame(out: bool, i: u32, tcp: bool) -> Vec<u8> {
    const PAYLOAD: usize = 32;
    let (flow, turn) = ((i % 64) as u16, i / 64);
    let mut v = vec![2, 0, 0, 0, 0, 1 + u8::from(out), 2, 0, 0, 0, 0, 2 - u8::from(out), 8, 0];
    let payload = if tcp && !out { 0 } else { PAYLOAD };
    let header = if tcp { 32 } else { 8 };
    let length = (20 + header + payload) as u16;
    v.extend([0x45, 0]);
    v.extend(length.to_be_bytes());
    v.extend(((i * 2 + u32::from(!out)) as u16).to_be_bytes());
    v.extend([0x40, 0, 64, if tcp { 6 } else { 17 }, 0, 0]);
    let (a, b) = ([10, 88, 0, 1], [10, 88, 0, 2]);
    v.extend(if out { [a, b] } else { [b, a] }.concat());
    let (near, service) = (20_000 + flow, if tcp { 5022u16 } else { 5001 });
    for port in if out { [near, service] } else { [service, near] } {
        v.extend(port.to_be_bytes());
    }
    if tcp {
        let sequence = 1000u32.wrapping_add(turn * PAYLOAD as u32);
        let numbers = if out { [sequence, 5000] } else { [5000, sequence.wrapping_add(PAYLOAD as u32)] };
        numbers.iter().for_each(|n| v.extend(n.to_be_bytes()));
        v.extend([0x80, if out { 0x18 } else { 0x10 }, 1, 244, 0, 0, 0, 0, 1, 1, 8, 10]);
        for stamp in [i, if out { i.saturating_sub(1) } else { i }] {
            v.extend(stamp.to_be_bytes());
        }
    } else {
        v.extend((8 + PAYLOAD as u16).to_be_bytes());
        v.extend([0, 0]);
    }
    if payload > 0 {
        v.extend(u64::from(i).to_be_bytes());
        v.extend([0; PAYLOAD - 8]);
    }
    v
}
