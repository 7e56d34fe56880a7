//! Both sides of the digest conversation, fed with anything: no panic, no hang, no memory beyond the bytes.
#![no_main]

use jitlat_core::SteadyTime;
use jitlat_core::time::WallTime;
use jitlat_proto::digest::{
    Listen, Listener, ListenerInput, Message, Reporter, ReporterEvent, ReporterInput,
};
use jitlat_proto::{Machine, Tick};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    if let Ok(message) = Message::decode(kind, rest) {
        let mut body = Vec::new();
        message.encode(&mut body);
        assert_eq!(Message::decode(kind, &body), Ok(message));
    }
    let now = Tick { wall: WallTime(0), steady: SteadyTime(0) };
    let mut listener = Listener::new(Listen::default(), None, [0; 16], now);
    let mut reporter = Reporter::new(None, 100, [1; 16], now);
    let mut out = Vec::new();
    for chunk in rest.chunks(usize::from(kind) + 1) {
        listener.handle(now, ListenerInput::Bytes(chunk));
        reporter.handle(now, ReporterInput::Bytes(chunk));
        while let Some(event) = reporter.poll_event() {
            if matches!(event, ReporterEvent::Listen(..)) {
                reporter.handle(now, ReporterInput::Listening(String::new()));
            }
        }
        while listener.poll_event().is_some() {}
        while listener.poll_transmit(now, &mut out) {}
        while reporter.poll_transmit(now, &mut out) {}
        out.clear();
    }
});
