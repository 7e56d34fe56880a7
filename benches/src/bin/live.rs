//! Measures the load of following packets at two interfaces of one host on the whole machine: `jitlat spp -i … -I …`
//! compared with a bare reader of the kernel's ring that extracts number and time of each packet and joins the tables
//! of both points at the end, with two `tcpdump -w /dev/null` (they also share a ring with the kernel), and with the
//! traffic alone. UDP in both directions through a switch between two network namespaces; 200-byte packets, in bursts
//! every millisecond. Needs root.
//!
//! Processor time is counted twice: that of the capturing programs, and that of all processors, kernel included,
//! minus that of the traffic alone. Dropped and matched packets are listed next to it.
//!
//! `cargo build --release && ./target/release/live [SECONDS] [REPETITIONS]`

use jitlat_benches::threads::{busy, median, range};
use jitlat_net::capture::Frame;
use jitlat_net::capture::interface::{InterfaceCapture, InterfaceSettings};
use jitlat_net::emulator::lab::{Lab, Namespace};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use std::error::Error;
use std::net::UdpSocket;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAYLOAD: usize = 172;
const RATES: [u64; 6] = [25_000, 50_000, 100_000, 150_000, 200_000, 300_000];
/// Addresses of the two ends.
const ENDS: [&str; 2] = ["10.9.0.1:4711", "10.9.0.2:4711"];
/// Time that a listener needs to begin, and to receive packets in flight.
const LEAD: Duration = Duration::from_secs(2);

/// The capturing program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listener {
    Nothing,
    Ring,
    Tcpdump,
    Jitlat,
}

const LISTENERS: [(&str, Listener); 4] = [
    ("nothing", Listener::Nothing),
    ("bare ring", Listener::Ring),
    ("tcpdump", Listener::Tcpdump),
    ("jitlat", Listener::Jitlat),
];

/// Results of one run; times are shares of one processor.
struct Run {
    sent: u64,
    /// Packets per second.
    rate: f64,
    dropped: u64,
    programs: f64,
    machine: f64,
    matched: Option<u64>,
    lost: Option<u64>,
    rtt_us: Option<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |n| std::env::args().nth(n);
    if argument(1).as_deref() == Some("ring") {
        return read_rings();
    }
    let number = |n| argument(n).and_then(|a| a.parse::<u64>().ok());
    let (seconds, repetitions) = (number(1).unwrap_or(5), number(2).unwrap_or(3));
    let lab = Lab::new()?;
    let switch = lab.switch()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "two interfaces, {repetitions} runs of {seconds} s, medians (smallest to largest), % of one processor; load before: {}",
        load.trim()
    );
    println!(
        "{:>8} {:<10} {:>8} {:>8} {:>24} {:>24} {:>9} {:>8} {:>8} {:>9}",
        "asked/s",
        "",
        "sent/s",
        "dropped",
        "programs",
        "whole machine",
        "x ring",
        "matched",
        "lost",
        "RTT p50"
    );
    for rate in RATES {
        let mut alone = f64::NAN;
        let mut ring = f64::NAN;
        for (name, listener) in LISTENERS {
            let runs: Vec<Run> = (0..repetitions)
                .map(|_| run(&lab, &switch, listener, rate, seconds))
                .collect::<Result<_, _>>()?;
            let machine = median(runs.iter().map(|r| r.machine));
            match listener {
                Listener::Nothing => alone = machine,
                Listener::Ring => ring = machine - alone,
                _ => {}
            }
            let share = |of: fn(&Run) -> Option<u64>| {
                let shares = runs.iter().filter_map(|r| Some(100.0 * of(r)? as f64 / r.sent as f64));
                let worst = median(shares);
                if worst.is_nan() { "-".to_owned() } else { format!("{worst:.2}%") }
            };
            println!(
                "{rate:>8} {name:<10} {:>8.0} {:>8} {:>24} {:>24} {:>9.2} {:>8} {:>8} {:>6.1} us",
                median(runs.iter().map(|r| r.rate)),
                runs.iter().map(|r| r.dropped).max().unwrap_or(0),
                range(runs.iter().map(|r| 100.0 * r.programs)),
                range(runs.iter().map(|r| 100.0 * r.machine)),
                (machine - alone) / ring,
                share(|r| r.matched),
                share(|r| r.lost),
                median(runs.iter().filter_map(|r| r.rtt_us)),
            );
        }
    }
    Ok(())
}

