//! [`NoiseFloor`]: what a host adds to every figure measured on it, and which figures of a test are no larger
//! than that (metrics §22).

use crate::distribution::Distribution;
use crate::distribution::percentile::Percent;
use crate::time::Span;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// What a host adds by itself: how it keeps time, how late it wakes up, and the delay of a stream of the same size and
/// period through this host alone. Times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoiseFloor {
    /// Median cost of reading the clock.
    pub clock_read: Span,
    /// The longest single reading seen.
    pub clock_stall: Span,
    /// Median wake-up error at the test's period.
    pub wake_p50: Span,
    /// 99th percentile of the wake-up error.
    pub wake_p99: Span,
    /// Packets of the loopback baseline.
    pub packets: u64,
    /// Their delay above the smallest: 50th percentile.
    pub pdv_p50: Span,
    /// 90th percentile.
    pub pdv_p90: Span,
    /// 99th percentile.
    pub pdv_p99: Span,
    /// 99.9th percentile; with fewer than a thousand packets the largest.
    pub pdv_p999: Span,
    /// Largest.
    pub pdv_max: Span,
    /// Standard deviation of their delay.
    pub stddev: Span,
}

/// A percentile below this many times the host's own may be caused by the host.
const MARGIN: i64 = 2;

impl NoiseFloor {
    /// The floor of percentile `p` of PDV: the baseline's at the nearest percentile not above it. `None` below the
    /// median.
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

    /// Whether a PDV of `value` ns at percentile `p` cannot be distinguished from the host's own.
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

/// `clock_read=25 clock_stall=… …`: one line of a log's header, in ns.
impl fmt::Display for NoiseFloor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in NoiseFloor::KEYS.iter().zip(self.values()).enumerate() {
            write!(f, "{}{key}={value}", if i > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// Not the text of a [`NoiseFloor`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' lacks {key}= with a number of nanoseconds")]
pub struct NoNoise {
    text: String,
    key: &'static str,
}

impl FromStr for NoiseFloor {
    type Err = NoNoise;

    /// Parses what [`Display`](fmt::Display) writes; further keys are skipped.
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

/// A test's figures compared with its host's noise floor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Noise {
    /// The floor, measured before the test.
    pub floor: NoiseFloor,
    /// Percentiles of PDV that cannot be distinguished from the host's own: below twice the floor. As keys of
    /// `pdv.percentiles`.
    pub at_or_below: Vec<String>,
    /// Standard deviation of the delay without the host's share, in ns, assuming that the two are independent: √max(0,
    /// σ² − σ_host²).
    pub stddev_net: Option<f64>,
}

impl Noise {
    /// From the distributions of delay and PDV.
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

    /// Whether percentile `p` of PDV does not exceed the host's own.
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
