//! [`MediaClock`]: send times of packets from their timestamps. [`RateEstimate`]: clock rate of an unknown format.

use jitlat_core::time::{SECOND, Span, WallTime};
use serde::Serialize;

/// Clock rates in use, in Hz.
pub(crate) const RATES: [u32; 10] =
    [8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 90_000];
/// Maximum relative difference between an estimated rate and the rate in use: about twice the error that 10 ms of
/// jitter cause.
const MAX_RATE_ERROR: f64 = 0.01;
/// Number of packets with which the clock rate is first estimated.
const MIN_ESTIMATE_PACKETS: u64 = 32;
/// Minimum time that the packets of an estimate cover.
const MIN_ESTIMATE_SPAN: Span = Span::millis(500);
/// Difference between the steps of timestamp and arrival above which the sender may have set its media clock.
const MAX_CLOCK_STEP: Span = Span::seconds(1);

/// Source of a clock rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClockRateSource {
    /// The payload type has an assigned rate (RFC 3551).
    Assigned,
    /// The call's session description (SDP) contains the rate.
    Signalled,
    /// The user gave the rate.
    Given,
    /// The rate was estimated from timestamps and arrivals.
    Estimated,
}

/// Returns the duration of `ticks` of a clock of `rate` Hz, in ns.
pub(super) fn ns(ticks: i64, rate: u32) -> i64 {
    // A stream has less than 2^63 ns of ticks in any lifetime; forged timestamps saturate.
    let ns = i128::from(ticks) * i128::from(SECOND) / i128::from(rate.max(1));
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN / 4 } else { i64::MAX / 4 })
}

/// Returns the signed difference of two timestamps of 32 bits.
pub(super) fn ticks_between(earlier: u32, later: u32) -> i64 {
    i64::from(later.wrapping_sub(earlier) as i32)
}

/// Media clock of a sender, related to the clock of the capture at the stream's first packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct MediaClock {
    rate: u32,
    /// Send time of the packet from which `ticks` are counted.
    anchor: WallTime,
    /// Ticks from the anchor to the last packet.
    ticks: i64,
    timestamp: u32,
    arrived: WallTime,
    sent: WallTime,
}

impl MediaClock {
    /// Starts the clock with a packet that is assumed to have been sent at `sent`.
    pub(super) fn start(rate: u32, timestamp: u32, sent: WallTime, arrived: WallTime) -> MediaClock {
        MediaClock { rate, anchor: sent, ticks: 0, timestamp, arrived, sent }
    }

    /// Delay of the last packet relative to that of the first.
    pub(super) fn last_delay(&self) -> Span {
        self.arrived - self.sent
    }

    /// True if the timestamp stopped for longer than it may while the time went on: the sender paused, or the path
    /// stalled.
    pub(super) fn stopped(&self, timestamp: u32, arrived: WallTime) -> bool {
        let sending = ns(ticks_between(self.timestamp, timestamp), self.rate);
        let late = (arrived - self.arrived).0.saturating_sub(sending);
        (0..=MAX_CLOCK_STEP.0).contains(&sending) && late > MAX_CLOCK_STEP.0
    }

    /// Returns the send time of a packet that was sent before the last one, or again. It does not become the last one,
    /// so that its delay, of any length, affects no other packet.
    pub(super) fn sent_before(&self, timestamp: u32) -> WallTime {
        let ticks = self.ticks.saturating_add(ticks_between(self.timestamp, timestamp));
        WallTime(self.anchor.0.saturating_add(ns(ticks, self.rate)))
    }

    /// Handles the next packet that is newer than all before. Returns its send time, and true if the sender has set its media clock
    /// to another time. The packet is then assumed to have the delay of the previous one. `resumes` is true if the
    /// packet is known to be the first after a pause of the sender, `follows` if no packet is missing before it.
    pub(super) fn push(
        &mut self,
        timestamp: u32,
        arrived: WallTime,
        resumes: bool,
        follows: bool,
    ) -> (WallTime, bool) {
        let step = ticks_between(self.timestamp, timestamp);
        let (sending, arriving) = (Span(ns(step, self.rate)), arrived - self.arrived);
        let apart = Span(sending.0.saturating_sub(arriving.0).saturating_abs());
        let far = sending.0.saturating_abs() > MAX_CLOCK_STEP.0;
        // After a stall of the path, timestamps continue as before. Only a sender makes them leap, or stop in silence.
        let set = follows && apart > MAX_CLOCK_STEP && (resumes || far);
        if set {
            *self = MediaClock::start(self.rate, timestamp, arrived - self.last_delay(), arrived);
        } else {
            self.ticks = self.ticks.saturating_add(step);
            self.timestamp = timestamp;
            self.arrived = arrived;
            self.sent = WallTime(self.anchor.0.saturating_add(ns(self.ticks, self.rate)));
        }
        (self.sent, set)
    }
}

