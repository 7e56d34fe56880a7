//! [`InterfaceHistory`]: state of the interface that a test uses, sampled while the test runs: radio, errors, position.

use crate::time::WallTime;
use serde::{Deserialize, Serialize};

/// A position on the Earth, from a satellite receiver (WGS 84).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Position {
    /// Latitude, in 10⁻⁷ degrees; negative south of the equator.
    pub latitude_e7: i32,
    /// Longitude, in 10⁻⁷ degrees; negative west of Greenwich.
    pub longitude_e7: i32,
    /// Altitude above the ellipsoid, in cm; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altitude_cm: Option<i32>,
    /// Speed over ground, in cm/s; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_cm_s: Option<u32>,
}

impl Position {
    /// Returns the latitude and the longitude in degrees.
    pub fn degrees(&self) -> [f64; 2] {
        [self.latitude_e7, self.longitude_e7].map(|e7| f64::from(e7) / 1e7)
    }
}

/// State of an interface at one moment; `None` if unknown. Counters never restart within a history: they count from an
/// arbitrary start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceSample {
    /// Time of the sample, on the clock of its host.
    pub at: WallTime,
    /// Signal level with which the peer is received, in dBm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_dbm: Option<i16>,
    /// Rate at which frames are sent, in kbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_kbit_s: Option<u64>,
    /// Rate at which frames are received, in kbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_kbit_s: Option<u64>,
    /// Carrier frequency, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_mhz: Option<u32>,
    /// Counter of frames that were sent again because they were not acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// Counter of frames that were given up after the last retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Counter of frames sent or received with errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// Counter of frames that the interface or its driver dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<u64>,
    /// Position of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
}

impl InterfaceSample {
    /// Creates a sample of which only the time is known.
    pub fn at(at: WallTime) -> InterfaceSample {
        InterfaceSample {
            at,
            signal_dbm: None,
            tx_kbit_s: None,
            rx_kbit_s: None,
            frequency_mhz: None,
            retries: None,
            failed: None,
            errors: None,
            drops: None,
            position: None,
        }
    }
}

/// A quantity of an interface that may explain loss or delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceQuantity {
    /// Retries of sent frames, per second.
    Retries,
    /// Frames given up after the last retry, per second.
    Failed,
    /// Signal level.
    Signal,
    /// Rate at which frames are sent.
    TxRate,
    /// Rate at which frames are received.
    RxRate,
    /// Frames with errors, per second.
    Errors,
    /// Frames dropped by the interface, per second.
    Drops,
}

impl InterfaceQuantity {
    /// All quantities, the most direct explanation first.
    pub const ALL: [InterfaceQuantity; 7] = [
        InterfaceQuantity::Retries,
        InterfaceQuantity::Failed,
        InterfaceQuantity::Signal,
        InterfaceQuantity::TxRate,
        InterfaceQuantity::RxRate,
        InterfaceQuantity::Errors,
        InterfaceQuantity::Drops,
    ];

    /// Returns true for counters, false for levels.
    pub fn is_counter(self) -> bool {
        !matches!(self, InterfaceQuantity::Signal | InterfaceQuantity::TxRate | InterfaceQuantity::RxRate)
    }

    /// Returns the value in `sample`: a count, dBm or kbit/s; `None` if unknown.
    pub fn of(self, sample: &InterfaceSample) -> Option<f64> {
        let count = |n: Option<u64>| n.map(|n| n as f64);
        match self {
            InterfaceQuantity::Retries => count(sample.retries),
            InterfaceQuantity::Failed => count(sample.failed),
            InterfaceQuantity::Signal => sample.signal_dbm.map(f64::from),
            InterfaceQuantity::TxRate => count(sample.tx_kbit_s),
            InterfaceQuantity::RxRate => count(sample.rx_kbit_s),
            InterfaceQuantity::Errors => count(sample.errors),
            InterfaceQuantity::Drops => count(sample.drops),
        }
    }
}

/// Maximum number of samples of a test: 17 minutes with one per second. In longer tests every second one is removed, and
/// the interval doubles.
pub const MAX_INTERFACE_SAMPLES: usize = 1024;

/// States of one interface during a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct InterfaceHistory {
    /// Name of the interface on its host: `wlan0`.
    pub name: String,
    /// Samples, ascending in time. Of several consecutive samples without a change, only the first and the last are
    /// stored.
    pub samples: Vec<InterfaceSample>,
}

impl InterfaceHistory {
    /// Adds a sample. A counter that restarted, for example with a new access point, continues from its last value.
    pub fn push(&mut self, mut sample: InterfaceSample, raw: &mut RawCounters) {
        raw.continue_in(&mut sample);
        let unchanged = |a: &InterfaceSample, b: &InterfaceSample| InterfaceSample { at: b.at, ..*a } == *b;
        match &mut self.samples[..] {
            [.., before, last] if unchanged(before, last) && unchanged(last, &sample) => *last = sample,
            _ => self.samples.push(sample),
        }
    }

