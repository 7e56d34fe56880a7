//! Measures the cost of the second send stamp of each packet: only on leaving the interface's queue (`TX_SOFTWARE`),
//! and also on entering it (`TX_SCHED`), in alternating runs of one loop over loopback that wakes up, reads the
//! clock, sends and empties the error queue, like jitlat. The noise is listed next to the ratio: the spread of runs
//! with one stamp.
//!
//! `cargo run --release -p jitlat-benches --bin stamps [PAIRS] [PACKETS] [PERIOD_US]`

use jitlat_net::clock::steady;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, TimestampingFlag, recv, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::error::Error;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// `SOF_TIMESTAMPING_TX_SCHED` of linux/net_tstamp.h.
const TX_SCHED: u32 = 1 << 8;

const FIGURES: [&str; 5] = [
    "send error, median",
    "send error, 99 %",
    "send call, median",
    "send call, 99 %",
    "all after it, median",
];
type Figures = [f64; FIGURES.len()];

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |n| std::env::args().nth(n).and_then(|a| a.parse::<u64>().ok());
    let (pairs, packets) = (argument(1).unwrap_or(20), argument(2).unwrap_or(2000));
    let period = argument(3).unwrap_or(1000) as i64 * 1000;
    let (mut one, mut both) = (Vec::new(), Vec::new());
    // The first run warms up.
    run(packets, period, false)?;
    for _ in 0..pairs {
        one.push(run(packets, period, false)?);
        both.push(run(packets, period, true)?);
    }
    println!(
        "{pairs} pairs of runs, {packets} packets, one every {} us; ns; ratios as median (smallest to largest)",
        period / 1000
    );
    println!(
        "{:<22} {:>10} {:>10}   {:<24} runs with one, each by the one before",
        "", "one stamp", "both", "both by one"
    );
    for (k, name) in FIGURES.iter().enumerate() {
        let of = |runs: &[Figures]| -> Vec<f64> { runs.iter().map(|run| run[k]).collect() };
        let (one, both) = (of(&one), of(&both));
        let ratios: Vec<f64> = both.iter().zip(&one).map(|(both, one)| both / one).collect();
        let noise: Vec<f64> = one.windows(2).map(|pair| pair[1] / pair[0]).collect();
        println!(
            "{name:<22} {:>10.0} {:>10.0}   {:<24} {}",
            at(&one, 0.5),
            at(&both, 0.5),
            range(&ratios),
            range(&noise)
        );
    }
    Ok(())
}

/// Sends `packets` packets of 80 bytes, one every `period` ns.
fn run(packets: u64, period: i64, entry: bool) -> Result<Figures, Box<dyn Error>> {
    let to = UdpSocket::bind("127.0.0.1:0")?;
    let from = UdpSocket::bind("127.0.0.1:0")?;
    from.connect(to.local_addr()?)?;
    use TimestampingFlag as F;
    let mut flags = F::SOF_TIMESTAMPING_SOFTWARE
        | F::SOF_TIMESTAMPING_TX_SOFTWARE
        | F::SOF_TIMESTAMPING_OPT_ID
        | F::SOF_TIMESTAMPING_OPT_TSONLY;
    if entry {
        flags |= F::from_bits_retain(TX_SCHED);
    }
    setsockopt(&from, sockopt::Timestamping, &flags)?;
    let payload = [0u8; 80];
    let mut scratch = [0u8; 256];
    let mut stamps = 0u64;
    let (mut late, mut call, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    let start = steady().0 + 2_000_000;
    for k in 0..packets as i64 {
        let due = start + k * period;
        let wake = TimeSpec::new(due.div_euclid(1_000_000_000), due.rem_euclid(1_000_000_000));
        let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &wake);
        let before = steady().0;
        from.send(&payload)?;
        let sent = steady().0;
        loop {
            match recv(from.as_raw_fd(), &mut scratch, MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT) {
                Ok(_) => stamps += 1,
                Err(Errno::EAGAIN) => break,
                Err(e) => return Err(e.into()),
            }
        }
        late.push((before - due) as f64);
        call.push((sent - before) as f64);
        rest.push((steady().0 - sent) as f64);
    }
    drop(to);
    let wanted = packets * if entry { 2 } else { 1 };
    if stamps < wanted - wanted / 100 {
        return Err(format!("{stamps} stamps of {wanted}").into());
    }
    Ok([at(&late, 0.5), at(&late, 0.99), at(&call, 0.5), at(&call, 0.99), at(&rest, 0.5)])
}

fn at(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() as f64 * share) as usize).or(sorted.last()).copied().unwrap_or(f64::NAN)
}

/// Formats the median of ratios, and their range.
fn range(ratios: &[f64]) -> String {
    format!("{:.2} ({:.2} to {:.2})", at(ratios, 0.5), at(ratios, 0.0), at(ratios, 1.0))
}
