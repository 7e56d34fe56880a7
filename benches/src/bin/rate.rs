//! Measures how many 80-byte packets per second a one-way test carries over loopback while it keeps to the schedule
//! and records each packet, against bare loops at the same offered rates: one wakes up for each packet and sends it
//! alone, the other sends all due packets in one call. The bare loops record only send times; their receiver only
//! counts packets.
//!
//! A rate is sustained if in every repetition almost no packet was lost, half of the packets left less than a period
//! late, and half of the last tenth less than a millisecond late.
//!
//! `cargo run --release -p jitlat-benches --bin rate [SECONDS] [REPETITIONS]`

use jitlat_benches::oneway::{self, cpu};
use jitlat_benches::threads::{median, range};
use jitlat_core::{Span, StampSource};
use jitlat_net::clock::steady;
use jitlat_net::pace::{PaceMode, Pacing};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt};
use std::error::Error;
use std::io::{IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const RATES: [u64; 8] = [25_000, 50_000, 100_000, 150_000, 200_000, 250_000, 300_000, 400_000];
const BATCH: usize = 32;
const SIZE: usize = 80;
/// Largest loss ratio of a sustained rate.
const LOSS: f64 = 0.001;
/// Largest lateness of the last tenth of a sustained rate, in ns.
const LATE: f64 = 1e6;

/// The sender.
#[derive(Clone, Copy)]
enum Sender {
    /// A bare loop: one packet per call, or all that are due.
    Bare { due: bool },
    /// jitlat with this way to wait.
    Jitlat(PaceMode),
}

const SENDERS: [(&str, Sender); 4] = [
    ("bare, each", Sender::Bare { due: false }),
    ("bare, due", Sender::Bare { due: true }),
    ("jitlat, sleep", Sender::Jitlat(PaceMode::Sleep)),
    ("jitlat, spin", Sender::Jitlat(PaceMode::Spin)),
];

/// Results of one run.
struct Run {
    loss: f64,
    /// Processor time of both ends, in µs per packet.
    cpu: f64,
    /// Median lateness against the schedule, in ns, of all packets and of the last tenth.
    late: f64,
    late_at_end: f64,
}

impl Run {
    /// Computes the result from the sent packets (number, ns since any origin), the number of arrived packets, and
    /// the processor time in s.
    fn new(sent: &[(i64, i64)], packets: u64, received: u64, period: f64, cpu: f64) -> Run {
        let off = |(seq, at): &(i64, i64)| *at as f64 - *seq as f64 * period;
        let anchor = sent.iter().map(off).fold(f64::INFINITY, f64::min);
        let late: Vec<f64> = sent.iter().map(|row| off(row) - anchor).collect();
        Run {
            loss: 1.0 - received as f64 / packets.max(1) as f64,
            cpu: cpu * 1e6 / packets.max(1) as f64,
            late: median(late.iter().copied()),
            late_at_end: median(late[late.len() - late.len() / 10..].iter().copied()),
        }
    }

    fn keeps(&self, period: f64) -> bool {
        self.loss <= LOSS && self.late < period && self.late_at_end < LATE
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |n| std::env::args().nth(n).and_then(|a| a.parse::<u64>().ok());
    let (seconds, repetitions) = (argument(1).unwrap_or(2), argument(2).unwrap_or(3));
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "one way over loopback, {SIZE}-byte packets, {repetitions} runs of {seconds} s a row, medians (smallest to \
         largest); load before: {}",
        load.trim()
    );
    println!(
        "{:>9} {:<14} {:>4} {:>22} {:>26} {:>26} {:>9}",
        "offered/s", "", "kept", "CPU us/packet", "median late, us", "last tenth late, us", "lost"
    );
    let mut best = [0; SENDERS.len()];
    for rate in RATES {
        let period = 1e9 / rate as f64;
        for (k, (name, sender)) in SENDERS.into_iter().enumerate() {
            let runs: Vec<Run> =
                (0..repetitions).map(|_| run(sender, rate, seconds)).collect::<Result<_, _>>()?;
            let kept = runs.iter().filter(|r| r.keeps(period)).count() as u64;
            println!(
                "{rate:>9} {name:<14} {kept:>2}/{repetitions} {:>22} {:>26} {:>26} {:>8.3}%",
                range(runs.iter().map(|r| r.cpu)),
                range(runs.iter().map(|r| r.late / 1e3)),
                range(runs.iter().map(|r| r.late_at_end / 1e3)),
                median(runs.iter().map(|r| r.loss)) * 100.0
            );
            if kept == repetitions {
                best[k] = rate;
            }
        }
    }
    let bare = best[0].max(best[1]);
    for ((name, _), rate) in SENDERS.iter().zip(best) {
        println!("{name}: {rate}/s sustained, {:.2} of the best bare loop", rate as f64 / bare as f64);
    }
    Ok(())
}

fn run(sender: Sender, rate: u64, seconds: u64) -> Result<Run, Box<dyn Error>> {
    let packets = rate * seconds;
    match sender {
        Sender::Bare { due } => bare(rate, packets, due),
        Sender::Jitlat(mode) => {
            let period = (1_000_000_000 / rate) as i64;
            let pacing = Pacing { mode: Some(mode), ..Pacing::default() };
            let outcome = oneway::run(packets, Span(period), pacing, StampSource::Kernel)?;
            let mut sent: Vec<(i64, i64)> =
                outcome.records.iter().filter_map(|r| Some((r.seq, r.sent()?.0))).collect();
            sent.sort_unstable();
            let received = outcome.records.len() as u64;
            Ok(Run::new(&sent, packets, received, period as f64, outcome.cpu))
        }
    }
}

/// Runs a loop that sleeps until the next packet is due, and sends it or all due packets.
fn bare(rate: u64, packets: u64, due: bool) -> Result<Run, Box<dyn Error>> {
    let to = UdpSocket::bind("127.0.0.1:0")?;
    let from = UdpSocket::bind("127.0.0.1:0")?;
    from.connect(to.local_addr()?)?;
    for socket in [&to, &from] {
        let _ = setsockopt(socket, sockopt::RcvBufForce, &(8 << 20));
        let _ = setsockopt(socket, sockopt::SndBufForce, &(8 << 20));
    }
    to.set_read_timeout(Some(Duration::from_millis(50)))?;
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut sent = Vec::with_capacity(packets as usize);
    let before = cpu();
    std::thread::scope(|scope| {
        scope.spawn(|| receive(&to, &stop, &received));
        send(&from, rate, packets, if due { BATCH } else { 1 }, &mut sent);
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
    });
    let cpu = cpu() - before;
    Ok(Run::new(&sent, packets, received.load(Ordering::Relaxed), 1e9 / rate as f64, cpu))
}

fn send(socket: &UdpSocket, rate: u64, packets: u64, most: usize, sent: &mut Vec<(i64, i64)>) {
    // Sets timer slack only, like jitlat.
    Pacing::default().apply();
    let payload = [0x5au8; SIZE];
    let parts: Vec<[IoSlice; 1]> = (0..BATCH).map(|_| [IoSlice::new(&payload)]).collect();
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    let start = steady().0;
    while (sent.len() as u64) < packets {
        let done = sent.len() as u64;
        let due = (done * 1_000_000_000 / rate) as i64;
        let mut now = steady().0 - start;
        if now < due {
            std::thread::sleep(Duration::from_nanos((due - now).unsigned_abs()));
            now = steady().0 - start;
        }
        let count = (now.max(0).unsigned_abs() * rate / 1_000_000_000 + 1).clamp(done, packets) - done;
        let count = (count as usize).clamp(1, most);
        let to: [Option<SockaddrIn>; BATCH] = [None; BATCH];
        let calls =
            sendmmsg(socket.as_raw_fd(), &mut headers, &parts[..count], &to[..count], [], MsgFlags::empty());
        let Ok(calls) = calls else { continue };
        sent.extend((0..calls.count() as u64).map(|k| ((done + k) as i64, now)));
    }
}

fn receive(socket: &UdpSocket, stop: &AtomicBool, received: &AtomicU64) {
    let mut buffers = vec![[0u8; 2048]; BATCH];
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    while !stop.load(Ordering::Relaxed) {
        let mut parts: Vec<[IoSliceMut; 1]> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        let got = recvmmsg(socket.as_raw_fd(), &mut headers, &mut parts, MsgFlags::MSG_WAITFORONE, None);
        received.fetch_add(got.map_or(0, |g| g.count() as u64), Ordering::Relaxed);
    }
}
