//! Items that are the same on every system.

/// Behaviour of a receive call if no datagram is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveMode {
    /// It fails with `WouldBlock`.
    Queued,
    /// It waits for one, as long as the socket's timeout permits.
    Wait,
    /// It reads the error queue instead, without waiting.
    ErrorQueue,
}

/// Options of one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SendOptions {
    /// Traffic class; `None`: the socket's traffic class.
    pub class: Option<u8>,
    /// Priority on this host for an answer with its own traffic class, for which the kernel would otherwise
    /// choose a priority; `None`: the kernel chooses. Needs Linux 6.14, see
    /// [`has_message_priority`](super::has_message_priority).
    pub priority: Option<u32>,
    /// `Some(true)` if the kernel should report the departure time. `Some(false)` takes as long as `Some(true)`, so
    /// that the reported departures of some answers show when the others leave; `None` takes less time.
    pub stamped: Option<bool>,
    /// True if the checksum is computed before the packet is passed to the adapter, see [`send_summed`](super::send_summed).
    pub summed: bool,
    /// True if the answer leaves through the interface of its source address, whatever the routes are.
    pub same_link: bool,
}
