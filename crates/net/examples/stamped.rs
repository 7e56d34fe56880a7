//! Measures round trips to a reflector on this host with kernel stamps: `cargo run -p jitlat-net --example
//! stamped`.

use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport};
use jitlat_net::pace::Pacing;
use jitlat_net::reflect::{Reflectors, StampReflector};
use jitlat_net::stamp::StampMode;
use jitlat_net::twoway::{
    self, TwoWayLink,
    socket::{Carrier, Marking},
};
use jitlat_proto::{
    policy::Policy,
    stamp::StampSender,
    twoway::{Overdue, PingPlan},
};
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut reflectors = Reflectors::new(Policy::default())?;
    reflectors.start(&StampReflector { port: 0, ..Default::default() }, &["127.0.0.1".parse()?]);
    let (_, to) = reflectors.listening()[0];

    let period = Span::millis(2);
    let spec = TestSpec::new(Direction::Up, Transport::Udp, 10, 44, period, Schedule::Periodic)?;
    let plan = PingPlan { spec, wait: None, timeout: Span::seconds(2), overdue: Overdue::Space };
    let link = TwoWayLink {
        to,
        carrier: Carrier::Udp,
        marking: Marking::default(),
        stamps: StampMode::Kernel,
        pacing: Pacing::default(),
        start: None,
        live: None,
    };
    let test = twoway::run(|_| StampSender::new(Default::default()), plan, &link, &AtomicBool::new(false))?;
    println!("{} of 10 requests answered", test.outcome.requests.answered());
    Ok(())
}
