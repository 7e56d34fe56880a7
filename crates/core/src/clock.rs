//! What is known about the two hosts' clocks: probes of their offset, and what each kernel reports about its own
//! synchronisation.

use crate::time::{Span, WallTime};
use serde::{Deserialize, Serialize};

/// One exchange on the control connection. All offsets are **θ = server − client** (metrics §15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockProbe {
    /// T1: the client sent, on the client's clock.
    pub sent: WallTime,
    /// T2: the server received, on the server's clock.
    pub arrived: WallTime,
    /// T3: the server answered, on the server's clock. The classic probe has one server time: then this equals
    /// `arrived`.
    pub answered: WallTime,
    /// T4: the client received the answer, on the client's clock.
    pub returned: WallTime,
}

impl ClockProbe {
    /// Round-trip time without the server's processing time: (T4 − T1) − (T3 − T2).
    pub fn rtt(&self) -> Span {
        (self.returned - self.sent) - (self.answered - self.arrived)
    }

    /// Twice the offset, as an integer: (T2 − T1) + (T3 − T4). Saturating.
    pub fn double_offset(&self) -> i64 {
        let [t1, t2, t3, t4] =
            [self.sent, self.arrived, self.answered, self.returned].map(|t| i128::from(t.0));
        (t2 - t1 + t3 - t4).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// A kernel's state of its clock (`adjtimex`) at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SyncState {
    /// Whether the kernel considers its clock synchronised (no `STA_UNSYNC`, no error state).
    pub synchronised: bool,
    /// Remaining phase correction being slewed, in ns.
    pub offset: Span,
    /// Estimated error, in ns.
    pub estimated_error: Span,
    /// Maximum error, in ns.
    pub maximum_error: Span,
    /// Frequency correction in force, in parts per billion.
    pub frequency_ppb: i64,
}
