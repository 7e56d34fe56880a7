//! Measures round trips: `cargo run --example ping -- HOST`, where HOST answers STAMP.

use jitlat_core::{Span, Summary};
use jitlat_instruments::ping::protocols::stamp::StampClient;
use jitlat_instruments::{Instrument, Ping, Stop, Unobserved};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let host = std::env::args().nth(1).ok_or("name a host that answers STAMP")?;
    let summary = measure(&host, StampClient::default())?;
    println!("lost {:?} %, round trips of {:?} ns at least", summary.counts.lost_pct, summary.latency.min);
    Ok(())
}

/// Measures a hundred round trips.
pub fn measure(host: &str, client: StampClient) -> Result<Summary, Box<dyn Error>> {
    let test = Ping { packets: 100, period: Span::millis(2), ..Ping::new(host, client) };
    let mut streams = test.analyse(&Default::default(), &Stop::new(), &mut Unobserved)?;
    Ok(streams.remove(0).summary)
}