/// Estimate of a clock rate: slope of the timestamps over the arrivals (least squares).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateEstimate {
    packets: u64,
    first: Option<(WallTime, u32)>,
    last_ticks: i64,
    last_timestamp: u32,
    span: Span,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl RateEstimate {
    /// Adds the next packet.
    pub(super) fn push(&mut self, arrived: WallTime, timestamp: u32) {
        let (began, _) = *self.first.get_or_insert_with(|| {
            self.last_timestamp = timestamp;
            (arrived, timestamp)
        });
        self.last_ticks = self.last_ticks.saturating_add(ticks_between(self.last_timestamp, timestamp));
        self.last_timestamp = timestamp;
        self.span = self.span.max(arrived - began);
        let (x, y) = ((arrived - began).as_seconds(), self.last_ticks as f64);
        self.packets += 1;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    /// True if the rate should be estimated now: the number of packets has doubled since the last estimate.
    pub(super) fn is_due(&self) -> bool {
        self.packets >= MIN_ESTIMATE_PACKETS && self.packets.is_power_of_two()
    }

    /// Returns the rate in use that agrees with the packets so far; `None` if there is none.
    pub(super) fn rate(&self) -> Option<u32> {
        if self.packets < MIN_ESTIMATE_PACKETS / 2 || self.span < MIN_ESTIMATE_SPAN {
            return None;
        }
        let n = self.packets as f64;
        let slope = (n * self.xy - self.x * self.y) / (n * self.xx - self.x * self.x);
        RATES.into_iter().find(|rate| (slope / f64::from(*rate) - 1.0).abs() <= MAX_RATE_ERROR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MS;

    #[test]
    fn the_rate_is_found_in_spite_of_jitter() {
        for rate in RATES {
            let mut estimate = RateEstimate::default();
            for k in 0..64i64 {
                let timestamp = (u32::MAX - 5000).wrapping_add((k * i64::from(rate) / 50) as u32);
                estimate.push(WallTime(k * 20 * MS + k * 7919 % 5 * MS), timestamp);
            }
            assert!(estimate.is_due());
            assert_eq!(estimate.rate(), Some(rate));
        }
        // A clock of 10 kHz is not in use, and a few packets show nothing.
        let mut odd = RateEstimate::default();
        (0..64).for_each(|k| odd.push(WallTime(k * 20 * MS), k as u32 * 200));
        assert_eq!(odd.rate(), None);
        let mut short = RateEstimate::default();
        (0..20).for_each(|k| short.push(WallTime(k * 20 * MS), k as u32 * 160));
        assert_eq!(short.rate(), None);
    }

    fn clock(packets: &[(i64, u32, bool)]) -> Vec<(i64, bool)> {
        let (at, timestamp, _) = packets[0];
        let mut clock = MediaClock::start(8000, timestamp, WallTime(at * MS), WallTime(at * MS));
        let mut sent = |(at, timestamp, marker): &(i64, u32, bool)| {
            let (sent, set) = clock.push(*timestamp, WallTime(at * MS), *marker, true);
            (sent.0 / MS, set)
        };
        packets[1..].iter().map(&mut sent).collect()
    }

    #[test]
    fn silence_is_no_delay_and_a_stall_is_no_silence() {
        // Silence of 5 s, in which the timestamp advances, then a stall of 3 s after which two packets arrive together.
        let talk = [
            (0, 0, false),
            (20, 160, false),
            (5020, 40_160, true),
            (8040, 40_320, false),
            (8041, 40_480, false),
        ];
        assert_eq!(clock(&talk), [(20, false), (5020, false), (5040, false), (5060, false)]);
    }

    #[test]
    fn a_media_clock_that_is_set_anew_changes_no_delay() {
        // The timestamp begins elsewhere; in the second talk it did not advance during the silence.
        let leap = [(0, 0, false), (25, 160, false), (45, 3_000_000, false), (65, 3_000_160, false)];
        assert_eq!(clock(&leap), [(20, false), (40, true), (60, false)]);
        let stood = [(0, 0, false), (20, 160, false), (5020, 320, true), (5040, 480, false)];
        assert_eq!(clock(&stood), [(20, false), (5020, true), (5040, false)]);
    }

    #[test]
    fn ticks_become_ns() {
        assert_eq!((ns(160, 8000), ns(-160, 8000), ns(1, 90_000)), (20 * MS, -20 * MS, 11_111));
        assert_eq!(ns(i64::MAX, 1), i64::MAX / 4);
        assert_eq!((ticks_between(u32::MAX, 0), ticks_between(0, u32::MAX)), (1, -1));
    }
}
