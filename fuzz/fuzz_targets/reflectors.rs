#![no_main]
// Aims at: crates/proto/src/lamp/server.rs crates/proto/src/lamp/proof.rs crates/proto/src/lamp/tally.rs crates/proto/src/stamp/reflector.rs crates/proto/src/stamp/tlv.rs crates/proto/src/twamp/reflector.rs crates/proto/src/irtt/server.rs crates/proto/src/ipsla/responder.rs crates/proto/src/shares.rs

use jitlat_core::ntp::{ErrorEstimate, TimeFormat};
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_fuzz::Heap;
use jitlat_proto::ipsla::{self, IpslaVersion, ProbeForm};
use jitlat_proto::irtt;
use jitlat_proto::irtt::packet::{self, IrttPacket, flag};
use jitlat_proto::lamp::{self, LampHeader, LampKind, LampReaction};
use jitlat_proto::machine::Tick;
use jitlat_proto::reqresp::{self, ExchangeSizes, GREETING_LEN};
use jitlat_proto::stamp;
use jitlat_proto::twamp::{SecurityMode, SessionReflector};
use jitlat_proto::twoway::{Protocol, RequestArrival};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

#[global_allocator]
static HEAP: Heap = Heap::new();

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    stateful: bool,
    steps: Vec<Step>,
}

#[derive(arbitrary::Arbitrary, Debug)]
enum Step {
    /// A LaMP packet; with `proof`, an INIT that offers a proof or gives the last one that was sent to this host.
    Lamp {
        host: u8,
        kind: u8,
        id: u8,
        seq: u16,
        word: u16,
        proof: bool,
        payload: u8,
    },
    /// A STAMP packet with extensions.
    Stamp {
        host: u8,
        seq: u32,
        ssid: u16,
        rest: Vec<u8>,
    },
    /// A packet of a TWAMP session, which belongs to host 1.
    Twamp {
        host: u8,
        seq: u32,
        padding: u8,
    },
    /// An IRTT packet: one that opens a session, or one with the last token that was sent to this host.
    Irtt {
        host: u8,
        flags: u8,
        body: Vec<u8>,
    },
    /// A control message of IP SLA that opens a port, with one byte changed.
    Ipsla {
        host: u8,
        v2: bool,
        seq: u8,
        port: u8,
        at: u8,
        byte: u8,
    },
    /// A probe of IP SLA to an open port.
    Probe {
        host: u8,
        form: u8,
        seq: u32,
        port: u8,
    },
    /// TCP request-response: a connection with a greeting, from a host that completes the handshake, or cannot because its address is
    /// forged.
    Tcp {
        connects: bool,
        greeting: [u8; 16],
        request: Vec<u8>,
    },
    /// Arbitrary bytes to all reflectors.
    Raw {
        host: u8,
        bytes: Vec<u8>,
    },
    Wait {
        ms: u16,
    },
}

/// Most sessions of a reflector.
const SESSIONS: usize = 8;
/// Bytes of memory that all sessions together may take.
const BUDGET: usize = 1 << 16;
/// LaMP's word in an INIT that requests or gives a proof.
const WILLING: u64 = u64::from_be_bytes(*b"jitproof");

/// Packets and bytes that came from an address, minus those sent to it.
#[derive(Debug, Default)]
struct Balance {
    packets: i64,
    bytes: i64,
    /// True if it has proven that it receives packets sent to it.
    proven: bool,
}

struct World {
    lamp: lamp::Server,
    stamp: stamp::StampSessionReflector,
    twamp: SessionReflector,
    irtt: irtt::Server,
    ipsla: ipsla::Responder,
    balances: HashMap<IpAddr, Balance>,
    /// The last proof in an ACK to each address.
    proofs: HashMap<SocketAddr, u64>,
    /// The last token of an IRTT session sent to each address.
    tokens: HashMap<SocketAddr, u64>,
    now: Tick,
    room: Vec<u8>,
}

