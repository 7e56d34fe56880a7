#![no_main]
// Aims at: crates/proto/src/lamp

use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_proto::lamp::client::LampOptions;
use jitlat_proto::lamp::{
    Client, LampFollowUp, LampHeader, LampMode, LampReaction, LampReport, Server, ServerRules,
};
use jitlat_proto::machine::Tick;
use jitlat_proto::twoway::{Protocol, RequestArrival};

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    unidirectional: bool,
    timeless: bool,
    follow_up: Option<u16>,
    payload: u8,
    steps: Vec<(u16, bool, Vec<u8>)>,
}

// Both sides receive arbitrary packets: no panic, bounded memory, and parsed packets are encoded back unchanged. An
// address that has not proven that it receives packets is never sent more packets or bytes than came from it.
libfuzzer_sys::fuzz_target!(|input: Input| {
    let mode = if input.unidirectional { LampMode::Unidirectional } else { LampMode::PingLike };
    let follow_up = input.follow_up.map(LampFollowUp::from);
    let options = LampOptions {
        id: 7,
        mode,
        payload: input.payload.into(),
        timeless: input.timeless,
        follow_up,
        broadcast: false,
    };
    let mut client = Client::new(options);
    let mut server = Server::<()>::new(ServerRules { sessions: 8, ..ServerRules::default() }, [7; 32]);
    let from = "192.0.2.1:4000".parse().unwrap();
    // The fuzzer's own bytes come from another host, from several ports.
    let forged = |port: u16| std::net::SocketAddr::from(([192, 0, 2, 2], 4000 + port % 4));
    let mut balance = (0i64, 0i64);
    let mut now = Tick { wall: WallTime(1_000_000_000), steady: SteadyTime(0) };
    let mut out = Vec::new();
    for (seq, (wait, last, bytes)) in input.steps.iter().take(300).enumerate() {
        now = Tick {
            wall: now.wall + Span::micros((*wait).into()),
            steady: now.steady + Span::millis((*wait).into()),
        };
        if let Some(header) = LampHeader::parse(bytes) {
            assert_eq!(LampHeader::parse(&header.to_bytes()), Some(header));
        }
        if let Ok(report) = String::from_utf8_lossy(bytes).parse::<LampReport>() {
            let _ = jitlat_core::twoway::FarReport::from(&report);
        }
        let arrival = |from| RequestArrival { from, at: now.wall, ttl: None, traffic_class: None };
        // The client's packets reach the server, and answers come back; the fuzzer's bytes are inserted in between.
        out.clear();
        let _ = client.conversation_state(now.steady);
        if !client.poll_conversation(now, &mut out) {
            client.request(seq as u32, *last, now.wall, &mut out);
        }
        let said = out.clone();
        for (datagram, from) in [(&said[..], from), (&bytes[..], from), (&bytes[..], forged(*wait))] {
            out.clear();
            let reaction = server.handle(datagram, &arrival(from), (), now, &mut out);
            assert!(out.len() <= datagram.len(), "an answer larger than its question");
            if from == forged(*wait) {
                assert!(
                    !matches!(reaction, Ok(LampReaction::AnswerAndFollow(_))),
                    "a follow-up without proof"
                );
                balance = (balance.0 + 1, balance.1 + datagram.len() as i64);
                balance = (balance.0 - i64::from(!out.is_empty()), balance.1 - out.len() as i64);
            } else {
                let _ = client.receive(&out.clone(), now.wall);
            }
        }
        let _ = client.receive(bytes, now.wall);
        out.clear();
        while let Some((to, ())) = server.poll_transmit(now, &mut out) {
            if to.ip() == forged(0).ip() {
                balance = (balance.0 - 1, balance.1 - out.len() as i64);
            }
            let _ = client.receive(&out.clone(), now.wall);
            out.clear();
        }
        assert!(balance.0 >= 0 && balance.1 >= 0, "an amplifier: {balance:?}");
        assert!(server.sessions() <= 8);
    }
});
