//! A STAMP test without a network. The example passes bytes and times between the two state machines itself.
//! Run with `cargo run -p jitlat-proto --example stamp`.

use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_proto::Tick;
use jitlat_proto::stamp::{ReflectorRules, StampSender, StampSessionReflector};
use jitlat_proto::twoway::{DatagramKind, Protocol, RequestArrival};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sent = WallTime(1_795_000_000_000_000_000);
    let mut sender = StampSender::new(Default::default());
    let mut request = Vec::new();
    sender.request(0, true, sent, &mut request);

    // The request reaches the reflector 20 ms later. The answer has the same length as the request.
    let arrived = sent + Span::millis(20);
    let from = "192.0.2.1:40000".parse()?;
    let arrival = RequestArrival { from, at: arrived, ttl: Some(64), traffic_class: Some(0) };
    let now = Tick { wall: arrived + Span::micros(10), steady: SteadyTime(0) };
    let mut answer = vec![0; request.len()];
    let mut reflector = StampSessionReflector::new(ReflectorRules::default());
    reflector.reflect(&request, &arrival, now, ErrorEstimate::UNKNOWN, &mut answer)?;

    let DatagramKind::Reply(reply) = sender.receive(&answer, sent + Span::millis(50)) else { unreachable!() };
    assert_eq!((reply.seq, reply.arrived), (0, Some(arrived)));
    println!("request {} of {} bytes arrived at {arrived:?}", reply.seq, request.len());
    Ok(())
}
