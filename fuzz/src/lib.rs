//! Shared code of the targets.

mod archive;
mod heap;

pub use archive::{Scratch, uncaught};
pub use heap::Heap;

use arbitrary::Arbitrary;
use jitlat_proto::sim::chaos;

/// A fuzzer-generated [`chaos::Op`].
#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    Say(u8, u32),
    Raw(Vec<u8>),
    FlowReport(u8, u8, u32),
    Wait(u32),
    Timeout,
    Step(i32),
    Close,
    Stop,
    Obey(bool),
}

/// Settings of a machine, and the operations on it.
#[derive(Arbitrary, Clone, Debug)]
pub struct Story {
    pub classic: bool,
    pub shape: u8,
    pub ops: Vec<Op>,
}

impl Story {
    pub fn setup(&self) -> chaos::ChaosSetup {
        chaos::ChaosSetup { classic: self.classic, shape: self.shape }
    }

    /// At most a few hundred operations: longer stories find nothing that shorter ones do not.
    pub fn ops(&self) -> Vec<chaos::Op> {
        let op = |op: &Op| match op {
            Op::Say(kind, n) => chaos::Op::Say(*kind, *n),
            Op::Raw(bytes) => chaos::Op::Raw(bytes.clone()),
            Op::FlowReport(kind, flow, n) => chaos::Op::FlowReport(*kind, *flow, *n),
            Op::Wait(ms) => chaos::Op::Wait(*ms),
            Op::Timeout => chaos::Op::Timeout,
            Op::Step(ms) => chaos::Op::Step(*ms),
            Op::Close => chaos::Op::Close,
            Op::Stop => chaos::Op::Stop,
            Op::Obey(obey) => chaos::Op::Obey(*obey),
        };
        self.ops.iter().take(300).map(op).collect()
    }
}

/// Splits bytes into pieces of the given sizes; the last piece has the rest.
pub fn pieces<'a>(bytes: &'a [u8], sizes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    let mut sizes = sizes.iter();
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let size = sizes.next().map_or(rest.len(), |s| usize::from(*s).min(rest.len()));
        let (piece, tail) = rest.split_at(size);
        rest = tail;
        Some(piece)
    })
}
