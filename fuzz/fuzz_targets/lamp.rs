#![no_main]

use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_proto::lamp::client::Options;
use jitlat_proto::lamp::{Client, FollowUp, Header, Mode, Report, Server, ServerRules};
use jitlat_proto::machine::Tick;
use jitlat_proto::twoway::{Arrival, Protocol};

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    unidirectional: bool,
    timeless: bool,
    follow_up: Option<u16>,
    payload: u8,
    steps: Vec<(u16, bool, Vec<u8>)>,
}

// Whatever either side hears: no panic, bounded memory, and what is understood is said again as it was.
libfuzzer_sys::fuzz_target!(|input: Input| {
    let mode = if input.unidirectional { Mode::Unidirectional } else { Mode::PingLike };
    let follow_up = input.follow_up.map(FollowUp::from);
    let options = Options { id: 7, mode, payload: input.payload.into(), timeless: input.timeless, follow_up, broadcast: false };
    let mut client = Client::new(options);
    let mut server = Server::<()>::new(ServerRules { sessions: 8, ..ServerRules::default() }, [7; 32]);
    let from = "192.0.2.1:4000".parse().unwrap();
    let mut now = Tick { wall: WallTime(1_000_000_000), steady: SteadyTime(0) };
    let mut out = Vec::new();
    for (seq, (wait, last, bytes)) in input.steps.iter().take(300).enumerate() {
        now = Tick {
            wall: now.wall + Span::micros((*wait).into()),
            steady: now.steady + Span::millis((*wait).into()),
        };
        if let Some(header) = Header::parse(bytes) {
            assert_eq!(Header::parse(&header.to_bytes()), Some(header));
        }
        if let Ok(report) = String::from_utf8_lossy(bytes).parse::<Report>() {
            let _ = jitlat_core::twoway::FarReport::from(&report);
        }
        let arrival = Arrival { from, at: now.wall, ttl: None, traffic_class: None };
        // What the client says reaches the server, and answers come back; in between come the fuzzer's bytes.
        out.clear();
        let _ = client.conversation_state(now.steady);
        if !client.poll_conversation(now, &mut out) {
            client.request(seq as u32, *last, now.wall, &mut out);
        }
        let said = out.clone();
        for datagram in [&said[..], &bytes[..]] {
            out.clear();
            let _ = server.handle(datagram, &arrival, (), now, &mut out);
            assert!(out.len() <= datagram.len(), "an answer larger than its question");
            let _ = client.receive(&out.clone(), now.wall);
        }
        let _ = client.receive(bytes, now.wall);
        out.clear();
        while server.poll_transmit(now, &mut out).is_some() {
            let _ = client.receive(&out.clone(), now.wall);
            out.clear();
        }
        assert!(server.sessions() <= 8);
    }
});
