//! Measures how exactly packets leave, against bare loops in the same run: an absolute `clock_nanosleep`, a spinning
//! loop, and both combined under SCHED_FIFO (root). Every loop sends an 80-byte datagram over loopback and is judged
//! by its own clock reading at each packet, as deviation from the grid through its 1st percentile.
//!
//! `cargo run --release -p jitlat-benches --bin pacing`

use jitlat_benches::oneway;
use jitlat_core::{Span, StampSource};
use jitlat_net::clock::{steady, wall};
use jitlat_net::pace::{PaceMode, Pacing};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::net::UdpSocket;

const SPIN_NS: i64 = 60_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("send-time error in us (median / 99 %), mean rate error in ppm");
    println!(
        "{:>8} {:>12} | {:>22} | {:>22} | ratio of medians, of 99 %",
        "period", "mode", "bare loop", "jitlat"
    );
    let fifo = Pacing { realtime: Some(50), lock_memory: true, ..Pacing::default() };
    for (period, packets) in [(20_000_000, 250u64), (1_000_000, 4_000), (100_000, 30_000)] {
        for (name, mode, pacing) in [
            ("sleep", PaceMode::Sleep, Pacing::default()),
            ("spin", PaceMode::Spin, Pacing::default()),
            ("hybrid FIFO", PaceMode::Hybrid, fifo.clone()),
        ] {
            let pacing = Pacing { mode: Some(mode), ..pacing };
            let bare = Figures::of(&bare(period, packets, &pacing)?, period);
            let outcome = oneway::run(packets, Span(period), pacing, StampSource::User)?;
            let mut times: Vec<(i64, i64)> =
                outcome.records.iter().filter_map(|r| Some((r.seq, r.sent()?.0))).collect();
            times.sort_unstable();
            let jitlat = Figures::of(&times, period);
            println!(
                "{:>6} us {name:>12} | {bare} | {jitlat} | {:.2} {:.2}",
                period / 1000,
                jitlat.median / bare.median,
                jitlat.p99 / bare.p99,
            );
        }
    }
    Ok(())
}

struct Figures {
    median: f64,
    p99: f64,
    rate_ppm: f64,
}

impl Figures {
    /// Computes the figures of (sequence number, send time) pairs in sequence order.
    fn of(times: &[(i64, i64)], period: i64) -> Figures {
        let mut errors: Vec<i64> = times.iter().map(|(seq, at)| at - seq * period).collect();
        let (first, last) = (times[0], times[times.len() - 1]);
        let mean = (last.1 - first.1) as f64 / (last.0 - first.0) as f64;
        errors.sort_unstable();
        let at =
            |share: f64| errors[((errors.len() - 1) as f64 * share) as usize] - errors[errors.len() / 100];
        Figures {
            median: at(0.5) as f64 / 1000.0,
            p99: at(0.99) as f64 / 1000.0,
            rate_ppm: (mean / period as f64 - 1.0) * 1e6,
        }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>7.2} {:>7.1} {:>6.1}", self.median, self.p99, self.rate_ppm)
    }
}

/// Runs the bare loop: wait, read the clock, send.
fn bare(period: i64, packets: u64, pacing: &Pacing) -> Result<Vec<(i64, i64)>, Box<dyn std::error::Error>> {
    let to = UdpSocket::bind("127.0.0.1:0")?;
    let from = UdpSocket::bind("127.0.0.1:0")?;
    from.connect(to.local_addr()?)?;
    let pacing = pacing.clone();
    let loop_thread = std::thread::spawn(move || {
        // Only scheduling is the same as in jitlat: priority, memory, timer slack.
        pacing.apply();
        let payload = [0u8; 80];
        let start = steady().0 + 2_000_000;
        let mut times = Vec::with_capacity(packets as usize);
        for seq in 0..packets as i64 {
            let due = start + seq * period;
            match pacing.mode.unwrap_or(PaceMode::Sleep) {
                PaceMode::Sleep | PaceMode::Etf => sleep_until(due),
                PaceMode::Hybrid => {
                    sleep_until(due - SPIN_NS);
                    while steady().0 < due {}
                }
                PaceMode::Spin => while steady().0 < due {},
            }
            times.push((seq, wall().0));
            let _ = from.send(&payload);
        }
        times
    });
    let times = loop_thread.join().map_err(|_| "the bare loop panicked")?;
    drop(to);
    Ok(times)
}

fn sleep_until(at: i64) {
    let at = TimeSpec::new(at.div_euclid(1_000_000_000), at.rem_euclid(1_000_000_000));
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at);
}
