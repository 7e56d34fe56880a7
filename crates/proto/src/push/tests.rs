use super::*;
use crate::channel::ChannelHello;
use crate::jitlat::auth::{PresharedKey, PresharedKeys};
use crate::machine::{Machine, Tick};
use jitlat_core::SteadyTime;
use jitlat_core::time::WallTime;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

fn tick(ms: i64) -> Tick {
    Tick { wall: WallTime(ms * 1_000_000), steady: SteadyTime(ms * 1_000_000) }
}

fn key(text: &str) -> PresharedKey {
    PresharedKey::from_file_contents(text.as_bytes()).unwrap()
}

fn keys() -> PresharedKeys {
    let mut keys = PresharedKeys::default();
    keys.add("berlin", key("the key of berlin"));
    keys.add("madrid", key("the key of madrid"));
    keys
}

/// A host that pushes: the state that survives on its disk.
#[derive(Default)]
struct Host {
    /// Stored logs by number.
    logs: BTreeMap<u64, Vec<u8>>,
    made: u64,
    settled: u64,
    stored: u64,
    refused: u64,
    dropped: u64,
    doubts: BTreeMap<u64, u128>,
}

fn hash(number: u64) -> u128 {
    u128::from(number) << 64 | 7
}

fn log(number: u64) -> Vec<u8> {
    (0..number * 7919 % 200_000 / (1 + number % 50)).map(|k| (k ^ number) as u8).collect()
}

impl Host {
    fn make(&mut self) {
        self.made += 1;
        self.logs.insert(self.made, log(self.made));
    }

    /// Removes the oldest test, whether it was sent or not.
    fn drop_oldest(&mut self) {
        let Some((number, _)) = self.logs.pop_first() else { return };
        if number > self.settled {
            self.dropped += 1;
            self.doubts.insert(number, hash(number));
        }
    }

    fn settle(&mut self, list: Vec<(u64, Option<PushOutcome>)>) {
        for (number, outcome) in list {
            let doubted = self.doubts.remove(&number).is_some();
            match outcome {
                Some(PushOutcome::Stored | PushOutcome::Known) => {
                    self.stored += 1;
                    self.dropped -= u64::from(doubted);
                }
                Some(PushOutcome::Refused(_)) if !doubted => self.refused += 1,
                None if !doubted => panic!("{number} was there"),
                _ => {}
            }
            self.settled = self.settled.max(number);
        }
    }
}

/// A collector: the number of copies of each test on its disk, and the state of the conversation in memory.
#[derive(Default)]
struct Store {
    disk: BTreeMap<u128, u32>,
    offered: VecDeque<(u64, u128)>,
    hashes: BTreeMap<u64, u128>,
    coming: Option<(u64, Vec<u8>)>,
    pending: Vec<u64>,
}

/// Host, collector, and the connection between them.
struct World {
    now: i64,
    host: Host,
    store: Store,
    sides: Option<(PushSender, PushReceiver)>,
    /// Bytes in transit: to the collector, and to the host.
    wires: [VecDeque<u8>; 2],
    offered_up_to: u64,
    /// Maximum number of tests that the collector requests at a time.
    window: usize,
    /// Result of each side's last conversation.
    ended: Option<(Option<PushError>, Span)>,
    served: Option<Option<PushError>>,
    events: usize,
}

impl World {
    fn new(window: usize) -> World {
        World {
            now: 0,
            host: Host::default(),
            store: Store::default(),
            sides: None,
            wires: Default::default(),
            offered_up_to: 0,
            window,
            ended: None,
            served: None,
            events: 0,
        }
    }

    fn connect(&mut self, key: PresharedKey) {
        let (now, nonce) = (tick(self.now), |k: u8| [k ^ self.now as u8; 16]);
        self.sides = Some((PushSender::new(key, nonce(1), now), PushReceiver::new(keys(), nonce(2), now)));
        (self.ended, self.served) = (None, None);
    }

