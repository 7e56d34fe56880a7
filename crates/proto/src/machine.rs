//! The five calls with which a driver runs a protocol state machine.

use jitlat_core::{Span, SteadyTime, WallTime};

/// Current time on both clocks of a host. State machines read no clock, so every call that needs the time
/// takes it as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Realtime clock (UTC), the source of timestamps on the wire and in records. It may step.
    pub wall: WallTime,
    /// Monotonic clock for timers and deadlines. It never goes back.
    pub steady: SteadyTime,
}

impl core::ops::Add<Span> for Tick {
    type Output = Tick;

    fn add(self, later: Span) -> Tick {
        Tick { wall: self.wall + later, steady: self.steady + later }
    }
}

/// State machine of one side of a conversation. Has no socket, clock or random source of its own.
///
/// A driver loops:
/// 1. pass inputs to [`handle`](Machine::handle);
/// 2. write the bytes that [`poll_transmit`](Machine::poll_transmit) appends, until it returns false;
/// 3. execute the events of [`poll_event`](Machine::poll_event) until there are none;
/// 4. sleep until there is an input or [`poll_timeout`](Machine::poll_timeout) passes, then call
///    [`handle_timeout`](Machine::handle_timeout) and start over.
///
/// Every call may change the results of the three `poll` calls. A machine has a timeout until it has emitted
/// its last event, so it cannot hang.
pub trait Machine {
    /// Input of the machine.
    type Input<'a>;
    /// Request to the driver, or report to the user.
    type Event;

    /// Handles an input at time `now`.
    fn handle(&mut self, now: Tick, input: Self::Input<'_>);

    /// Must be called when the time returned by [`poll_timeout`](Machine::poll_timeout) has come. Calls at other times
    /// do no harm.
    fn handle_timeout(&mut self, now: Tick);

    /// Appends the next message to `out` and returns true; returns false if there is nothing to send.
    /// Messages that contain a time are stamped with `now`, so the clocks must be read for each call and the
    /// message must be written at once. Must not be called while earlier bytes are still unwritten; this
    /// provides back-pressure.
    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool;

    /// Returns the time, on the steady clock, at which [`handle_timeout`](Machine::handle_timeout) must be called;
    /// `None` once the machine has ended.
    fn poll_timeout(&self) -> Option<SteadyTime>;

    /// Returns the next event of the machine; `None` if there is none.
    fn poll_event(&mut self) -> Option<Self::Event>;
}
