//! How many packets a second `jitlat spp -i … -I …` follows at two interfaces of one host before the kernel
//! drops some, against two `tcpdump -w /dev/null` at the same interfaces and rates. UDP both ways through a
//! switch between two network namespaces; 200-byte packets, in bursts every millisecond. Needs root.
//!
//! `cargo build --release && ./target/release/live [SECONDS]`

use jitlat_net::emulator::lab::{Lab, Namespace};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
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
/// What a listener needs to begin, and to take what is still on its way.
const LEAD: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(5);
    let jitlat = std::env::current_exe()?.with_file_name("jitlat");
    let lab = Lab::new()?;
    let switch = lab.switch()?;
    println!(
        "packets a second at each of two interfaces, {seconds} s each; processor time of the capturing programs"
    );
    println!(
        "{:>9} | {:>9} {:>20} | {:>9} {:>20} {:>10} {:>8} {:>12}",
        "asked", "sent", "tcpdump lost, load", "sent", "jitlat lost, load", "matched", "lost", "RTT p50"
    );
    for rate in RATES {
        let dumps = ["client", "server"].map(|interface| {
            let mut c = switch.command("tcpdump");
            c.args(["-i", interface, "-s", "256", "-B", "16384", "-Z", "root", "-w", "/dev/null", "udp"]);
            c
        });
        let dumps =
            dumps.into_iter().map(|mut c| c.stderr(Stdio::piped()).spawn()).collect::<Result<Vec<_>, _>>();
        let bare = match dumps {
            Err(_) => ("not installed".to_owned(), 0),
            Ok(children) => {
                let before = children_time()?;
                std::thread::sleep(LEAD);
                let sent = traffic(&lab, rate, seconds)?;
                std::thread::sleep(LEAD);
                let mut dropped = 0;
                for child in children {
                    let text = interrupted(child)?.1;
                    dropped += text
                        .lines()
                        .find_map(|l| l.strip_suffix(" packets dropped by kernel")?.trim().parse().ok())
                        .unwrap_or(0u64);
                }
                (drops_and_load(dropped, 2 * sent, children_time()? - before, seconds), sent)
            }
        };
        let child = switch
            .command(&jitlat)
            .args(["spp", "-i", "client", "-I", "server", "--only", "udp", "--json", "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let before = children_time()?;
        std::thread::sleep(LEAD);
        let sent = traffic(&lab, rate, seconds)?;
        std::thread::sleep(LEAD);
        let json: serde_json::Value = serde_json::from_slice(&interrupted(child)?.0)?;
        let count = |path: &str| json.pointer(path).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let dropped = count("/captures/reference/capture_drops") + count("/captures/monitor/capture_drops");
        let matched = count("/summary/out/matched") + count("/summary/in/matched");
        let lost = count("/summary/out/lost") + count("/summary/in/lost");
        println!(
            "{rate:>9} | {:>9} {:>20} | {:>9} {:>20} {:>9.2}% {:>7.2}% {:>9.3} us",
            bare.1 / seconds,
            bare.0,
            sent / seconds,
            drops_and_load(dropped, 2 * sent, children_time()? - before, seconds),
            100.0 * matched as f64 / sent as f64,
            100.0 * lost as f64 / sent as f64,
            json.pointer("/summary/rtt_ns/median").and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN)
                / 1e3
        );
    }
    Ok(())
}

/// The share of `passed` packets that the kernel dropped, and the processor `time` as a share of `seconds`.
fn drops_and_load(dropped: u64, passed: u64, time: Duration, seconds: u64) -> String {
    let share = 100.0 * dropped as f64 / passed.max(1) as f64;
    format!("{share:.3} %, {:.0} %", 100.0 * time.as_secs_f64() / seconds as f64)
}

/// Ends a program as a user would; what it said.
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

/// Packets that this machine's processors have refused to queue between two interfaces: lost before a tap sees them.
fn refused() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/net/softnet_stat")?;
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    Ok(text.lines().filter_map(dropped).sum())
}

/// Half of `rate` each way; returns how many packets were sent. Tells of those that never reached the switch.
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
            packet[..8].copy_from_slice(&n.to_be_bytes());
            taken += u64::from(socket.send_to(&packet, to).is_ok());
        }
        sent = due;
        std::thread::sleep(Duration::from_millis(1));
    }
    taken
}
