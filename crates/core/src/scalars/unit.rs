//! [`Unit`] and [`Number`]: the units of figures, and how values are written.

use crate::units::{bit_rate, eng4, eng4_f64};
use core::fmt;
use serde::{Serialize, Serializer};

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// A ratio, shown in percent.
    Share,
    /// Packets.
    Packets,
    /// A count of other things.
    Count,
    /// A number without a unit, shown with so many decimals.
    Plain {
        /// Number of decimals shown.
        decimals: u8,
    },
    /// Packets a second.
    PacketRate,
    /// Bits a second.
    BitRate,
    /// Parts per million.
    Ppm,
    /// Bytes.
    Bytes,
}

/// An exact value of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Whole(i64),
    /// Any other number.
    Real(f64),
}

impl Number {
    /// As a double; rounded if it has more than 53 bits.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Whole(x) => x as f64,
            Number::Real(x) => x,
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Number::Whole(x) => s.serialize_i64(*x),
            Number::Real(x) => s.serialize_f64(*x),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Number {
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

impl From<u64> for Number {
    fn from(x: u64) -> Number {
        i64::try_from(x).map_or(Number::Real(x as f64), Number::Whole)
    }
}

impl From<i64> for Number {
    fn from(x: i64) -> Number {
        Number::Whole(x)
    }
}

impl From<f64> for Number {
    fn from(x: f64) -> Number {
        Number::Real(x)
    }
}

/// All its digits, for programs.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(x) => x.fmt(f),
            Number::Real(x) => x.fmt(f),
        }
    }
}

impl Unit {
    /// `value` as text for people.
    pub fn show(self, value: Number) -> String {
        let x = value.as_f64();
        match (self, value) {
            (Unit::Time, Number::Whole(ns)) => eng4(ns),
            (Unit::Time, Number::Real(ns)) => eng4_f64(ns),
            (Unit::Share, _) => percent(x),
            (Unit::Packets | Unit::Count | Unit::Bytes, Number::Whole(n)) => n.to_string(),
            (Unit::Packets | Unit::Count | Unit::Bytes, Number::Real(n)) => format!("{n:.2}"),
            (Unit::Plain { decimals }, _) => format!("{x:.*}", usize::from(decimals)),
            (Unit::PacketRate, _) => format!("{x:.2}/s"),
            (Unit::BitRate, _) => bit_rate(x),
            (Unit::Ppm, _) => format!("{x:.2} ppm"),
        }
    }

    /// The suffix of a column name.
    pub fn column_suffix(self) -> &'static str {
        match self {
            Unit::Time => "ns",
            Unit::Share => "ratio",
            Unit::PacketRate => "pps",
            Unit::BitRate => "bps",
            Unit::Ppm => "ppm",
            Unit::Bytes => "bytes",
            Unit::Packets | Unit::Count | Unit::Plain { .. } => "",
        }
    }

    /// The suffix of a metric's name in base units.
    pub fn base_suffix(self) -> &'static str {
        match self {
            Unit::Time => "seconds",
            other => other.column_suffix(),
        }
    }

    /// `value` in base units: seconds, ratios.
    pub fn in_base(self, value: Number) -> f64 {
        match self {
            Unit::Time => value.as_f64() / 1e9,
            _ => value.as_f64(),
        }
    }
}

/// In percent with two decimals, or with two significant digits if those would be zero.
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
            (Unit::Time, Number::Whole(1_614_710_000), "1.615 s"),
            (Unit::Time, Number::Real(-80.5), "-80.50 ns"),
            (Unit::Share, Number::Real(0.0125), "1.25%"),
            (Unit::Share, Number::Real(0.0), "0.00%"),
            (Unit::Share, Number::Real(0.000_012_3), "0.0012%"),
            (Unit::Share, Number::Real(1e-300), "0.000000000%"),
            (Unit::Packets, Number::Whole(5), "5"),
            (Unit::Packets, Number::Real(1.5), "1.50"),
            (Unit::Plain { decimals: 3 }, Number::Real(4.2), "4.200"),
            (Unit::PacketRate, Number::Real(50.0), "50.00/s"),
            (Unit::Ppm, Number::Real(-12.345), "-12.35 ppm"),
        ] {
            assert_eq!(unit.show(value), text);
        }
        assert_eq!(Number::from(u64::MAX), Number::Real(u64::MAX as f64));
        assert_eq!(Number::from(1_763_697_000_000_000_001i64).to_string(), "1763697000000000001");
        assert_eq!(Unit::Time.in_base(Number::Whole(1_500_000_000)), 1.5);
    }
}
