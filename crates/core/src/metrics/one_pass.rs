//! [`OnePass`] and [`Merge`]: figures computed while packets arrive.

use super::classify::Packet;

/// A figure of accepted packets in arrival order, in one pass and constant memory.
pub trait OnePass: Default {
    /// The type of the result.
    type Output;
    /// The next accepted packet.
    fn push(&mut self, packet: &Packet);
    /// The figure for the packets so far.
    fn output(&self) -> Self::Output;
}

/// A [`OnePass`] whose adjacent halves merge to exactly the whole: pushing a stream into one, or its first
/// part into one, the rest into another and merging them, gives equal outputs.
pub trait Merge: OnePass {
    /// Adds the part of the stream that follows.
    fn merge(&mut self, next: Self);
}