    /// Cuts the connection: bytes in transit and the state of the conversation on both sides are lost.
    fn cut(&mut self) {
        self.sides = None;
        self.wires.iter_mut().for_each(VecDeque::clear);
        self.store = Store { disk: std::mem::take(&mut self.store.disk), ..Store::default() };
    }

    /// Lets both drivers process their events.
    fn drive(&mut self) {
        let now = tick(self.now);
        let Some((sender, receiver)) = &mut self.sides else { return };
        let mut out = Vec::new();
        loop {
            let mut idle = true;
            while let Some(event) = sender.poll_event() {
                (idle, self.events) = (false, self.events + 1);
                match event {
                    SenderEvent::Open => {
                        let doubts: Vec<PushOffer> = self
                            .host
                            .doubts
                            .iter()
                            .map(|(number, hash)| PushOffer { number: *number, hash: *hash, length: 0 })
                            .collect();
                        sender.handle(now, SenderInput::Offer(&doubts));
                        self.offered_up_to = self.host.settled;
                    }
                    SenderEvent::Wanted(number) => match self.host.logs.get(&number) {
                        Some(log) => {
                            let about = About {
                                source: format!("{number}.log"),
                                tags: vec![("k".into(), "v".into())],
                            };
                            sender.handle(now, SenderInput::Test(about));
                            for piece in log.chunks(MAX_PIECE) {
                                sender.handle(now, SenderInput::Piece(piece));
                            }
                            sender.handle(now, SenderInput::Whole);
                        }
                        None => sender.handle(now, SenderInput::Gone),
                    },
                    SenderEvent::Settled(list) => self.host.settle(list),
                    SenderEvent::Over(why, pause) => self.ended = Some((why, pause)),
                }
            }
            if sender.room() > 0 {
                let waiting = self.host.logs.range(self.offered_up_to.max(self.host.settled) + 1..);
                let offers: Vec<PushOffer> = waiting
                    .take(sender.room())
                    .map(|(n, log)| PushOffer { number: *n, hash: hash(*n), length: log.len() as u64 })
                    .collect();
                if let Some(last) = offers.last() {
                    self.offered_up_to = last.number;
                    sender.handle(now, SenderInput::Offer(&offers));
                }
            }
            while let Some(event) = receiver.poll_event() {
                (idle, self.events) = (false, self.events + 1);
                match event {
                    ReceiverEvent::Proved(_) => receiver.handle(now, ReceiverInput::Welcome),
                    ReceiverEvent::Offered(list) => {
                        for offer in list {
                            self.store.hashes.insert(offer.number, offer.hash);
                            match self.store.disk.contains_key(&offer.hash) {
                                true => receiver.handle(
                                    now,
                                    ReceiverInput::Settled(vec![(offer.number, PushOutcome::Known)]),
                                ),
                                false => self.store.offered.push_back((offer.number, offer.hash)),
                            }
                        }
                    }
                    ReceiverEvent::Test(number, about) => {
                        assert_eq!(about.source, format!("{number}.log"));
                        self.store.coming = Some((number, Vec::new()));
                    }
                    ReceiverEvent::Piece(bytes) => self.store.coming.as_mut().unwrap().1.extend(bytes),
                    ReceiverEvent::Whole(number) => {
                        let (coming, bytes) = self.store.coming.take().unwrap();
                        assert_eq!((coming, bytes), (number, log(number)));
                        self.store.pending.push(number);
                    }
                    ReceiverEvent::Gone(_) => self.store.coming = None,
                    ReceiverEvent::State(_) => {}
                    ReceiverEvent::Over(why) => self.served = Some(why),
                }
            }
            let wanted = self.window.saturating_sub(receiver.unsettled() - self.store.offered.len());
            let wanted = wanted.min(self.store.offered.len());
            if wanted > 0 {
                let wanted: Vec<u64> = self.store.offered.drain(..wanted).map(|(n, _)| n).collect();
                receiver.handle(now, ReceiverInput::Want(&wanted));
            }
            for (wire, k) in [(0, true), (1, false)] {
                loop {
                    let sent = if k {
                        sender.poll_transmit(now, &mut out)
                    } else {
                        receiver.poll_transmit(now, &mut out)
                    };
                    if !sent {
                        break;
                    }
                    idle = false;
                    self.wires[wire].extend(out.drain(..));
                }
            }
            if idle {
                return;
            }
        }
    }

