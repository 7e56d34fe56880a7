//! [`NoiseFloor`]: the noise that a host adds to measurements. [`Noise`]: the figures of a test that do not exceed this
//! noise (metrics §22).

use crate::distribution::Distribution;
use crate::distribution::percentile::Percent;
use crate::time::Span;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// Noise of a host: its clock, its wake-up errors, and the delay variation of a stream of the same size and period that
/// does not leave the host. Times are in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoiseFloor {
    /// Median time to read the clock.
    pub clock_read: Span,
    /// Longest time to read the clock.
    pub clock_stall: Span,
    /// Median wake-up error at the period of the test.
    pub wake_p50: Span,
    /// 99th percentile of the wake-up error at the period of the test.
    pub wake_p99: Span,
    /// Number of packets of the loopback baseline.
    pub packets: u64,
    /// PDV of the loopback baseline: 50th percentile.
    pub pdv_p50: Span,
    /// PDV of the loopback baseline: 90th percentile.
    pub pdv_p90: Span,
    /// PDV of the loopback baseline: 99th percentile.
    pub pdv_p99: Span,
    /// PDV of the loopback baseline: 99.9th percentile, or the largest value if there are fewer than a
    /// thousand packets.
    pub pdv_p999: Span,
    /// PDV of the loopback baseline: largest value.
    pub pdv_max: Span,
    /// Standard deviation of the baseline's delay.
    pub stddev: Span,
}

/// Multiple of the noise floor below which a percentile may be caused by the host itself.
const MARGIN: i64 = 2;

impl NoiseFloor {
    /// Returns the noise floor of PDV at percentile `p`: the baseline's value at the nearest percentile that is not
    /// above `p`. `None` below the median.
    pub fn pdv(&self, p: Percent) -> Option<Span> {
        match p.0 {
            0..50_000 => None,
            50_000..90_000 => Some(self.pdv_p50),
            90_000..99_000 => Some(self.pdv_p90),
            99_000..99_900 => Some(self.pdv_p99),
            99_900..100_000 => Some(self.pdv_p999),
            _ => Some(self.pdv_max),
        }
    }

    /// Returns true if a PDV of `value` ns at percentile `p` cannot be distinguished from the host's own
    /// noise.
    pub fn covers(&self, p: Percent, value: i64) -> bool {
        self.pdv(p).is_some_and(|floor| value <= floor.0.saturating_mul(MARGIN))
    }

    const KEYS: [&'static str; 11] = [
        "clock_read",
        "clock_stall",
        "wake_p50",
        "wake_p99",
        "packets",
        "pdv_p50",
        "pdv_p90",
        "pdv_p99",
        "pdv_p999",
        "pdv_max",
        "stddev",
    ];

    fn values(&self) -> [i64; 11] {
        [
            self.clock_read.0,
            self.clock_stall.0,
            self.wake_p50.0,
            self.wake_p99.0,
            self.packets as i64,
            self.pdv_p50.0,
            self.pdv_p90.0,
            self.pdv_p99.0,
            self.pdv_p999.0,
            self.pdv_max.0,
            self.stddev.0,
        ]
    }
}

/// Formats as one line of a log's header, with times in ns: `clock_read=25 clock_stall=… …`.
impl fmt::Display for NoiseFloor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in NoiseFloor::KEYS.iter().zip(self.values()).enumerate() {
            write!(f, "{}{key}={value}", if i > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// Error: the text does not describe a [`NoiseFloor`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' has no {key}= with a number of nanoseconds")]
pub struct NoNoise {
    text: String,
    key: &'static str,
}

impl FromStr for NoiseFloor {
    type Err = NoNoise;

    /// Parses the form that [`Display`](fmt::Display) writes; unknown keys are ignored.
    fn from_str(text: &str) -> Result<NoiseFloor, NoNoise> {
        let field = |key: &'static str| {
            let found = text.split_ascii_whitespace().find_map(|w| w.strip_prefix(key)?.strip_prefix('='));
            let value = found.and_then(|v| v.parse::<i64>().ok()).filter(|v| *v >= 0);
            value.ok_or_else(|| NoNoise { text: text.trim().to_owned(), key })
        };
        let mut values = [0; 11];
        for (value, key) in values.iter_mut().zip(NoiseFloor::KEYS) {
            *value = field(key)?;
        }
        let [read, stall, w50, w99, packets, rest @ ..] = values;
        let [p50, p90, p99, p999, max, stddev] = rest.map(Span);
        Ok(NoiseFloor {
            clock_read: Span(read),
            clock_stall: Span(stall),
            wake_p50: Span(w50),
            wake_p99: Span(w99),
            packets: packets as u64,
            pdv_p50: p50,
            pdv_p90: p90,
            pdv_p99: p99,
            pdv_p999: p999,
            pdv_max: max,
            stddev,
        })
    }
}

/// Comparison of a test's figures with the noise floor of its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Noise {
    /// Noise floor, measured before the test.
    pub floor: NoiseFloor,
    /// Percentiles of PDV that cannot be distinguished from the host's own noise because they are below twice the
    /// floor; spelled like the keys of `pdv.percentiles`.
    pub at_or_below: Vec<String>,
    /// Standard deviation of delay without the host's share, in ns: √max(0, σ² − σ_host²). This assumes that the noise
    /// of path and host are independent.
    pub stddev_net: Option<f64>,
}

impl Noise {
    /// Compares the distributions of delay and PDV with `floor`.
    pub fn new(floor: NoiseFloor, latency: &Distribution, pdv: &Distribution) -> Noise {
        let covered =
            |(p, v): &(Percent, Option<i64>)| v.filter(|v| floor.covers(*p, *v)).map(|_| p.to_string());
        let own = floor.stddev.0 as f64;
        Noise {
            floor,
            at_or_below: pdv.percentiles.0.iter().filter_map(covered).collect(),
            stddev_net: latency.stddev.map(|s| (s * s - own * own).max(0.0).sqrt()),
        }
    }

    /// Returns true if percentile `p` of PDV cannot be distinguished from the host's own noise.
    pub fn marks(&self, p: Percent) -> bool {
        self.at_or_below.contains(&p.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor() -> NoiseFloor {
        let values: Vec<String> =
            NoiseFloor::KEYS.iter().zip(1..).map(|(k, v)| format!("{k}={}", v * 100)).collect();
        values.join(" ").parse().unwrap()
    }

    #[test]
    fn text_and_back() {
        let text = floor().to_string();
        assert_eq!(text.parse(), Ok(floor()));
        assert_eq!((floor().packets, floor().pdv_p99, floor().stddev), (500, Span(800), Span(1100)));
        assert!("clock_read=1".parse::<NoiseFloor>().is_err());
        assert!(text.replace("stddev=1100", "stddev=-1").parse::<NoiseFloor>().is_err());
    }

    #[test]
    fn twice_the_floor_is_still_noise() {
        let floor = floor();
        assert!(floor.covers(Percent(99_000), 1600) && !floor.covers(Percent(99_000), 1601));
        assert!(floor.covers(Percent(99_500), 1600), "between two percentiles the lower floor counts");
        assert!(!floor.covers(Percent(1_000), 0), "below the median nothing is marked");
    }
}
