//! Measures how many requests per second the reflectors answer, against a bare `recvmmsg`/`sendmmsg` echo with
//! arrival stamps under the same load, with the processor time of the answering thread; the effect of ten thousand
//! concurrent sessions; and round trips against a bare ping-pong with the same far end.
//!
//! `cargo run --release -p jitlat-benches --bin two_way [SECONDS] [REPETITIONS]`

use jitlat_benches::threads::{cpu_of, median, range};
use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport};
use jitlat_net::pace::Pacing;
use jitlat_net::reflect::{Reflectors, StampReflector};
use jitlat_net::stamp::StampMode;
use jitlat_net::twoway;
use jitlat_net::twoway::client::TwoWayLink;
use jitlat_net::twoway::socket::{Carrier, Marking};
use jitlat_proto::policy::{Policy, Quota, STAMP};
use jitlat_proto::stamp::{StampSender, sender::StampOptions};
use jitlat_proto::twoway::{Overdue, PingPlan, Protocol};
use nix::sys::socket::{
    MsgFlags, MultiHeaders, SockaddrIn, TimestampingFlag, recvmmsg, sendmmsg, setsockopt, sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const RATES: [u64; 11] =
    [25_000, 50_000, 75_000, 100_000, 125_000, 150_000, 160_000, 170_000, 180_000, 190_000, 200_000];
const BATCH: usize = 32;
const SESSIONS: u16 = 10_000;
/// A rate counts as sustained with at most this loss.
const LOSS: f64 = 0.001;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let number = |n| std::env::args().nth(n).and_then(|a| a.parse::<u64>().ok());
    let (seconds, repetitions) = (number(1).unwrap_or(2), number(2).unwrap_or(3));
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "answers over loopback to 44-byte STAMP requests, {repetitions} runs of {seconds} s, medians (smallest to largest); CPU of the \
         answering thread, us an answer; load before: {}",
        load.trim()
    );
    println!(
        "{:>10} {:>9} | {:>20} {:>9} | {:>20} {:>9} | CPU ratio",
        "offered/s", "sessions", "bare", "loss", "jitlat", "loss"
    );
    let row = |rate, sessions| -> Result<[f64; 2], Failure> {
        let (mut bare_rows, mut our_rows) = (Vec::new(), Vec::new());
        for _ in 0..repetitions {
            bare_rows.push(bare(rate, seconds, sessions)?);
            our_rows.push(jitlat(rate, seconds, sessions)?);
        }
        let rows = [&bare_rows, &our_rows];
        let losses = rows.map(|rows| median(rows.iter().map(Row::loss)));
        let [bare_cpu, our_cpu] = rows.map(|rows| median(rows.iter().map(Row::cpu_each)));
        let [bare_range, our_range] = rows.map(|rows| range(rows.iter().map(Row::cpu_each)));
        println!(
            "{rate:>10} {sessions:>9} | {bare_range:>20} {:>8.3}% | {our_range:>20} {:>8.3}% | {:.2}",
            losses[0] * 100.0,
            losses[1] * 100.0,
            our_cpu / bare_cpu,
        );
        Ok(losses)
    };
    let mut best = [0; 2];
    for rate in RATES {
        let losses = row(rate, 1)?;
        best.iter_mut().zip(losses).filter(|(_, loss)| *loss <= LOSS).for_each(|(best, _)| *best = rate);
    }
    let [bare, ours] = best;
    println!(
        "sustained with at most 0.1 % loss: bare {bare}/s, jitlat {ours}/s, ratio {:.2}",
        ours as f64 / bare.max(1) as f64
    );
    let before = resident();
    for rate in [50_000, 100_000] {
        row(rate, SESSIONS)?;
    }
    println!("{} MiB resident in all, load generator included; {} before", resident() >> 20, before >> 20);
    round_trips()
}

struct Row {
    sent: u64,
    answered: u64,
    cpu: f64,
}

impl Row {
    fn loss(&self) -> f64 {
        1.0 - self.answered as f64 / self.sent.max(1) as f64
    }

    fn cpu_each(&self) -> f64 {
        self.cpu * 1e6 / self.answered.max(1) as f64
    }
}

fn socket() -> Result<UdpSocket, Failure> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20));
    let _ = setsockopt(&socket, sockopt::SndBufForce, &(8 << 20));
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    Ok(socket)
}

/// Echoes batches as they arrived, with the kernel's stamp of each arrival.
fn bare(rate: u64, seconds: u64, sessions: u16) -> Result<Row, Failure> {
    let echo = socket()?;
    let stamps = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
    setsockopt(&echo, sockopt::Timestamping, &stamps)?;
    let (at, stop) = (echo.local_addr()?, AtomicBool::new(false));
    std::thread::scope(|scope| {
        std::thread::Builder::new().name("bare-echo".into()).spawn_scoped(scope, || {
            let mut buffers = vec![[0u8; 2048]; BATCH];
            let space = nix::cmsg_space!(nix::sys::socket::Timestamps);
            let mut inbound = MultiHeaders::<SockaddrIn>::preallocate(BATCH, Some(space));
            let mut outbound = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
            while !stop.load(Ordering::Relaxed) {
                let mut parts: Vec<[IoSliceMut; 1]> =
                    buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
                let flags = MsgFlags::MSG_WAITFORONE;
                let Ok(got) = recvmmsg(echo.as_raw_fd(), &mut inbound, &mut parts, flags, None) else {
                    continue;
                };
                let met: Vec<_> = got
                    .map(|m| {
                        // A real answer would contain the stamp.
                        std::hint::black_box(m.cmsgs().into_iter().flatten().count());
                        (m.bytes, m.address)
                    })
                    .collect();
                let names: Vec<_> = met.iter().map(|(_, name)| *name).collect();
                let answers: Vec<[IoSlice; 1]> =
                    met.iter().zip(&buffers).map(|((n, _), b)| [IoSlice::new(&b[..*n])]).collect();
                let _ = sendmmsg(echo.as_raw_fd(), &mut outbound, &answers, &names, [], MsgFlags::empty());
            }
        })?;
        let row = load(at, rate, seconds, sessions, "bare-echo");
        stop.store(true, Ordering::Relaxed);
        row
    })
}

