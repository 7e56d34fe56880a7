//! Numbers for people, with at most three significant digits.

use jitlat_report::figure::{AxisUnit, value_label};

/// Formats a number with about three significant digits: at most three decimals, and all digits before the point.
pub fn three_digits(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 99.95 => format!("{value:.0}"),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.9995 || size == 0.0 => format!("{value:.2}").trim_end_matches(".00").to_owned(),
        _ => format!("{value:.3}"),
    }
}

/// Units of a time, longest first: name, and length in ns.
const UNITS: [(&str, f64); 4] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];

/// Formats a time in ns; a dash if it is undefined.
pub fn time(ns: Option<i64>) -> String {
    let Some(ns) = ns.map(|ns| ns as f64) else { return "–".to_owned() };
    // 999.5 and more would be shown as 1000.
    let unit = UNITS.iter().find(|(_, length)| ns.abs() >= 0.9995 * length).unwrap_or(&UNITS[3]);
    format!("{} {}", three_digits(ns / unit.1), unit.0).replace('-', "−")
}

/// Formats a share; a dash if it is undefined.
pub fn share(part: Option<f64>) -> String {
    part.map_or_else(|| "–".to_owned(), |part| value_label(AxisUnit::Share, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 0.0123, 0.5, 4.321, 12.34, 99.96, 1234.5, -3.456].map(three_digits);
        assert_eq!(shown, ["0", "0.012", "0.500", "4.32", "12.3", "100", "1234", "-3.46"]);
    }

    #[test]
    fn times_have_three_digits_and_the_largest_unit() {
        let shown =
            [0, 999, 12_345, 999_600, 12_345_678, -1_500_000, 16_000_000_000].map(|ns| time(Some(ns)));
        assert_eq!(shown, ["0 ns", "999 ns", "12.3 µs", "1 ms", "12.3 ms", "−1.50 ms", "16.0 s"]);
        assert_eq!((time(None), share(Some(0.01234))), ("–".into(), "1.23 %".into()));
    }
}
