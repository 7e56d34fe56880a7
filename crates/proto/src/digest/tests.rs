use super::*;
use crate::channel::{Channel, ChannelHello};
use crate::jitlat::auth::{PresharedKey, PresharedKeys};
use crate::machine::{Machine, Tick};
use core::net::IpAddr;
use jitlat_core::SteadyTime;
use jitlat_core::spec::Direction;
use jitlat_core::time::{SECOND, WallTime};
use jitlat_passive::{IdentityFields, IdentityRule, PacketPreview, PreviewLayer, Sides};
use proptest::prelude::*;

fn tick(ms: i64) -> Tick {
    Tick { wall: WallTime(ms * 1_000_000), steady: SteadyTime(ms * 1_000_000) }
}

fn key(text: &str) -> Option<PresharedKey> {
    PresharedKey::from_file_contents(text.as_bytes()).ok()
}

fn rule() -> DigestRule {
    let prefix = |p: &str| p.parse().unwrap();
    DigestRule {
        sides: Sides {
            reference: vec![prefix("10.0.0.1"), prefix("fd00::/8")],
            monitor: vec![prefix("0.0.0.0/0")],
        },
        identity: IdentityRule {
            fields: IdentityFields::Full { addresses: false, ports: true, ident: true },
            available: 200,
        },
        protocols: vec![6, 17],
        port: Some(443),
        without_echoes: true,
        inside: true,
    }
}

/// Both state machines, connected to each other.
struct Pair {
    collector: Collector,
    exporter: Exporter,
    now: i64,
    received: Vec<CollectorEvent>,
    asked: Vec<ExporterEvent>,
    /// Index of the first byte to the collector that is changed; all later bytes are changed as well.
    tamper: Option<usize>,
    transferred: usize,
}

impl Pair {
    fn new(client: Option<PresharedKey>, server: impl Into<PresharedKeys>) -> Pair {
        let ask = Listen { interface: "eth0".into(), hosts: Vec::new(), available: 200, opens_tunnels: true };
        Pair {
            collector: Collector::new(ask, client, [1; 32], tick(0)),
            exporter: Exporter::new(server.into(), 1000, [2; 32], tick(0)),
            now: 0,
            received: Vec::new(),
            asked: Vec::new(),
            tamper: None,
            transferred: 0,
        }
    }

    fn step(&mut self, ms: i64, cut: usize) {
        self.now += ms;
        let now = tick(self.now);
        for _ in 0..20 {
            let (mut up, mut down) = (Vec::new(), Vec::new());
            while self.collector.poll_transmit(now, &mut up) {}
            while self.exporter.poll_transmit(now, &mut down) {}
            for b in &mut down {
                self.transferred += 1;
                *b ^= u8::from(self.tamper.is_some_and(|t| self.transferred > t));
            }
            up.chunks(cut).for_each(|c| self.exporter.handle(now, ExporterInput::Bytes(c)));
            down.chunks(cut).for_each(|c| self.collector.handle(now, CollectorInput::Bytes(c)));
            self.received.extend(std::iter::from_fn(|| self.collector.poll_event()));
            while let Some(e) = self.exporter.poll_event() {
                if matches!(e, ExporterEvent::Listen(..)) {
                    self.exporter.handle(now, ExporterInput::Listening("eth0".into()));
                }
                if e == ExporterEvent::Stop {
                    self.exporter.handle(now, ExporterInput::End(vec!["all is well".into()]));
                }
                self.asked.push(e);
            }
        }
        self.collector.handle_timeout(now);
        self.exporter.handle_timeout(now);
    }

    fn digests(&self) -> Vec<u64> {
        let list = self.received.iter().filter_map(|h| match h {
            CollectorEvent::Report { entries: Entries::Digests(d), .. } => Some(d),
            _ => None,
        });
        list.flatten().map(|d| d.id).collect()
    }

    fn missing(&self) -> u64 {
        let of = |h: &CollectorEvent| match h {
            CollectorEvent::Report { missing, .. } | CollectorEvent::End { missing, .. } => *missing,
            _ => 0,
        };
        self.received.iter().map(of).sum()
    }
}

fn digest(at: i64, id: u64) -> Digest {
    Digest {
        at: WallTime(at),
        id,
        length: 1500,
        direction: if id.is_multiple_of(2) { Direction::Up } else { Direction::Down },
    }
}

