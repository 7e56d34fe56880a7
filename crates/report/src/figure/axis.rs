//! Axes: quantities, units chosen by range, and positions of ticks.

use serde::Serialize;

/// Unit of an axis, which determines the format of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AxisUnit {
    /// Nanoseconds, written in ns, µs, ms or s.
    Time,
    /// Nanoseconds since the start, written in ms, s, min or h.
    Elapsed,
    /// A count.
    Count,
    /// A ratio, written in percent.
    Share,
    /// A plain number.
    Plain,
}

/// Relation between positions and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AxisScale {
    /// Equal distances for equal differences.
    Linear,
    /// Equal distances for equal ratios.
    Log,
}

/// One axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// Quantity, e.g. `latency`.
    pub quantity: String,
    /// Unit of the values.
    pub unit: AxisUnit,
    /// Scale: linear or logarithmic.
    pub scale: AxisScale,
    /// The lower end, in base units.
    pub lo: f64,
    /// The upper end, greater than `lo`.
    pub hi: f64,
    /// Value subtracted from the labels; zero if there is none. It leaves enough digits for a small spread at a
    /// large value, such as 200 µs of jitter at 1.6 s of delay.
    pub origin: f64,
    /// Names instead of numbers: the k-th name is at k. Empty for a numeric axis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// A labelled position on an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AxisTick {
    /// Position of the tick, in base units.
    pub at: f64,
    /// The label.
    pub label: String,
}

