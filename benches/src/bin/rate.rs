//! How many 80-byte packets a second a one-way test carries while recording each, against a bare
//! `sendmmsg`/`recvmmsg` loop that records nothing, over loopback, at the same offered rates.
//!
//! `cargo run --release -p jitlat-benches --bin rate`

use jitlat_benches::oneway::{self, cpu};
use jitlat_core::{Source, Span};
use jitlat_net::pace::{Mode, Pacing};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt};
use std::io::{IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SECONDS: u64 = 2;
const BATCH: usize = 32;
const SIZE: usize = 80;
/// A rate counts as sustained with at most this loss.
const LOSS: f64 = 0.001;

struct Row {
    sent: u64,
    received: u64,
    cpu: f64,
}

impl Row {
    fn loss(&self) -> f64 {
        1.0 - self.received as f64 / self.sent.max(1) as f64
    }

    fn cpu_per_packet(&self) -> f64 {
        self.cpu * 1e6 / self.received.max(1) as f64
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "one way over loopback, {SIZE}-byte packets, {SECONDS} s a row; CPU of both ends in us per packet"
    );
    println!("{:>10} | {:>8} {:>9} | {:>8} {:>9} | CPU ratio", "offered/s", "bare", "loss", "jitlat", "loss");
    let (mut best_bare, mut best_jitlat) = (0, 0);
    for rate in [25_000u64, 50_000, 75_000, 100_000, 125_000, 150_000, 200_000, 250_000, 300_000] {
        let bare = bare(rate)?;
        let jitlat = jitlat(rate)?;
        println!(
            "{rate:>10} | {:>8.2} {:>8.3}% | {:>8.2} {:>8.3}% | {:.2}",
            bare.cpu_per_packet(),
            bare.loss() * 100.0,
            jitlat.cpu_per_packet(),
            jitlat.loss() * 100.0,
            jitlat.cpu_per_packet() / bare.cpu_per_packet(),
        );
        if bare.loss() <= LOSS {
            best_bare = rate;
        }
        if jitlat.loss() <= LOSS {
            best_jitlat = rate;
        }
    }
    println!(
        "sustained with at most 0.1 % loss: bare {best_bare}/s, jitlat {best_jitlat}/s, ratio {:.2}",
        best_jitlat as f64 / best_bare as f64
    );
    Ok(())
}

fn jitlat(rate: u64) -> Result<Row, String> {
    let packets = rate * SECONDS;
    let pacing = Pacing { mode: Mode::Sleep, ..Pacing::default() };
    let outcome = oneway::run(packets, Span((1_000_000_000 / rate) as i64), pacing, Source::Kernel)?;
    Ok(Row { sent: packets, received: outcome.records.len() as u64, cpu: outcome.cpu })
}

/// Batches of 32 at absolute times, received in batches of 32, counted and forgotten.
fn bare(rate: u64) -> Result<Row, Box<dyn std::error::Error>> {
    let to = UdpSocket::bind("127.0.0.1:0")?;
    let from = UdpSocket::bind("127.0.0.1:0")?;
    from.connect(to.local_addr()?)?;
    for socket in [&to, &from] {
        let _ = setsockopt(socket, sockopt::RcvBufForce, &(8 << 20));
        let _ = setsockopt(socket, sockopt::SndBufForce, &(8 << 20));
    }
    to.set_read_timeout(Some(Duration::from_millis(50)))?;
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let packets = rate * SECONDS;
    let before = cpu();
    std::thread::scope(|scope| {
        scope.spawn(|| receive(&to, &stop, &received));
        send(&from, rate, packets);
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
    });
    Ok(Row { sent: packets, received: received.load(Ordering::Relaxed), cpu: cpu() - before })
}

fn send(socket: &UdpSocket, rate: u64, packets: u64) {
    let payload = [0x5au8; SIZE];
    let parts: Vec<[IoSlice; 1]> = (0..BATCH).map(|_| [IoSlice::new(&payload)]).collect();
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    let start = Instant::now();
    let mut sent = 0;
    while sent < packets {
        let due = Duration::from_nanos(sent * 1_000_000_000 / rate);
        let early = due.saturating_sub(start.elapsed());
        if !early.is_zero() {
            std::thread::sleep(early);
        }
        let count = BATCH.min((packets - sent) as usize);
        match sendmmsg(
            socket.as_raw_fd(),
            &mut headers,
            &parts[..count],
            &NONE[..count],
            [],
            MsgFlags::empty(),
        ) {
            Ok(done) => sent += done.count() as u64,
            Err(_) => continue,
        }
    }
}

const NONE: [Option<SockaddrIn>; BATCH] = [None; BATCH];

fn receive(socket: &UdpSocket, stop: &AtomicBool, received: &AtomicU64) {
    let mut buffers = vec![[0u8; 2048]; BATCH];
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    while !stop.load(Ordering::Relaxed) {
        let mut parts: Vec<[IoSliceMut; 1]> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        let got = recvmmsg(socket.as_raw_fd(), &mut headers, &mut parts, MsgFlags::MSG_WAITFORONE, None);
        received.fetch_add(got.map_or(0, |g| g.count() as u64), Ordering::Relaxed);
    }
}