#[test]
fn a_whole_conversation_with_and_without_a_key() {
    for k in [None, key("0123456789abcdef")] {
        let mut p = Pair::new(k.clone(), k.clone());
        p.step(1, 3);
        let Some(CollectorEvent::Listening { interface, salt }) = p.received.first().cloned() else {
            panic!("{:?} {:?}", p.received, p.asked)
        };
        assert_eq!(interface, "eth0");
        let proved = ExporterEvent::Proved("any".into());
        assert_eq!(p.asked.contains(&proved), k.is_some());
        p.asked.retain(|asked| *asked != proved);
        assert!(matches!(&p.asked[0], ExporterEvent::Listen(ask, s) if ask.available == 200 && *s == salt));
        let g = PacketPreview {
            at: WallTime(5),
            src: IpAddr::from([10, 0, 0, 1]),
            dst: "fd00::1".parse().unwrap(),
            ports: Some((1, 2)),
            ttl: 9,
            names: [3, 4, 5, 6],
            layer: PreviewLayer::Inside,
        };
        p.exporter.preview(g);
        p.step(300, 7);
        assert!(
            p.received.iter().any(
                |h| matches!(h, CollectorEvent::Report { entries: Entries::Previews(l), .. } if l == &[g])
            )
        );
        p.collector.handle(tick(p.now), CollectorInput::Rule(rule()));
        p.step(10, 1000);
        assert_eq!(p.asked.last(), Some(&ExporterEvent::Rule(rule())));
        (0..700).for_each(|i| p.exporter.digest(digest(i * 1000, i as u64)));
        p.exporter.covers(WallTime(0), WallTime(700_000), CaptureTotals { frames: 900, drops: 3 });
        p.step(300, 1000);
        assert_eq!(p.digests(), (0..700).collect::<Vec<_>>());
        let Some(CollectorEvent::Report { covered, totals, .. }) = p.received.last() else { panic!() };
        assert_eq!((*covered, totals.drops), (Some((WallTime(0), WallTime(700_000))), 3));
        p.collector.handle(tick(p.now), CollectorInput::Stop);
        p.exporter.digest(digest(701_000, 701));
        p.step(10, 1000);
        assert_eq!(p.digests().last(), Some(&701));
        assert!(
            matches!(p.received.last(), Some(CollectorEvent::End { missing: 0, notes, .. }) if notes == &["all is well"])
        );
        assert_eq!(p.asked.last(), Some(&ExporterEvent::Over(None)));
        assert_eq!((p.collector.poll_timeout(), p.exporter.poll_timeout(), p.missing()), (None, None, 0));
    }
}

#[test]
fn who_has_not_the_key_learns_nothing() {
    for (client, server, refused) in [
        (None, key("0123456789abcdef"), true),
        (key("fedcba9876543210"), key("0123456789abcdef"), true),
        (key("0123456789abcdef"), None, false),
    ] {
        let mut p = Pair::new(client, server);
        p.step(1, 100);
        let Some(CollectorEvent::Failed(why)) = p.received.first() else { panic!("{:?}", p.received) };
        assert_eq!(matches!(why, DigestError::Refused(DigestRefusal::Key, _)), refused, "{why}");
        assert!(!p.asked.iter().any(|e| matches!(e, ExporterEvent::Listen(..))));
    }
}

#[test]
fn each_peer_has_a_key_of_its_own() {
    let mut keys = PresharedKeys::default();
    for (name, text) in [("probe-1", "0123456789abcdef"), ("probe-2", "fedcba9876543210")] {
        keys.add(name, key(text).unwrap());
    }
    for (text, name) in [("0123456789abcdef", "probe-1"), ("fedcba9876543210", "probe-2")] {
        let mut p = Pair::new(key(text), keys.clone());
        p.step(1, 100);
        // Without the proof and the seals of the collector's key this event would be missing.
        assert!(matches!(p.received[..], [CollectorEvent::Listening { .. }]), "{:?}", p.received);
        assert_eq!(p.asked[0], ExporterEvent::Proved(name.to_owned()));
    }
    let mut p = Pair::new(key("a key of nobody here"), keys);
    p.step(1, 100);
    assert!(matches!(p.received[..], [CollectorEvent::Failed(DigestError::Refused(DigestRefusal::Key, _))]));
    assert_eq!(p.asked, [ExporterEvent::Over(Some(DigestError::Proof))]);
}

