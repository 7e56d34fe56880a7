//! Time formats of measurement protocols: NTP (RFC 5905 §6, RFC 4656 §4.1.2), truncated PTPv2 (RFC 8186), and the error
//! estimate that accompanies both.

use crate::clock::SyncState;
use crate::time::{SECOND, Span, WallTime};

/// Seconds from 1900-01-01 to 1970-01-01.
const EPOCH: i128 = 2_208_988_800;
/// Length of an NTP or PTP era in seconds.
const ERA: i128 = 1 << 32;

/// The 64-bit NTP format: 32-bit seconds since 1900 and a 32-bit binary fraction (2⁻³² s ≈ 0.23 ns). The next era
/// begins on 2036-02-07. A value alone is therefore ambiguous, and decoding needs a nearby time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NtpTime(pub u64);

/// The truncated PTPv2 format: 32-bit seconds, 32-bit nanoseconds. The standard requires TAI. jitlat writes UTC, as all
/// known implementations do; a difference of whole seconds must be configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PtpTime(pub u64);

/// Returns `n / d` rounded to the nearest integer, for `d` > 0.
fn rounded(n: i128, d: i128) -> i128 {
    (n + d / 2).div_euclid(d)
}

/// Returns `t` in units of 2⁻³² s since 1970, rounded to the nearest unit.
fn units_of(t: WallTime) -> i128 {
    let (seconds, nanos) = (t.0.div_euclid(SECOND), t.0.rem_euclid(SECOND) as u64);
    // The fraction of a second fits into 64 bits.
    let fraction = ((nanos << 32) + SECOND as u64 / 2) / SECOND as u64;
    (i128::from(seconds) << 32) + i128::from(fraction)
}

impl From<WallTime> for NtpTime {
    /// Converts to the nearest representable value. Converting it back gives the same nanosecond.
    fn from(t: WallTime) -> NtpTime {
        NtpTime((units_of(t) + (EPOCH << 32)) as u64)
    }
}

impl NtpTime {
    /// Returns the time nearest to `near` that this value may represent. The result is correct if it is
    /// within 68 years of `near`.
    pub fn to_nanos(self, near: WallTime) -> WallTime {
        let difference = self.0.wrapping_sub(NtpTime::from(near).0) as i64;
        // Count from the preceding whole second, which makes rounding independent of `near`.
        let base = units_of(near) + i128::from(difference);
        WallTime(rounded(base * i128::from(SECOND), 1 << 32).clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// Converts a span, such as a timeout or the interval of a slot. Negative spans become zero, spans that are too
    /// long become the maximum.
    pub fn from_span(span: Span) -> NtpTime {
        let units = rounded(i128::from(span.0.max(0)) << 32, SECOND.into());
        NtpTime(u64::try_from(units).unwrap_or(u64::MAX))
    }

    /// Converts to a span.
    pub fn to_span(self) -> Span {
        Span(rounded(i128::from(self.0) * i128::from(SECOND), 1 << 32) as i64)
    }
}

impl From<WallTime> for PtpTime {
    fn from(t: WallTime) -> PtpTime {
        let seconds = t.0.div_euclid(SECOND) as u32;
        PtpTime(u64::from(seconds) << 32 | t.0.rem_euclid(SECOND) as u64)
    }
}

impl PtpTime {
    /// Returns the time nearest to `near` that this value may represent; `None` if its nanoseconds are
    /// invalid.
    pub fn to_nanos(self, near: WallTime) -> Option<WallTime> {
        let nanos = i128::from(self.0 as u32);
        if nanos >= i128::from(SECOND) {
            return None;
        }
        let seconds = i128::from(self.0 >> 32);
        let here = i128::from(near.0.div_euclid(SECOND));
        let era = (here - seconds + ERA / 2).div_euclid(ERA);
        let t = (seconds + era * ERA) * i128::from(SECOND) + nanos;
        Some(WallTime(t.clamp(i64::MIN.into(), i64::MAX.into()) as i64))
    }
}

/// The 16-bit error estimate of a clock (RFC 4656 §4.1.2, RFC 8186 §2.1): flags S and Z, scale, and multiplier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorEstimate(pub u16);

/// Format of a sender's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeFormat {
    /// NTP (Z = 0).
    #[default]
    Ntp,
    /// Truncated PTPv2 (Z = 1).
    Ptp,
}

const SYNCHRONISED: u16 = 0x8000;
const PTP: u16 = 0x4000;

impl ErrorEstimate {
    /// Error estimate for an unknown clock: not synchronised, with the smallest valid multiplier.
    pub const UNKNOWN: ErrorEstimate = ErrorEstimate(1);

    /// Returns the smallest representable estimate that is at least `error`.
    pub fn new(synchronised: bool, format: TimeFormat, error: Span) -> ErrorEstimate {
        let mut units = ((i128::from(error.0.max(0)) << 32) + i128::from(SECOND) - 1) / i128::from(SECOND);
        let mut scale = 0;
        // The multiplier has eight bits.
        while units > 255 {
            units = (units + 1) >> 1;
            scale += 1;
        }
        let multiplier = units.max(1) as u16;
        let s = if synchronised { SYNCHRONISED } else { 0 };
        let z = if format == TimeFormat::Ptp { PTP } else { 0 };
        ErrorEstimate(s | z | scale << 8 | multiplier)
    }

