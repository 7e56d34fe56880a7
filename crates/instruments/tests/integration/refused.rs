//! Errors reported by a far host, or by a filter, that does not answer requests.

use jitlat_core::Span;
use jitlat_core::observer::Event;
use jitlat_instruments::ping::PingProtocol;
use jitlat_instruments::{Arguments, Instrument, Ping, Stop};
use jitlat_net::reflect::{Reflectors, StampReflector};
use jitlat_proto::policy::Policy;
use std::net::SocketAddr;

fn reflector(port: u16) -> (Reflectors, SocketAddr) {
    let mut reflectors = Reflectors::new(Policy::default()).unwrap();
    reflectors.start(&StampReflector { port, ..StampReflector::default() }, &["127.0.0.1".parse().unwrap()]);
    assert!(reflectors.failures().is_empty(), "{:?}", reflectors.failures());
    let address = reflectors.listening()[0].1;
    (reflectors, address)
}

#[test]
fn a_program_that_is_restarted_during_a_test_is_reported_with_the_loss() {
    let (first, at) = reflector(0);
    let arguments = Arguments::new().with("stamp-port", at.port().to_string());
    let client = PingProtocol::named("stamp").unwrap().client(&arguments).unwrap();
    let test = Ping {
        packets: 300,
        period: Span::millis(10),
        timeout: Span::seconds(1),
        ..Ping::boxed("127.0.0.1", client)
    };
    // The server ends once some packets have been answered, and returns after more packets have reached a
    // closed port.
    let (mut first, mut second, mut gone) = (Some(first), None, 0);
    let mut restart = |event: &Event<'_>| {
        let Event::Progress([stream]) = event else { return };
        if first.is_some() && stream.received >= 20 {
            first = None;
            gone = stream.sent;
        } else if first.is_none() && second.is_none() && stream.sent >= gone + 20 {
            second = Some(reflector(at.port()));
        }
    };
    let streams = test.analyse(&Default::default(), &Stop::new(), &mut restart).unwrap();
    assert!(second.is_some(), "it was not restarted");
    let summary = &streams[0].summary;
    let counts = &summary.counts;
    assert!(counts.received > 0 && counts.lost > 0, "{counts:?}");
    assert!(summary.two_way.as_ref().unwrap().not_answers.refused > 0);
    assert!(summary.warnings.iter().any(|w| w.code == "requests_refused"), "{:?}", summary.warnings);
}
