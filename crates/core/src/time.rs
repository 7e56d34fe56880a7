//! Time: signed 64-bit nanoseconds. A host has two clocks, whose times have different types: [`WallTime`] for stamps
//! and records, [`SteadyTime`] for timers and deadlines. [`Span`] is the difference of two times of the same clock.
//!
//! ```compile_fail
//! # use jitlat_core::{SteadyTime, WallTime};
//! fn answer(now: WallTime, timer: SteadyTime) {}
//! answer(SteadyTime(0), WallTime(0)); // the clocks cannot be swapped
//! ```
//!
//! All are integers, because stamps, unlike means, are never fractional. The arithmetic saturates: a hostile stamp can
//! cause a wrong figure, but not a panic. Use [`WallTime::checked_since`] if the difference must be exact.

use core::fmt;
use core::ops::{Add, Neg, Sub};
use serde::{Deserialize, Serialize};

/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;

/// A time of the realtime clock: nanoseconds since 1970-01-01 00:00 UTC, on the clock of the host that read it. Times
/// of different hosts can only be compared if their clocks agree. The clock may step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct WallTime(pub i64);

// Former name of [`WallTime`], for code that still uses it.
#[doc(hidden)]
pub use WallTime as Nanos;

/// A time of the monotonic clock: nanoseconds since an arbitrary time before the program began. It never goes
/// backwards, and is meaningless on another host. It is used for deadlines, repetition and expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SteadyTime(pub i64);

/// A signed difference of two times, in nanoseconds. Negative delays are legal everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Span(pub i64);

impl WallTime {
    /// Returns the exact difference `self − earlier`; `None` if it does not fit into 64 bits.
    pub fn checked_since(self, earlier: WallTime) -> Option<Span> {
        self.0.checked_sub(earlier.0).map(Span)
    }
}

impl Span {
    /// The empty span.
    pub const ZERO: Span = Span(0);

    /// Creates a span of whole seconds.
    pub const fn seconds(s: i64) -> Span {
        Span(s.saturating_mul(SECOND))
    }

    /// Creates a span of whole milliseconds.
    pub const fn millis(ms: i64) -> Span {
        Span(ms.saturating_mul(1_000_000))
    }

    /// Creates a span of whole microseconds.
    pub const fn micros(us: i64) -> Span {
        Span(us.saturating_mul(1_000))
    }

    /// Returns the span in seconds as a floating-point number, for display and rates.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / SECOND as f64
    }

    /// Returns `self × n`, saturating.
    pub const fn times(self, n: i64) -> Span {
        Span(self.0.saturating_mul(n))
    }
}

macro_rules! instants {
    ($($instant:ident),*) => {$(
        impl Add<Span> for $instant {
            type Output = $instant;
            #[inline]
            fn add(self, d: Span) -> $instant {
                $instant(self.0.saturating_add(d.0))
            }
        }

        impl Sub<Span> for $instant {
            type Output = $instant;
            #[inline]
            fn sub(self, d: Span) -> $instant {
                $instant(self.0.saturating_sub(d.0))
            }
        }

        impl Sub for $instant {
            type Output = Span;
            #[inline]
            fn sub(self, earlier: $instant) -> Span {
                Span(self.0.saturating_sub(earlier.0))
            }
        }
    )*};
}
instants!(WallTime, SteadyTime);

impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, d: Span) -> Span {
        Span(self.0.saturating_add(d.0))
    }
}

impl Sub for Span {
    type Output = Span;
    #[inline]
    fn sub(self, d: Span) -> Span {
        Span(self.0.saturating_sub(d.0))
    }
}

impl Neg for Span {
    type Output = Span;
    fn neg(self) -> Span {
        Span(self.0.saturating_neg())
    }
}

/// Source of a stamp. The order is from the application towards the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum StampSource {
    /// The program, which read the clock around the system call.
    #[default]
    User = 0,
    /// The kernel's network stack, in software (`SO_TIMESTAMPING`).
    Kernel = 1,
    /// The network adapter, in hardware.
    Hardware = 2,
    /// A packet capture: the time at which the capture point recorded the packet.
    Wire = 3,
}

impl StampSource {
    /// All sources, in the order of their codes.
    pub const ALL: [StampSource; 4] =
        [StampSource::User, StampSource::Kernel, StampSource::Hardware, StampSource::Wire];

    /// Returns the one-letter code in log formats: `u`, `k`, `h`, `w`.
    pub fn letter(self) -> char {
        ['u', 'k', 'h', 'w'][self as usize]
    }
}

impl fmt::Display for StampSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["user", "kernel", "hardware", "wire"][*self as usize])
    }
}

/// A time and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Time of the event.
    pub at: WallTime,
    /// Source of the time.
    pub source: StampSource,
}
