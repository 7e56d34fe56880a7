//! A network in virtual time for two-way tests. The impairment model loses, duplicates, reorders and delays
//! all packets of a conversation; unrelated packets arrive; the far clock steps. The simulation records the
//! actual events, for comparison with the results of the test.

use crate::machine::Tick;
use crate::twamp;
use crate::twoway::pinger::{PingOutcome, PingReception};
use crate::twoway::reflect::RequestArrival;
use crate::twoway::{PingPlan, Pinger, Protocol, Transmit};
use crate::{ipsla, irtt, lamp, stamp};
use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::{Span, Stamp, StampSource, SteadyTime, WallTime};
use jitlat_impair::Impairment;
use std::collections::BTreeMap;

pub(super) mod parties;
mod tests;

pub(super) const EPOCH: i64 = 1_795_176_909_000_000_000;

/// Time from the transmit time in a STAMP answer to the answer's departure.
pub(super) const LEFT_LATER: Span = Span(8192);

pub(super) fn tick(steady: i64) -> Tick {
    Tick { wall: WallTime(EPOCH + steady), steady: SteadyTime(steady) }
}

/// Far end of a test.
pub(super) enum Far {
    Stamp(Box<stamp::StampSessionReflector>),
    Lamp(Box<lamp::Server>),
    Twamp(Box<twamp::SessionReflector>),
    Irtt(Box<irtt::Server>),
    Ipsla(Box<ipsla::Responder>),
    /// Responder of IP SLA that opens every port and copies the numbers of requests.
    CopyingIpsla,
    Deaf,
}

impl Far {
    /// Returns the answers to a packet that arrives at `at` (steady clock). `ahead` is the lead of the far wall clock
    /// over the near one.
    pub(super) fn answer(&mut self, bytes: &[u8], at: i64, ahead: i64) -> Vec<Vec<u8>> {
        self.answer_to("192.0.2.1:40000", bytes, at, ahead)
    }

    fn answer_to(&mut self, from: &str, bytes: &[u8], at: i64, ahead: i64) -> Vec<Vec<u8>> {
        let from = from.parse().unwrap();
        let arrival =
            RequestArrival { from, at: WallTime(EPOCH + at + ahead), ttl: Some(64), traffic_class: Some(0) };
        let now = Tick { wall: WallTime(EPOCH + at + ahead + 1000), steady: SteadyTime(at) };
        match self {
            Far::Stamp(r) => {
                let mut out = vec![0; bytes.len()];
                let error = ErrorEstimate::UNKNOWN;
                let Ok(reflected) = r.reflect(bytes, &arrival, now, error, &mut out) else { return vec![] };
                if reflected.follow_up {
                    r.left(from, reflected.ssid, reflected.seq, now.wall + LEFT_LATER);
                }
                vec![out]
            }
            Far::Lamp(s) => {
                let mut out = Vec::new();
                match s.handle(bytes, &arrival, (), now, &mut out) {
                    Ok(lamp::LampReaction::Answer) => vec![out],
                    Ok(lamp::LampReaction::AnswerAndFollow(_)) => {
                        let h = lamp::LampHeader::parse(&out).unwrap();
                        let mut follow = Vec::new();
                        s.follow_up(h.id, h.seq, Span(7000), &mut follow);
                        vec![out, follow]
                    }
                    _ => vec![],
                }
            }
            Far::Twamp(r) => {
                let mut out = vec![0; r.answer_len(bytes.len())];
                r.reflect(bytes, &arrival, now.wall, ErrorEstimate::UNKNOWN, &mut out)
                    .map_or(vec![], |_| vec![out])
            }
            Far::Irtt(s) => {
                let mut out = Vec::new();
                match s.handle(bytes, &arrival, now, &mut out) {
                    Ok(irtt::IrttReaction::Answer { .. }) => vec![out],
                    _ => vec![],
                }
            }
            Far::Ipsla(r) => {
                let mut out = Vec::new();
                let answered = match bytes.first() {
                    // Only probes begin with a zero.
                    Some(0) => r.probe(20_000, bytes, &arrival, now, &mut out),
                    _ => r.control(bytes, &arrival, now, &mut |port| Some(port), &mut out),
                };
                r.close_ports(now.steady);
                answered.map_or(vec![], |()| vec![out])
            }
            Far::CopyingIpsla => {
                let mut out = bytes.to_vec();
                if let (Some(0), Some(number)) = (bytes.first(), bytes.get(12..14)) {
                    out[14..16].copy_from_slice(number);
                } else {
                    out.truncate(24);
                    (out[3], out[10]) = (8, 0);
                }
                vec![out]
            }
            Far::Deaf => vec![],
        }
    }