    /// Removes every second sample but the last if there are too many; returns true if it did.
    pub fn thin(&mut self) -> bool {
        if self.samples.len() <= MAX_INTERFACE_SAMPLES {
            return false;
        }
        let last = self.samples.len() - 1;
        let mut place = 0..;
        self.samples.retain(|_| place.next().is_some_and(|k: usize| k.is_multiple_of(2) || k == last));
        true
    }

    /// Returns true if anything is known about a radio.
    pub fn is_radio(&self) -> bool {
        self.samples
            .iter()
            .any(|s| s.signal_dbm.is_some() || s.frequency_mhz.is_some() || s.retries.is_some())
    }

    /// Returns the increase of a counter, or `None` if it is unknown.
    pub fn increase(&self, quantity: InterfaceQuantity) -> Option<u64> {
        let mut known = self.samples.iter().filter_map(|sample| quantity.of(sample));
        let first = known.next()?;
        Some((known.next_back().unwrap_or(first) - first).max(0.0) as u64)
    }

    /// Returns the smallest, the mean and the largest value of a level over time; `None` if it is unknown.
    pub fn level(&self, quantity: InterfaceQuantity) -> Option<[f64; 3]> {
        let known: Vec<(WallTime, f64)> =
            self.samples.iter().filter_map(|s| Some((s.at, quantity.of(s)?))).collect();
        let (first, last) = (known.first()?, known.last()?);
        let least = known.iter().map(|k| k.1).fold(f64::INFINITY, f64::min);
        let most = known.iter().map(|k| k.1).fold(f64::NEG_INFINITY, f64::max);
        let total = (last.0 - first.0).0 as f64;
        let sum: f64 = known
            .windows(2)
            .map(|pair| (pair[1].0 - pair[0].0).0 as f64 * (pair[0].1 + pair[1].1) / 2.0)
            .sum();
        Some([least, if total > 0.0 { sum / total } else { first.1 }, most])
    }
}

/// Values of counters as the system last reported them, and their offsets after restarts.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawCounters([Option<(u64, u64)>; 4]);

impl RawCounters {
    /// Replaces the counters in `sample` by values that never decrease.
    fn continue_in(&mut self, sample: &mut InterfaceSample) {
        let counters = [&mut sample.retries, &mut sample.failed, &mut sample.errors, &mut sample.drops];
        for (counter, known) in counters.into_iter().zip(&mut self.0) {
            let Some(now) = *counter else { continue };
            let (last, offset) = known.unwrap_or_default();
            let offset = if now < last { offset.saturating_add(last) } else { offset };
            *known = Some((now, offset));
            *counter = Some(now.saturating_add(offset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    fn at(second: i64) -> InterfaceSample {
        InterfaceSample::at(WallTime(0) + Span::seconds(second))
    }

    fn history(samples: impl IntoIterator<Item = InterfaceSample>) -> InterfaceHistory {
        let (mut history, mut raw) = (InterfaceHistory::default(), RawCounters::default());
        samples.into_iter().for_each(|sample| history.push(sample, &mut raw));
        history
    }

    #[test]
    fn of_a_level_stretch_the_ends_are_stored() {
        let signal = |second, dbm| InterfaceSample { signal_dbm: Some(dbm), ..at(second) };
        let h = history((0..10).map(|k| signal(k, if k < 6 { -50 } else { -70 })));
        let stored: Vec<i64> = h.samples.iter().map(|s| s.at.0 / 1_000_000_000).collect();
        assert_eq!(stored, [0, 5, 6, 9]);
        let [least, mean, most] = h.level(InterfaceQuantity::Signal).unwrap();
        assert_eq!((least, most), (-70.0, -50.0));
        // Five seconds at -50, one between, three at -70.
        assert!((mean + (250.0 + 60.0 + 210.0) / 9.0).abs() < 1e-9, "{mean}");
        assert!(h.is_radio() && !InterfaceHistory::default().is_radio());
    }

    #[test]
    fn a_counter_that_restarts_continues() {
        let retries = [Some(100), Some(110), None, Some(3), Some(5), Some(4)];
        let h = history(retries.iter().zip(0..).map(|(n, k)| InterfaceSample { retries: *n, ..at(k) }));
        let seen: Vec<_> = h.samples.iter().map(|s| s.retries).collect();
        assert_eq!(seen, [Some(100), Some(110), None, Some(113), Some(115), Some(119)]);
        assert_eq!(h.increase(InterfaceQuantity::Retries), Some(19));
        assert_eq!(h.increase(InterfaceQuantity::Failed), None);
    }

    #[test]
    fn a_history_of_any_length_has_a_bounded_number_of_samples() {
        let mut h = InterfaceHistory::default();
        let mut raw = RawCounters::default();
        for k in 0..10_000 {
            h.push(InterfaceSample { retries: Some(k as u64), ..at(k) }, &mut raw);
            h.thin();
            assert!(h.samples.len() <= MAX_INTERFACE_SAMPLES);
        }
        assert_eq!(h.increase(InterfaceQuantity::Retries), Some(9_999));
    }
}