    /// Delivers up to `bytes` bytes in one direction.
    fn deliver(&mut self, to_host: bool, bytes: usize) {
        let wire = &mut self.wires[usize::from(to_host)];
        let bytes: Vec<u8> = wire.drain(..bytes.min(wire.len())).collect();
        let Some((sender, receiver)) = &mut self.sides else { return };
        if !bytes.is_empty() {
            match to_host {
                true => sender.handle(tick(self.now), SenderInput::Bytes(&bytes)),
                false => receiver.handle(tick(self.now), ReceiverInput::Bytes(&bytes)),
            }
        }
        self.drive();
    }

    /// Stores the received tests on disk and, if `said`, reports them as settled.
    fn commit(&mut self, said: bool) {
        let now = tick(self.now);
        let mut settled = Vec::new();
        for number in std::mem::take(&mut self.store.pending) {
            let hash = self.store.hashes[&number];
            let known = self.store.disk.contains_key(&hash);
            if !known {
                *self.store.disk.entry(hash).or_default() += 1;
            }
            settled.push((number, if known { PushOutcome::Known } else { PushOutcome::Stored }));
        }
        if said && let Some((_, receiver)) = &mut self.sides {
            receiver.handle(now, ReceiverInput::Settled(settled));
        }
        self.drive();
    }

    fn flow(&mut self) {
        self.drive();
        while self.wires.iter().any(|wire| !wire.is_empty()) {
            self.deliver(false, 100_000);
            self.deliver(true, 100_000);
        }
    }

    /// Pushes all waiting tests on a connection that does not fail.
    fn finish(&mut self) {
        self.cut();
        self.connect(key("the key of berlin"));
        for _ in 0..1000 {
            self.flow();
            self.commit(true);
            self.flow();
            if self.host.logs.range(self.host.settled + 1..).next().is_none()
                && self.sides.as_ref().is_some_and(|(s, _)| s.unsettled() == 0)
            {
                break;
            }
        }
        if let Some((sender, _)) = &mut self.sides {
            sender.handle(tick(self.now), SenderInput::Finish);
        }
        self.flow();
    }

    fn check(&self) {
        assert_eq!((&self.ended, &self.served), (&Some((None, Span::ZERO)), &Some(None)));
        assert!(self.store.disk.values().all(|n| *n == 1), "twice: {:?}", self.store.disk);
        let host = &self.host;
        let numbers = BTreeSet::from_iter(self.store.disk.keys().map(|hash| (hash >> 64) as u64));
        assert_eq!(host.stored, numbers.len() as u64);
        assert_eq!(host.stored + host.dropped + host.refused, host.made, "{numbers:?}");
        assert!(host.doubts.is_empty() && host.refused == 0);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Make(u8),
    DropOldest,
    Connect,
    Cut,
    ToCollector(u16),
    ToHost(u16),
    Flow,
    Commit,
    /// The collector is killed after it has stored tests and before it reports them.
    CommitAndDie,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1u8..20).prop_map(Step::Make),
        1 => Just(Step::DropOldest),
        4 => Just(Step::Connect),
        2 => Just(Step::Cut),
        4 => (1u16..3000).prop_map(Step::ToCollector),
        4 => (1u16..600).prop_map(Step::ToHost),
        4 => Just(Step::Flow),
        3 => Just(Step::Commit),
        1 => Just(Step::CommitAndDie),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Connections end at any byte, either side is killed at any moment, and tests are dropped while they are in transit.
    #[test]
    fn every_test_arrives_once_or_is_counted_as_dropped(
        steps in prop::collection::vec(step(), 1..120), window in 1usize..40)
    {
        let mut world = World::new(window);
        for step in steps {
            world.now += 10;
            match step {
                Step::Make(n) => (0..n).for_each(|_| world.host.make()),
                Step::DropOldest => world.host.drop_oldest(),
                Step::Connect if world.sides.is_none() => world.connect(key("the key of berlin")),
                Step::Connect => {}
                Step::Cut => world.cut(),
                Step::ToCollector(n) => world.deliver(false, n.into()),
                Step::ToHost(n) => world.deliver(true, n.into()),
                Step::Flow => world.flow(),
                Step::Commit => world.commit(true),
                Step::CommitAndDie => {
                    world.commit(false);
                    world.cut();
                }
            }
            world.drive();
        }
        world.finish();
        world.check();
    }

