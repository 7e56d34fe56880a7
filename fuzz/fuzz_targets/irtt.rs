#![no_main]
// Aims at: crates/proto/src/irtt

use jitlat_core::{Direction, Schedule, Span, Stamp, StampSource, SteadyTime, TestSpec, Transport, WallTime};
use jitlat_proto::access;
use jitlat_proto::irtt::packet::{self, IrttPacket, flag};
use jitlat_proto::irtt::{
    Client, IrttKey, IrttOptions, IrttParams, IrttRules, ReceiveStats, Server, ServerClocks, StampAt,
};
use jitlat_proto::machine::Tick;
use jitlat_proto::twoway::pinger::PingReception;
use jitlat_proto::twoway::{Overdue, PingPlan, Pinger, RequestArrival};
use std::collections::HashMap;

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    keyed: bool,
    ops: Vec<Op>,
    stats: u8,
    stamp_at: u8,
    clocks: u8,
    length: u16,
    wait: Option<u8>,
    /// For each step of the test: its length, and the fate of the answer.
    steps: Vec<(u16, u8, u8, Vec<u8>)>,
}

/// A packet sent to the server, or a change of time.
#[derive(arbitrary::Arbitrary, Debug)]
enum Op {
    Open { from: u8, flags: u8, params: Vec<u8> },
    Echo { from: u8, flags: u8, token: u8, body: Vec<u8> },
    Raw { from: u8, bytes: Vec<u8> },
    Wait(u32),
}

const HOSTS: [&str; 4] = ["192.0.2.1:4000", "192.0.2.1:4001", "198.51.100.7:4000", "[2001:db8::1]:4000"];

struct World {
    server: Server,
    now: Tick,
    /// Bytes sent without an answer by each client that has not used a session yet.
    credit: HashMap<access::ClientAddress, Option<usize>>,
}

impl World {
    fn wait(&mut self, span: Span) {
        self.now = Tick { wall: self.now.wall + span, steady: self.now.steady + span };
    }

    /// Sends a packet to the server; checks that the answer is never larger than the packet.
    fn say(&mut self, from: u8, bytes: &[u8]) -> Vec<u8> {
        let from: std::net::SocketAddr = HOSTS[usize::from(from) % HOSTS.len()].parse().unwrap();
        let arrival = RequestArrival { from, at: self.now.wall, ttl: None, traffic_class: None };
        let mut out = Vec::new();
        let reaction = self.server.handle(bytes, &arrival, self.now, &mut out);
        let credit = self.credit.entry(access::ClientAddress::of(from.ip())).or_insert(Some(0));
        if reaction.is_ok() && bytes.get(3).is_some_and(|flags| flags & (flag::OPEN | flag::CLOSE) == 0) {
            // A client that knows a token has received a packet sent to its address.
            assert!(out.len() <= bytes.len(), "an answer larger than its question");
            *credit = None;
        } else if let Some(credit) = credit {
            *credit = (*credit + bytes.len())
                .checked_sub(out.len())
                .expect("more than came from an address without proof");
        }
        assert!(reaction.is_ok() || out.is_empty());
        assert!(self.server.sessions() <= 8);
        out
    }
}

libfuzzer_sys::fuzz_target!(|input: Input| {
    let key = input.keyed.then(|| IrttKey::new("secret").unwrap());
    let rules =
        IrttRules { keys: key.clone().into(), sessions: 8, sessions_per_client: 6, ..IrttRules::default() };
    let now = Tick { wall: WallTime(1_795_309_600_000_000_000), steady: SteadyTime(7) };
    let mut world = World { server: Server::new(rules, [3; 32], now.steady), now, credit: HashMap::new() };
    let mut tokens = vec![0_u64];
    for op in input.ops.iter().take(200) {
        let mut bytes = Vec::new();
        let from = match op {
            Op::Wait(us) => {
                world.wait(Span::micros((*us).into()));
                continue;
            }
            Op::Raw { from, bytes: raw } => {
                bytes.extend(raw);
                from
            }
            Op::Open { from, flags, params } => {
                packet::begin(flag::OPEN | flags & !flag::HMAC, key.as_ref(), &mut bytes);
                bytes.extend(params);
                from
            }
            Op::Echo { from, flags, token, body } => {
                packet::begin(flags & !(flag::HMAC | flag::OPEN), key.as_ref(), &mut bytes);
                bytes.extend(tokens[usize::from(*token) % tokens.len()].to_le_bytes());
                bytes.extend(body);
                from
            }
        };
        if !matches!(op, Op::Raw { .. }) {
            packet::sign(key.as_ref(), &mut bytes);
        }
        let answer = world.say(*from, &bytes);
        if let Ok(packet) = IrttPacket::parse(&answer, key.as_ref()) {
            assert!(packet.flags & flag::REPLY != 0);
            tokens.extend(packet.token().map(|(token, _)| token));
        }
    }

    // A test whose answers are the server's, some of them corrupted, copied or left out.
    let mut options = IrttOptions::new(Span::seconds(1), Span::millis(10));
    options.key = key;
    options.loose = true;
    options.params = IrttParams {
        stats: ReceiveStats::ALL[usize::from(input.stats) % 4],
        stamp_at: StampAt::ALL[usize::from(input.stamp_at) % 5],
        clocks: ServerClocks::ALL[1 + usize::from(input.clocks) % 3],
        length: input.length.into(),
        ..options.params
    };
    let spec =
        TestSpec::new(Direction::Up, Transport::Udp, 50, 44, Span::millis(10), Schedule::Periodic).unwrap();
    let wait = input.wait.map(|ms| Span::millis(ms.into()));
    let plan = PingPlan { spec, wait, timeout: Span::millis(500), overdue: Overdue::Space };
    let mut pinger = Pinger::new(Client::new(options), plan, StampSource::User);
    let mut out = Vec::new();
    for (step, kind, at, bytes) in input.steps.iter().take(300) {
        world.wait(Span::micros((*step).into()));
        pinger.handle_timeout(world.now);
        out.clear();
        let mut answers = vec![bytes.clone()];
        if pinger.poll_transmit(world.now, &mut out).is_some() {
            let mut answer = world.say(0, &out);
            if kind & 1 == 0 {
                answers.push(answer.clone());
            }
            if kind & 2 != 0 {
                answers.push(answer.clone());
            }
            if let Some(byte) = answer.get_mut(usize::from(*at)) {
                *byte ^= bytes.first().copied().unwrap_or(1);
                answers.push(answer);
            }
        }
        for datagram in answers {
            let stamp = Stamp { at: world.now.wall, source: StampSource::User };
            let length = datagram.len();
            let meta = PingReception {
                stamp,
                read: world.now.wall,
                length,
                ttl: None,
                traffic_class: None,
                other_port: false,
            };
            pinger.handle(&datagram, &meta, world.now);
        }
    }
    let requests = pinger.requests();
    assert!(requests.answered() <= requests.sent() && requests.sent() <= 50);
    let mut outcome = pinger.finish_up();
    assert!(outcome.records.iter().all(|r| (0..50).contains(&r.seq)));
    let (d, runs) = outcome.requests.directions();
    assert!(d.up_lost + d.unknown_lost <= 50 && runs.iter().all(|r| r.first + r.length <= 50));
});