    /// Returns a packet that the far end sends without a request, if one is due.
    pub(super) fn spontaneous(&mut self, at: i64, ahead: i64) -> Option<Vec<u8>> {
        let Far::Lamp(s) = self else { return None };
        let mut out = Vec::new();
        s.poll_transmit(Tick { wall: WallTime(EPOCH + at + ahead), steady: SteadyTime(at) }, &mut out)
            .map(|_| out)
    }

    pub(super) fn timeout(&self) -> Option<i64> {
        let Far::Lamp(s) = self else { return None };
        s.poll_timeout().map(|t| t.0)
    }
}

/// Kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Request(u32),
    /// Answer with this index in [`Truth::answers`].
    Answer(usize),
    Conversation,
    Stray,
    /// Answer from another port.
    Elsewhere,
}

/// An unrelated packet, and where it is delivered.
#[derive(Clone, Debug)]
pub(super) enum Stray {
    /// These bytes arrive at the near end.
    Near(Vec<u8>),
    /// These bytes from another host arrive at the far end.
    Far(Vec<u8>),
    /// The k-th packet of the far end is delivered again.
    Again(usize),
    /// The k-th packet of the far end is delivered again, from another port.
    Elsewhere(usize),
    /// The k-th packet of the near end is delivered to the near end.
    Mirrored(usize),
    /// The k-th packet of the near end is delivered to the far end again.
    AskedAgain(usize),
}

/// The path, and faults on it.
pub(super) struct World<'a> {
    pub(super) far: Far,
    pub(super) up: Impairment,
    pub(super) down: Impairment,
    /// Lead of the far clock over the near one, given a time on the steady clock.
    pub(super) ahead: &'a dyn Fn(i64) -> i64,
    /// Unrelated packets with their times.
    pub(super) strays: Vec<(i64, Stray)>,
}

/// An answer of the far end, and its fate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) seq: u32,
    /// Number of times that the answer arrived while the test was running.
    pub(super) returned: u64,
}

/// Packets of a test, recorded by the simulation.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    /// Send time of each request, and number of times that the request reached the far end.
    pub(super) requests: Vec<(i64, u64)>,
    /// Answers in the order in which the far end sent them.
    pub(super) answers: Vec<Answered>,
    /// Answers that arrived in time, in order of arrival: request number and arrival time.
    pub(super) returned: Vec<(u32, i64)>,
    /// Number of packets that were delivered to the near end while the test was running, although the far end
    /// had not sent them to it.
    pub(super) strays: u64,
    /// Number of different requests, and of duplicates, that had reached the far end when it sent the last report that
    /// arrived; `None` if no report arrived.
    pub(super) reported: Option<(u64, u64)>,
    /// Time at which the test was over.
    pub(super) took: i64,
}

impl Truth {
    fn reached(&self) -> (u64, u64) {
        let distinct = self.requests.iter().filter(|r| r.1 > 0).count() as u64;
        (distinct, self.requests.iter().map(|r| r.1).sum::<u64>() - distinct)
    }
}

#[derive(Clone)]
struct Packet {
    to_far: bool,
    tag: Tag,
    bytes: Vec<u8>,
    /// Value of [`Truth::reached`] when a report was sent; zero in other packets.
    reached: (u64, u64),
}

struct Run<'a, P> {
    world: World<'a>,
    pinger: Pinger<P>,
    flying: BTreeMap<(i64, u64), Packet>,
    order: u64,
    near_sent: Vec<Packet>,
    far_sent: Vec<Packet>,
    truth: Truth,
}

/// Runs a test to its end.
pub(super) fn run<P: Protocol>(protocol: P, plan: PingPlan, mut world: World<'_>) -> (PingOutcome<P>, Truth) {
    let mut strays = std::mem::take(&mut world.strays);
    strays.sort_by_key(|s| std::cmp::Reverse(s.0));
    let mut run = Run {
        world,
        pinger: Pinger::new(protocol, plan, StampSource::User),
        flying: BTreeMap::new(),
        order: 0,
        near_sent: Vec::new(),
        far_sent: Vec::new(),
        truth: Truth::default(),
    };
    let mut now = 0;
    for _ in 0..1_000_000 {
        while let Some(entry) = run.flying.first_entry().filter(|e| e.key().0 <= now) {
            let packet = entry.remove();
            run.deliver(&packet, now);
        }
        while strays.last().is_some_and(|s| s.0 <= now) {
            let stray = strays.pop().unwrap().1;
            run.stray(stray, now);
        }
        let ahead = (run.world.ahead)(now);
        while let Some(bytes) = run.world.far.spontaneous(now, ahead) {
            let reached = run.truth.reached();
            run.launch(Packet { to_far: false, tag: Tag::Conversation, bytes, reached }, now);
        }
        run.transmit(now);
        let Some(due) = run.pinger.poll_timeout() else {
            run.truth.took = now;
            return (run.pinger.finish_up(), run.truth);
        };
        let next = [Some(due.0), run.flying.keys().next().map(|k| k.0), strays.last().map(|s| s.0)];
        now = now.max(next.into_iter().flatten().chain(run.world.far.timeout()).min().unwrap());
    }
    panic!("the test does not end");
}

