//! [`ScalarUnit`] and [`ExactNumber`]: units of figures, and the formatting of their values.

use crate::units::{bit_rate, eng4, eng4_f64};
use core::fmt;
use serde::{Serialize, Serializer};

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarUnit {
    /// A time in nanoseconds.
    Time,
    /// A ratio, shown in percent.
    Share,
    /// A number of packets.
    Packets,
    /// A number of anything except packets.
    Count,
    /// A number without a unit.
    Plain {
        /// Number of decimals shown.
        decimals: u8,
    },
    /// A rate in packets per second.
    PacketRate,
    /// A rate in bits per second.
    BitRate,
    /// A ratio in parts per million.
    Ppm,
    /// A size in bytes.
    Bytes,
}

/// An exact value of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExactNumber {
    /// An integer value.
    Whole(i64),
    /// Any other number.
    Real(f64),
}

impl ExactNumber {
    /// Converts the number to a double; an integer of more than 53 bits is rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            ExactNumber::Whole(x) => x as f64,
            ExactNumber::Real(x) => x,
        }
    }
}

impl Serialize for ExactNumber {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            ExactNumber::Whole(x) => s.serialize_i64(*x),
            ExactNumber::Real(x) => s.serialize_f64(*x),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ExactNumber {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Number".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number" })
    }
}

impl From<u64> for ExactNumber {
    fn from(x: u64) -> ExactNumber {
        i64::try_from(x).map_or(ExactNumber::Real(x as f64), ExactNumber::Whole)
    }
}

impl From<i64> for ExactNumber {
    fn from(x: i64) -> ExactNumber {
        ExactNumber::Whole(x)
    }
}

impl From<f64> for ExactNumber {
    fn from(x: f64) -> ExactNumber {
        ExactNumber::Real(x)
    }
}

/// Formats the value with all digits, for machine-readable output.
impl fmt::Display for ExactNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExactNumber::Whole(x) => x.fmt(f),
            ExactNumber::Real(x) => x.fmt(f),
        }
    }
}

impl ScalarUnit {
    /// Formats `value` for people.
    pub fn show(self, value: ExactNumber) -> String {
        let x = value.as_f64();
        match (self, value) {
            (ScalarUnit::Time, ExactNumber::Whole(ns)) => eng4(ns),
            (ScalarUnit::Time, ExactNumber::Real(ns)) => eng4_f64(ns),
            (ScalarUnit::Share, _) => percent(x),
            (ScalarUnit::Packets | ScalarUnit::Count | ScalarUnit::Bytes, ExactNumber::Whole(n)) => {
                n.to_string()
            }
            (ScalarUnit::Packets | ScalarUnit::Count | ScalarUnit::Bytes, ExactNumber::Real(n)) => {
                format!("{n:.2}")
            }
            (ScalarUnit::Plain { decimals }, _) => format!("{x:.*}", usize::from(decimals)),
            (ScalarUnit::PacketRate, _) => format!("{x:.2}/s"),
            (ScalarUnit::BitRate, _) => bit_rate(x),
            (ScalarUnit::Ppm, _) => format!("{x:.2} ppm"),
        }
    }

    /// Returns the name of the unit of the values as in JSON: `ns`, `ratio`, `packets`, `count`, `number`, `packets/s`, `bit/s`,
    /// `ppm` or `bytes`.
    pub fn name(self) -> &'static str {
        match self {
            ScalarUnit::Time => "ns",
            ScalarUnit::Share => "ratio",
            ScalarUnit::Packets => "packets",
            ScalarUnit::Count => "count",
            ScalarUnit::Plain { .. } => "number",
            ScalarUnit::PacketRate => "packets/s",
            ScalarUnit::BitRate => "bit/s",
            ScalarUnit::Ppm => "ppm",
            ScalarUnit::Bytes => "bytes",
        }
    }

    /// Returns the suffix of a column name.
    pub fn column_suffix(self) -> &'static str {
        match self {
            ScalarUnit::Time => "ns",
            ScalarUnit::Share => "ratio",
            ScalarUnit::PacketRate => "pps",
            ScalarUnit::BitRate => "bps",
            ScalarUnit::Ppm => "ppm",
            ScalarUnit::Bytes => "bytes",
            ScalarUnit::Packets | ScalarUnit::Count | ScalarUnit::Plain { .. } => "",
        }
    }

    /// Returns the suffix of a metric's name for its base unit.
    pub fn base_suffix(self) -> &'static str {
        match self {
            ScalarUnit::Time => "seconds",
            other => other.column_suffix(),
        }
    }

    /// Converts `value` to base units: seconds, ratios.
    pub fn in_base(self, value: ExactNumber) -> f64 {
        match self {
            ScalarUnit::Time => value.as_f64() / 1e9,
            _ => value.as_f64(),
        }
    }
}

/// Formats a share in percent with two decimals, or with two significant digits if both decimals would be zero.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let decimals = match percent.abs() {
        x if x > 0.0 && x < 0.01 => (1.0 - x.log10().floor()).min(9.0) as usize,
        _ => 2,
    };
    format!("{percent:.decimals$}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_their_unit() {
        for (unit, value, text) in [
            (ScalarUnit::Time, ExactNumber::Whole(1_614_710_000), "1.615 s"),
            (ScalarUnit::Time, ExactNumber::Real(-80.5), "-80.50 ns"),
            (ScalarUnit::Share, ExactNumber::Real(0.0125), "1.25%"),
            (ScalarUnit::Share, ExactNumber::Real(0.0), "0.00%"),
            (ScalarUnit::Share, ExactNumber::Real(0.000_012_3), "0.0012%"),
            (ScalarUnit::Share, ExactNumber::Real(1e-300), "0.000000000%"),
            (ScalarUnit::Packets, ExactNumber::Whole(5), "5"),
            (ScalarUnit::Packets, ExactNumber::Real(1.5), "1.50"),
            (ScalarUnit::Plain { decimals: 3 }, ExactNumber::Real(4.2), "4.200"),
            (ScalarUnit::PacketRate, ExactNumber::Real(50.0), "50.00/s"),
            (ScalarUnit::Ppm, ExactNumber::Real(-12.345), "-12.35 ppm"),
        ] {
            assert_eq!(unit.show(value), text);
        }
        assert_eq!(ExactNumber::from(u64::MAX), ExactNumber::Real(u64::MAX as f64));
        assert_eq!(ExactNumber::from(1_763_697_000_000_000_001i64).to_string(), "1763697000000000001");
        assert_eq!(ScalarUnit::Time.in_base(ExactNumber::Whole(1_500_000_000)), 1.5);
    }
}
