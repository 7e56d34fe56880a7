#![no_main]
// Aims at: crates/proto/src/owamp

use jitlat_core::{Direction, Span};
use jitlat_impair::{Choice, Config, Duplication, Reordering};
use jitlat_proto::amp::Mode;
use jitlat_proto::owamp::Slot;
use jitlat_proto::sim::owamp::{Host, Trouble, World};

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    mode: u8,
    sessions: Vec<(bool, u8, u16)>,
    lost: Vec<u8>,
    copied: Vec<u8>,
    held_back: Vec<u8>,
    piece: u8,
    ops: Vec<(u16, Op)>,
}

#[derive(arbitrary::Arbitrary, Debug)]
enum Op {
    Break,
    Interrupt,
    Vanish(bool),
    Step(bool, i16),
    Pause(bool, u16),
    Say(bool, Vec<u8>),
    Stray(bool, u8, bool, Vec<u8>),
    Again(u8),
    Complete(bool, u8),
}

fn host(client: bool) -> Host {
    if client { Host::Client } else { Host::Server }
}

impl From<Op> for Trouble {
    fn from(op: Op) -> Trouble {
        match op {
            Op::Break => Trouble::Break,
            Op::Interrupt => Trouble::Interrupt,
            Op::Vanish(client) => Trouble::Vanish(host(client)),
            Op::Step(client, ms) => Trouble::Step(host(client), Span::millis(ms.into())),
            Op::Pause(client, ms) => Trouble::Pause(host(client), Span::millis((ms % 4000).into())),
            Op::Say(client, bytes) => Trouble::Say(host(client), bytes),
            Op::Stray(client, k, known, bytes) => Trouble::Stray(host(client), k.into(), known, bytes),
            Op::Again(k) => Trouble::Again(k.into()),
            Op::Complete(client, k) => Trouble::Complete(host(client), k.into()),
        }
    }
}

libfuzzer_sys::fuzz_target!(|input: Input| {
    let mode = [Mode::Open, Mode::Authenticated, Mode::Encrypted][usize::from(input.mode) % 3];
    let sessions: Vec<_> = input
        .sessions
        .iter()
        .take(4)
        .map(|(up, packets, step)| {
            let direction = if *up { Direction::Up } else { Direction::Down };
            // From a fifth of a millisecond to a tenth of a second.
            let mean = u64::from(*step) * 6000 + 1_000_000;
            let slot = if step % 2 == 0 { Slot::Fixed(mean) } else { Slot::Exponential(mean) };
            (direction, u32::from(*packets % 64), vec![slot])
        })
        .collect();
    let granted: u32 = sessions.iter().filter(|s| s.0 == Direction::Down).map(|s| s.1).sum();
    let numbers = |list: &[u8]| Choice::indices(list.iter().map(|n| u64::from(*n)));
    let path = Config {
        delay: Span::millis(5),
        loss: numbers(&input.lost),
        duplication: Duplication { choice: numbers(&input.copied), copies: 1, lag: Span::millis(3) },
        reordering: Reordering { choice: numbers(&input.held_back), by: Span::millis(40) },
        ..Config::default()
    };
    let troubles =
        input.ops.into_iter().take(40).map(|(ms, op)| (Span::millis((ms % 8000).into()), op.into()));
    let world = World {
        up: path.clone(),
        down: path,
        piece: usize::from(input.piece) + 1,
        troubles: troubles.collect(),
        ..World::new(mode, sessions)
    };
    let outcome = world.run();
    assert!(outcome.took < Span::seconds(1100), "it ends by itself");
    assert_eq!(outcome.misdirected, 0, "test packets go to the client, after the start");
    assert!(outcome.server_sent <= granted.into(), "no more than was granted");
    assert!(outcome.kept <= 4 && outcome.server_said < 1 << 20);
    for data in outcome.data.values().flatten() {
        assert!(data.records.len() <= 2 * data.session.request.packets as usize + 1024);
    }
});