impl World {
    fn arrived(&mut self, from: SocketAddr, bytes: usize) -> RequestArrival {
        let balance = self.balances.entry(from.ip()).or_default();
        (balance.packets, balance.bytes) = (balance.packets + 1, balance.bytes + bytes as i64);
        RequestArrival { from, at: self.now.wall, ttl: Some(64), traffic_class: Some(184) }
    }

    fn sent(&mut self, to: SocketAddr, bytes: usize) {
        let balance = self.balances.entry(to.ip()).or_default();
        (balance.packets, balance.bytes) = (balance.packets - 1, balance.bytes - bytes as i64);
        let owed = !balance.proven && (balance.packets < 0 || balance.bytes < 0);
        assert!(!owed, "an amplifier: {balance:?} of {to}");
    }

    fn lamp(&mut self, from: SocketAddr, packet: &[u8]) {
        let arrival = self.arrived(from, packet.len());
        let mut out = Vec::new();
        let reaction = self.lamp.handle(packet, &arrival, (), self.now, &mut out);
        if let Some(ack) = LampHeader::parse(&out).filter(|h| h.kind == LampKind::Ack && h.seconds == WILLING)
        {
            self.proofs.insert(from, ack.micros);
        }
        assert!(reaction.is_ok() || out.is_empty());
        if !out.is_empty() {
            self.sent(from, out.len());
        }
        if let Ok(LampReaction::AnswerAndFollow(_)) = reaction {
            assert!(self.balances[&from.ip()].proven, "a follow-up without proof");
        }
        self.reports();
    }

    fn irtt(&mut self, from: SocketAddr, packet: &[u8]) {
        let arrival = self.arrived(from, packet.len());
        let mut out = Vec::new();
        let reaction = self.irtt.handle(packet, &arrival, self.now, &mut out);
        assert!(reaction.is_ok() || out.is_empty());
        if let Some((token, _)) = IrttPacket::parse(&out, None).ok().and_then(|p| p.token()) {
            self.tokens.insert(from, token);
        }
        if !out.is_empty() {
            self.sent(from, out.len());
        }
    }

    /// Passes a packet to the responder of IP SLA: a control message, or a packet to a port.
    fn ipsla(&mut self, from: SocketAddr, port: Option<u16>, packet: &[u8]) {
        let arrival = self.arrived(from, packet.len());
        let mut out = Vec::new();
        let done = match port {
            None => self.ipsla.control(packet, &arrival, self.now, &mut |port| Some(port.max(1024)), &mut out),
            Some(port) => self.ipsla.probe(port, packet, &arrival, self.now, &mut out),
        };
        assert_eq!(done.is_ok(), !out.is_empty());
        self.ipsla.close_ports(self.now.steady);
        if !out.is_empty() {
            self.sent(from, out.len());
        }
    }

    fn reports(&mut self) {
        let mut out = Vec::new();
        while let Some((to, ())) = self.lamp.poll_transmit(self.now, &mut out) {
            self.sent(to, out.len());
            out.clear();
        }
    }

    fn stamp(&mut self, from: SocketAddr, packet: &[u8]) {
        let arrival = self.arrived(from, packet.len());
        self.room.resize(packet.len().max(self.room.len()), 0);
        let done = self.stamp.reflect(packet, &arrival, self.now, ErrorEstimate::UNKNOWN, &mut self.room);
        if let Ok(done) = done {
            match packet.first() {
                Some(1) => self.stamp.not_sent(from, done.ssid, done.seq),
                _ => self.stamp.left(from, done.ssid, done.seq, self.now.wall),
            }
            self.sent(from, done.len);
        }
    }