#[test]
fn an_altered_byte_ends_a_sealed_conversation() {
    let k = key("0123456789abcdef");
    for tamper in [0, 10, 30, 80, 100] {
        let mut p = Pair::new(k.clone(), k.clone());
        p.tamper = Some(tamper);
        (0..15).for_each(|_| p.step(1000, 1000));
        assert!(matches!(p.received.last(), Some(CollectorEvent::Failed(_))), "{tamper}: {:?}", p.received);
    }
}

#[test]
fn what_there_is_no_room_or_no_leave_for_is_missed_by_number() {
    let mut p = Pair::new(None, None);
    p.step(1, 100);
    p.collector.handle(tick(p.now), CollectorInput::Rule(rule()));
    p.step(1, 100);
    // A thousand per second are allowed. A time too far from the others starts a new message.
    for second in 0..3 {
        (0..1500).for_each(|i| p.exporter.digest(digest(second * 10 * SECOND + i, i as u64)));
    }
    p.step(50, 1 << 16);
    p.collector.handle(tick(p.now), CollectorInput::Stop);
    p.step(50, 1 << 16);
    assert_eq!((p.digests().len(), p.missing()), (3000, 1500));
}

/// With a key nobody on the path can read the interface or the digests, and removing a public key ends the conversation; a peer of an earlier
/// version, which sends none, is served with seals only.
#[test]
fn with_a_key_digests_are_encrypted() {
    let key = || Some(PresharedKey::from_file_contents(b"0123456789abcdef").unwrap());
    // Returns all bytes of a conversation until the exporter listens, and true if it does. Greetings without a public
    // key have 28 bytes.
    let run = |key: Option<PresharedKey>, cut: [bool; 2]| {
        let ask = Listen {
            interface: "a secret interface".into(),
            hosts: Vec::new(),
            available: 200,
            opens_tunnels: false,
        };
        let mut collector = Collector::new(ask, key.clone(), [1; 32], tick(0));
        let mut exporter = Exporter::new(key.into(), 1000, [2; 32], tick(0));
        let (mut all, mut first) = (Vec::new(), [true; 2]);
        for _ in 0..10 {
            for k in [0, 1] {
                let mut bytes = Vec::new();
                match k {
                    0 => while collector.poll_transmit(tick(1), &mut bytes) {},
                    _ => while exporter.poll_transmit(tick(1), &mut bytes) {},
                }
                all.extend_from_slice(&bytes);
                let has_share = bytes.len() >= 60 && bytes[..4] == [0, 0, 0, 56];
                if std::mem::take(&mut first[k]) && cut[k] && has_share {
                    bytes.drain(28..60);
                    bytes[3] = 24;
                }
                match k {
                    0 => exporter.handle(tick(1), ExporterInput::Bytes(&bytes)),
                    _ => collector.handle(tick(1), CollectorInput::Bytes(&bytes)),
                }
            }
        }
        let listens =
            std::iter::from_fn(|| exporter.poll_event()).any(|e| matches!(e, ExporterEvent::Listen(..)));
        let readable = all.windows(18).any(|text| text == b"a secret interface");
        (listens, readable)
    };
    assert_eq!(run(None, [false; 2]), (true, true));
    assert_eq!(run(key(), [false; 2]), (true, false));
    for cut in [[true, false], [false, true], [true, true]] {
        assert_eq!(run(key(), cut), (false, false), "{cut:?}");
    }
}

#[test]
fn a_sign_of_life_is_no_request() {
    let (k, mut out) = (None, Vec::new());
    let mut exporter = Exporter::new(PresharedKeys::from(k.clone()), 1000, [2; 32], tick(0));
    let mut peer = Channel::of_client(k, MAX_FRAME, [3; 32]);
    peer.write(DigestMessage::Alive.kind(), |_| {}, &mut out);
    exporter.handle(tick(9000), ExporterInput::Bytes(&out));
    exporter.handle_timeout(tick(11_000));
    assert!(matches!(exporter.poll_event(), Some(ExporterEvent::Over(Some(_)))));
    // One byte per second without a complete message does not keep a connection alive.
    let mut exporter = Exporter::new(PresharedKeys::default(), 1000, [2; 32], tick(0));
    exporter.handle(tick(0), ExporterInput::Bytes(&1000u32.to_be_bytes()));
    for second in 1..=10 {
        exporter.handle(tick(second * 1000), ExporterInput::Bytes(&[1]));
        exporter.handle_timeout(tick(second * 1000));
    }
    assert_eq!(exporter.poll_event(), Some(ExporterEvent::Over(Some(DigestError::Silent))));
}