    #[test]
    fn no_bytes_make_either_side_panic(
        kind in 0u8..18, body in prop::collection::vec(any::<u8>(), 0..300), cut in 1usize..50)
    {
        let _ = PushMessage::decode(kind, &body);
        let frame = [&(body.len() as u32 + 1).to_be_bytes()[..], &[kind], &body].concat();
        for greeted in [false, true] {
            let mut world = World::new(9);
            (0..5).for_each(|_| world.host.make());
            world.connect(key("the key of berlin"));
            if greeted {
                world.flow();
            }
            for chunk in frame.chunks(cut) {
                for wire in &mut world.wires {
                    wire.extend(chunk);
                }
                world.deliver(false, 1000);
                world.deliver(true, 1000);
            }
            world.flow();
        }
    }

    #[test]
    fn messages_come_back_as_they_were(m in any_message()) {
        let mut body = Vec::new();
        m.encode(&mut body);
        prop_assert!(body.len() + 1 + 16 <= MAX_FRAME);
        prop_assert_eq!(PushMessage::decode(m.kind(), &body), Ok(m.clone()));
        if !matches!(m, PushMessage::Piece(_)) {
            // A later version may add fields.
            body.push(7);
            prop_assert_eq!(PushMessage::decode(m.kind(), &body), Ok(m));
        }
    }
}

fn any_message() -> impl Strategy<Value = PushMessage> {
    let offer = (any::<u64>(), any::<u128>(), any::<u64>()).prop_map(|(number, hash, length)| PushOffer {
        number,
        hash,
        length,
    });
    let outcome = prop_oneof![
        Just(PushOutcome::Stored),
        Just(PushOutcome::Known),
        "[a-z ]{0,200}".prop_map(PushOutcome::Refused)
    ];
    let reason = (0..PushRefusal::ALL.len()).prop_map(|k| PushRefusal::ALL[k]);
    prop_oneof![
        (any::<u16>(), any::<bool>(), any::<[u8; 16]>())
            .prop_map(|(version, keyed, nonce)| PushMessage::Hello(ChannelHello { version, keyed, nonce })),
        any::<[u8; 32]>().prop_map(PushMessage::Proof),
        (any::<u64>(), any::<u64>())
            .prop_map(|(waiting, dropped)| PushMessage::State(SpoolState { waiting, dropped })),
        prop::collection::vec(offer, 0..=MAX_OPEN).prop_map(PushMessage::Offer),
        prop::collection::vec(any::<u64>(), 0..=MAX_OPEN).prop_map(PushMessage::Want),
        (any::<u64>(), ".{0,300}", prop::collection::vec((".{0,30}", ".{0,300}"), 0..30))
            .prop_map(|(n, source, tags)| PushMessage::Test(n, About { source, tags })),
        prop::collection::vec(any::<u8>(), 0..2000).prop_map(PushMessage::Piece),
        any::<u64>().prop_map(PushMessage::Gone),
        prop::collection::vec((any::<u64>(), outcome), 0..=MAX_OPEN).prop_map(PushMessage::Settled),
        (reason, "[a-z ]{0,200}", 0..3_600_000i64).prop_map(|(why, text, ms)| PushMessage::Later(
            why,
            text,
            Span::millis(ms)
        )),
        Just(PushMessage::Welcome),
        Just(PushMessage::Whole),
        Just(PushMessage::Bye),
    ]
}

