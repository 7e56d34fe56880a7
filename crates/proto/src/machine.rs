//! The five calls by which a driver runs a protocol machine.

use jitlat_core::{Span, SteadyTime, WallTime};

/// The current time on both of a host's clocks. A pure machine reads neither; every call that needs the time receives
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The realtime clock (UTC), which stamps on the wire and in records are read from. It may step.
    pub wall: WallTime,
    /// The monotonic clock, for timers and deadlines. Never goes backwards.
    pub steady: SteadyTime,
}

impl core::ops::Add<Span> for Tick {
    type Output = Tick;

    fn add(self, later: Span) -> Tick {
        Tick { wall: self.wall + later, steady: self.steady + later }
    }
}

/// One side of one conversation. Owns no socket, no clock, no random source.
///
/// A driver loops:
/// 1. pass on whatever happened through [`handle`](Machine::handle);
/// 2. write out what [`poll_transmit`](Machine::poll_transmit) appends until it returns false;
/// 3. execute the events of [`poll_event`](Machine::poll_event) until there are none;
/// 4. sleep until something happens or [`poll_timeout`](Machine::poll_timeout) passes, then call
///    [`handle_timeout`](Machine::handle_timeout) and start over.
///
/// Every call may change the results of the three `poll` calls. Until a machine has emitted its last event it always
/// has a timeout: it cannot hang.
pub trait Machine {
    /// An input of the machine.
    type Input<'a>;
    /// What the machine requests of its driver, or reports to its user.
    type Event;

    /// Something happened at `now`.
    fn handle(&mut self, now: Tick, input: Self::Input<'_>);

    /// The time returned by [`poll_timeout`](Machine::poll_timeout) has come. Harmless at any other time.
    fn handle_timeout(&mut self, now: Tick);

    /// Appends the next message to `out` and returns true; returns false if there is nothing to send. Messages that
    /// contain a time are stamped with `now`, so call it with a fresh reading for each, write at once, and do not call
    /// it while earlier bytes still wait to be written: that is the back-pressure.
    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool;

    /// When, on the steady clock, to call [`handle_timeout`](Machine::handle_timeout). `None`: the
    /// machine is over.
    fn poll_timeout(&self) -> Option<SteadyTime>;

    /// The next event of the machine.
    fn poll_event(&mut self) -> Option<Self::Event>;
}