impl<P: Protocol> Run<'_, P> {
    /// Sends a packet over the path.
    fn launch(&mut self, packet: Packet, now: i64) {
        let path = if packet.to_far { &mut self.world.up } else { &mut self.world.down };
        for at in path.pass(SteadyTime(now), packet.bytes.len() + 28).iter() {
            self.order += 1;
            self.flying.insert((at.0, self.order), packet.clone());
        }
        if packet.to_far { &mut self.near_sent } else { &mut self.far_sent }.push(packet);
    }

    fn transmit(&mut self, now: i64) {
        self.pinger.handle_timeout(tick(now));
        let mut bytes = Vec::new();
        while let Some(what) = self.pinger.poll_transmit(tick(now), &mut bytes) {
            let tag = match what {
                Transmit::Request(seq) => {
                    self.truth.requests.push((now, 0));
                    Tag::Request(seq)
                }
                Transmit::Probe => Tag::Conversation,
                // A server that counts regards a repeated STOP as a request.
                Transmit::Conversation => match lamp::LampHeader::parse(&bytes) {
                    Some(h) if h.kind == lamp::LampKind::Stop => Tag::Request(h.seq.into()),
                    _ => Tag::Conversation,
                },
            };
            self.launch(
                Packet { to_far: true, tag, bytes: std::mem::take(&mut bytes), reached: (0, 0) },
                now,
            );
            self.pinger.handle_timeout(tick(now));
        }
    }

    fn stray(&mut self, stray: Stray, now: i64) {
        let strange = |bytes| Packet { to_far: false, tag: Tag::Stray, bytes, reached: (0, 0) };
        let pick = |sent: &[Packet], k: usize| sent.get(k % sent.len().max(1)).cloned();
        let packet = match stray {
            Stray::Near(bytes) => Some(strange(bytes)),
            Stray::Far(bytes) => {
                let ahead = (self.world.ahead)(now);
                self.world.far.answer_to("192.0.2.77:40000", &bytes, now, ahead);
                None
            }
            Stray::Again(k) => pick(&self.far_sent, k),
            Stray::Elsewhere(k) => pick(&self.far_sent, k).map(|p| Packet { tag: Tag::Elsewhere, ..p }),
            Stray::Mirrored(k) => pick(&self.near_sent, k).map(|p| strange(p.bytes)),
            Stray::AskedAgain(k) => pick(&self.near_sent, k),
        };
        if let Some(packet) = packet {
            self.deliver(&packet, now);
        }
    }

    fn deliver(&mut self, packet: &Packet, now: i64) {
        if !packet.to_far {
            return self.come_back(packet, now);
        }
        if let Tag::Request(seq) = packet.tag {
            self.truth.requests[seq as usize].1 += 1;
        }
        let answers = self.world.far.answer(&packet.bytes, now, (self.world.ahead)(now));
        for (k, bytes) in answers.into_iter().enumerate() {
            let tag = match packet.tag {
                Tag::Request(seq) if k == 0 => {
                    self.truth.answers.push(Answered { seq, returned: 0 });
                    Tag::Answer(self.truth.answers.len() - 1)
                }
                _ => Tag::Conversation,
            };
            self.launch(Packet { to_far: false, tag, bytes, reached: (0, 0) }, now + 1000);
        }
    }

    fn come_back(&mut self, packet: &Packet, now: i64) {
        if self.pinger.is_over() {
            return;
        }
        match packet.tag {
            Tag::Answer(k) => {
                let answer = &mut self.truth.answers[k];
                answer.returned += 1;
                self.truth.returned.push((answer.seq, now));
            }
            Tag::Stray | Tag::Elsewhere => self.truth.strays += 1,
            _ if packet.reached != (0, 0) => self.truth.reported = Some(packet.reached),
            _ => {}
        }
        let at = WallTime(EPOCH + now);
        let stamp = Stamp { at, source: StampSource::Kernel };
        let meta = PingReception {
            stamp,
            read: at,
            length: packet.bytes.len(),
            ttl: None,
            traffic_class: None,
            other_port: packet.tag == Tag::Elsewhere,
        };
        self.pinger.handle(&packet.bytes, &meta, tick(now));
    }
}