fn run(
    lab: &Lab,
    switch: &Namespace,
    listener: Listener,
    rate: u64,
    seconds: u64,
) -> Result<Run, Box<dyn Error>> {
    let exe = std::env::current_exe()?;
    let commands = match listener {
        Listener::Nothing => vec![],
        Listener::Ring => {
            let mut c = switch.command(&exe);
            c.args(["ring", "client", "server"]);
            vec![c]
        }
        Listener::Tcpdump => ["client", "server"]
            .map(|interface| {
                let mut c = switch.command("tcpdump");
                c.args(["-i", interface, "-s", "256", "-B", "16384", "-Z", "root", "-w", "/dev/null", "udp"]);
                c
            })
            .into(),
        Listener::Jitlat => {
            let mut c = switch.command(exe.with_file_name("jitlat"));
            c.args(["spp", "-i", "client", "-I", "server", "--only", "udp", "--json", "-"]);
            vec![c]
        }
    };
    let before = children_time()?;
    let children = commands
        .into_iter()
        .map(|mut c| c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn())
        .collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(LEAD);
    let (machine, began) = (busy(), Instant::now());
    let sent = traffic(lab, rate, seconds)?;
    // On a busy machine the traffic takes longer than requested.
    let lasted = began.elapsed().as_secs_f64();
    // Deliveries that are still delayed belong to the traffic.
    std::thread::sleep(Duration::from_millis(100));
    let machine = (busy() - machine).as_secs_f64() / lasted;
    std::thread::sleep(LEAD);
    let mut run = Run {
        sent,
        rate: sent as f64 / lasted,
        dropped: 0,
        programs: 0.0,
        machine,
        matched: None,
        lost: None,
        rtt_us: None,
    };
    for child in children {
        let (output, said) = interrupted(child)?;
        match listener {
            Listener::Nothing => {}
            Listener::Tcpdump => {
                let drops = |l: &str| l.strip_suffix(" packets dropped by kernel")?.trim().parse().ok();
                run.dropped += said.lines().find_map(drops).unwrap_or(0u64);
            }
            Listener::Ring => {
                let text = String::from_utf8_lossy(&output).into_owned();
                let numbers: Vec<u64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
                let &[dropped, matched] = &numbers[..] else { return Err(format!("{text}{said}").into()) };
                (run.dropped, run.matched) = (dropped, Some(matched));
            }
            Listener::Jitlat => {
                let json: serde_json::Value = serde_json::from_slice(&output)?;
                let count = |path: &str| json.pointer(path).and_then(serde_json::Value::as_u64).unwrap_or(0);
                let both = |a: &str, b: &str| count(a) + count(b);
                run.dropped = both("/captures/reference/capture_drops", "/captures/monitor/capture_drops");
                run.matched = Some(both("/summary/out/matched", "/summary/in/matched"));
                run.lost = Some(both("/summary/out/lost", "/summary/in/lost"));
                let median = json.pointer("/summary/rtt_ns/median").and_then(serde_json::Value::as_f64);
                run.rtt_us = median.map(|ns| ns / 1e3);
                let notes =
                    ["reference", "monitor"].map(|p| json.pointer(&format!("/captures/{p}/notes")).cloned());
                for note in notes.iter().flatten().filter_map(serde_json::Value::as_array).flatten() {
                    println!("{:>8} jitlat notes: {note}", "");
                }
            }
        }
    }
    run.programs = (children_time()? - before).as_secs_f64() / lasted;
    Ok(run)
}

/// The bare reader: extracts direction, number and time of each packet at two interfaces into tables until it is
/// interrupted; prints the number of dropped packets, and of packets in both tables.
fn read_rings() -> Result<(), Box<dyn Error>> {
    let over = AtomicBool::new(false);
    let interrupt = SigSet::from(Signal::SIGINT);
    // Blocked in all threads, because the signal is waited for.
    interrupt.thread_block()?;
    let names: Vec<String> = std::env::args().skip(2).collect();
    let read = |name: &str| -> Result<(u64, [Vec<i64>; 2]), String> {
        let mut capture =
            InterfaceCapture::open(name, InterfaceSettings::default()).map_err(|e| e.to_string())?;
        let mut tables = [Vec::new(), Vec::new()];
        while !over.load(Ordering::Relaxed) {
            let timeout = Duration::from_millis(50);
            capture.poll(timeout, |frame| note(&frame, &mut tables)).map_err(|e| e.to_string())?;
        }
        Ok((capture.drops(), tables))
    };
    let (waited, results) = std::thread::scope(|scope| {
        let readers: Vec<_> = names.iter().map(|name| scope.spawn(|| read(name))).collect();
        let waited = interrupt.wait();
        over.store(true, Ordering::Relaxed);
        let join =
            |r: std::thread::ScopedJoinHandle<'_, _>| r.join().unwrap_or(Err("a reader failed".to_owned()));
        (waited, readers.into_iter().map(join).collect::<Vec<_>>())
    });
    waited?;
    let [(a, here), (b, there)] = <[_; 2]>::try_from(results.into_iter().collect::<Result<Vec<_>, _>>()?)
        .map_err(|_| "two interfaces")?;
    let both = |way: usize| here[way].iter().zip(&there[way]).filter(|(a, b)| **a != 0 && **b != 0).count();
    println!("{} {}", a + b, both(0) + both(1));
    Ok(())
}

