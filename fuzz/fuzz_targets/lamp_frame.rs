#![no_main]
// Aims at: crates/net/src/lamp_frame.rs crates/proto/src/lamp/server.rs crates/proto/src/wsmp.rs
// Longest input: 8192

use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_net::lamp_frame::{LampLink, address_of, fill, is_unicast, parse};
use jitlat_proto::lamp::{LampReaction, Server, ServerRules};
use jitlat_proto::machine::Tick;
use jitlat_proto::twoway::RequestArrival;
use jitlat_proto::wsmp::Psid;
use std::net::IpAddr;

/// Length of an Ethernet header in bytes.
const HEADER: usize = 14;

// A parsed frame is built again unchanged, with any padding; a host has one address; and the server's answers to a
// host that has proven nothing are no more, in frames and bytes, than came from it.
libfuzzer_sys::fuzz_target!(|frames: Vec<(u16, Vec<u8>)>| {
    let mut server = Server::<()>::new(ServerRules { sessions: 8, ..ServerRules::default() }, [7; 32]);
    let mut steady = SteadyTime(0);
    let (mut balance, mut out, mut again) = ((0i64, 0i64), Vec::new(), Vec::new());
    for (wait, bytes) in frames.iter().take(200) {
        steady = steady + Span::millis((*wait).into());
        let now = Tick { wall: WallTime(1_000_000_000 + steady.0), steady };
        balance = (balance.0 + 1, balance.1 + bytes.len() as i64);
        for link in [LampLink::Ethernet, LampLink::Wsmp(Psid::TESTING)] {
            let Some(frame) = parse(link, bytes) else { continue };
            fill(link, &mut again, frame.source, frame.destination, frame.packet);
            let length = HEADER + link.overhead(frame.packet.len()) + frame.packet.len();
            // Extensions of WSMP and bytes after the packet in its message are not written again.
            assert!(again.len() == length && (link != LampLink::Ethernet || again == bytes[..length]));
            again.resize(again.len() + 46, 0);
            let padded = parse(link, &again).expect("padding is no part of the packet");
            assert_eq!((padded.source, padded.packet), (frame.source, frame.packet));

            let from = address_of(link, frame.source);
            let IpAddr::V6(ip) = from.ip() else { panic!("not link-local") };
            let o = ip.octets();
            assert!(ip.is_unicast_link_local());
            assert_eq!([o[8] ^ 2, o[9], o[10], o[13], o[14], o[15]], frame.source, "two hosts, one address");

            let arrival = RequestArrival { from, at: now.wall, ttl: None, traffic_class: None };
            out.clear();
            if is_unicast(frame.source) {
                let reaction = server.handle(frame.packet, &arrival, (), now, &mut out);
                assert!(
                    !matches!(reaction, Ok(LampReaction::AnswerAndFollow(_))),
                    "a follow-up without proof"
                );
            }
            if !out.is_empty() {
                fill(link, &mut again, frame.destination, frame.source, &out);
                assert!(parse(link, &again).is_some_and(|answer| answer.packet == out));
                balance = (balance.0 - 1, balance.1 - again.len() as i64);
            }
        }
        out.clear();
        while server.poll_transmit(now, &mut out).is_some() {
            balance = (balance.0 - 1, balance.1 - (HEADER + out.len()) as i64);
            out.clear();
        }
        assert!(balance.0 >= 0 && balance.1 >= 0, "an amplifier: {balance:?}");
        assert!(server.sessions() <= 8);
    }
});
