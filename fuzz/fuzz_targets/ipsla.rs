#![no_main]
// Aims at: crates/proto/src/ipsla

use jitlat_core::ntp::TimeFormat;
use jitlat_core::{Direction, Schedule, Span, Stamp, StampSource, SteadyTime, TestSpec, Transport, WallTime};
use jitlat_proto::ipsla::{
    AuthMode, Client, IpslaKey, IpslaKeys, IpslaOptions, IpslaVersion, ProbeForm, Responder, ResponderRules,
};
use jitlat_proto::machine::Tick;
use jitlat_proto::twoway::pinger::PingReception;
use jitlat_proto::twoway::{Overdue, PingPlan, Pinger, RequestArrival, Transmit};
use std::net::SocketAddr;

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    keyed: bool,
    form: u8,
    size: u8,
    packets: u8,
    wait: Option<u8>,
    /// Packets from other hosts: a host, an open port or control, and bytes.
    others: Vec<(u8, bool, Vec<u8>)>,
    /// For each step of the test: its length, and what happens to the answer: nothing, lost, changed at a byte, repeated, or bytes instead.
    steps: Vec<(u16, u8, u8, Vec<u8>)>,
}

fn tick(ms: i64) -> Tick {
    Tick { wall: WallTime(1_795_176_900_000_000_000) + Span::millis(ms), steady: SteadyTime(0) + Span::millis(ms) }
}

// Any packets of several hosts to a responder; its answers, modified, to a client in a test. One answer at most, as long
// as the request at most; bounded sessions and ports; the test ends, and counts each packet once.
libfuzzer_sys::fuzz_target!(|input: Input| {
    let form = [
        ProbeForm::Echo,
        ProbeForm::Milliseconds,
        ProbeForm::Microseconds,
        ProbeForm::V2(TimeFormat::Ntp),
        ProbeForm::V2(TimeFormat::Ptp),
    ][usize::from(input.form % 5)];
    let is_v2 = matches!(form, ProbeForm::V2(_));
    let version = if is_v2 { IpslaVersion::V2 } else { IpslaVersion::V1 };
    let keyed = input.keyed && is_v2;
    let rules = ResponderRules {
        keys: if keyed { IpslaKeys::parse("7 key").unwrap_or_default() } else { IpslaKeys::default() },
        format: if let ProbeForm::V2(format) = form { format } else { TimeFormat::Ntp },
        sessions: 6,
        sessions_per_client: 3,
        open_ports: 3,
        ..ResponderRules::default()
    };
    let mut responder = Responder::new(rules);
    let own: SocketAddr = SocketAddr::from(([192, 0, 2, 1], 4000));
    let client = Client::new(IpslaOptions {
        version,
        form,
        size: input.size.into(),
        local: own,
        target: SocketAddr::from(([192, 0, 2, 2], 20_000)),
        duration: Span::seconds(200),
        seq: 9,
        key: keyed.then(|| (AuthMode::HmacSha256, IpslaKey::new(7, b"key"))),
        random: [1; 16],
    });
    let packets = u64::from(input.packets % 16) + 1;
    let Ok(spec) = TestSpec::new(Direction::Up, Transport::Udp, packets, 80, Span::millis(10), Schedule::Periodic) else {
        return;
    };
    let wait = input.wait.map(|ms| Span::millis(ms.into()));
    let plan = PingPlan { spec, wait, timeout: Span::seconds(1), overdue: Overdue::Space };
    let mut pinger = Pinger::new(client, plan, StampSource::User);
    let mut ms = 0;
    let answer = |responder: &mut Responder, from: SocketAddr, is_probe: bool, packet: &[u8], ms: i64| {
        let arrival = RequestArrival { from, at: tick(ms).wall, ttl: None, traffic_class: None };
        let mut out = Vec::new();
        let done = match is_probe {
            true => responder.probe(20_000, packet, &arrival, tick(ms), &mut out),
            false => responder.control(packet, &arrival, tick(ms), &mut |port| Some(port.max(1024)), &mut out),
        };
        assert!(out.len() <= packet.len() && done.is_ok() != out.is_empty());
        assert!(responder.sessions() <= 6 && responder.open_ports() <= 3);
        responder.close_ports(tick(ms).steady);
        out
    };
    let mut others = input.others.into_iter();
    let mut steps = input.steps.into_iter();
    let mut left = 2000;
    while let (Some(due), true) = (pinger.poll_timeout(), left > 0) {
        left -= 1;
        if let Some((host, is_probe, packet)) = others.next() {
            let from = SocketAddr::from(([192, 0, 2, 10 + host % 4], 4000 + u16::from(host / 64)));
            answer(&mut responder, from, is_probe, &packet, ms);
        }
        let (step, fate, at, bytes) = steps.next().unwrap_or((0, 0, 0, Vec::new()));
        ms = (ms + i64::from(step % 2000)).max(due.0.div_euclid(1_000_000).clamp(ms, ms + 5000) + 1);
        pinger.handle_timeout(tick(ms));
        let mut out = Vec::new();
        while let Some(what) = pinger.poll_transmit(tick(ms), &mut out) {
            let is_probe = what != Transmit::Conversation;
            let mut back = answer(&mut responder, own, is_probe, &out, ms);
            out.clear();
            let mut copies = 1;
            match fate % 5 {
                1 => copies = 0,
                2 => {
                    let length = back.len().max(1);
                    if let Some(byte) = back.get_mut(usize::from(at) % length) {
                        *byte ^= bytes.first().copied().unwrap_or(1);
                    }
                }
                3 => copies = 2,
                4 => back.clone_from(&bytes),
                _ => {}
            }
            for _ in 0..copies {
                let now = tick(ms + 3);
                let stamp = Stamp { at: now.wall, source: StampSource::Kernel };
                let length = back.len();
                let meta = PingReception { stamp, read: now.wall, length, ttl: None, traffic_class: None, other_port: false };
                pinger.handle(&back, &meta, now);
            }
            pinger.handle_timeout(tick(ms));
        }
    }
    assert!(left > 0, "the test does not end");
    let outcome = pinger.finish_up();
    assert!(outcome.requests.answered() <= outcome.requests.sent());
});