    /// A server over TCP sends no data before the handshake, which a host with a forged address cannot complete. After it, each request has
    /// one answer, with the length from the greeting, on the same connection.
    fn tcp(&mut self, connects: bool, greeting: &[u8; GREETING_LEN], request: &[u8]) {
        let Some(sizes) = ExchangeSizes::from_greeting(greeting).filter(|_| connects) else { return };
        assert!((12..=65_535).contains(&sizes.request()) && (20..=65_535).contains(&sizes.response()));
        assert_eq!(ExchangeSizes::from_greeting(&sizes.greeting()), Some(sizes));
        self.room.resize(sizes.response().max(self.room.len()), 0);
        let answered =
            reqresp::respond(request, self.now.wall, self.now.wall, &mut self.room[..sizes.response()]);
        assert!(answered || request.len() < 4);
    }

    fn twamp(&mut self, from: SocketAddr, packet: &[u8]) {
        let arrival = self.arrived(from, packet.len());
        let mut answer = vec![0; packet.len()];
        let error = ErrorEstimate::UNKNOWN;
        if let Ok(done) = self.twamp.reflect(packet, &arrival, self.now.wall, error, &mut answer) {
            assert_eq!(from.ip(), host(1).ip(), "a session answers another host");
            self.sent(from, done.len);
        }
    }
}

/// Six addresses of three hosts; to one of them no answer may be sent.
fn host(k: u8) -> SocketAddr {
    match k % 6 {
        5 => "224.0.0.1:4000".parse().unwrap(),
        4 => "[2001:db8::4]:53".parse().unwrap(),
        k => SocketAddr::from(([192, 0, 2, k & 2 | 1], 4000 + u16::from(k))),
    }
}

