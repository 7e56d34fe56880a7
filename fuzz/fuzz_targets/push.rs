//! Both sides of a push, fed with valid, corrupted and arbitrary messages: no panic, the conversation ends, and only
//! sent data arrives.
#![no_main]
// Aims at: crates/proto/src/push crates/proto/src/channel.rs

use jitlat_core::SteadyTime;
use jitlat_core::time::{Span, WallTime};
use jitlat_proto::jitlat::{PresharedKey, PresharedKeys};
use jitlat_proto::push::{
    About, MAX_OPEN, PushMessage, PushOffer, PushOutcome, PushReceiver, PushRefusal, PushSender,
    ReceiverEvent, ReceiverInput, SenderEvent, SenderInput, SpoolState, most_packed,
};
use jitlat_proto::{Machine, Tick};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

fn tick(ms: i64) -> Tick {
    Tick { wall: WallTime(ms * 1_000_000), steady: SteadyTime(ms * 1_000_000) }
}

fn log(number: u64) -> Vec<u8> {
    vec![number as u8; (number * 977 % 5000) as usize]
}

struct World {
    now: i64,
    sender: PushSender,
    receiver: PushReceiver,
    /// Bytes in transit, to the collector and to the host.
    wires: [Vec<u8>; 2],
    /// Received data of the current log.
    coming: Vec<u8>,
    lengths: BTreeMap<u64, u64>,
    whole: Vec<u64>,
    next: u64,
}

impl World {
    fn new() -> World {
        let key = || PresharedKey::from_file_contents(b"the key of one host").expect("a key");
        let mut keys = PresharedKeys::default();
        keys.add("host", key());
        World {
            now: 0,
            sender: PushSender::new(key(), [1; 16], tick(0)),
            receiver: PushReceiver::new(keys, [2; 16], tick(0)),
            wires: Default::default(),
            coming: Vec::new(),
            lengths: BTreeMap::new(),
            whole: Vec::new(),
            next: 1,
        }
    }

    fn drive(&mut self) {
        let now = tick(self.now);
        while let Some(event) = self.sender.poll_event() {
            if let SenderEvent::Wanted(number) = event {
                if number % 7 == 0 {
                    self.sender.handle(now, SenderInput::Gone);
                    continue;
                }
                self.sender.handle(now, SenderInput::Test(About::default()));
                log(number).chunks(1000).for_each(|piece| self.sender.handle(now, SenderInput::Piece(piece)));
                self.sender.handle(now, SenderInput::Whole);
            }
        }
        while let Some(event) = self.receiver.poll_event() {
            match event {
                ReceiverEvent::Proved(name) => {
                    assert_eq!(name, "host");
                    self.receiver.handle(now, ReceiverInput::Welcome);
                }
                ReceiverEvent::Offered(offers) => {
                    let numbers: Vec<u64> = offers.iter().map(|o| o.number).collect();
                    self.lengths.extend(offers.iter().map(|o| (o.number, o.length)));
                    self.receiver.handle(now, ReceiverInput::Want(&numbers));
                }
                ReceiverEvent::Test(..) => self.coming.clear(),
                ReceiverEvent::Piece(bytes) => self.coming.extend(bytes),
                ReceiverEvent::Whole(number) => {
                    // Under a seal only what the host sent comes through.
                    assert_eq!(self.coming, log(number));
                    assert!(self.coming.len() as u64 <= most_packed(self.lengths[&number]));
                    self.whole.push(number);
                }
                ReceiverEvent::Gone(_) | ReceiverEvent::State(_) | ReceiverEvent::Over(_) => {}
            }
        }
        assert!(self.receiver.unsettled() <= MAX_OPEN && self.sender.unsettled() <= MAX_OPEN);
        let [there, back] = &mut self.wires;
        while self.sender.poll_transmit(now, there) {}
        while self.receiver.poll_transmit(now, back) {}
    }

    fn deliver(&mut self, way: usize, n: usize) {
        let n = n.min(self.wires[way].len());
        let bytes: Vec<u8> = self.wires[way].drain(..n).collect();
        match way {
            0 => self.receiver.handle(tick(self.now), ReceiverInput::Bytes(&bytes)),
            _ => self.sender.handle(tick(self.now), SenderInput::Bytes(&bytes)),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    if let Some((&kind, rest)) = data.split_first()
        && let Ok(message) = PushMessage::decode(kind, rest)
    {
        let mut body = Vec::new();
        message.encode(&mut body);
        assert_eq!(PushMessage::decode(kind, &body), Ok(message));
    }
    let mut world = World::new();
    for op in data.chunks(3) {
        let (what, n) = (op[0], usize::from(*op.get(1).unwrap_or(&1)) * 16 + 1);
        let way = usize::from(op.get(2).unwrap_or(&0) & 1);
        match what % 12 {
            0..=3 => world.deliver(way, n),
            4 => world.deliver(1 - way, usize::MAX),
            5 => {
                let count = (n as u64 % 40).min(world.sender.room() as u64);
                let offers: Vec<PushOffer> = (world.next..world.next + count)
                    .map(|number| PushOffer { number, hash: number.into(), length: log(number).len() as u64 })
                    .collect();
                world.next += count;
                world.sender.handle(tick(world.now), SenderInput::Offer(&offers));
            }
            6 => {
                let settled =
                    std::mem::take(&mut world.whole).into_iter().map(|n| (n, PushOutcome::Stored)).collect();
                world.receiver.handle(tick(world.now), ReceiverInput::Settled(settled));
            }
            7 => world.now += n as i64,
            8 => {
                // Bytes in transit are changed or inserted.
                let wire = &mut world.wires[way];
                if !wire.is_empty() {
                    let at = n % wire.len();
                    wire[at] ^= what | 1;
                }
            }
            9 => world.wires[way].extend(op),
            10 => {
                let now = tick(world.now);
                world.sender.handle_timeout(now);
                world.receiver.handle_timeout(now);
            }
            _ if n % 5 == 0 => world.sender.handle(tick(world.now), SenderInput::Finish),
            _ if n % 5 == 1 => {
                let later = ReceiverInput::Later(PushRefusal::Full, String::new(), Span::seconds(1));
                world.receiver.handle(tick(world.now), later);
            }
            _ => world.sender.handle(tick(world.now), SenderInput::State(SpoolState::default())),
        }
        world.drive();
    }
    // Without another byte both end.
    for _ in 0..3 {
        world.now += 31_000;
        world.sender.handle_timeout(tick(world.now));
        world.receiver.handle_timeout(tick(world.now));
        world.drive();
        world.wires.iter_mut().for_each(Vec::clear);
    }
    assert!(world.sender.poll_timeout().is_none() && world.receiver.poll_timeout().is_none());
});
