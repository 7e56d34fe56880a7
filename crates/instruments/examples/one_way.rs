//! A one-way test: `cargo run --example one_way -- HOST`, where HOST runs `jitlat serve`.

use jitlat_core::spec::CONTROL_PORT;
use jitlat_core::{Direction, Schedule, Span, Summary, TestSpec, Transport};
use jitlat_instruments::{Event, Instrument, OneWay, Stop};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let host = std::env::args().nth(1).ok_or("name a host that runs jitlat serve")?;
    let summary = measure(&host, CONTROL_PORT)?;
    println!("lost {:?} %, jitter {:?} ns at most", summary.counts.lost_pct, summary.pdv.max);
    Ok(())
}

/// Sends a hundred packets to the server.
pub fn measure(host: &str, control_port: u16) -> Result<Summary, Box<dyn Error>> {
    let period = Span::millis(2);
    let stream = TestSpec::new(Direction::Up, Transport::Udp, 100, 80, period, Schedule::Periodic)?;
    let mut test = OneWay::new(host, vec![stream]);
    test.settings.control_port = control_port;
    let mut progress = |event: &Event<'_>| {
        if let Event::Progress(streams) = event {
            eprintln!("{} of {} sent", streams[0].sent, streams[0].packets);
        }
    };
    let mut streams = test.analyse(&Default::default(), &Stop::new(), &mut progress)?;
    Ok(streams.remove(0).summary)
}
