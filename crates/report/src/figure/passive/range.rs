//! [`FigureRange`]: the times and round trips that figures show. [`MarkedPeriod`]: a period that they mark.

use crate::figure::axis::{Axis, AxisUnit, value_label};
use crate::figure::parts::{Figure, Mark, MarkSeries, Tone};
use jitlat_core::quantity;
use jitlat_core::time::Span;
use std::fmt;
use std::str::FromStr;

/// Range of pairs that figures show. The default is all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FigureRange {
    /// Earliest time, counted from the first packet or pair; `None` for no limit.
    pub from: Option<Span>,
    /// Latest time, counted from the first packet or pair; `None` for no limit.
    pub to: Option<Span>,
    /// Smallest round trip; `None` for no limit.
    pub rtt_min: Option<Span>,
    /// Largest round trip; `None` for no limit.
    pub rtt_max: Option<Span>,
}

impl FigureRange {
    /// True if the range contains a pair at the time `x` with the round trip `rtt`, both in ns.
    pub(super) fn has(&self, x: i64, rtt: i64) -> bool {
        self.has_time(x)
            && self.rtt_min.is_none_or(|least| rtt >= least.0)
            && self.rtt_max.is_none_or(|most| rtt <= most.0)
    }

    /// True if the range contains the time `x`, in ns from the first pair.
    pub(super) fn has_time(&self, x: i64) -> bool {
        self.from.is_none_or(|from| x >= from.0) && self.to.is_none_or(|to| x <= to.0)
    }
}

impl fmt::Display for FigureRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = "";
        for (what, limit, unit) in [
            ("from", self.from, AxisUnit::Elapsed),
            ("to", self.to, AxisUnit::Elapsed),
            ("round trips from", self.rtt_min, AxisUnit::Time),
            ("round trips up to", self.rtt_max, AxisUnit::Time),
        ] {
            if let Some(limit) = limit {
                write!(f, "{said}{what} {}", value_label(unit, limit.0 as f64))?;
                said = ", ";
            }
        }
        Ok(())
    }
}

/// A period that is marked in figures over time: `80s-120s=idle`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedPeriod {
    /// Start, counted from the first pair.
    pub from: Span,
    /// End, counted from the first pair.
    pub to: Span,
    /// Name in legends.
    pub name: String,
}

/// Error for a text that is not a period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give two times, the earlier first, and a name: 80s-120s=idle")]
pub struct PeriodError;

impl FromStr for MarkedPeriod {
    type Err = PeriodError;

    fn from_str(s: &str) -> Result<MarkedPeriod, PeriodError> {
        let (times, name) = s.split_once('=').ok_or(PeriodError)?;
        let (from, to) = times.split_once('-').ok_or(PeriodError)?;
        let time = |t: &str| match t.trim() {
            "0" | "0s" => Ok(Span::ZERO),
            t => quantity::duration(t).map_err(|_| PeriodError),
        };
        let (from, to) = (time(from)?, time(to)?);
        if from >= to || name.trim().is_empty() {
            return Err(PeriodError);
        }
        Ok(MarkedPeriod { from, to, name: name.trim().to_owned() })
    }
}

/// Marks the periods along the upper edge of a figure over time; other figures are not changed.
pub(super) fn mark(figure: &mut Figure, periods: &[MarkedPeriod]) {
    if figure.x.unit != AxisUnit::Elapsed || figure.x.hi <= figure.x.lo {
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    let step = (figure.y.hi - figure.y.lo) * 0.03;
    let top = figure.y.hi;
    for period in periods {
        let known = names.iter().position(|n| *n == period.name);
        let k = known.unwrap_or(names.len());
        if known.is_none() {
            names.push(&period.name);
        }
        let (from, to) = (period.from.0 as f64, period.to.0 as f64);
        if to < figure.x.lo || from > figure.x.hi {
            continue;
        }
        let y = top + step * (k as f64 + 0.5);
        let name = if known.is_none() { period.name.as_str() } else { "" };
        let points = vec![(from.max(figure.x.lo), y), (to.min(figure.x.hi), y)];
        // Skip the first tones, which the data use.
        let tone = Tone::Run((3 + k) as u8);
        figure.series.push(MarkSeries::new(name, tone, Mark::Line { points, dashed: false }));
    }
    if !names.is_empty() {
        let y = &figure.y;
        figure.y = Axis { hi: top + step * (names.len() as f64 + 0.5), ..y.clone() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read() {
        let period = "80s-2min=idle, no traffic".parse::<MarkedPeriod>();
        let name = "idle, no traffic".to_owned();
        assert_eq!(period, Ok(MarkedPeriod { from: Span::seconds(80), to: Span::seconds(120), name }));
        assert_eq!("0s-14s=quiet".parse::<MarkedPeriod>().map(|p| p.from), Ok(Span::ZERO));
        for wrong in ["80s-120s", "120s-80s=x", "80s=x", "a-b=x", "1s-2s= ", ""] {
            assert_eq!(wrong.parse::<MarkedPeriod>(), Err(PeriodError), "{wrong}");
        }
    }

    #[test]
    fn a_range_is_told_in_words() {
        let range = FigureRange {
            from: Some(Span::seconds(80)),
            rtt_max: Some(Span::millis(132)),
            ..FigureRange::default()
        };
        assert_eq!(range.to_string(), "from 80.00 s, round trips up to 132.0 ms");
        assert!(range.has(80_000_000_000, 132_000_000));
        assert!(!range.has(79_999_999_999, 0) && !range.has(90_000_000_000, 132_000_001));
        assert!(FigureRange::default().has(i64::MIN, i64::MAX));
    }
}
