//! Facts about the two hosts' clocks: probes of their offset, and the synchronisation state that each kernel
//! reports.

use crate::time::{Span, WallTime};
use serde::{Deserialize, Serialize};

/// A clock probe: an exchange of messages on the control connection. All offsets are **θ = server − client** (metrics
/// §15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockProbe {
    /// T1: send time of the client, on the client's clock.
    pub sent: WallTime,
    /// T2: receive time of the server, on the server's clock.
    pub arrived: WallTime,
    /// T3: time of the server's answer, on the server's clock. Equal to `arrived` in the classic probe, which has only
    /// one server time.
    pub answered: WallTime,
    /// T4: time at which the client received the answer, on the client's clock.
    pub returned: WallTime,
}

impl ClockProbe {
    /// Returns the round-trip time without the server's processing time: (T4 − T1) − (T3 − T2).
    pub fn rtt(&self) -> Span {
        (self.returned - self.sent) - (self.answered - self.arrived)
    }

    /// Returns twice the offset, as an integer: (T2 − T1) + (T3 − T4), saturating.
    pub fn double_offset(&self) -> i64 {
        let [t1, t2, t3, t4] =
            [self.sent, self.arrived, self.answered, self.returned].map(|t| i128::from(t.0));
        (t2 - t1 + t3 - t4).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// State of a kernel's clock (`adjtimex`) at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SyncState {
    /// True if the kernel considers its clock synchronised (no `STA_UNSYNC`, no error state).
    pub synchronised: bool,
    /// Phase correction that the kernel has yet to apply, in ns.
    pub offset: Span,
    /// Estimated error, in ns.
    pub estimated_error: Span,
    /// Maximum error, in ns.
    pub maximum_error: Span,
    /// Frequency correction in use, in parts per billion.
    pub frequency_ppb: i64,
}
