//! Captured traffic, analysed with the library alone.

#[allow(dead_code)]
#[path = "../../examples/passive.rs"]
mod example;

use jitlat_instruments::passive::{CaptureSource, Passive};
use jitlat_instruments::{Event, Stop};
use jitlat_passive::CaptureEvent;
use std::path::{Path, PathBuf};

fn captures(name: &str) -> [PathBuf; 2] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/spp");
    ["ref", "mon"].map(|point| folder.join(format!("{name}.{point}.pcap")))
}

#[test]
fn the_example_finds_round_trips_and_losses() {
    let [reference, monitor] = captures("atm_loss_udp340");
    let summary = example::summarise(reference, monitor).unwrap();
    let lost = [&summary.out, &summary.back].map(|way| way.counts.lost);
    assert_eq!((summary.pairs, lost), (420, [4, 15]));
}

/// Events arrive in order, and their records belong to the sessions. A stop ends the analysis with the
/// results so far.
#[test]
fn events_come_in_order_until_a_stop() {
    let passive = Passive { records: true, matched: true, ..Passive::default() };
    let follow = |stop: &Stop| {
        let (mut order, mut pairs, mut records) = (Vec::new(), 0, [0; 2]);
        let mut observer = |event: &CaptureEvent<'_>| {
            let name = match event {
                CaptureEvent::Planned(_) => "planned",
                CaptureEvent::Stream(Event::Started(_)) => "started",
                CaptureEvent::Stream(Event::Concluding(_)) => "concluding",
                CaptureEvent::Stream(Event::Finished(_)) => "finished",
                CaptureEvent::Pairs(found) => return pairs += found.len() as u64,
                CaptureEvent::Stream(Event::Records { stream, records: found, .. }) => {
                    return records[*stream] += found.len();
                }
                _ => return,
            };
            order.push(name);
        };
        let points = captures("atm_loss_udp340").map(|path| CaptureSource::Files(vec![path]));
        let outcome = passive.follow_captures(points, stop, &mut observer).unwrap();
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        assert_eq!((order.first(), order.last()), (Some(&"planned"), Some(&"finished")));
        assert_eq!((pairs, outcome.sessions.len()), (outcome.result.summary.pairs, 2));
        (pairs, records, order)
    };
    let (pairs, records, order) = follow(&Stop::new());
    assert_eq!((pairs, records), (420, [446, 435]), "{order:?}");
    let stop = Stop::new();
    stop.request();
    let (fewer, ..) = follow(&stop);
    assert!(fewer > 0 && fewer < pairs, "{fewer}");
}