#[test]
fn silence_ends_both_sides() {
    let mut p = Pair::new(None, None);
    p.step(1, 100);
    p.collector.handle_timeout(tick(11_000));
    p.exporter.handle_timeout(tick(11_000));
    assert_eq!(p.collector.poll_event(), Some(CollectorEvent::Failed(DigestError::Silent)));
    assert_eq!(p.exporter.poll_event(), Some(ExporterEvent::Over(Some(DigestError::Silent))));
    // An hour of keep-alives alone does not end the conversation.
    let mut p = Pair::new(None, None);
    (0..3600).for_each(|_| p.step(1000, 1000));
    assert!(!p.received.iter().any(|h| matches!(h, CollectorEvent::Failed(_))));
    assert!(!p.asked.iter().any(|h| matches!(h, ExporterEvent::Over(_))));
}

fn any_message() -> impl Strategy<Value = DigestMessage> {
    let digests = prop::collection::vec((any::<i32>(), any::<u64>(), 0u32..1 << 31, any::<bool>()), 0..50);
    prop_oneof![
        (any::<u16>(), any::<bool>(), any::<[u8; 16]>(), any::<Option<[u8; 32]>>()).prop_map(
            |(version, keyed, nonce, share)| DigestMessage::Hello(ChannelHello {
                version,
                keyed,
                nonce,
                share
            })
        ),
        any::<[u8; 32]>().prop_map(DigestMessage::Proof),
        ("[a-z0-9.]{0,15}", any::<(u16, bool)>()).prop_map(|(interface, (available, opens_tunnels))| {
            DigestMessage::Listen(Listen {
                interface,
                hosts: rule().sides.reference,
                available,
                opens_tunnels,
            })
        }),
        Just(DigestMessage::Rule(rule())),
        any::<u32>().prop_map(|mask| {
            let identity = IdentityRule { fields: IdentityFields::Mask(mask), available: 9 };
            DigestMessage::Rule(DigestRule { identity, port: None, ..rule() })
        }),
        (any::<u64>(), prop::option::of((0..i64::MAX, any::<i64>())), digests).prop_map(
            |(first, c, list)| {
                let base = list.first().map_or(0, |d| d.0);
                let list = list.into_iter().map(|(at, id, length, out)| Digest {
                    at: WallTime(if at == base { 1 << 60 } else { (1 << 60) + i64::from(at) / 2 }),
                    id,
                    length,
                    direction: if out { Direction::Up } else { Direction::Down },
                });
                DigestMessage::Report {
                    first,
                    covered: c.map(|(a, b)| (WallTime(a), WallTime(b))).filter(|c| c.1.0 != i64::MIN),
                    totals: CaptureTotals { frames: first, drops: 1 },
                    entries: Entries::Digests(list.collect()),
                }
            }
        ),
        (any::<u64>(), "[a-z]{0,20}").prop_map(|(made, note)| DigestMessage::End {
            made,
            totals: CaptureTotals::default(),
            notes: vec![note]
        }),
        "[a-z ]{0,50}".prop_map(|text| DigestMessage::Refused(DigestRefusal::Busy, text)),
    ]
}

proptest! {
    #[test]
    fn messages_come_back_as_they_were(m in any_message()) {
        let mut body = Vec::new();
        m.encode(&mut body);
        prop_assert_eq!(DigestMessage::decode(m.kind(), &body), Ok(m.clone()));
        // A later version may add fields.
        body.push(7);
        prop_assert_eq!(DigestMessage::decode(m.kind(), &body), Ok(m));
    }

    #[test]
    fn no_bytes_make_either_side_panic_or_hold_more_than_they_are(
        kind in 0u8..12, body in prop::collection::vec(any::<u8>(), 0..300), cut in 1usize..50)
    {
        let _ = DigestMessage::decode(kind, &body);
        let mut p = Pair::new(None, None);
        p.step(1, cut);
        let frame = [&(body.len() as u32 + 1).to_be_bytes()[..], &[kind], &body].concat();
        for chunk in frame.chunks(cut) {
            p.collector.handle(tick(2), CollectorInput::Bytes(chunk));
            p.exporter.handle(tick(2), ExporterInput::Bytes(chunk));
        }
        p.step(1, 1000);
    }
}