#[test]
fn who_has_no_key_of_a_host_is_refused() {
    let mut world = World::new(9);
    world.host.make();
    world.connect(key("somebody else's key"));
    world.flow();
    let refused = PushError::Refused(PushRefusal::Key, String::new());
    assert_eq!(world.ended, Some((Some(refused), Span::ZERO)));
    assert_eq!(world.served, Some(Some(PushError::Proof)));
    // A collector without keys refuses all hosts, and a sender rejects a collector that requests no key.
    let mut out = Vec::new();
    let mut receiver = PushReceiver::new(PresharedKeys::default(), [2; 16], tick(0));
    let mut sender = PushSender::new(key("the key of berlin"), [1; 16], tick(0));
    sender.poll_transmit(tick(0), &mut out);
    receiver.handle(tick(0), ReceiverInput::Bytes(&out));
    out.clear();
    while receiver.poll_transmit(tick(0), &mut out) {}
    sender.handle(tick(0), SenderInput::Bytes(&out));
    assert!(matches!(
        sender.poll_event(),
        Some(SenderEvent::Over(Some(PushError::Refused(PushRefusal::Key, _)), _))
    ));
}

#[test]
fn a_changed_byte_ends_the_conversation() {
    let mut world = World::new(9);
    (0..5).for_each(|_| world.host.make());
    world.connect(key("the key of madrid"));
    // Exchange of greetings and proofs.
    for _ in 0..3 {
        world.drive();
        world.deliver(false, 1000);
        world.deliver(true, 1000);
    }
    let last = world.wires[0].back_mut().expect("an offer is under way");
    *last ^= 1;
    world.flow();
    assert_eq!(world.served, Some(Some(PushError::Seal)));
    assert!(world.store.disk.is_empty());
}

#[test]
fn a_collector_that_wants_nothing_more_says_when_to_come_again() {
    let mut world = World::new(0);
    (0..5).for_each(|_| world.host.make());
    world.connect(key("the key of berlin"));
    world.flow();
    let (_, receiver) = world.sides.as_mut().unwrap();
    let pause = Span::seconds(60);
    receiver.handle(tick(0), ReceiverInput::Later(PushRefusal::Full, "of 1 TB".to_owned(), pause));
    world.flow();
    assert_eq!(world.ended, Some((Some(PushError::Refused(PushRefusal::Full, "of 1 TB".to_owned())), pause)));
    assert_eq!(world.served, Some(None));
    assert_eq!(world.host.stored, 0);
    // Later all tests arrive.
    world.window = 2;
    world.finish();
    world.check();
    assert_eq!(world.host.stored, 5);
}

/// A sender that exceeds its limits, or forges messages, ends the conversation.
#[test]
fn more_than_is_allowed_ends_the_conversation() {
    let offers = |from: u64, n: u64| -> Vec<PushOffer> {
        (from..from + n).map(|number| PushOffer { number, hash: hash(number), length: 100 }).collect()
    };
    let about = || PushMessage::Test(1, About { source: "1.log".to_owned(), tags: Vec::new() });
    let piece = |n: usize| PushMessage::Piece(vec![0; n]);
    let cases = [
        (
            vec![PushMessage::Offer(offers(0, 200)), PushMessage::Offer(offers(200, 57))],
            PushError::TooMuch("tests offered at a time"),
        ),
        (vec![PushMessage::Offer(offers(1, 2)), PushMessage::Offer(offers(2, 2))], PushError::OutOfTurn(5)),
        (vec![PushMessage::Offer(offers(2, 1)), about()], PushError::OutOfTurn(7)),
        (vec![piece(9)], PushError::OutOfTurn(8)),
        (vec![PushMessage::Whole], PushError::OutOfTurn(9)),
        (
            vec![PushMessage::Offer(offers(1, 1)), about(), piece(1000), piece(1000)],
            PushError::TooMuch("bytes of a test"),
        ),
        (vec![PushMessage::Offer(offers(1, 1)), about(), about()], PushError::OutOfTurn(7)),
        (vec![PushMessage::Welcome], PushError::OutOfTurn(3)),
    ];
    for (messages, expected) in cases {
        let mut world = World::new(300);
        world.connect(key("the key of berlin"));
        world.flow();
        for message in messages {
            world.sides.as_mut().unwrap().0.forge(message);
            world.drive();
            world.deliver(false, 100_000);
        }
        assert_eq!(world.served, Some(Some(expected)));
    }
}