/// Runs jitlat's reflector with limits per client that are never reached: they are counted as in any server. All
/// sessions belong to one client, with enough room: by default each further session would end another.
fn jitlat(rate: u64, seconds: u64, sessions: u16) -> Result<Row, Failure> {
    let client = Quota { packets: Some(u32::MAX), bytes: Some(1 << 40), ..Quota::default() };
    let mut policy = Policy { client, ..Policy::default() };
    policy.services.entry(STAMP).or_default().client.sessions = Some(SESSIONS.into());
    let mut reflectors = Reflectors::new(policy)?;
    reflectors.start(&StampReflector { port: 0, ..StampReflector::default() }, &["127.0.0.1".parse()?]);
    let (_, at) = *reflectors.listening().first().ok_or("no reflector")?;
    load(at, rate, seconds, sessions, "stamp")
}

/// Sends STAMP requests at `rate` in batches and counts answers; the processor time is that of the thread called
/// `answering`.
fn load(at: SocketAddr, rate: u64, seconds: u64, sessions: u16, answering: &str) -> Result<Row, Failure> {
    let socket = socket()?;
    socket.connect(at)?;
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let packets = rate * seconds;
    let requests: Vec<Vec<u8>> = (0..sessions).map(|ssid| request(ssid, 0)).collect();
    let before = cpu_of("self", answering);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffers = vec![[0u8; 256]; BATCH];
            let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
            while !stop.load(Ordering::Relaxed) {
                let mut parts: Vec<[IoSliceMut; 1]> =
                    buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
                let got =
                    recvmmsg(socket.as_raw_fd(), &mut headers, &mut parts, MsgFlags::MSG_WAITFORONE, None);
                answered.fetch_add(got.map_or(0, |g| g.count() as u64), Ordering::Relaxed);
            }
        });
        let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
        let (start, mut sent) = (Instant::now(), 0);
        while sent < packets {
            let early = Duration::from_nanos(sent * 1_000_000_000 / rate).saturating_sub(start.elapsed());
            if !early.is_zero() {
                std::thread::sleep(early);
            }
            let count = BATCH.min((packets - sent) as usize);
            let parts: Vec<[IoSlice; 1]> =
                (0..count).map(|k| [IoSlice::new(&requests[(sent as usize + k) % requests.len()])]).collect();
            let names = [None::<SockaddrIn>; BATCH];
            match sendmmsg(socket.as_raw_fd(), &mut headers, &parts, &names[..count], [], MsgFlags::empty()) {
                Ok(done) => sent += done.count() as u64,
                Err(_) => continue,
            }
        }
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
    });
    let cpu = (cpu_of("self", answering) - before).as_secs_f64();
    Ok(Row { sent: packets, answered: answered.load(Ordering::Relaxed), cpu })
}

fn request(ssid: u16, seq: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    StampSender::new(StampOptions { ssid, ..StampOptions::default() }).request(
        seq,
        false,
        jitlat_net::clock::wall(),
        &mut bytes,
    );
    bytes
}

/// Memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Prints medians of round trips to one reflector, for 2000 requests 1 ms apart.
fn round_trips() -> Result<(), Failure> {
    let mut reflectors = Reflectors::new(Policy::default())?;
    reflectors.start(&StampReflector { port: 0, ..StampReflector::default() }, &["127.0.0.1".parse()?]);
    let (_, to) = *reflectors.listening().first().ok_or("no reflector")?;
    let socket = socket()?;
    socket.connect(to)?;
    let mut plain: Vec<i64> = Vec::new();
    for seq in 0..2000 {
        let (bytes, mut answer) = (request(1, seq), [0; 256]);
        let start = Instant::now();
        socket.send(&bytes)?;
        if socket.recv(&mut answer).is_ok() {
            plain.push(start.elapsed().as_nanos() as i64);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let with = |stamps: StampMode| -> Result<i64, Failure> {
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, 2000, 44, Span::millis(1), Schedule::Periodic)?;
        let plan = PingPlan {
            spec,
            wait: Some(Span::millis(1)),
            timeout: Span::seconds(1),
            overdue: Overdue::Space,
        };
        let link = TwoWayLink {
            to,
            carrier: Carrier::Udp,
            marking: Marking::default(),
            stamps,
            pacing: Pacing::default(),
            start: None,
            live: None,
        };
        let sender = StampSender::new(StampOptions { ssid: 2, ..StampOptions::default() });
        let outcome = twoway::run(|_| sender, plan, &link, &AtomicBool::new(false))?.outcome;
        let whole = outcome.records.iter().filter_map(|r| {
            let mut r = *r;
            outcome.sent.join(&mut r);
            let returned = r.time(jitlat_core::record::Moment::Returned)?;
            Some((returned - r.sent()?).0)
        });
        Ok(middle(whole.collect()))
    };
    let (user, kernel, plain) = (with(StampMode::User)?, with(StampMode::Kernel)?, middle(plain));
    println!(
        "\nmedian round trip, the far host's own time included: bare send and receive {:.1} us; jitlat's program stamps \
         {:.1} us (x {:.2}), kernel stamps {:.1} us",
        plain as f64 / 1e3,
        user as f64 / 1e3,
        user as f64 / plain as f64,
        kernel as f64 / 1e3
    );
    Ok(())
}

fn middle(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
