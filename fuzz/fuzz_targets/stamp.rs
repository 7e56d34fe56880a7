#![no_main]
// Aims at: crates/proto/src/stamp crates/proto/src/reqresp crates/proto/src/twoway/pinger.rs

use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::{
    Direction, EcnMarking, Schedule, Span, Stamp, StampSource, SteadyTime, TestSpec, Transport, WallTime,
};
use jitlat_proto::machine::Tick;
use jitlat_proto::reqresp::{ExchangeSizes, GREETING_LEN, Requester, respond};
use jitlat_proto::stamp::sender::StampOptions;
use jitlat_proto::stamp::{ReflectorRules, StampSender, StampSessionReflector};
use jitlat_proto::twoway::pinger::PingReception;
use jitlat_proto::twoway::{Overdue, PingPlan, Pinger, Protocol, RequestArrival};

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    size: u8,
    light: bool,
    marked: bool,
    stateful: bool,
    wait: Option<u8>,
    steps: Vec<(u16, u8, Vec<u8>)>,
}

/// Runs one test with answers of the reflector, of the fuzzer, or of the reflector corrupted by the fuzzer.
fn test<P: Protocol>(input: &Input, protocol: P, mut answer: impl FnMut(&[u8], Tick) -> Vec<u8>) {
    let spec =
        TestSpec::new(Direction::Up, Transport::Udp, 50, 44, Span::millis(1), Schedule::Periodic).unwrap();
    let wait = input.wait.map(|ms| Span::millis(ms.into()));
    let plan = PingPlan { spec, wait, timeout: Span::millis(500), overdue: Overdue::Space };
    let mut pinger = Pinger::new(protocol, plan, StampSource::User);
    let mut now = Tick { wall: WallTime(1_000_000_000), steady: SteadyTime(0) };
    let mut out = Vec::new();
    for (wait, spoil, bytes) in input.steps.iter().take(300) {
        let span = Span::micros((*wait).into());
        now = Tick { wall: now.wall + span, steady: now.steady + span };
        pinger.handle_timeout(now);
        out.clear();
        let said = pinger.poll_transmit(now, &mut out).map(|_| answer(&out, now));
        let mut answers = vec![bytes.clone()];
        if let Some(mut said) = said {
            answers.push(said.clone());
            if let Some(byte) = said.get_mut(usize::from(*spoil)) {
                *byte ^= bytes.first().copied().unwrap_or(1);
            }
            answers.push(said);
        }
        for datagram in answers {
            let stamp = Stamp { at: now.wall, source: StampSource::User };
            let meta = PingReception {
                stamp,
                read: now.wall,
                length: datagram.len(),
                ttl: None,
                traffic_class: None,
                other_port: false,
            };
            pinger.handle(&datagram, &meta, now);
        }
    }
    let requests = pinger.requests();
    assert!(requests.answered() <= requests.sent() && requests.sent() <= 50);
    let mut outcome = pinger.finish_up();
    assert!(outcome.records.iter().all(|r| (0..50).contains(&r.seq)));
    let (d, runs) = outcome.requests.directions();
    assert!(d.up_lost + d.unknown_lost <= 50 && runs.iter().all(|r| r.first + r.length <= 50));
}

libfuzzer_sys::fuzz_target!(|input: Input| {
    let rules = ReflectorRules {
        sessions: if input.stateful { 4 } else { 0 },
        link_id: input.stateful.then_some(7),
        ..ReflectorRules::default()
    };
    let mut reflector = StampSessionReflector::new(rules);
    let from = "192.0.2.1:4000".parse().unwrap();
    let mut room = vec![0; 65_507];
    let mut reflect = |request: &[u8], now: Tick| {
        let arrival = RequestArrival { from, at: now.wall, ttl: Some(64), traffic_class: Some(184) };
        let done = reflector.reflect(request, &arrival, now, ErrorEstimate::UNKNOWN, &mut room);
        let length = done.map_or(0, |r| r.len);
        assert!(length <= request.len(), "an answer larger than its question");
        room[..length].to_vec()
    };
    for (_, _, bytes) in input.steps.iter().take(50) {
        let _ = reflect(bytes, Tick { wall: WallTime(5), steady: SteadyTime(5) });
    }
    let options = StampOptions {
        size: input.size.into(),
        light: input.light,
        class_of_service: input.marked.then_some(46),
        marking: if input.marked { EcnMarking::Both { seed: input.size.into() } } else { EcnMarking::Off },
        direct_measurement: input.marked,
        ..StampOptions::default()
    };
    test(&input, StampSender::new(options), reflect);

    if let Some(greeting) = input.steps.first().and_then(|s| s.2.first_chunk::<GREETING_LEN>()) {
        if let Some(sizes) = ExchangeSizes::from_greeting(greeting) {
            assert_eq!(sizes.greeting(), *greeting);
        }
    }
    let sizes = ExchangeSizes::new(64, 40).unwrap();
    test(&input, Requester::new(sizes), |request, now| {
        let mut response = vec![0; sizes.response()];
        assert!(respond(request, now.wall, now.wall, &mut response));
        response
    });
});
