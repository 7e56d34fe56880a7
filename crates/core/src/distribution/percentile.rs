//! Percentiles (metrics §3). Ranks are computed in integers.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};
use std::collections::BTreeMap;

/// A percentage in thousandths of a percent: 99.9 % is `Percent(99_900)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(pub u32);

/// Percentages in every summary: 50, 90 and 95, and those of the original tool, 99.0 to 100.
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
    /// Formats in the shortest form: `50`, `99.3`.
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

impl core::str::FromStr for Percent {
    type Err = NotAPercent;

    /// Parses the form that [`Display`](core::fmt::Display) writes: 0 to 100, at most three decimals.
    fn from_str(text: &str) -> Result<Percent, NotAPercent> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |s: &str| (!s.is_empty() && s.len() <= 3).then(|| s.parse::<u32>().ok()).flatten();
        let thousandths = digits(part).map(|p| p * 10u32.pow(3 - part.len() as u32));
        let milli = digits(whole).zip(thousandths).map(|(w, p)| w * 1000 + p).filter(|m| *m <= 100_000);
        milli.map(Percent).ok_or(NotAPercent)
    }
}

/// Error: not a percentage between 0 and 100 with at most three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a percentage from 0 to 100 with at most three decimals")]
pub struct NotAPercent;

/// Definition of a percentile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Smallest sample with F(x) ≥ p (RFC 2330 §11.3): rank ⌈p·n⌉.
    #[default]
    Edf,
    /// Hyndman–Fan type 7: interpolated at index (n − 1)·p.
    Linear,
    /// Definition of the original tool: 0-based index ⌊p·n⌋, clamped.
    Jitlat1,
}

/// Precision with which a sample of n values determines a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PercentileResolution {
    /// At least ten samples lie beyond the percentile.
    Good,
    /// Fewer than ten samples lie beyond the percentile.
    Weak,
    /// Less than one sample lies beyond the percentile, which is therefore the maximum.
    ResolutionLimited,
}

/// Values by percentage, ascending; serialised as a JSON object with keys such as `"99.3"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentiles<T>(pub Vec<(Percent, Option<T>)>);

impl<T> Default for Percentiles<T> {
    fn default() -> Percentiles<T> {
        Percentiles(Vec::new())
    }
}

impl<T: Copy> Percentiles<T> {
    /// Returns the value at `p`; `None` if it was not requested or is undefined.
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

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Percentiles<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("PercentilesOf{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        BTreeMap::<String, Option<T>>::json_schema(generator)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Percentiles<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Percentiles<T>, D::Error> {
        let by_name = BTreeMap::<String, Option<T>>::deserialize(d)?;
        let mut all = BTreeMap::new();
        for (name, value) in by_name {
            let p: Percent = name.parse().map_err(de::Error::custom)?;
            // "99" and "99.0" are the same percentage.
            if all.insert(p, value).is_some() {
                return Err(de::Error::custom(format_args!("percentile {p} twice")));
            }
        }
        Ok(Percentiles(all.into_iter().collect()))
    }
}

/// Returns the 0-based rank of percentile `p` among `n` sorted values; `None` for n = 0. Computed in integers, because
/// in doubles 99.9/100·2000 is 1998.0000000000002, whose ceiling is one too high. The linear method interpolates
/// between two ranks, of which the lower one is returned.
pub fn rank(n: usize, p: Percent, method: Method) -> Option<usize> {
    let last = n.checked_sub(1)?;
    let (n, p) = (n as u128, u128::from(p.0));
    Some(match method {
        Method::Edf => ((p * n).div_ceil(100_000).saturating_sub(1) as usize).min(last),
        Method::Jitlat1 => ((p * n / 100_000) as usize).min(last),
        Method::Linear => ((p * last as u128 / 100_000) as usize).min(last),
    })
}

/// Returns the precision with which `n` values determine percentile `p`. The minimum and the maximum are always exact.
pub fn resolution(n: u64, p: Percent) -> PercentileResolution {
    let beyond = u128::from(n) * u128::from(100_000u32.saturating_sub(p.0));
    match beyond {
        _ if p.0 >= 100_000 => PercentileResolution::Good,
        0..100_000 => PercentileResolution::ResolutionLimited,
        100_000..1_000_000 => PercentileResolution::Weak,
        _ => PercentileResolution::Good,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_read_once() {
        let read = |text| serde_json::from_str::<Percentiles<f64>>(text);
        assert_eq!(
            read(r#"{"99": 2.0, "5": 1.0}"#).unwrap().0,
            [(Percent(5_000), Some(1.0)), (Percent(99_000), Some(2.0))]
        );
        assert!(read(r#"{"99": 2.0, "99.0": 1.0}"#).unwrap_err().to_string().contains("percentile 99 twice"));
    }

    #[test]
    fn ranks_are_computed_in_integers() {
        assert_eq!(rank(2000, Percent(99_900), Method::Edf), Some(1997));
        assert_eq!(rank(1000, Percent(99_900), Method::Edf), Some(998));
        assert_eq!(rank(1000, Percent(99_900), Method::Jitlat1), Some(999));
        assert_eq!(rank(1, Percent(0), Method::Edf), Some(0));
        assert_eq!(rank(0, Percent(50_000), Method::Edf), None);
    }

    #[test]
    fn names() {
        assert_eq!(
            [Percent(50_000), Percent(99_300), Percent(99_999), Percent(500)].map(|p| p.to_string()),
            ["50", "99.3", "99.999", "0.5"]
        );
        let p = Percentiles(vec![(Percent(99_900), Some(7)), (Percent(100_000), None)]);
        assert_eq!(serde_json::to_string(&p).unwrap(), r#"{"99.9":7,"100":null}"#);
    }

    #[test]
    fn small_samples_resolve_little() {
        assert_eq!(resolution(1000, Percent(99_900)), PercentileResolution::Weak);
        assert_eq!(resolution(999, Percent(99_900)), PercentileResolution::ResolutionLimited);
        assert_eq!(resolution(10_000, Percent(99_900)), PercentileResolution::Good);
    }
}
