//! Measures the processor time per packet of each end of a one-way test, compared with bare loops in the same run,
//! with kernel stamps at both ends. The sending thread is compared with a loop that sleeps until each packet is due
//! and sends it; the receiving thread with a loop that wakes up for each packet, and with one that wakes up every
//! millisecond and takes all arrived packets. The bare sender requests no stamps, the bare receivers read the
//! kernel's. jitlat's server is a separate process.
//!
//! `cargo run --release -p jitlat-benches --bin ends [SECONDS] [REPETITIONS]`

use jitlat_benches::oneway::{self, ServerProcess};
use jitlat_benches::threads::{cpu_of, median, range};
use jitlat_core::{PacketRecord, Span, StampSource, WallTime};
use jitlat_net::clock::{steady, wall};
use jitlat_net::pace::Pacing;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrIn, TimestampingFlag, recvmmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::error::Error;
use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const RATES: [u64; 5] = [1_000, 10_000, 25_000, 50_000, 100_000];
const BATCH: usize = 32;
const SIZE: usize = 80;
/// Time before and after the measured part of a test.
const MARGIN: Duration = Duration::from_millis(300);

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |n| std::env::args().nth(n);
    if argument(1).as_deref() == Some("serve") {
        return ServerProcess::run();
    }
    let number = |n| argument(n).and_then(|a| a.parse::<u64>().ok());
    let server = ServerProcess::start()?;
    measure(&server.id(), server.port, number(1).unwrap_or(2), number(2).unwrap_or(3))
}

/// Processor time of both ends in µs per packet, and share of lost packets.
struct Run {
    send: f64,
    receive: f64,
    lost: f64,
}

fn measure(server: &str, port: u16, seconds: u64, repetitions: u64) -> Result<(), Box<dyn Error>> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "processor time of one thread, us a packet of {SIZE} bytes over loopback; {repetitions} runs of {seconds} s, medians \
         (smallest to largest); load before: {}",
        load.trim()
    );
    println!(
        "{:>9} | {:>20} {:>20} {:>6} | {:>20} {:>20} {:>20} {:>6} | lost: bare, jitlat",
        "offered/s", "bare sender", "jitlat's", "ratio", "bare, each", "bare, every ms", "jitlat's", "ratio"
    );
    for rate in RATES {
        let (mut each, mut drained, mut jitlat) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..repetitions {
            each.push(bare(rate, seconds, Duration::ZERO)?);
            drained.push(bare(rate, seconds, Duration::from_millis(1))?);
            jitlat.push(ours(server, port, rate, seconds)?);
        }
        let (sends, bare_sends) =
            (jitlat.iter().map(|r| r.send), each.iter().chain(&drained).map(|r| r.send));
        let (receives, waking, draining) = (
            jitlat.iter().map(|r| r.receive),
            each.iter().map(|r| r.receive),
            drained.iter().map(|r| r.receive),
        );
        println!(
            "{rate:>9} | {:>20} {:>20} {:>6.2} | {:>20} {:>20} {:>20} {:>6.2} | {:.3} %, {:.3} %",
            range(bare_sends.clone()),
            range(sends.clone()),
            median(sends) / median(bare_sends),
            range(waking),
            range(draining.clone()),
            range(receives.clone()),
            median(receives) / median(draining),
            100.0 * median(each.iter().chain(&drained).map(|r| r.lost)),
            100.0 * median(jitlat.iter().map(|r| r.lost)),
        );
    }
    Ok(())
}

/// Measurements from the middle part of a test.
struct Middle {
    /// Begin of the measured part.
    from: WallTime,
    to: WallTime,
    /// Processor time of the sending and of the receiving thread, in µs.
    cpu: [f64; 2],
}

impl Middle {
    /// Measures a test that lasts `seconds`, given the names of its threads; the receiver's threads are in process
    /// `server`.
    fn of(seconds: u64, [server, sender, receiver]: [&str; 3]) -> Middle {
        std::thread::sleep(MARGIN);
        let read = || [cpu_of("self", sender), cpu_of(server, receiver)];
        let (before, from) = (read(), wall());
        std::thread::sleep(Duration::from_secs(seconds).saturating_sub(2 * MARGIN));
        let (after, to) = (read(), wall());
        Middle { from, to, cpu: [0, 1].map(|k| (after[k] - before[k]).as_secs_f64() * 1e6) }
    }

