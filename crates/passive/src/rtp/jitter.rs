//! [`JitterMeter`]: interarrival jitter of all packets of a stream (RFC 3550 §6.4.1, A.8), and gaps between arrivals.

use super::media_clock::{ns, ticks_between};
use jitlat_core::time::{SECOND, Span, WallTime};
use serde::Serialize;

/// Interarrival jitter J of a stream, in ns, over all packets in arrival order, duplicates and late ones included, as a
/// receiver computes it for its RTCP reports. Telephone events are left out, because they repeat a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtpJitter {
    /// J after the last packet.
    pub last_ns: f64,
    /// Mean of J over regular packets. Packets that begin a talk spurt, comfort noise, and the packet after comfort
    /// noise are not regular: each of them counts with the mean so far, as in tshark.
    pub mean_ns: f64,
    /// Largest J of a regular packet.
    pub max_ns: f64,
    /// J after the last packet by the integer algorithm of RFC 3550 A.8, in units of the media clock.
    pub last_units: u32,
}

/// Running jitter of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JitterMeter {
    previous: Option<Arrival>,
    jitter: f64,
    scaled: u64,
    mean: f64,
    packets: u64,
    regular: u64,
    max: f64,
    max_delta: Option<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: WallTime,
    timestamp: u32,
    comfort_noise: bool,
}

/// A packet whose timestamp follows the media clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedPacket {
    pub(super) at: WallTime,
    pub(super) timestamp: u32,
    pub(super) marker: bool,
    pub(super) comfort_noise: bool,
}

impl JitterMeter {
    /// Adds the next packet. `rate` is the rate of the media clock, in Hz.
    pub(super) fn push(&mut self, p: TimedPacket, rate: u32) {
        let TimedPacket { at, timestamp, marker, comfort_noise } = p;
        let Some(before) = self.previous.replace(Arrival { at, timestamp, comfort_noise }) else { return };
        let (delta, step) = (at - before.at, ticks_between(before.timestamp, timestamp));
        let difference = (delta.0.saturating_sub(ns(step, rate))).unsigned_abs();
        self.jitter += (difference as f64 - self.jitter) / 16.0;
        let [now, then] = [at, before.at].map(|t| units(t, rate));
        let difference =
            u64::from(now.wrapping_sub(then).wrapping_sub(step as u32).cast_signed().unsigned_abs());
        self.scaled = self.scaled + difference - ((self.scaled + 8) >> 4);
        self.packets += 1;
        if !(marker || comfort_noise || before.comfort_noise) {
            self.regular += 1;
            self.mean += (self.jitter - self.mean) / self.packets as f64;
            self.max = self.max.max(self.jitter);
            self.max_delta = self.max_delta.max(Some(delta));
        }
    }

    /// Forgets the previous packet, after the sender has set its media clock.
    pub(super) fn forget_previous(&mut self) {
        self.previous = None;
    }

    /// Largest time between two consecutive arrivals of which the second is regular; `None` without regular packets.
    pub(super) fn max_delta(&self) -> Option<Span> {
        self.max_delta
    }

    /// Returns the figures; `None` without regular packets.
    pub(super) fn figures(&self) -> Option<RtpJitter> {
        (self.regular > 0).then(|| RtpJitter {
            last_ns: self.jitter,
            mean_ns: self.mean,
            max_ns: self.max,
            last_units: u32::try_from(self.scaled >> 4).unwrap_or(u32::MAX),
        })
    }
}

/// Converts a time to units of a clock of `rate` Hz, modulo 2^32.
fn units(at: WallTime, rate: u32) -> u32 {
    (i128::from(at.0) * i128::from(rate) / i128::from(SECOND)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MS;

    fn of(arrivals: &[(i64, u32)]) -> JitterMeter {
        let mut meter = JitterMeter::default();
        for (at, timestamp) in arrivals {
            let (at, timestamp) = (WallTime(*at), *timestamp);
            meter.push(TimedPacket { at, timestamp, marker: false, comfort_noise: false }, 8000);
        }
        meter
    }

    #[test]
    fn alternating_transit_in_units_of_the_clock() {
        // Transit alternates between 0 and 160 units, 20 ms: vectors V7 of the metrics page.
        let arrivals = (0..6).map(|k| (k * 20 * MS + k % 2 * 20 * MS, k as u32 * 160));
        let figures = of(&arrivals.collect::<Vec<_>>()).figures().unwrap();
        assert_eq!(figures.last_units, 44);
        assert!((figures.last_ns / 125_000.0 - 44.128_570_556_640_625).abs() < 1e-9, "{figures:?}");
        assert_eq!(figures.max_ns, figures.last_ns);
    }

    #[test]
    fn only_regular_packets_count_for_the_extremes() {
        let mut meter = of(&[(0, 0), (20 * MS, 160)]);
        let mut push = |at: i64, timestamp: u32, marker: bool, comfort_noise: bool| {
            meter.push(TimedPacket { at: WallTime(at * MS), timestamp, marker, comfort_noise }, 8000);
            (meter.max_delta().unwrap().0 / MS, meter.figures().unwrap().max_ns)
        };
        assert_eq!(push(5000, 4000, true, false), (20, 0.0));
        assert_eq!(push(5500, 4160, false, true).0, 20);
        assert_eq!(push(6000, 4320, false, false).0, 20, "follows comfort noise");
        assert_eq!(push(6040, 4480, false, false).0, 40);
        // J is 20 ms / 16 after the irregular packets, so the mean is that of six packets, four of which count with
        // the mean so far.
        let (mean, jitter) = (meter.figures().unwrap().mean_ns, meter.jitter);
        assert!(mean > 0.0 && mean < jitter, "{mean} {jitter}");
        assert!(of(&[(0, 0)]).figures().is_none());
    }

    #[test]
    fn a_clock_that_is_set_makes_no_jitter() {
        let mut meter = of(&[(0, 0), (20 * MS, 160)]);
        meter.forget_previous();
        let at =
            |at, timestamp| TimedPacket { at: WallTime(at), timestamp, marker: false, comfort_noise: false };
        meter.push(at(40 * MS, 900_000), 8000);
        meter.push(at(60 * MS, 900_160), 8000);
        assert_eq!(meter.figures().unwrap().max_ns, 0.0);
    }
}