/// Name of a unit and its size in base units.
type NamedUnit = (&'static str, f64);

const TIME: [NamedUnit; 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
const ELAPSED: [NamedUnit; 4] = [("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)];

impl Axis {
    /// Creates a linear axis over `lo…hi`. An empty or inverted range is widened so that it can be drawn.
    pub fn linear(quantity: impl Into<String>, unit: AxisUnit, lo: f64, hi: f64) -> Axis {
        let (lo, hi) = if lo.is_finite() && hi.is_finite() { (lo, hi) } else { (0.0, 1.0) };
        // A range below the rounding error of its ends cannot be drawn either.
        let drowned = (hi - lo).is_nan() || hi - lo <= lo.abs().max(hi.abs()) * 1e-12;
        let (lo, hi) = if drowned { widened(lo, unit) } else { (lo, hi) };
        let origin = if unit == AxisUnit::Time { origin(lo, hi) } else { 0.0 };
        Axis { quantity: quantity.into(), unit, scale: AxisScale::Linear, lo, hi, origin, names: Vec::new() }
    }

    /// Creates a logarithmic axis over `lo…hi`, both positive.
    pub fn log(quantity: impl Into<String>, unit: AxisUnit, lo: f64, hi: f64) -> Axis {
        let lo = if lo > 0.0 && lo.is_finite() { lo } else { 0.5 };
        let hi = if hi > lo && hi.is_finite() { hi } else { lo * 10.0 };
        Axis {
            quantity: quantity.into(),
            unit,
            scale: AxisScale::Log,
            lo,
            hi,
            origin: 0.0,
            names: Vec::new(),
        }
    }

    /// Creates an axis of `names`, at equal distances.
    pub fn names(quantity: impl Into<String>, names: Vec<String>) -> Axis {
        let end = names.len() as f64 - 0.5;
        Axis { names, ..Axis::linear(quantity, AxisUnit::Plain, -0.5, end) }
    }

    /// Creates a count axis from zero to a little above `max`; logarithmic from one half if single packets would
    /// otherwise be invisible next to large counts.
    pub fn counts(quantity: &str, min_nonzero: f64, max: f64) -> Axis {
        if max > 100.0 * min_nonzero.max(1.0) {
            return Axis::log(format!("{quantity}, log scale"), AxisUnit::Count, 0.5, max * 1.6);
        }
        Axis::linear(quantity, AxisUnit::Count, 0.0, (max * 1.06).max(1.0))
    }

    /// Position of `v` between the ends: 0 at `lo`, 1 at `hi`; outside 0…1 for values beyond them.
    pub fn position(&self, v: f64) -> f64 {
        match self.scale {
            AxisScale::Linear => (v - self.lo) / (self.hi - self.lo),
            AxisScale::Log => (v.max(f64::MIN_POSITIVE) / self.lo).ln() / (self.hi / self.lo).ln(),
        }
    }

    /// Unit of the labels; `None` if each label has its own.
    pub fn unit_name(&self) -> Option<&'static str> {
        match (self.unit, self.scale) {
            (AxisUnit::Time | AxisUnit::Elapsed, AxisScale::Log) | (AxisUnit::Count | AxisUnit::Plain, _) => {
                None
            }
            (AxisUnit::Time | AxisUnit::Elapsed, AxisScale::Linear) => Some(self.named().0),
            (AxisUnit::Share, _) => Some("%"),
        }
    }

    /// Title of the axis: quantity, origin, unit.
    pub fn title(&self) -> String {
        let above = match self.origin {
            0.0 => String::new(),
            o => format!(" − {}", exact(o)),
        };
        match self.unit_name() {
            Some(unit) => format!("{}{above} ({unit})", self.quantity),
            None => format!("{}{above}", self.quantity),
        }
    }

    /// Returns at most `most` labelled positions at round numbers, or all names of an axis with names.
    pub fn ticks(&self, most: usize) -> Vec<AxisTick> {
        if !self.names.is_empty() {
            let named = |(k, label): (usize, &String)| AxisTick { at: k as f64, label: label.clone() };
            return self.names.iter().enumerate().map(named).collect();
        }
        match self.scale {
            AxisScale::Linear => self.linear_ticks(most.max(2)),
            AxisScale::Log => self.log_ticks(most.max(2)),
        }
    }

    fn named(&self) -> NamedUnit {
        let size = (self.lo - self.origin).abs().max((self.hi - self.origin).abs());
        let pick = |units: &[NamedUnit; 4], least: f64| {
            units.iter().rev().find(|(_, u)| size >= least * u).copied().unwrap_or(units[0])
        };
        match self.unit {
            AxisUnit::Time => pick(&TIME, 1.0),
            AxisUnit::Elapsed => pick(&ELAPSED, 3.0),
            AxisUnit::Share => ("%", 0.01),
            AxisUnit::Count | AxisUnit::Plain => ("", 1.0),
        }
    }

    fn linear_ticks(&self, most: usize) -> Vec<AxisTick> {
        let (_, factor) = self.named();
        let (lo, hi) = ((self.lo - self.origin) / factor, (self.hi - self.origin) / factor);
        let step = round_step((hi - lo) / most as f64, self.unit == AxisUnit::Count);
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let slack = step * 1e-6;
        let (first, last) = (((lo - slack) / step).ceil(), ((hi + slack) / step).floor());
        (0..=(last - first).clamp(0.0, 100.0) as u32)
            .map(|i| {
                let v = (first + f64::from(i)) * step;
                let at = (v * factor + self.origin).clamp(self.lo, self.hi);
                // Adding zero avoids `-0`.
                let text = format!("{:.decimals$}", v + 0.0);
                let text = if text.trim_matches(['-', '0', '.']).is_empty() { "0".into() } else { text };
                AxisTick { at, label: minus(&group_thousands(&text)) }
            })
            .collect()
    }

    fn log_ticks(&self, most: usize) -> Vec<AxisTick> {
        let decades = (self.hi / self.lo).log10();
        let within: &[f64] = if decades <= 1.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (decades / most as f64).ceil().max(1.0) as i32;
        let (first, last) = (self.lo.log10().floor() as i32, self.hi.log10().ceil() as i32);
        (first..=last)
            .filter(|e| e.rem_euclid(every) == 0)
            .flat_map(|e| within.iter().map(move |m| m * 10f64.powi(e)))
            .filter(|v| (self.lo * 0.999_999..=self.hi * 1.000_001).contains(v))
            .map(|at| AxisTick { at, label: self.log_label(at) })
            .collect()
    }

    fn log_label(&self, v: f64) -> String {
        match self.unit {
            AxisUnit::Time | AxisUnit::Elapsed => {
                let (name, factor) = TIME.iter().rev().find(|(_, u)| v >= 0.999 * u).unwrap_or(&TIME[0]);
                format!("{} {name}", group_thousands(&short(v / factor)))
            }
            AxisUnit::Share => short(v * 100.0),
            AxisUnit::Count | AxisUnit::Plain => group_thousands(&short(v)),
        }
    }
}

/// Formats a value with its unit: four significant digits, as on the console.
pub fn value_label(unit: AxisUnit, v: f64) -> String {
    let significant = |x: f64| {
        let whole = if x == 0.0 { 1 } else { x.abs().log10().floor() as i32 + 1 };
        format!("{x:.*}", (4 - whole.max(1)).max(0) as usize)
    };
    let text = match unit {
        AxisUnit::Time | AxisUnit::Elapsed if v.abs() < 1000.0 => format!("{v:.0} ns"),
        AxisUnit::Time | AxisUnit::Elapsed => jitlat_core::units::eng4_f64(v).replace("us", "µs"),
        AxisUnit::Count => group_thousands(&format!("{v:.0}")),
        AxisUnit::Share => format!("{} %", percent(v)),
        AxisUnit::Plain => significant(v),
    };
    minus(&text)
}

/// Formats a share in percent with three significant digits; whole numbers in full.
fn percent(share: f64) -> String {
    let v = share * 100.0;
    let decimals = if v == 0.0 { 0 } else { (2 - v.abs().log10().floor() as i32).clamp(0, 9) };
    short_to(v, decimals as usize)
}

/// Formats `12345.5` as `12 345.5`: groups of three digits, separated by a narrow space, from five digits on.
pub fn group_thousands(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |d| ("-", d));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut out = sign.to_owned();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && whole.len() > 4 && (whole.len() - i) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    if let Some(f) = fraction {
        out.push('.');
        out.push_str(f);
    }
    out
}

/// Replaces a hyphen by a minus sign.
fn minus(text: &str) -> String {
    text.replace('-', "−")
}

/// Formats a number without trailing zeros.
fn short(v: f64) -> String {
    short_to(v, 6)
}

fn short_to(v: f64, decimals: usize) -> String {
    let text = format!("{v:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats an origin in the largest possible unit, with all its digits.
pub(super) fn exact(ns: f64) -> String {
    let (name, factor) = TIME.iter().rev().find(|(_, u)| ns.abs() >= *u).unwrap_or(&TIME[0]);
    let digits = format!("{:.9}", ns / factor);
    minus(&format!("{} {name}", group_thousands(digits.trim_end_matches('0').trim_end_matches('.'))))
}

/// Returns a range around a single value.
fn widened(v: f64, unit: AxisUnit) -> (f64, f64) {
    let least = v.abs() * 1e-9;
    match unit {
        AxisUnit::Count | AxisUnit::Share => (v, v + least.max(1.0)),
        AxisUnit::Plain => (v - least.max(0.5), v + least.max(0.5)),
        AxisUnit::Time | AxisUnit::Elapsed => (v - least.max(500.0), v + least.max(500.0)),
    }
}

/// Returns the origin of the labels: a round value at or below `lo` if the range is small compared with its
/// values, otherwise 0.
fn origin(lo: f64, hi: f64) -> f64 {
    let span = hi - lo;
    if lo.abs().max(hi.abs()) < 400.0 * span {
        return 0.0;
    }
    let grain = 10f64.powf(span.log10().ceil());
    (lo / grain).floor() * grain
}

/// Returns the smallest of 1, 2, 5 × 10ᵏ at or above `least`; an integer if `whole`.
fn round_step(least: f64, whole: bool) -> f64 {
    let least = if whole { least.max(1.0) } else { least };
    let power = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= least * 0.999_999);
    step.unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks(6).into_iter().map(|t| t.label).collect()
    }

    #[test]
    fn the_unit_follows_the_range() {
        let axis = Axis::linear("latency", AxisUnit::Time, 0.0, 267_000.0);
        assert_eq!(axis.title(), "latency (µs)");
        assert_eq!(labels(&axis), ["0", "50", "100", "150", "200", "250"]);
        let axis = Axis::linear("latency", AxisUnit::Time, 0.0, 5.077e9);
        assert_eq!((axis.title().as_str(), labels(&axis).len()), ("latency (s)", 6));
        let run = Axis::linear("time", AxisUnit::Elapsed, 0.0, 1200e9);
        assert_eq!(run.title(), "time (min)");
    }

    #[test]
    fn a_small_spread_on_a_large_delay_keeps_its_digits() {
        let axis = Axis::linear("latency", AxisUnit::Time, 32.955_267e9, 32.955_534e9);
        assert_eq!(axis.title(), "latency − 32.955 s (µs)");
        assert_eq!(labels(&axis), ["300", "350", "400", "450", "500"]);
    }

    #[test]
    fn ticks_are_whole_for_counts_and_signed_with_a_minus() {
        assert_eq!(labels(&Axis::linear("runs", AxisUnit::Count, 0.0, 3.0)), ["0", "1", "2", "3"]);
        let axis = Axis::linear("packets", AxisUnit::Count, 0.0, 40_000.0);
        assert_eq!(labels(&axis)[1], "10\u{202f}000");
        let axis = Axis::linear("IPDV", AxisUnit::Time, -2e6, 2e6);
        assert_eq!(labels(&axis), ["−2", "−1", "0", "1", "2"]);
    }

    #[test]
    fn a_log_axis_names_the_unit_on_each_label() {
        let axis = Axis::log("PDV", AxisUnit::Time, 1e3, 1e9);
        assert_eq!(axis.title(), "PDV");
        assert_eq!(labels(&axis)[..2], ["1 µs", "10 µs"]);
        let axis = Axis::log("runs", AxisUnit::Count, 0.5, 800.0);
        assert_eq!(labels(&axis), ["1", "10", "100"]);
    }

    #[test]
    fn values_read_as_the_console_writes_them() {
        assert_eq!(value_label(AxisUnit::Time, 2_871_000.0), "2.871 ms");
        assert_eq!(value_label(AxisUnit::Time, -80_000.0), "−80.00 µs");
        assert_eq!(value_label(AxisUnit::Time, 42.0), "42 ns");
        assert_eq!(value_label(AxisUnit::Share, 0.0393333), "3.93 %");
        assert_eq!(value_label(AxisUnit::Count, 1_234_567.0), "1\u{202f}234\u{202f}567");
    }

    proptest! {
        #[test]
        fn any_range_has_few_ordered_ticks_inside_it(a in -1e18f64..1e18, span in 0f64..1e18, log: bool) {
            let axis = if log {
                Axis::log("q", AxisUnit::Time, a.abs(), a.abs() + span)
            } else {
                Axis::linear("q", AxisUnit::Time, a, a + span)
            };
            let ticks = axis.ticks(7);
            prop_assert!(ticks.len() <= 8, "{}", ticks.len());
            prop_assert!(ticks.windows(2).all(|w| w[0].at < w[1].at));
            prop_assert!(ticks.iter().all(|t| (-1e-6..=1.000_001).contains(&axis.position(t.at))));
        }
    }
}
