#![no_main]
// Aims at: crates/passive/src crates/net/src/capture
// Longest input: 8192

//! Any bytes as a capture: it is read, surveyed, named, matched with itself, and followed as TCP.

use jitlat_core::spec::Direction;
use jitlat_core::{PacketRecord, Span, WallTime};
use jitlat_net::capture::Capture;
use jitlat_passive::flows::Grouping;
use jitlat_passive::pipeline::{
    CaptureHead, MatchObservers, NamingRule, PacketNamer, PreviewSample, SharedFlowNumbers, SightingSource,
    join,
};
use jitlat_passive::tcp::{TcpAnalyzer, explain_delays};
use jitlat_passive::verdict::explain_no_match;
use jitlat_passive::{
    CapturePoint, FlowAnalyzer, IdentityRule, Matcher, PacketPreview, PairEstimator, PassiveResult, Sides,
    Sighting, StreamBuilder, StreamSink, survey,
};
use std::io::Cursor;
use std::ops::ControlFlow;

/// Checks that the numbers of a direction's records do not exceed the number of sent packets.
#[derive(Default)]
struct Highest([i64; 2]);

impl StreamSink for Highest {
    fn record(&mut self, direction: Direction, record: &PacketRecord) {
        assert!(record.seq >= 0);
        let highest = &mut self.0[direction as usize];
        *highest = (*highest).max(record.seq + 1);
    }
}

/// Sightings that are all available at once.
struct Listed(Vec<Sighting>, usize);

impl SightingSource for Listed {
    fn peek(&mut self) -> Option<Sighting> {
        self.0.get(self.1).copied()
    }

    fn advance(&mut self) {
        self.1 += 1;
    }

    fn span(&self) -> Option<(WallTime, WallTime)> {
        Some((self.0.first()?.at, self.0.last()?.at))
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // Compressed captures are skipped: decompression is slow, and done by other libraries.
    if matches!(data, [0x1f, 0x8b, ..] | [0x28, 0xb5, ..] | [0xfd, ..]) {
        return;
    }
    let Ok(mut capture) = Capture::from_reader("fuzz", Cursor::new(data.to_vec())) else { return };
    let (mut head, mut sample) = (CaptureHead::default(), PreviewSample::new(usize::MAX, false));
    let mut tcp = TcpAnalyzer::with_history();
    while let Some(f) = capture.next_frame() {
        head.push(&f);
        sample.push(&f);
        let Ok(p) = f.packet() else { continue };
        assert!(p.transport_at <= p.ip.len());
        tcp.push(f.at, &p).count();
    }
    for c in tcp.finish() {
        let _ = (explain_delays(&c, None), tcp.delivery_history(&c, true), tcp.delivery_history(&c, false));
    }
    let available = head.available();
    let previews: Vec<PacketPreview> = head.previews(available);
    let _ = survey(&sample.into_previews(), &previews, None);
    let plan = survey(&previews, &previews, None);
    let sides = plan.as_ref().map_or_else(|_| Sides::any(), |plan| plan.sides[0].clone());
    let identity = IdentityRule { available, ..IdentityRule::WHOLE };
    let numbers = SharedFlowNumbers::default();
    let mut namer = PacketNamer::new(NamingRule {
        echoes_apart: head.pairs_without_echoes(&sides, false),
        sides,
        identity,
        sorted: true,
        only: None,
        part: None,
        inside: true,
        flows: Some((Grouping::Flow, numbers.clone())),
    });
    let mut sightings = Vec::new();
    for (k, f) in head.frames().enumerate() {
        namer.push(&f);
        if k % 8 == 0 {
            sightings.extend(namer.take(Vec::new()));
        }
    }
    let (last, facts) = namer.finish();
    sightings.extend(last);
    assert!(
        sightings.len() as u64 <= facts.ours && facts.ours <= facts.packets && facts.packets <= facts.frames
    );
    let mut observers = MatchObservers {
        streams: Some(StreamBuilder::new(Highest::default())),
        flows: Some(FlowAnalyzer::new(None)),
        matched: Some(Vec::new()),
        ..MatchObservers::new(PairEstimator::new(Span::seconds(1), None))
    };
    let matcher = Matcher::new(Span(0), Span::seconds(1)).with_capacity(64);
    let mut points = [Listed(sightings.clone(), 0), Listed(sightings, 0)];
    let counts = join(matcher, &mut points, &mut observers, |_| ControlFlow::Continue(()));
    observers.settle();
    let summary = observers.estimator.summary_of(counts);
    for direction in [&summary.out.counts, &summary.back.counts] {
        assert!(
            direction.matched <= direction.seen_at_reference
                && direction.matched <= direction.seen_at_monitor
        );
    }
    let flows = observers.flows.map(|f| f.figures(&numbers.keys()));
    let streams = observers.streams.unwrap();
    let sent = Direction::BOTH.map(|direction| streams.sent(direction));
    let Highest(highest) = streams.into_sink();
    assert!(highest.iter().zip(sent).all(|(h, sent)| *h as u64 <= sent), "{highest:?} {sent:?}");
    let captures = [facts.clone(), facts];
    let _ = explain_no_match(&captures, plan.as_ref().ok());
    let Ok(plan) = plan else { return };
    let result = PassiveResult {
        clock_steps: Vec::new(),
        plan,
        addresses_given: false,
        identity,
        window: Span::seconds(1),
        captures,
        summary,
        sizes: observers.estimator.sizes(),
        flows,
    };
    let _ = (result.notes(), CapturePoint::Reference);
});
