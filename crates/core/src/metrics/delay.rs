//! Metrics of delay, of PDV (delay above the smallest; metrics §2–5), and of delay including lost packets.

use crate::distribution::percentile::{Method, Percent, Percentiles, rank};
use crate::distribution::sample::Sample;
use serde::{Deserialize, Serialize};

/// The delay of a packet that may be lost; serialised as a number or `"inf"`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Delay {
    /// Delay in ns.
    Finite(f64),
    /// The packet was lost: its delay is infinite.
    Infinite,
}

impl Serialize for Delay {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Delay::Finite(ns) => s.serialize_f64(*ns),
            Delay::Infinite => s.serialize_str("inf"),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Delay {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Delay".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Delay in ns; \"inf\" for a lost packet.",
            "anyOf": [{ "type": "number" }, { "const": "inf" }],
        })
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Delay, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Word(String),
        }
        match Written::deserialize(d)? {
            Written::Number(ns) => Ok(Delay::Finite(ns)),
            Written::Word(word) if word == "inf" => Ok(Delay::Infinite),
            Written::Word(_) => Err(serde::de::Error::custom("expected a number or \"inf\"")),
        }
    }
}

/// Order statistics over all packets sent. Lost packets have infinite delay (RFC 7679 §5.1–5.2). Mean and standard
/// deviation are undefined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Unconditional {
    /// Number of packets sent.
    pub n: u64,
    /// Median delay, in ns.
    pub median: Option<Delay>,
    /// Percentiles of the empirical distribution.
    pub percentiles: Percentiles<Delay>,
}

impl Unconditional {
    /// Computes the statistics of `sample` and of `lost` further packets.
    pub fn new(sample: &Sample, lost: u64, percents: &[Percent]) -> Unconditional {
        let n = sample.len() + lost as usize;
        let at = |k: usize| sample.at(k).map_or(Delay::Infinite, |x| Delay::Finite(x as f64));
        let middle = |k: usize| match (at(k), at(n / 2)) {
            (Delay::Finite(low), Delay::Finite(high)) => Delay::Finite(low + (high - low) / 2.0),
            _ => Delay::Infinite,
        };
        let value = |p: &Percent| (*p, rank(n, *p, Method::Edf).map(at));
        Unconditional {
            n: n as u64,
            median: n.checked_sub(1).map(|last| middle(last / 2)),
            percentiles: Percentiles(percents.iter().map(value).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unconditional(delays: &[i64], lost: u64) -> (Option<Delay>, Option<Delay>) {
        let sample = Sample::new(delays.iter().copied());
        let u = Unconditional::new(&sample, lost, &[Percent(50_000)]);
        (u.median, u.percentiles.at(Percent(50_000)))
    }

    #[test]
    fn examples_of_rfc_7679() {
        // §5.1 to §5.4.
        let first = Sample::new([100, 110, 90, 500].into_iter());
        assert_eq!(unconditional(&[100, 110, 90, 500], 1).1, Some(Delay::Finite(110.0)));
        assert_eq!(first.edf(Percent(50_000)), Some(100));
        let second = Sample::new([100, 110, 90].into_iter());
        assert_eq!(unconditional(&[100, 110, 90], 1).0, Some(Delay::Finite(105.0)));
        assert_eq!((second.median(), second.min()), (Some(100.0), Some(90)));
        // The inverse percentile of 103 is 50 %.
        assert_eq!(first.count_at_most(103), 2);
        assert_eq!(unconditional(&[5], 2).1, Some(Delay::Infinite));
        assert_eq!(serde_json::to_string(&Delay::Infinite).unwrap(), "\"inf\"");
        assert_eq!(unconditional(&[], 0), (None, None));
    }

    #[test]
    fn delays_read_back() {
        for delay in [Delay::Finite(1.5), Delay::Infinite] {
            let written = serde_json::to_string(&delay).unwrap();
            assert_eq!(serde_json::from_str::<Delay>(&written).unwrap(), delay, "{written}");
        }
        assert!(serde_json::from_str::<Delay>("\"infinite\"").is_err());
    }
}
