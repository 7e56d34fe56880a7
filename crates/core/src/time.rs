//! Time: signed 64-bit nanoseconds. A time belongs to one of a host's two clocks, and each has its own type:
//! [`WallTime`] for stamps and records, [`SteadyTime`] for timers and deadlines. [`Span`] is a difference of two times
//! of one clock.
//!
//! ```compile_fail
//! # use jitlat_core::{SteadyTime, WallTime};
//! fn answer(now: WallTime, timer: SteadyTime) {}
//! answer(SteadyTime(0), WallTime(0)); // the clocks cannot be swapped
//! ```
//!
//! All are integers: a mean may be fractional, a stamp never is. The arithmetic saturates, so that a hostile stamp can
//! cause a wrong figure but not a panic; use [`WallTime::checked_since`] if the difference must be exact.

use core::fmt;
use core::ops::{Add, Neg, Sub};
use serde::{Deserialize, Serialize};

/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;

/// A time of the realtime clock: nanoseconds since 1970-01-01 00:00 UTC, on the clock of the host that read it.
/// Comparable between hosts as far as their clocks agree; it may step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct WallTime(pub i64);

// The earlier name, until nothing uses it.
#[doc(hidden)]
pub use WallTime as Nanos;

/// A time of the monotonic clock: nanoseconds since an arbitrary time before the program began. It never goes
/// backwards, and means nothing to another host. For everything that waits, repeats or expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SteadyTime(pub i64);

/// A signed difference of two times, in nanoseconds. Negative delays are legal everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Span(pub i64);

impl WallTime {
    /// The exact difference `self − earlier`, or `None` if it does not fit 64 bits.
    pub fn checked_since(self, earlier: WallTime) -> Option<Span> {
        self.0.checked_sub(earlier.0).map(Span)
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// Whole seconds.
    pub const fn seconds(s: i64) -> Span {
        Span(s.saturating_mul(SECOND))
    }

    /// Whole milliseconds.
    pub const fn millis(ms: i64) -> Span {
        Span(ms.saturating_mul(1_000_000))
    }

    /// Whole microseconds.
    pub const fn micros(us: i64) -> Span {
        Span(us.saturating_mul(1_000))
    }

    /// This span as floating-point seconds, for display and rates.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / SECOND as f64
    }

    /// `self × n`, saturating.
    pub const fn times(self, n: i64) -> Span {
        Span(self.0.saturating_mul(n))
    }
}

macro_rules! instants {
    ($($instant:ident),*) => {$(
        impl Add<Span> for $instant {
            type Output = $instant;
            fn add(self, d: Span) -> $instant {
                $instant(self.0.saturating_add(d.0))
            }
        }

        impl Sub<Span> for $instant {
            type Output = $instant;
            fn sub(self, d: Span) -> $instant {
                $instant(self.0.saturating_sub(d.0))
            }
        }

        impl Sub for $instant {
            type Output = Span;
            fn sub(self, earlier: $instant) -> Span {
                Span(self.0.saturating_sub(earlier.0))
            }
        }
    )*};
}
instants!(WallTime, SteadyTime);

impl Add for Span {
    type Output = Span;
    fn add(self, d: Span) -> Span {
        Span(self.0.saturating_add(d.0))
    }
}

impl Sub for Span {
    type Output = Span;
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

/// The source of a stamp. The order is from the application outwards to the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum StampSource {
    /// The program read the clock itself, around the system call.
    #[default]
    User = 0,
    /// The kernel's network stack, in software (`SO_TIMESTAMPING`).
    Kernel = 1,
    /// The network adapter.
    Hardware = 2,
    /// A packet capture.
    Wire = 3,
}

impl StampSource {
    /// All sources, in the order of their codes.
    pub const ALL: [StampSource; 4] =
        [StampSource::User, StampSource::Kernel, StampSource::Hardware, StampSource::Wire];

    /// The one-letter code of the log formats: `u`, `k`, `h`, `w`.
    pub fn letter(self) -> char {
        ['u', 'k', 'h', 'w'][self as usize]
    }
}

impl fmt::Display for StampSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["user", "kernel", "hardware", "wire"][*self as usize])
    }
}

/// A time with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The time.
    pub at: WallTime,
    /// Its source.
    pub source: StampSource,
}
