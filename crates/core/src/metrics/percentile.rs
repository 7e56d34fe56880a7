//! Percentiles (metrics §3). Ranks are computed in integers.

use serde::{Serialize, Serializer, ser::SerializeMap};

/// A percentage in thousandths: 99.9 % is `Percent(99_900)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(pub u32);

/// The list every summary carries: 50, 90, 95, then the seed's 99.0 … 100.
pub const DEFAULT_PERCENTS: [Percent; 9] = [
    Percent(50_000),
    Percent(90_000),
    Percent(95_000),
    Percent(99_000),
    Percent(99_300),
    Percent(99_500),
    Percent(99_700),
    Percent(99_900),
    Percent(100_000),
];

impl core::fmt::Display for Percent {
    /// Shortest form: `50`, `99.3`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (whole, mut part, mut digits) = (self.0 / 1000, self.0 % 1000, 3);
        if part == 0 {
            return write!(f, "{whole}");
        }
        while part % 10 == 0 {
            (part, digits) = (part / 10, digits - 1);
        }
        write!(f, "{whole}.{part:0digits$}")
    }
}

/// Which definition a percentile follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Smallest sample with F(x) ≥ p (RFC 2330 §11.3): rank ⌈p·n⌉.
    #[default]
    Edf,
    /// Hyndman–Fan type 7: interpolated at (n − 1)·p.
    Linear,
    /// The 2009 tool: 0-based index ⌊p·n⌋, clamped.
    Jitlat1,
}

/// How far a percentile can be resolved by n samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// At least ten samples lie beyond it.
    Good,
    /// Fewer than ten.
    Weak,
    /// Fewer than one: it is the maximum under another name.
    ResolutionLimited,
}

/// Values by percentage, ascending; serialised as a JSON object keyed `"99.3"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentiles<T>(pub Vec<(Percent, Option<T>)>);

impl<T> Default for Percentiles<T> {
    fn default() -> Percentiles<T> {
        Percentiles(Vec::new())
    }
}

impl<T: Copy> Percentiles<T> {
    /// The value at `p`, if it was asked for and exists.
    pub fn at(&self, p: Percent) -> Option<T> {
        self.0.iter().find(|(q, _)| *q == p).and_then(|(_, v)| *v)
    }
}

impl<T: Serialize> Serialize for Percentiles<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.0.len()))?;
        for (p, v) in &self.0 {
            map.serialize_entry(&p.to_string(), v)?;
        }
        map.end()
    }
}