    /// Returns the error estimate for a kernel's clock state: its maximum error if the clock is synchronised, otherwise
    /// [`UNKNOWN`](ErrorEstimate::UNKNOWN).
    pub fn of_clock(state: Option<SyncState>, format: TimeFormat) -> ErrorEstimate {
        match state {
            Some(s) => ErrorEstimate::new(s.synchronised, format, s.maximum_error),
            None => ErrorEstimate::new(false, format, Span::ZERO),
        }
    }

    /// Returns S: true if an external source synchronises the clock to UTC.
    pub fn synchronised(self) -> bool {
        self.0 & SYNCHRONISED != 0
    }

    /// Returns Z: the format of the times that accompany the estimate.
    pub fn format(self) -> TimeFormat {
        if self.0 & PTP != 0 { TimeFormat::Ptp } else { TimeFormat::Ntp }
    }

    /// Returns the same estimate for times in `format`.
    pub fn with_format(self, format: TimeFormat) -> ErrorEstimate {
        let z = if format == TimeFormat::Ptp { PTP } else { 0 };
        ErrorEstimate(self.0 & !PTP | z)
    }

    /// Returns true if the estimate is valid. A multiplier of zero means that the packet is corrupt.
    pub fn is_valid(self) -> bool {
        self.0 & 0xff != 0
    }

    /// Returns multiplier × 2^(scale − 32) s, rounded up. Saturates at the longest span.
    pub fn error(self) -> Span {
        let units = i128::from(self.0 & 0xff) << (self.0 >> 8 & 0x3f);
        let ns = (units * i128::from(SECOND) + (1 << 32) - 1) >> 32;
        Span(i64::try_from(ns).unwrap_or(i64::MAX))
    }

    /// Encodes `t` as a 64-bit field in this estimate's format.
    pub fn encode(self, t: WallTime) -> u64 {
        match self.format() {
            TimeFormat::Ntp => NtpTime::from(t).0,
            TimeFormat::Ptp => PtpTime::from(t).0,
        }
    }

    /// Decodes a 64-bit field in this estimate's format to the time nearest to `near`; `None` if it is
    /// invalid. An all-zero field means "no time" in both formats.
    pub fn decode(self, field: u64, near: WallTime) -> Option<WallTime> {
        match self.format() {
            _ if field == 0 => None,
            TimeFormat::Ntp => Some(NtpTime(field).to_nanos(near)),
            TimeFormat::Ptp => PtpTime(field).to_nanos(near),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: WallTime = WallTime(1_795_176_909_770_314_159);
    const ROLLOVER: i64 = 2_085_978_496;

    #[test]
    fn known_values() {
        assert_eq!(NtpTime::from(WallTime(0)).0, 2_208_988_800 << 32);
        assert_eq!(NtpTime::from(WallTime(SECOND / 2)).0, (2_208_988_800 << 32) + (1 << 31));
        // First second of the next era (2036-02-07 06:28:16 UTC).
        assert_eq!(NtpTime::from(WallTime(ROLLOVER * SECOND)).0, 0);
        assert_eq!(NtpTime::from_span(Span::millis(20)).0, 0x051e_b852);
        assert_eq!(PtpTime::from(NOW).0, 1_795_176_909 << 32 | 770_314_159);
        assert_eq!(PtpTime(1 << 32 | 1_000_000_000).to_nanos(NOW), None);
    }

    #[test]
    fn eras_are_resolved_by_the_nearest() {
        for t in [ROLLOVER - 1, ROLLOVER, ROLLOVER + 1].map(|s| WallTime(s * SECOND + 7)) {
            for years in [-60, 0, 60] {
                let near = t + Span::seconds(years * 365 * 86_400);
                assert_eq!(NtpTime::from(t).to_nanos(near), t);
                assert_eq!(PtpTime::from(t).to_nanos(near), Some(t));
            }
        }
    }

    #[test]
    fn estimates() {
        let e = ErrorEstimate::new(true, TimeFormat::Ptp, Span::millis(3));
        assert!(e.synchronised() && e.format() == TimeFormat::Ptp && e.is_valid());
        assert!(e.error() >= Span::millis(3) && e.error().0 < 3_030_000, "{:?}", e.error());
        assert_eq!(
            e.with_format(TimeFormat::Ntp),
            ErrorEstimate::new(true, TimeFormat::Ntp, Span::millis(3))
        );
        assert!(!ErrorEstimate(0x8000).is_valid());
        assert_eq!(ErrorEstimate::new(false, TimeFormat::Ntp, Span::ZERO), ErrorEstimate::UNKNOWN);
        assert_eq!(ErrorEstimate(0x3fff).error(), Span(i64::MAX));
    }

    proptest! {
        #[test]
        fn every_nanosecond_survives(t in any::<i64>(), drift in -(1i64 << 60)..1i64 << 60) {
            prop_assert_eq!(units_of(WallTime(t)), rounded(i128::from(t) << 32, SECOND.into()));
            let t = WallTime(t / 4);
            prop_assert_eq!(NtpTime::from(t).to_nanos(t + Span(drift)), t);
            prop_assert_eq!(PtpTime::from(t).to_nanos(t + Span(drift)), Some(t));
        }

        #[test]
        fn an_estimate_never_understates(ns in 0i64..i64::MAX) {
            let e = ErrorEstimate::new(true, TimeFormat::Ntp, Span(ns)).error().0;
            prop_assert!(e >= ns && (e as f64) <= ns as f64 * 1.01 + 1.0, "{ns} {e}");
        }
    }
}
