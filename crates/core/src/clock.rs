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

/// Network adapter's clock compared with the system clock. Hardware stamps are readings of the adapter's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdapterClock {
    /// Number of the clock: N in `/dev/ptpN`.
    pub device: u32,
    /// Time scale on which the clock runs.
    pub timescale: AdapterTimescale,
    /// Adapter's clock − system clock, in ns, without the whole seconds between the time scales.
    pub offset: Span,
    /// Largest possible error of `offset`, in ns.
    pub bound: Span,
}

/// Time scale of an adapter's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AdapterTimescale {
    /// UTC, as the system clock.
    Utc,
    /// TAI, which PTP distributes.
    Tai,
    /// Neither UTC nor TAI, usually because nothing has set the clock.
    Other,
}

impl AdapterTimescale {
    /// Returns the name in logs.
    pub fn name(self) -> &'static str {
        match self {
            AdapterTimescale::Utc => "utc",
            AdapterTimescale::Tai => "tai",
            AdapterTimescale::Other => "other",
        }
    }
}

impl AdapterClock {
    /// True if the clock runs on a known time scale, so that its readings can be compared with the system clock.
    pub fn is_usable(&self) -> bool {
        self.timescale != AdapterTimescale::Other
    }

    /// Returns the largest possible difference of a hardware stamp from the system clock, in ns.
    pub fn stamp_error(&self) -> Span {
        Span((self.offset.0.unsigned_abs().saturating_add(self.bound.0.unsigned_abs())).min(i64::MAX as u64)
            as i64)
    }

    /// Returns the one of two readings of the same clock that has the larger error.
    #[must_use]
    pub fn worse(self, other: AdapterClock) -> AdapterClock {
        if other.stamp_error() > self.stamp_error() { other } else { self }
    }
}