#[test]
fn silence_ends_both_sides_and_a_sign_of_life_is_enough() {
    let mut world = World::new(9);
    world.connect(key("the key of berlin"));
    world.flow();
    for second in 1..=100 {
        world.now = second * 1000;
        let (sender, receiver) = world.sides.as_mut().unwrap();
        sender.handle_timeout(tick(world.now));
        receiver.handle_timeout(tick(world.now));
        world.flow();
    }
    assert_eq!((&world.ended, &world.served), (&None, &None));
    let (sender, receiver) = world.sides.as_mut().unwrap();
    sender.handle_timeout(tick(world.now + 30_000));
    receiver.handle_timeout(tick(world.now + 30_000));
    world.drive();
    assert_eq!(world.ended, Some((Some(PushError::Silent), Span::ZERO)));
    assert_eq!(world.served, Some(Some(PushError::Silent)));
}

#[test]
fn pauses_grow_to_five_minutes_and_end_with_success() {
    let mut retry = Retry::new(7);
    let mut now = SteadyTime(0);
    let mut longest = Span::ZERO;
    for k in 0..20 {
        assert!(retry.may_try(now));
        let wait = retry.failed(now, Span::ZERO);
        let whole = Span::seconds(5 << k.min(10)).min(Span::seconds(300));
        assert!(wait <= whole && wait.0 >= whole.0 / 4 * 3, "{k}: {wait:?}");
        assert!(!retry.may_try(now + Span(wait.0 - 1)));
        now = now + wait;
        longest = longest.max(wait);
    }
    assert!(longest > Span::seconds(250));
    assert_eq!(retry.failed(now, Span::seconds(900)), Span::seconds(900));
    retry.succeeded();
    assert!(retry.may_try(now));
    assert!(retry.failed(now, Span::ZERO) <= Span::seconds(5));
}

/// In virtual time: a collector is unreachable for a day; the host creates a test every five minutes and may
/// store 100 of them.
#[test]
fn a_day_without_the_collector_costs_only_what_there_is_no_room_for() {
    let mut world = World::new(16);
    let mut retry = Retry::new(1);
    let day = 86_400_000;
    let away = |now: i64| (day..2 * day).contains(&now);
    let (mut tries, mut now) = (0, 0);
    while now < 3 * day {
        now += 1000;
        world.now = now;
        if now % 300_000 == 0 {
            world.host.make();
            while world.host.logs.range(world.host.settled + 1..).count() > 100 {
                world.host.drop_oldest();
            }
        }
        let waits = world.host.logs.range(world.host.settled + 1..).next().is_some();
        if waits && retry.may_try(SteadyTime(now * 1_000_000)) {
            if away(now) {
                tries += 1;
                retry.failed(SteadyTime(now * 1_000_000), Span::ZERO);
            } else {
                world.finish();
                retry.succeeded();
            }
        }
        // Tests that were pushed may be removed.
        world.host.logs = world.host.logs.split_off(&(world.host.settled + 1));
    }
    world.finish();
    world.check();
    assert_eq!(world.host.made, 3 * 288);
    // The tests of that day, and the first one of the next day, created just before the collector is
    // reachable again.
    assert_eq!(world.host.dropped, 289 - 100);
    assert!((250..400).contains(&tries), "{tries} tries within a day");
}