/// Stores the time of a packet by its direction and number.
fn note(frame: &Frame<'_>, tables: &mut [Vec<i64>; 2]) {
    const IP: usize = 14;
    const UDP: u8 = 17;
    let number = || {
        let ip = frame.data.get(IP..)?;
        let length = usize::from(ip.first()? & 0x0f) * 4;
        if *ip.get(9)? != UDP {
            return None;
        }
        let way = usize::from(*ip.get(15)? == 2);
        let number = u64::from_be_bytes(*ip.get(length + 8..)?.first_chunk()?);
        Some((way, usize::try_from(number).ok().filter(|n| *n < 1 << 26)?))
    };
    let Some((way, number)) = number() else { return };
    let table = &mut tables[way];
    if table.len() <= number {
        table.resize((number + 1).next_power_of_two(), 0);
    }
    table[number] = frame.at.0;
}

/// Interrupts a program like a user; returns its output.
fn interrupted(child: Child) -> Result<(Vec<u8>, String), Box<dyn Error>> {
    kill(Pid::from_raw(child.id().try_into()?), Signal::SIGINT)?;
    let output = child.wait_with_output()?;
    Ok((output.stdout, String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Processor time of all children that have ended.
fn children_time() -> Result<Duration, Box<dyn Error>> {
    let u = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |t: nix::sys::time::TimeVal| Duration::new(t.tv_sec() as u64, t.tv_usec() as u32 * 1000);
    Ok(time(u.user_time()) + time(u.system_time()))
}

/// Number of packets that this machine's processors have refused to queue between two interfaces: they are lost
/// before a tap sees them.
fn refused() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/net/softnet_stat")?;
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    Ok(text.lines().filter_map(dropped).sum())
}

/// Sends half of `rate` in each direction; returns the number of sent packets. Reports packets that never reached the
/// switch.
fn traffic(lab: &Lab, rate: u64, seconds: u64) -> Result<u64, Box<dyn Error>> {
    let places: [&Namespace; 2] = [&lab.client, &lab.server];
    let mut sockets = Vec::new();
    for (place, end) in places.iter().zip(ENDS) {
        sockets.push(place.within(|| UdpSocket::bind(end))??);
    }
    let over = AtomicBool::new(false);
    let before = refused()?;
    let sent: u64 = std::thread::scope(|scope| {
        let senders: Vec<_> = sockets
            .iter()
            .zip(ENDS.iter().rev())
            .map(|(socket, to)| {
                let over = &over;
                scope.spawn(move || send(socket, to, rate / 2, over))
            })
            .collect();
        std::thread::sleep(Duration::from_secs(seconds));
        over.store(true, Ordering::Relaxed);
        senders.into_iter().filter_map(|s| s.join().ok()).sum()
    });
    let refused = refused()? - before;
    if refused > 0 {
        println!("{:>9} {refused} of {sent} refused by a queue of this machine", "");
    }
    Ok(sent)
}

fn send(socket: &UdpSocket, to: &str, rate: u64, over: &AtomicBool) -> u64 {
    let mut packet = [0; PAYLOAD];
    let start = Instant::now();
    let (mut sent, mut taken) = (0u64, 0);
    while !over.load(Ordering::Relaxed) {
        let due = start.elapsed().as_micros() as u64 * rate / 1_000_000;
        for n in sent..due {
            if over.load(Ordering::Relaxed) {
                return taken;
            }
            packet[..8].copy_from_slice(&n.to_be_bytes());
            taken += u64::from(socket.send_to(&packet, to).is_ok());
        }
        sent = due;
        std::thread::sleep(Duration::from_millis(1));
    }
    taken
}
