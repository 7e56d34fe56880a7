//! Measures round trips, losses and delays from two captures of the same traffic: `cargo run -p jitlat-instruments
//! --example passive reference.pcap monitor.pcap`.

use jitlat_instruments::passive::{CaptureSource, Passive, PassiveError};
use jitlat_instruments::{Stop, Unobserved};
use jitlat_passive::PassiveSummary;
use std::path::PathBuf;

/// Returns the summary of two captures; the capture nearer to the reference end comes first.
pub fn summarise(reference: PathBuf, monitor: PathBuf) -> Result<PassiveSummary, PassiveError> {
    let points = [reference, monitor].map(|path| CaptureSource::Files(vec![path]));
    let outcome = Passive::default().follow_captures(points, &Stop::new(), &mut Unobserved)?;
    match outcome.failures.into_iter().next() {
        Some(failure) => Err(failure),
        None => Ok(outcome.result.summary),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, reference, monitor] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: passive REFERENCE MONITOR".into());
    };
    let summary = summarise(reference.into(), monitor.into())?;
    if let Some(rtt) = summary.rtt_ns {
        println!("round trip: median {:.3} ms of {} pairs", rtt.median as f64 / 1e6, summary.pairs);
    }
    println!("lost: {} out, {} back", summary.out.counts.lost, summary.back.counts.lost);
    Ok(())
}
