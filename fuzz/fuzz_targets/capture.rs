#![no_main]

//! Any bytes as a capture: read, decode, name, match with itself, and follow as TCP.

use jitlat_core::Span;
use jitlat_core::passive::tcp::TcpAnalyzer;
use jitlat_core::passive::{
    Estimator, IdentityRule, InOrder, Matcher, PacketPreview, Point, Sighting, Way, decode, survey,
};
use jitlat_net::capture::Capture;
use std::io::Cursor;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // Unpacking is other people's work, and slow: only captures as they are.
    if matches!(data, [0x1f, 0x8b, ..] | [0x28, 0xb5, ..] | [0xfd, ..]) {
        return;
    }
    let Ok(mut capture) = Capture::from_reader("fuzz", Cursor::new(data.to_vec())) else { return };
    let (mut order, mut sightings, mut previews) = (InOrder::default(), Vec::new(), Vec::new());
    let mut frames = 0;
    let mut tcp = TcpAnalyzer::default();
    while let Some(f) = capture.next_frame() {
        let Ok(p) = decode(f.link, f.data, f.wire_length) else { continue };
        assert!(p.transport_at <= p.ip.len());
        previews.extend(PacketPreview::of(&p, f.at, usize::MAX));
        tcp.push(f.at, &p).count();
        let way = if p.src() <= p.dst() { Way::Out } else { Way::In };
        if let Some(id) = IdentityRule::WHOLE.identify(&p, Some(way)) {
            order.push(Sighting { at: f.at, id, length: p.length, way, flow: 0 });
        }
        frames += 1;
        if frames % 8 == 0 {
            sightings.extend(order.take(Vec::new()));
        }
    }
    sightings.extend(order.finish());
    let _ = survey(&previews, &previews, None);
    let _ = tcp.finish();
    let mut matcher = Matcher::new(Span(0), Span::seconds(1));
    let mut estimator = Estimator::new(Span::seconds(1), None);
    for s in &sightings {
        matcher.push(Point::Reference, *s, &mut estimator);
        matcher.push(Point::Monitor, *s, &mut estimator);
    }
    matcher.finish(&mut estimator);
    let summary = estimator.summary(&matcher);
    for way in [&summary.out.counts, &summary.back.counts] {
        assert!(way.matched <= way.seen_at_reference && way.matched <= way.seen_at_monitor);
    }
});
