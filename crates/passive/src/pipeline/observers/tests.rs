use super::super::testing::{frame, udp};
use super::*;
use crate::{FlowKey, Grouping};
use jitlat_core::record::PacketRecord;
use jitlat_core::time::Span;

#[derive(Default)]
struct Kept(Vec<i64>);

impl StreamSink for Kept {
    fn record(&mut self, _: Direction, r: &PacketRecord) {
        self.0.push(r.seq);
    }
}

fn record(direction: Direction, reference: i64, monitor: i64) -> Record {
    Record { direction, reference: WallTime(reference), monitor: WallTime(monitor), length: 100, flow: 0 }
}

#[test]
fn each_observer_hears_of_what_concerns_it() {
    let mut all: MatchObservers<Kept> = MatchObservers::new(PairEstimator::new(Span::seconds(1), None));
    (all.streams, all.flows, all.matched) =
        (Some(StreamBuilder::new(Kept::default())), Some(FlowAnalyzer::new(None)), Some(vec![]));
    let (out, back) = (record(Direction::Up, 10, 40), record(Direction::Down, 90, 50));
    all.void(Direction::Up, 0);
    for (seq, r) in [(1, out), (0, back)] {
        all.record(r);
        all.arrived(seq, r, false);
    }
    all.arrived(1, record(Direction::Up, 10, 41), true);
    all.lost(Direction::Up, 2, WallTime(20), 0);
    all.arrived(3, record(Direction::Up, 30, 70), false);
    assert_eq!(all.take_pairs().map(|e| e.pair.rtt().0).collect::<Vec<_>>(), [70]);
    assert_eq!(all.take_pairs().count(), 0);
    assert_eq!(
        all.matched.unwrap(),
        [out, back, record(Direction::Up, 30, 70)],
        "copies are not matched packets"
    );
    let streams = all.streams.unwrap();
    assert_eq!((streams.sent(Direction::Up), streams.sent(Direction::Down)), (3, 1));
    assert_eq!(streams.into_sink().0, [0, 0, 0, 2]);
    let key = FlowKey::of(&frame(0, &udp((1, 2), 1, b"")).packet().unwrap(), Direction::Up, Grouping::Flow);
    let [flow] = all.flows.unwrap().figures(&[key]).try_into().unwrap();
    assert_eq!((flow.pairs, flow.out.matched, flow.out.lost, flow.out.duplicates), (1, 2, 1, 1));
    assert_eq!((flow.back.matched, flow.out.bytes, flow.back.bytes), (1, 200, 100));
}

#[test]
fn a_packet_without_a_number_is_matched_and_counted() {
    let mut some: MatchObservers<Kept> = MatchObservers::new(PairEstimator::new(Span::seconds(1), None));
    some.matched = Some(vec![]);
    some.packet(&record(Direction::Up, 10, 40));
    assert_eq!(some.matched.unwrap().len(), 1);
    let summary = some.estimator.summary_of(Default::default());
    assert_eq!(summary.out.delay_raw_ns.unwrap().min, 30);
}
