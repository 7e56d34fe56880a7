//! Measures how many 80-byte packets per second one thread sends over loopback at full speed: bare loops that pass
//! packets in batches, and as buffers that the kernel segments (`UDP_SEGMENT`), against jitlat's load streams. These
//! are stamped, recorded at the far end, and offered faster than anything can carry them, with and without such
//! buffers. Packets that are lost in the receiver's socket count as sent.
//!
//! `cargo run --release -p jitlat-benches --bin blast [SECONDS] [REPETITIONS]`

use jitlat_benches::oneway::{self, ServerProcess};
use jitlat_benches::threads::{cpu_of, range};
use jitlat_core::{Span, StampSource};
use jitlat_net::pace::Pacing;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, sendmmsg, setsockopt, sockopt};
use std::error::Error;
use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BATCH: usize = 32;
const SIZE: usize = 80;
/// Offered rate in packets per second.
const OFFERED: u64 = 4_000_000;

/// Rate in million packets per second, and processor time of the sending thread in µs per packet.
struct Run {
    rate: f64,
    cpu: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |n| std::env::args().nth(n);
    if argument(1).as_deref() == Some("serve") {
        return ServerProcess::run();
    }
    let number = |n| argument(n).and_then(|a| a.parse::<u64>().ok());
    let (seconds, repetitions) = (number(1).unwrap_or(2), number(2).unwrap_or(3));
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "packets of {SIZE} bytes sent as fast as one thread can, {repetitions} runs of {seconds} s, medians (smallest to largest); load \
         before: {}",
        load.trim()
    );
    println!("{:<28} {:>28} {:>24}", "", "million packets/s", "us a packet");
    let server = ServerProcess::start()?;
    type Sender<'a> = Box<dyn Fn() -> Result<Run, Box<dyn Error>> + 'a>;
    let senders: [(&str, Sender<'_>); 4] = [
        ("bare, batches of 32", Box::new(|| bare(seconds, false))),
        ("bare, buffers of 32", Box::new(|| bare(seconds, true))),
        ("jitlat, measuring", Box::new(|| ours(server.port, seconds, false))),
        ("jitlat, load", Box::new(|| ours(server.port, seconds, true))),
    ];
    for (name, send) in &senders {
        let runs = (0..repetitions).map(|_| send()).collect::<Result<Vec<_>, _>>()?;
        println!(
            "{name:<28} {:>28} {:>24}",
            range(runs.iter().map(|r| r.rate)),
            range(runs.iter().map(|r| r.cpu))
        );
    }
    Ok(())
}

fn bare(seconds: u64, buffers: bool) -> Result<Run, Box<dyn Error>> {
    let to = UdpSocket::bind("127.0.0.1:0")?;
    let from = UdpSocket::bind("127.0.0.1:0")?;
    from.connect(to.local_addr()?)?;
    let _ = setsockopt(&from, sockopt::SndBufForce, &(8 << 20));
    if buffers {
        setsockopt(&from, sockopt::UdpGsoSegment, &(SIZE as i32))?;
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The packets must be received, otherwise sending them is cheaper than in reality.
        to.set_read_timeout(Some(Duration::from_millis(50)))?;
        scope.spawn(|| {
            let mut packet = [0; 2048];
            while !stop.load(Ordering::Relaxed) {
                let _ = to.recv(&mut packet);
            }
        });
        let sender = std::thread::Builder::new().name("bare-sender".to_owned());
        let run = sender.spawn_scoped(scope, || {
            let payload = [0x5au8; SIZE];
            let whole = payload.repeat(BATCH);
            let parts: Vec<[IoSlice; 1]> = (0..BATCH).map(|_| [IoSlice::new(&payload)]).collect();
            let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
            let names = [None::<SockaddrIn>; BATCH];
            let (began, before, mut sent) = (Instant::now(), cpu_of("self", "bare-sender"), 0);
            while began.elapsed() < Duration::from_secs(seconds) {
                sent += match buffers {
                    true => from.send(&whole).map_or(0, |_| BATCH),
                    false => sendmmsg(from.as_raw_fd(), &mut headers, &parts, names, [], MsgFlags::empty())
                        .map_or(0, Iterator::count),
                };
            }
            let cpu = (cpu_of("self", "bare-sender") - before).as_secs_f64();
            Run { rate: sent as f64 / began.elapsed().as_secs_f64() / 1e6, cpu: cpu * 1e6 / sent as f64 }
        })?;
        let run = run.join().map_err(|_| "the bare sender failed")?;
        stop.store(true, Ordering::Relaxed);
        Ok(run)
    })
}

fn ours(port: u16, seconds: u64, segmented: bool) -> Result<Run, Box<dyn Error>> {
    let packets = OFFERED * seconds / 4;
    let period = Span(1_000_000_000 / OFFERED as i64);
    let began = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The thread ends with its stream: the last reading before that covers nearly all of its time.
        let watching = scope.spawn(|| {
            let mut most = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                most = most.max(cpu_of("self", "flow"));
                std::thread::sleep(Duration::from_millis(2));
            }
            most
        });
        let outcome =
            oneway::test(port, packets, period, Pacing::default(), StampSource::User, segmented, &began);
        over.store(true, Ordering::Relaxed);
        let cpu = watching.join().map_err(|_| "watching failed")?.as_secs_f64();
        let mut sent: Vec<(i64, i64)> =
            outcome?.records.iter().filter_map(|r| Some((r.seq, r.sent()?.0))).collect();
        sent.sort_unstable();
        let (first, last) = sent.first().zip(sent.last()).ok_or("nothing arrived")?;
        let rate = (last.0 - first.0) as f64 / (last.1 - first.1) as f64 * 1e3;
        Ok(Run { rate, cpu: cpu * 1e6 / packets as f64 })
    })
}