    /// Computes the result of a test of `packets` packets that were sent and received at these times.
    fn run(&self, sent: impl Iterator<Item = WallTime>, received: &[WallTime], packets: u64) -> Run {
        let within = |at: &WallTime| (self.from..self.to).contains(at);
        let [send, receive] = self.cpu;
        Run {
            send: send / sent.filter(within).count() as f64,
            receive: receive / received.iter().filter(|at| within(at)).count() as f64,
            lost: 1.0 - received.len() as f64 / packets as f64,
        }
    }
}

fn ours(server: &str, port: u16, rate: u64, seconds: u64) -> Result<Run, Box<dyn Error>> {
    let packets = rate * seconds;
    let began = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            while !began.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Middle::of(seconds, [server, "flow", "flow"])
        });
        let period = Span(1_000_000_000 / rate as i64);
        let outcome =
            oneway::test(port, packets, period, Pacing::default(), StampSource::Kernel, false, &began);
        // A test that fails before its stream begins must not leave the other thread waiting.
        began.store(true, Ordering::Release);
        let middle = measuring.join().map_err(|_| "measuring failed")?;
        let records = outcome?.records;
        let arrived: Vec<WallTime> = records.iter().filter_map(PacketRecord::arrived).collect();
        Ok(middle.run(records.iter().filter_map(PacketRecord::sent), &arrived, packets))
    })
}

/// Runs a loop that sleeps until each packet is due and sends it, and a loop that receives with the kernel's stamps
/// and pauses between readings.
fn bare(rate: u64, seconds: u64, pause: Duration) -> Result<Run, Box<dyn Error>> {
    let to = UdpSocket::bind("127.0.0.1:0")?;
    let from = UdpSocket::bind("127.0.0.1:0")?;
    from.connect(to.local_addr()?)?;
    let _ = setsockopt(&to, sockopt::RcvBufForce, &(8 << 20));
    let _ = setsockopt(&from, sockopt::SndBufForce, &(8 << 20));
    to.set_read_timeout(Some(Duration::from_millis(50)))?;
    let stamps = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
    setsockopt(&to, sockopt::Timestamping, &stamps)?;
    let (stop, packets) = (AtomicBool::new(false), rate * seconds);
    std::thread::scope(|scope| {
        let name = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let times = Vec::with_capacity(packets as usize);
        let receiver = name("bare-receiver").spawn_scoped(scope, || receive(&to, pause, &stop, times))?;
        let sender = name("bare-sender").spawn_scoped(scope, || send(&from, rate, packets))?;
        let middle = Middle::of(seconds, ["self", "bare-sender", "bare-receiver"]);
        let sent = sender.join().map_err(|_| "the bare sender failed")?;
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        let received = receiver.join().map_err(|_| "the bare receiver failed")?;
        Ok(middle.run(sent.into_iter(), &received, packets))
    })
}

fn sleep_until(at: i64) {
    let at = TimeSpec::new(at.div_euclid(1_000_000_000), at.rem_euclid(1_000_000_000));
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at);
}

/// Sends packets; returns the time of each.
fn send(socket: &UdpSocket, rate: u64, packets: u64) -> Vec<WallTime> {
    // Sets timer slack only, like jitlat.
    Pacing::default().apply();
    let (start, mut packet) = (steady().0, [0x5a; SIZE]);
    let mut sent = Vec::with_capacity(packets as usize);
    for n in 0..packets {
        sleep_until(start + (n * 1_000_000_000 / rate) as i64);
        let now = wall();
        packet[..8].copy_from_slice(&now.0.to_be_bytes());
        if socket.send(&packet).is_ok() {
            sent.push(now);
        }
    }
    sent
}

/// Receives packets; returns the kernel's arrival time of each.
fn receive(
    socket: &UdpSocket,
    pause: Duration,
    stop: &AtomicBool,
    mut received: Vec<WallTime>,
) -> Vec<WallTime> {
    Pacing::default().apply();
    let mut buffers = vec![[0u8; 2048]; BATCH];
    let space = nix::cmsg_space!(nix::sys::socket::Timestamps);
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, Some(space));
    while !stop.load(Ordering::Relaxed) {
        let mut parts: Vec<[IoSliceMut; 1]> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        let got = recvmmsg(socket.as_raw_fd(), &mut headers, &mut parts, MsgFlags::MSG_WAITFORONE, None);
        let mut count = 0;
        for message in got.into_iter().flatten() {
            count += 1;
            for control in message.cmsgs().into_iter().flatten() {
                if let ControlMessageOwned::ScmTimestampsns(stamps) = control {
                    received.push(WallTime(stamps.system.tv_sec() * 1_000_000_000 + stamps.system.tv_nsec()));
                }
            }
        }
        if count < BATCH && !pause.is_zero() {
            sleep_until(steady().0 + pause.as_nanos() as i64);
        }
    }
    received
}
