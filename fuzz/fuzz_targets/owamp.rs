#![no_main]
// Aims at: crates/proto/src/owamp

use jitlat_core::{Direction, Span};
use jitlat_impair::{Choice, DuplicationModel, PathModel, ReorderingModel};
use jitlat_proto::amp::SecurityMode;
use jitlat_proto::owamp::ScheduleSlot;
use jitlat_proto::sim::owamp::{OwampTrouble, OwampWorld, SimHost};

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

fn host(client: bool) -> SimHost {
    if client { SimHost::Client } else { SimHost::Server }
}

impl From<Op> for OwampTrouble {
    fn from(op: Op) -> OwampTrouble {
        match op {
            Op::Break => OwampTrouble::Break,
            Op::Interrupt => OwampTrouble::Interrupt,
            Op::Vanish(client) => OwampTrouble::Vanish(host(client)),
            Op::Step(client, ms) => OwampTrouble::Step(host(client), Span::millis(ms.into())),
            Op::Pause(client, ms) => OwampTrouble::Pause(host(client), Span::millis((ms % 4000).into())),
            Op::Say(client, bytes) => OwampTrouble::Say(host(client), bytes),
            Op::Stray(client, k, known, bytes) => OwampTrouble::Stray(host(client), k.into(), known, bytes),
            Op::Again(k) => OwampTrouble::Again(k.into()),
            Op::Complete(client, k) => OwampTrouble::Complete(host(client), k.into()),
        }
    }
}

libfuzzer_sys::fuzz_target!(|input: Input| {
    let mode = [SecurityMode::Open, SecurityMode::Authenticated, SecurityMode::Encrypted]
        [usize::from(input.mode) % 3];
    let sessions: Vec<_> = input
        .sessions
        .iter()
        .take(4)
        .map(|(up, packets, step)| {
            let direction = if *up { Direction::Up } else { Direction::Down };
            // From a fifth of a millisecond to a tenth of a second.
            let mean = u64::from(*step) * 6000 + 1_000_000;
            let slot =
                if step % 2 == 0 { ScheduleSlot::Fixed(mean) } else { ScheduleSlot::Exponential(mean) };
            (direction, u32::from(*packets % 64), vec![slot])
        })
        .collect();
    let granted: u32 = sessions.iter().filter(|s| s.0 == Direction::Down).map(|s| s.1).sum();
    let numbers = |list: &[u8]| Choice::indices(list.iter().map(|n| u64::from(*n)));
    let path = PathModel {
        delay: Span::millis(5),
        loss: numbers(&input.lost),
        duplication: DuplicationModel { choice: numbers(&input.copied), copies: 1, lag: Span::millis(3) },
        reordering: ReorderingModel { choice: numbers(&input.held_back), by: Span::millis(40) },
        ..PathModel::default()
    };
    let troubles =
        input.ops.into_iter().take(40).map(|(ms, op)| (Span::millis((ms % 8000).into()), op.into()));
    let world = OwampWorld {
        up: path.clone(),
        down: path,
        piece: usize::from(input.piece) + 1,
        troubles: troubles.collect(),
        ..OwampWorld::new(mode, sessions)
    };
    let outcome = world.run();
    assert!(outcome.took < Span::seconds(1100), "it ends by itself");
    assert_eq!(outcome.misdirected, 0, "test packets go to the client, after the start");
    assert!(outcome.server_sent <= granted.into(), "no more than was granted");
    assert!(outcome.kept <= 4 && outcome.server_control_bytes < 1 << 20);
    for data in outcome.data.values().flatten() {
        assert!(data.records.len() <= 2 * data.session.request.packets as usize + 1024);
    }
});
