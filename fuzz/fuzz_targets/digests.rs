//! Both sides of the digest conversation, fed with arbitrary bytes: no panic, no hang, no memory beyond the bytes.
#![no_main]
// Aims at: crates/proto/src/digest

use jitlat_core::SteadyTime;
use jitlat_core::time::WallTime;
use jitlat_proto::digest::{
    Collector, CollectorInput, DigestMessage, Exporter, ExporterEvent, ExporterInput, Listen,
};
use jitlat_proto::{Machine, Tick};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    if let Ok(message) = DigestMessage::decode(kind, rest) {
        let mut body = Vec::new();
        message.encode(&mut body);
        assert_eq!(DigestMessage::decode(kind, &body), Ok(message));
    }
    let now = Tick { wall: WallTime(0), steady: SteadyTime(0) };
    let mut collector = Collector::new(Listen::default(), None, [0; 32], now);
    let mut exporter = Exporter::new(Default::default(), 100, [1; 32], now);
    let mut out = Vec::new();
    for chunk in rest.chunks(usize::from(kind) + 1) {
        collector.handle(now, CollectorInput::Bytes(chunk));
        exporter.handle(now, ExporterInput::Bytes(chunk));
        while let Some(event) = exporter.poll_event() {
            if matches!(event, ExporterEvent::Listen(..)) {
                exporter.handle(now, ExporterInput::Listening(String::new()));
            }
        }
        while collector.poll_event().is_some() {}
        while collector.poll_transmit(now, &mut out) {}
        while exporter.poll_transmit(now, &mut out) {}
        out.clear();
    }
});