// Any packets at any times from several addresses to every reflector. An address that has not proven that it receives
// packets is sent no more packets and bytes than came from it, nothing is sent to groups and to the ports of
// services, and the memory of all sessions stays within its budget, as measured on the heap.
libfuzzer_sys::fuzz_target!(|input: Input| {
    let lamp =
        lamp::ServerRules { sessions: SESSIONS, sessions_per_client: 6, ..lamp::ServerRules::default() };
    let rules = irtt::IrttRules { sessions: SESSIONS, sessions_per_client: 6, ..irtt::IrttRules::default() };
    let sessions = if input.stateful { SESSIONS } else { 0 };
    let mut world = World {
        lamp: lamp::Server::new(lamp, [7; 32]),
        stamp: stamp::StampSessionReflector::new(stamp::ReflectorRules {
            sessions,
            ..stamp::ReflectorRules::default()
        }),
        irtt: irtt::Server::new(rules, [3; 32], SteadyTime(0)),
        ipsla: ipsla::Responder::new(ipsla::ResponderRules {
            sessions: SESSIONS,
            sessions_per_client: 6,
            open_ports: 4,
            ..ipsla::ResponderRules::default()
        }),
        twamp: SessionReflector::new(SecurityMode::Open, None, host(1).ip(), None),
        balances: HashMap::new(),
        proofs: HashMap::new(),
        tokens: HashMap::new(),
        now: Tick { wall: WallTime(1_795_176_900_000_000_000), steady: SteadyTime(0) },
        room: Vec::new(),
    };
    // The memory of a server without sessions is constant.
    let before = HEAP.used();
    for step in input.steps.iter().take(400) {
        match step {
            Step::Lamp { host: k, kind, id, seq, word, proof, payload } => {
                let from = host(*k);
                let kind = LampKind::ALL[usize::from(*kind) % LampKind::ALL.len()];
                let word = if kind == LampKind::Init { 1 + word % 2 } else { *word };
                let mut header = LampHeader::new(kind, (id % 4).into(), *seq, word).at(world.now.wall);
                if *proof && kind == LampKind::Init {
                    let known = world.proofs.get(&from).copied();
                    (header.seconds, header.micros) = (WILLING, known.unwrap_or_default());
                    world.balances.entry(from.ip()).or_default().proven |= known.is_some();
                }
                let mut packet = header.to_bytes().to_vec();
                packet.resize(packet.len() + usize::from(*payload), 0);
                world.lamp(from, &packet);
            }
            Step::Stamp { host: k, seq, ssid, rest } => {
                let mut packet = vec![0; 44];
                packet[..4].copy_from_slice(&seq.to_be_bytes());
                // A valid error estimate.
                packet[12..14].copy_from_slice(&[0, 1]);
                packet[14..16].copy_from_slice(&ssid.to_be_bytes());
                packet.extend(rest);
                world.stamp(host(*k), &packet);
            }
            Step::Twamp { host: k, seq, padding } => {
                let mut packet = vec![0; 14 + usize::from(*padding)];
                packet[..4].copy_from_slice(&seq.to_be_bytes());
                packet[12..14].copy_from_slice(&[0, 1]);
                world.twamp(host(*k), &packet);
            }
            Step::Irtt { host: k, flags, body } => {
                let from = host(*k);
                let mut packet = Vec::new();
                packet::begin(flags & !flag::HMAC, None, &mut packet);
                if flags & flag::OPEN == 0 {
                    let known = world.tokens.get(&from).copied();
                    packet.extend(known.unwrap_or(7).to_le_bytes());
                    world.balances.entry(from.ip()).or_default().proven |= known.is_some();
                }
                packet.extend(body);
                world.irtt(from, &packet);
            }
            Step::Ipsla { host: k, v2, seq, port, at, byte } => {
                let options = ipsla::IpslaOptions {
                    version: if *v2 { IpslaVersion::V2 } else { IpslaVersion::V1 },
                    form: ProbeForm::Milliseconds,
                    size: 32,
                    local: SocketAddr::new(host(*k).ip(), 0),
                    target: SocketAddr::from(([192, 0, 2, 2], 2000 + u16::from(port % 8))),
                    duration: Span::seconds(5),
                    seq: (*seq).into(),
                    key: None,
                    random: [0; 16],
                };
                let mut packet = Vec::new();
                ipsla::Client::new(options).poll_conversation(world.now, &mut packet);
                if let Some(changed) = packet.get_mut(usize::from(*at)) {
                    *changed ^= byte;
                }
                world.ipsla(host(*k), None, &packet);
            }
            Step::Probe { host: k, form, seq, port } => {
                let forms = [ProbeForm::Echo, ProbeForm::Milliseconds, ProbeForm::V2(TimeFormat::Ntp)];
                let mut packet = Vec::new();
                forms[usize::from(form % 3)].write(*seq, world.now.wall, 0, &mut packet);
                world.ipsla(host(*k), Some(2000 + u16::from(port % 8)), &packet);
            }
            Step::Tcp { connects, greeting, request } => world.tcp(*connects, greeting, request),
            Step::Raw { host: k, bytes } => {
                world.irtt(host(*k), bytes);
                world.ipsla(host(*k), None, bytes);
                world.ipsla(host(*k), Some(2000), bytes);
                world.lamp(host(*k), bytes);
                world.stamp(host(*k), bytes);
                world.twamp(host(*k), bytes);
            }
            Step::Wait { ms } => {
                let span = Span::millis((*ms).into());
                world.now = Tick { wall: world.now.wall + span, steady: world.now.steady + span };
                world.reports();
            }
        }
        assert!(world.lamp.sessions() <= SESSIONS && world.irtt.sessions() <= SESSIONS);
        assert!(world.ipsla.sessions() <= SESSIONS && world.ipsla.open_ports() <= 4);
        assert!(world.stamp.sessions() <= sessions);
        let silent = [4, 5].map(|k| world.balances.get(&host(k).ip()).map_or(0, |b| b.packets));
        assert!(silent.iter().all(|packets| *packets >= 0));
        let used = HEAP.used().saturating_sub(before);
        assert!(used <= BUDGET + world.room.capacity(), "{used} bytes for {SESSIONS} sessions each");
    }
});
